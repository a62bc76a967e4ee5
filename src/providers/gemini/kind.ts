// Google's Gemini API, `generateContent`. Google's OpenAI endpoint would be simpler, but it loses top_k, safety
// settings and thought signatures.
import { isObject } from '../../wire/json.ts'
import { oneOf, textOption } from '../options.ts'
import { ALL_CAPABILITIES, type ListedModel, type ProviderKind } from '../port.ts'
import { malformed } from '../shared/failure.ts'
import { arrayOf, countOf, memberIn, objectOf, parseJson } from '../shared/read-json.ts'
import { geminiAnswer, geminiUsage } from './answer.ts'
import { geminiFailure } from './failure.ts'
import { geminiFrames } from './frames.ts'
import { GEMINI_VERSION, geminiHeaders, geminiRequest, geminiUrl, withQuery } from './request.ts'
import { geminiStream } from './stream.ts'

const MOST_LISTED = 10_000
/** They accept `generateContent` too, but return speech only. */
const SPEECH = /-tts\b/

/** The models that generate content. The listing has limits, but no capabilities for tools, images or JSON. */
const readListing = (body: string): readonly ListedModel[] => {
  const { models } = objectOf(parseJson(body))
  if (!Array.isArray(models)) throw malformed('it lists no models')
  return models.slice(0, MOST_LISTED).flatMap((model: unknown): ListedModel[] => {
    if (!isObject(model) || typeof model.name !== 'string') return []
    const name = model.name.replace(/^models\//, '')
    if (name === '' || SPEECH.test(name) || !arrayOf(model.supportedGenerationMethods).includes('generateContent'))
      return []
    return [
      {
        name,
        contextWindow: countOf(model.inputTokenLimit),
        maxOutputTokens: countOf(model.outputTokenLimit),
        capabilities: null,
      },
    ]
  })
}

export const gemini: ProviderKind = {
  kind: 'gemini',
  needsCredential: true,
  capabilities: ALL_CAPABILITIES,
  defaultBaseUrl: 'https://generativelanguage.googleapis.com/v1beta',
  usualEnv: 'GEMINI_API_KEY',
  options: {
    api_version: textOption(GEMINI_VERSION, 'an API version such as "v1beta"'),
    auth: oneOf('api_key', 'bearer'),
  },
  request: geminiRequest,
  response: geminiAnswer,
  usageIn: (body) => {
    const usage = memberIn(body, 'usageMetadata')
    return usage === null ? null : geminiUsage(usage)
  },
  stream: geminiStream,
  framing: geminiFrames,
  failure: geminiFailure,
  listing: {
    request: (target) => ({
      method: 'GET',
      // The largest page, and more than there are.
      url: withQuery(geminiUrl(target, '/models'), 'pageSize=1000'),
      headers: { accept: 'application/json', ...geminiHeaders(target) },
      body: null,
      shaping: [],
    }),
    read: readListing,
  },
}
