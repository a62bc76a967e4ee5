// Anthropic's Messages API. The kind adds what the client need not send: `max_tokens`, which is required there (the
// client's limit, else the catalogue's ceiling), and the headers of the API's version.
import { isObject } from '../../wire/json.ts'
import { textOption } from '../options.ts'
import type { Capability, ListedModel, ProviderKind } from '../port.ts'
import { malformed, statusFailure } from '../shared/failure.ts'
import { countOf, type Json, memberIn, objectOf, parseJson } from '../shared/read-json.ts'
import { anthropicAnswer, anthropicUsage } from './answer.ts'
import { anthropicHeaders, anthropicRequest, HEADER_VALUE, messagesUrl } from './request.ts'
import { anthropicStream } from './stream.ts'

// No seed and no json_mode: neither has a counterpart.
const CAPABILITIES: readonly Capability[] = ['chat', 'streaming', 'tools', 'parallel_tool', 'json_schema', 'vision']

const MOST_LISTED = 10_000

/** The capabilities that the listing reports; null when it reports none. */
const listedCapabilities = (model: Json): readonly Capability[] | null => {
  if (!isObject(model.capabilities)) return null
  const supports = (name: string) => objectOf(objectOf(model.capabilities)[name]).supported === true
  const proven: Capability[] = ['chat', 'streaming', 'tools', 'parallel_tool']
  if (supports('structured_outputs')) proven.push('json_schema')
  if (supports('image_input')) proven.push('vision')
  return proven
}

const readListing = (body: string): readonly ListedModel[] => {
  const { data } = objectOf(parseJson(body))
  if (!Array.isArray(data)) throw malformed('it lists no models')
  return data.slice(0, MOST_LISTED).flatMap((model: unknown): ListedModel[] => {
    if (!isObject(model) || typeof model.id !== 'string' || model.id === '') return []
    const contextWindow = countOf(model.max_input_tokens)
    return [
      {
        name: model.id,
        contextWindow,
        maxOutputTokens: countOf(model.max_tokens),
        capabilities: listedCapabilities(model),
      },
    ]
  })
}

export const anthropic: ProviderKind = {
  kind: 'anthropic',
  needsCredential: true,
  capabilities: CAPABILITIES,
  stopsBillingWhenLeft: true,
  defaultBaseUrl: 'https://api.anthropic.com/v1',
  usualEnv: 'ANTHROPIC_API_KEY',
  options: {
    anthropic_version: textOption(HEADER_VALUE, 'a version such as "2023-06-01"'),
    anthropic_beta: textOption(HEADER_VALUE, 'names of beta features, with commas between them'),
  },
  request: anthropicRequest,
  response: anthropicAnswer,
  usageIn: (body) => {
    const usage = memberIn(body, 'usage')
    return usage === null ? null : anthropicUsage(usage)
  },
  stream: anthropicStream,
  // Its 409 reports a conflict within the service, not in the request.
  failure: (status, body, headers, reading) =>
    statusFailure(status, body, headers, reading, status === 409 ? 502 : status),
  listing: {
    request: (target) => ({
      method: 'GET',
      url: `${messagesUrl(target.baseUrl, '/models')}?limit=1000`,
      headers: { ...anthropicHeaders(target), accept: 'application/json' },
      body: null,
      shaping: [],
    }),
    read: readListing,
  },
}
