// Cohere's v2 chat. The kind adds no fields.
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import { ALL_CAPABILITIES, type Capability, type ListedModel, type ProviderKind } from '../port.ts'
import { malformed, statusFailure } from '../shared/failure.ts'
import { countOf, type Json, memberIn, objectOf, parseJson } from '../shared/read-json.ts'
import { bearer } from '../shared/target-url.ts'
import { cohereAnswer, cohereUsage } from './answer.ts'
import { cohereRequest, cohereUrl } from './request.ts'
import { cohereStream } from './stream.ts'

const MOST_LISTED = 10_000
/** Cohere blocked the request or the answer. */
const BLOCKED = 498

/** The capabilities that the listing reports; null when it reports none. */
const listedCapabilities = ({ features, supports_vision }: Json): readonly Capability[] | null => {
  if (!Array.isArray(features)) return null
  const proven: Capability[] = ['chat', 'streaming', 'seed']
  if (features.includes('tools')) proven.push('tools', 'parallel_tool')
  for (const name of ['json_mode', 'json_schema'] as const) if (features.includes(name)) proven.push(name)
  if (features.includes('vision') || supports_vision === true) proven.push('vision')
  return proven
}

const readListing = (body: string): readonly ListedModel[] => {
  const { models } = objectOf(parseJson(body))
  if (!Array.isArray(models)) throw malformed('it lists no models')
  return models.slice(0, MOST_LISTED).flatMap((model: unknown): ListedModel[] => {
    if (!isObject(model) || typeof model.name !== 'string' || model.name === '') return []
    if (Array.isArray(model.endpoints) && !model.endpoints.includes('chat')) return []
    const contextWindow = countOf(model.context_length)
    return [
      {
        name: model.name,
        contextWindow: contextWindow === 0 ? null : contextWindow,
        maxOutputTokens: null,
        capabilities: listedCapabilities(model),
      },
    ]
  })
}

const withQuery = (url: string, query: string): string => `${url}${url.includes('?') ? '&' : '?'}${query}`

export const cohere: ProviderKind = {
  kind: 'cohere',
  needsCredential: true,
  capabilities: ALL_CAPABILITIES,
  stopsBillingWhenLeft: true,
  defaultBaseUrl: 'https://api.cohere.com/v2',
  usualEnv: 'COHERE_API_KEY',
  request: cohereRequest,
  response: cohereAnswer,
  usageIn: (body) => {
    const usage = memberIn(body, 'usage')
    return usage === null ? null : cohereUsage(usage)
  },
  stream: cohereStream,
  failure(status, body, headers, reading) {
    if (status !== BLOCKED) return statusFailure(status, body, headers, reading)
    const { message } = statusFailure(status, body, headers, reading, 400)
    return new GatewayError('content_filtered', message, { upstreamStatus: status })
  },
  listing: {
    request: (target) => ({
      method: 'GET',
      url: withQuery(cohereUrl(target.baseUrl, '/v1/models'), 'endpoint=chat&page_size=1000'),
      headers: { accept: 'application/json', ...bearer(target.secret) },
      body: null,
      shaping: [],
    }),
    read: readListing,
  },
}
