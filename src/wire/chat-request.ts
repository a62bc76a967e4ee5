// The body of a chat completion in the API document: a field for each rule of the gateway, other fields pass through
// (docs/behaviour.md: "Chat requests").
// `inference/intent/intent.ts` reads bodies by hand, since that is the hot path; a test holds the two together.
import { type TSchema, t } from '../lib/schema/schema.ts'

/** Null is the same as absent. */
const optional = <Schema extends TSchema>(schema: Schema, description: string) =>
  t.Optional(t.Union([schema, t.Null()], { description }))
const open = { additionalProperties: true }

const Part = t.Object(
  {
    type: t.String({ description: 'text, image_url, input_audio, file; other types reach the provider as they are.' }),
  },
  open,
)
const Content = t.Union([t.String(), t.Array(Part), t.Null()])

const Message = t.Object(
  {
    role: t.String({ minLength: 1, description: 'system, developer, user, assistant, tool.' }),
    content: t.Optional(Content),
    name: t.Optional(t.Union([t.String(), t.Null()])),
    tool_calls: t.Optional(t.Union([t.Array(t.Object({}, open)), t.Null()])),
    tool_call_id: t.Optional(t.Union([t.String(), t.Null()])),
  },
  open,
)

const Tool = t.Object(
  {
    type: t.Literal('function'),
    function: t.Object(
      {
        name: t.String({ pattern: '^[A-Za-z0-9_.:-]{1,128}$', description: 'Unique among the tools.' }),
        description: t.Optional(t.String()),
        parameters: t.Optional(
          t.Object({ type: t.Literal('object'), properties: t.Optional(t.Object({}, open)) }, open),
        ),
        strict: t.Optional(t.Boolean()),
      },
      open,
    ),
  },
  open,
)

const ToolChoice = t.Union([
  t.Literal('none'),
  t.Literal('auto'),
  t.Literal('required'),
  t.Object({ type: t.Literal('function'), function: t.Object({ name: t.String() }, open) }, open),
])

const ResponseFormat = t.Union([
  t.Object({ type: t.Union([t.Literal('text'), t.Literal('json_object')]) }, open),
  t.Object(
    {
      type: t.Literal('json_schema'),
      json_schema: t.Object({ name: t.String({ minLength: 1 }), schema: t.Object({}, open) }, open),
    },
    open,
  ),
])

const Tokens = t.Integer({ minimum: 1, maximum: 1_000_000_000 })

export const ChatRequest = t.Object(
  {
    model: t.String({
      minLength: 1,
      maxLength: 256,
      pattern: '\\S',
      description: 'Name or alias of a model, or alias of an endpoint scope.',
      examples: ['sandbox-echo'],
    }),
    messages: t.Optional(t.Array(Message, { minItems: 1, examples: [[{ role: 'user', content: 'Hello' }]] })),
    prompt: t.Optional(t.String({ description: 'Stands for one user message; not together with messages.' })),
    system: optional(t.String(), 'Stands for a leading system message.'),
    stream: optional(t.Boolean(), 'Answer with server-sent events.'),
    stream_options: optional(
      t.Object({ include_usage: optional(t.Boolean(), 'End with a chunk of usage and attribution.') }, open),
      'Only with stream: true.',
    ),
    temperature: optional(t.Number(), 'Passed on as it is.'),
    top_p: optional(t.Number(), 'Passed on as it is.'),
    top_k: optional(t.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), 'To providers that implement it.'),
    min_p: optional(t.Number({ minimum: 0, maximum: 1 }), 'To providers that implement it.'),
    repetition_penalty: optional(t.Number({ minimum: 0 }), 'To providers that implement it.'),
    tools: optional(t.Array(Tool, { maxItems: 1_024 }), 'Needs a model with the capability tools.'),
    tool_choice: optional(ToolChoice, 'Needs the capability tools; a named tool must be declared.'),
    parallel_tool_calls: optional(t.Boolean(), 'True needs the capability parallel_tool.'),
    tool_execution: optional(
      t.Object({ mode: t.Optional(t.Union([t.Literal('manual'), t.Literal('automatic')])) }, open),
      'Who runs tools. automatic is clamped to manual unless the gateway may run tools.',
    ),
    response_format: optional(ResponseFormat, 'Needs the capability json_mode or json_schema.'),
    seed: optional(t.Integer(), 'Needs the capability seed.'),
    stop: optional(t.Union([t.String(), t.Array(t.String())]), 'Passed on as it is.'),
    n: optional(t.Integer({ minimum: 1, maximum: 128 }), 'Choices.'),
    max_completion_tokens: optional(Tokens, 'Wins over max_tokens.'),
    max_tokens: optional(Tokens, 'The older name.'),
    metadata: optional(t.Object({}, open), 'Passed on; user_id is the end user of the logs.'),
    user: optional(t.String(), 'The end user of the logs, unless metadata.user_id is sent.'),
  },
  {
    ...open,
    anyOf: [{ required: ['messages'] }, { required: ['prompt'] }],
    description: 'Other fields reach the provider unchanged.',
  },
)
