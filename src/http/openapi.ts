// `GET /openapi.json`: the inference and the operations surface in OpenAPI 3.1, made of the schemas that the code itself has.
import { FeedbackBody, FeedbackView } from '../inference/feedback.ts'
import { type TSchema, t } from '../lib/schema.ts'
import { ChatCompletion, ErrorEnvelope } from '../wire/answer-schemas.ts'
import { ChatRequest } from '../wire/chat-request.ts'
import { ERRORS, type ErrorCode } from '../wire/errors.ts'
import { ModelList, ModelObject } from '../wire/models.ts'

export interface OpenApiOptions {
  readonly name: string
  readonly version: string
  /** Lower case: where keys are expected. */
  readonly authHeader: string
  readonly metrics: boolean
}

type Node = Readonly<Record<string, unknown>>

const Name = t.String({ minLength: 1, maxLength: 256, pattern: '^[!-~]+$' })
const Flag = t.Union([t.Literal('true'), t.Literal('false')])

/** The headers of intent (specification 4.2). */
const INTENT: readonly (readonly [header: string, schema: TSchema, description: string])[] = [
  ['X-Gateway-Policy', Name, 'Force a policy, by id or name.'],
  [
    'X-Gateway-Max-Cost-USD',
    t.Number({ minimum: 0, maximum: 1_000_000 }),
    'Refuse candidates that are projected to cost more.',
  ],
  ['X-Gateway-Latency-Target-Ms', t.Integer({ minimum: 1, maximum: 999_999_999 }), 'Tighten the latency target.'],
  ['X-Gateway-No-Fallback', Flag, 'Fail instead of failing over.'],
  ['X-Gateway-Endpoint', Name, 'Select an endpoint scope by its slug.'],
  ['X-Gateway-Region', Name, "Pin the provider's geography."],
  [
    'X-Gateway-Sensitivity',
    t.String({ pattern: '^(pii|phi|public)(,(pii|phi|public))*$' }),
    'Labels; sensitive payloads bypass the cache.',
  ],
  ['X-Gateway-Batch', Flag, 'Mark batch traffic, for cost-aware routing.'],
  ['X-Gateway-No-Cache', Flag, 'Force a cache miss.'],
  ['X-Gateway-Debug', Flag, 'Show the whole decision in the gateway block.'],
]

const REQUEST_ID = header(
  'X-Request-ID',
  t.String({ maxLength: 128, pattern: '^[A-Za-z0-9._-]*$' }),
  'Echoed; made when it is not sent.',
)

function header(name: string, schema: TSchema, description: string): Node {
  return { name, in: 'header', required: false, description, schema }
}

const text = { schema: { type: 'string' } }
const IDENTITY: Node = {
  'X-Request-ID': { ...text, description: 'Names this request in the logs.' },
  'X-Trace-ID': text,
}
const ANSWERED: Node = { ...IDENTITY, 'X-Gateway-Provider': { ...text, description: 'The provider that answered.' } }
const FAILED: Node = {
  ...IDENTITY,
  'X-Gateway-Retryable': { schema: { type: 'string', enum: ['true', 'false'] } },
  'x-should-retry': { schema: { type: 'string', enum: ['true', 'false'] } },
}
const MAYBE: Node = {
  'X-Gateway-Upstream-Status': { ...text, description: "The provider's own status, where it was translated." },
  'Retry-After': { ...text, description: 'Seconds.' },
}

const json = (schema: unknown): Node => ({ 'application/json': { schema } })
const ref = (name: string): Node => ({ $ref: `#/components/schemas/${name}` })
const ok = (description: string, schema: unknown, headers: Node = IDENTITY): Node => ({
  description,
  headers,
  content: json(schema),
})

/** Status -> the codes that come with it. Of 4xx statuses some carry `invalid_request` without being in the table. */
const failures = (codes: readonly ErrorCode[], more: readonly number[] = []): Node => {
  const byStatus = new Map<number, string[]>()
  for (const code of codes) {
    const { status } = ERRORS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  for (const status of more) byStatus.set(status, ['invalid_request'])
  const optional = Object.fromEntries(
    Object.entries(MAYBE).map(([name, about]) => [name, { ...(about as Node), required: false }]),
  )
  return Object.fromEntries(
    [...byStatus].map(([status, names]) => [
      String(status),
      {
        description: names.join(', '),
        headers: { ...required(FAILED), ...optional },
        content: json(ref('ErrorEnvelope')),
      },
    ]),
  )
}
const required = (headers: Node): Node =>
  Object.fromEntries(Object.entries(headers).map(([name, about]) => [name, { ...(about as Node), required: true }]))

const CALLER = [
  'invalid_request',
  'authentication_error',
  'permission_error',
  'rate_limited',
  'internal_error',
] as const
const BODY = [405, 413, 415]

const chat: Node = {
  operationId: 'createChatCompletion',
  tags: ['inference'],
  summary: 'Answer a chat completion',
  parameters: [...INTENT.map(([name, schema, description]) => header(name, schema, description)), REQUEST_ID],
  requestBody: { required: true, content: json(ref('ChatRequest')) },
  responses: {
    200: {
      description: 'The answer; with `stream: true` as server-sent events that end with `data: [DONE]`.',
      headers: required(ANSWERED),
      content: {
        ...json(ref('ChatCompletion')),
        'text/event-stream': { schema: {} },
      },
    },
    ...failures(
      [
        ...CALLER,
        'context_length_exceeded',
        'content_filtered',
        'not_found',
        'quota_exceeded',
        'timeout',
        'upstream_error',
        'provider_unavailable',
      ],
      BODY,
    ),
  },
}

const feedback: Node = {
  operationId: 'giveFeedback',
  tags: ['inference'],
  summary: 'Say what you think of an answer',
  parameters: [REQUEST_ID],
  requestBody: { required: true, content: json(ref('FeedbackBody')) },
  responses: {
    201: ok('Recorded. A repeat replaces what was said before.', ref('FeedbackView')),
    ...failures([...CALLER, 'not_found', 'upstream_error'], BODY),
  },
}

const models: Node = {
  operationId: 'listModels',
  tags: ['inference'],
  summary: 'List the models that can be routed',
  parameters: [REQUEST_ID],
  responses: { 200: ok('One entry for each name and alias.', ref('ModelList')), ...failures(CALLER, [405]) },
}

const model: Node = {
  operationId: 'showModel',
  tags: ['inference'],
  summary: 'Show one model, by name or alias',
  parameters: [
    { name: 'model', in: 'path', required: true, schema: { type: 'string', minLength: 1 }, example: 'sandbox-echo' },
    REQUEST_ID,
  ],
  responses: {
    200: ok('The model, whether or not it can be routed now.', ref('ModelObject')),
    ...failures([...CALLER, 'not_found'], [405]),
  },
}

const planned = (name: string): Node => ({
  operationId: `planned_${name}`,
  tags: ['inference'],
  summary: 'Not implemented: always 501',
  responses: failures(['not_implemented', 'authentication_error', 'internal_error'], [405]),
})

const open = { type: 'object', additionalProperties: true }
const operation = (operationId: string, summary: string, more: Node = {}, content: Node = json(open)): Node => ({
  get: {
    operationId,
    tags: ['operations'],
    summary,
    security: [],
    responses: {
      200: { description: summary, headers: required(IDENTITY), content },
      ...more,
      ...failures(['internal_error'], [405]),
    },
  },
})

const ready = (operationId: string): Node =>
  operation(operationId, 'Whether requests can be served', {
    503: { description: 'Not ready: the same body, with `error` and `gateway` besides.', content: json(open) },
  })

const operations = ({ metrics }: OpenApiOptions): Node => ({
  '/': operation('root', 'What this is', {}, { ...json(open), 'text/html': { schema: { type: 'string' } } }),
  '/health': operation('health', 'Whether the process is alive'),
  '/healthz': operation('healthz', 'The same as /health'),
  '/ready': ready('ready'),
  '/readiness': ready('readiness'),
  '/version': operation('version', 'Build, uptime, units of work'),
  '/openapi.json': operation('openapi', 'This document'),
  ...(metrics ? { '/metrics': operation('metrics', 'Metrics for Prometheus', {}, { 'text/plain': text }) } : {}),
})

/** The document as JSON text. Made once: nothing in it changes while the gateway runs. */
export const openApiJson = (options: OpenApiOptions): string => {
  const { name, version, authHeader } = options
  const bearer = authHeader === 'authorization'
  return JSON.stringify({
    openapi: '3.1.0',
    info: {
      title: name,
      version,
      description:
        'An OpenAI SDK works with it after its base URL is set to `/v1` here. Every failure, on any path, is an ErrorEnvelope.',
    },
    security: [{ key: [] }],
    tags: [{ name: 'inference' }, { name: 'operations' }],
    paths: {
      '/v1/chat/completions': { post: chat },
      '/v1/models': { get: models },
      '/v1/models/{model}': { get: model },
      '/v1/feedback': { post: feedback },
      '/v1/completions': { post: planned('completions') },
      '/v1/embeddings': { post: planned('embeddings') },
      '/v1/responses': { post: planned('responses') },
      ...operations(options),
    },
    components: {
      securitySchemes: {
        key: bearer ? { type: 'http', scheme: 'bearer' } : { type: 'apiKey', in: 'header', name: authHeader },
      },
      schemas: { ChatRequest, ChatCompletion, ErrorEnvelope, ModelList, ModelObject, FeedbackBody, FeedbackView },
    },
  })
}
