// The schemas of answers: the completion, the `gateway` block (docs/behaviour.md: "The gateway block"), the envelope of
// every failure.
import { t } from '../lib/schema/schema.ts'
import { ERRORS } from './errors.ts'

const open = { additionalProperties: true }
const nullable = t.Union([t.String(), t.Null()])

export const GatewayBlock = t.Object(
  {
    request_id: t.String(),
    provider: t.Optional(t.Union([t.String(), t.Null()], { description: 'Who answered, not who was tried first.' })),
    requested_model: nullable,
    routed_model: nullable,
    fallback_used: t.Optional(t.Boolean()),
    cache_hit: t.Optional(t.Boolean()),
    latency_ms: t.Optional(t.Integer()),
    estimated_cost_usd: t.Optional(t.Union([t.Number(), t.Null()])),
    completion: t.Optional(t.Object({}, { ...open, description: 'Of an answer that was cut short.' })),
    structured: t.Optional(
      t.Object(
        {
          requested: t.String({ description: '`response_format.type`.' }),
          valid: t.Union([t.Boolean(), t.Null()], { description: 'Null: nothing was checked.' }),
          schema: t.Union([t.String(), t.Null()], { description: '`response_format.json_schema.name`.' }),
          error: t.Union([t.String(), t.Null()], { description: 'The first violation.' }),
          repaired: t.Boolean({ description: 'The JSON was taken out of a code fence.' }),
          unchecked: t.Array(t.String(), {
            description:
              'JSON pointers of the patterns of the schema that RE2 does not have (look-around, back-references): ' +
              'they were sent on and not checked. The first 16.',
          }),
        },
        { ...open, description: 'When response_format was sent.' },
      ),
    ),
    tool_run: t.Optional(t.Object({}, { ...open, description: 'When tool_execution was sent, or tools were called.' })),
  },
  { ...open, description: 'With `X-Gateway-Debug: true` it holds the whole routing decision besides.' },
)

export const ErrorEnvelope = t.Object({
  error: t.Object({
    message: t.String({ minLength: 1 }),
    type: t.String({ minLength: 1 }),
    param: t.Union([t.String(), t.Null()], { description: 'The field or header that is to blame.' }),
    code: t.Union(Object.keys(ERRORS).map((code) => t.Literal(code))),
    details: t.Union([t.Object({}, open), t.Null()]),
  }),
  gateway: GatewayBlock,
})

export const ChatCompletion = t.Object(
  {
    id: t.String(),
    object: t.Literal('chat.completion'),
    created: t.Integer({ description: 'Unix seconds.' }),
    model: t.String({ description: 'As the provider says it.' }),
    choices: t.Array(
      t.Object(
        {
          index: t.Integer(),
          message: t.Object({ role: t.Literal('assistant'), content: t.Optional(nullable) }, open),
          finish_reason: nullable,
        },
        open,
      ),
    ),
    usage: t.Optional(
      t.Object({ prompt_tokens: t.Integer(), completion_tokens: t.Integer(), total_tokens: t.Integer() }, open),
    ),
    gateway: GatewayBlock,
  },
  open,
)
