// `/v1` in the document, made from the schemas of the code.
import { type TSchema, t } from '../../lib/schema/schema.ts'
import { recordedAnswer } from './answer-examples.ts'
import { EXAMPLES } from './examples.ts'
import { failures, header, IDENTITY, json, type Node, ok, REQUEST_ID, ref, required, text } from './parts.ts'

const CHAT = '/v1/chat/completions'
const FEEDBACK = '/v1/feedback'
const MODELS = '/v1/models'
const MODEL = '/v1/models/{model}'

const Name = t.String({ minLength: 1, maxLength: 256, pattern: '^[!-~]+$' })
const Flag = t.Union([t.Literal('true'), t.Literal('false')])

/** The headers of intent (docs/behaviour.md: "Steering headers"). */
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

const ANSWERED: Node = { ...IDENTITY, 'X-Gateway-Provider': { ...text, description: 'The provider that answered.' } }
const CALLER = [
  'invalid_request',
  'authentication_error',
  'permission_error',
  'rate_limited',
  'internal_error',
] as const
const BODY = [405, 413, 415]

/** Operations that need a key: scope and security as the document lists them. */
const BY_KEY: Node = { 'x-scopes': ['inference'], security: [{ key: [] }] }
const needing = (more: string): Node => ({
  description: `Needs the scope \`inference\` (\`*\` covers it). ${more}`,
  ...BY_KEY,
})

const chat: Node = {
  operationId: 'createChatCompletion',
  tags: ['inference'],
  summary: 'Answer a chat completion',
  ...needing(
    'The wire of OpenAI. Which provider answers is decided by policy, endpoint scope and the headers below; ' +
      'the block `gateway` of the answer says what was done.',
  ),
  parameters: [...INTENT.map(([name, schema, description]) => header(name, schema, description)), REQUEST_ID],
  requestBody: { required: true, content: json(ref('ChatRequest'), EXAMPLES[`POST ${CHAT}`]) },
  responses: {
    200: {
      description: 'The answer; with `stream: true` as server-sent events that end with `data: [DONE]`.',
      headers: required(ANSWERED),
      content: {
        ...json(ref('ChatCompletion'), recordedAnswer('POST', CHAT)),
        'text/event-stream': {
          schema: { type: 'string', description: 'Events whose `data` is a chunk of a chat completion.' },
        },
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
  ...needing('Of a request of the own tenant; it counts for the strategy that goes by feedback.'),
  parameters: [REQUEST_ID],
  requestBody: { required: true, content: json(ref('FeedbackBody'), EXAMPLES[`POST ${FEEDBACK}`]) },
  responses: {
    201: ok('Recorded. A repeat replaces what was said before.', ref('FeedbackView'), recordedAnswer('POST', FEEDBACK)),
    ...failures([...CALLER, 'not_found', 'upstream_error'], BODY),
  },
}

const models: Node = {
  operationId: 'listModels',
  tags: ['inference'],
  summary: 'List the models that can be routed',
  ...needing('Every name and alias that the tenant can call now.'),
  parameters: [REQUEST_ID],
  responses: {
    200: ok('One entry for each name and alias.', ref('ModelList'), recordedAnswer('GET', MODELS)),
    ...failures(CALLER, [405]),
  },
}

const model: Node = {
  operationId: 'showModel',
  tags: ['inference'],
  summary: 'Show one model, by name or alias',
  ...needing('A name may hold slashes.'),
  parameters: [
    {
      ...{ name: 'model', in: 'path', required: true, description: 'Its name, or an alias of it.' },
      ...{ schema: { type: 'string', minLength: 1 }, example: 'gpt-4o-mini' },
    },
    REQUEST_ID,
  ],
  responses: {
    200: ok('The model, whether or not it can be routed now.', ref('ModelObject'), recordedAnswer('GET', MODEL)),
    ...failures([...CALLER, 'not_found'], [405]),
  },
}

const planned = (name: string): Node => ({
  operationId: `planned_${name}`,
  tags: ['inference'],
  summary: 'Not implemented: always 501',
  description: 'Needs a valid key, of any scope. Use `/v1/chat/completions`.',
  security: [{ key: [] }],
  responses: failures(['not_implemented', 'authentication_error', 'internal_error'], [405]),
})

export const inferencePaths: Node = {
  [CHAT]: { post: chat },
  [MODELS]: { get: models },
  [MODEL]: { get: model },
  [FEEDBACK]: { post: feedback },
  '/v1/completions': { post: planned('completions') },
  '/v1/embeddings': { post: planned('embeddings') },
  '/v1/responses': { post: planned('responses') },
}
