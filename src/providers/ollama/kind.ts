// Ollama's native API. Its OpenAI endpoint sets a temperature of its own and lacks top_k, min_p and repeat_penalty.

import { isObject } from '../../wire/json.ts'
import type { Capability, ListedModel, ProviderKind } from '../port.ts'
import { malformed, statusFailure } from '../shared/failure.ts'
import { type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { bearer } from '../shared/target-url.ts'
import { ollamaAnswer, ollamaUsage } from './answer.ts'
import { createNdjsonParser } from './ndjson.ts'
import { ollamaRequest, ollamaUrl, PROVIDER_FIELDS, PROVIDER_OPTIONS } from './request.ts'
import { ollamaStream } from './stream.ts'

const MOST_LISTED = 10_000

/** Capabilities of every model here: the server itself holds the answer to the format. */
const PLAIN: readonly Capability[] = ['chat', 'streaming', 'json_mode', 'json_schema', 'seed']

/** Old servers do not report capabilities; these families only embed. */
const EMBEDS = /bert|embed/

const capabilitiesOf = (model: Json): readonly Capability[] | null => {
  const { capabilities } = model
  if (!Array.isArray(capabilities)) return null
  const more = (['tools', 'vision'] as const).filter((name) => capabilities.includes(name))
  return [...PLAIN, ...more]
}

const chats = ({ capabilities, details }: Json): boolean =>
  Array.isArray(capabilities)
    ? capabilities.includes('completion')
    : !EMBEDS.test(textOf(objectOf(details).family) ?? '')

const readListing = (body: string): readonly ListedModel[] => {
  const { models } = objectOf(parseJson(body))
  if (!Array.isArray(models)) throw malformed('it lists no models')
  return models.slice(0, MOST_LISTED).flatMap((model: unknown): ListedModel[] => {
    if (!isObject(model) || !chats(model)) return []
    const name = textOf(model.name) ?? textOf(model.model) ?? ''
    return name === ''
      ? []
      : [{ name, contextWindow: null, maxOutputTokens: null, capabilities: capabilitiesOf(model) }]
  })
}

export const ollama: ProviderKind = {
  kind: 'ollama',
  needsCredential: false,
  capabilities: [...PLAIN, 'tools', 'vision'],
  stopsBillingWhenLeft: true,
  defaultBaseUrl: 'http://127.0.0.1:11434',
  // OLLAMA_API_KEY is for Ollama's cloud, not for a server at the address above.
  usualEnv: null,
  options: { ...PROVIDER_FIELDS, ...PROVIDER_OPTIONS },
  framing: () => createNdjsonParser(),
  request: ollamaRequest,
  response: ollamaAnswer,
  usageIn: (body) => ollamaUsage(objectOf(parseJson(body))),
  stream: ollamaStream,
  failure: (status, body, headers, reading) => statusFailure(status, body, headers, reading),
  listing: {
    request: (target) => ({
      method: 'GET',
      url: ollamaUrl(target.baseUrl, '/api/tags'),
      headers: { accept: 'application/json', ...bearer(target.secret) },
      body: null,
      shaping: [],
    }),
    read: readListing,
  },
}
