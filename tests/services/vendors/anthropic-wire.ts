// Anthropic's Messages API, as strict as the vendor: unknown fields are refused, results follow their calls.
import { t, Value } from '../../../src/lib/schema/schema.ts'
import { ANTHROPIC_RULES } from './claude-rules.ts'
import {
  type Asked,
  imageName,
  imageOfUrl,
  isObject,
  type Json,
  matchResults,
  need,
  pieces,
  type Received,
  type Reply,
  type Turn,
} from './conversation.ts'
import { recordedAnswer, recordedStream } from './fixtures.ts'
import { checkRules } from './rule.ts'
import { blocksOf, jsonSpoken, nextNumber, type Speaker, type Spoken, spoken, type Wire } from './wire.ts'

const closed = { additionalProperties: false }
const Cache = t.Optional(t.Object({ type: t.Literal('ephemeral'), ttl: t.Optional(t.String()) }, closed))
const Text = t.Object({ type: t.Literal('text'), text: t.String({ minLength: 1 }), cache_control: Cache }, closed)
const Image = t.Object(
  {
    type: t.Literal('image'),
    source: t.Union([
      t.Object(
        {
          type: t.Literal('base64'),
          media_type: t.String({ pattern: '^image/(jpeg|png|gif|webp)$' }),
          data: t.String(),
        },
        closed,
      ),
      t.Object({ type: t.Literal('url'), url: t.String() }, closed),
    ]),
    cache_control: Cache,
  },
  closed,
)
const ToolUse = t.Object(
  {
    type: t.Literal('tool_use'),
    id: t.String({ pattern: '^[a-zA-Z0-9_-]+$' }),
    name: t.String({ pattern: '^[a-zA-Z0-9_-]{1,128}$' }),
    input: t.Object({}),
    cache_control: Cache,
  },
  closed,
)
const ToolResult = t.Object(
  {
    type: t.Literal('tool_result'),
    tool_use_id: t.String(),
    content: t.Optional(t.Union([t.String(), t.Array(t.Union([Text, Image]))])),
    is_error: t.Optional(t.Boolean()),
    cache_control: Cache,
  },
  closed,
)
const Thinking = t.Object({ type: t.Literal('thinking'), thinking: t.String(), signature: t.String() }, closed)
const Redacted = t.Object({ type: t.Literal('redacted_thinking'), data: t.String() }, closed)
const Message = t.Union([
  t.Object(
    {
      role: t.Literal('user'),
      content: t.Union([t.String({ minLength: 1 }), t.Array(t.Union([Text, Image, ToolResult]), { minItems: 1 })]),
    },
    closed,
  ),
  t.Object(
    {
      role: t.Literal('assistant'),
      content: t.Union([
        t.String({ minLength: 1 }),
        t.Array(t.Union([Text, ToolUse, Thinking, Redacted]), { minItems: 1 }),
      ]),
    },
    closed,
  ),
])
const Single = t.Optional(t.Boolean())
const Body = t.Object(
  {
    model: t.String(),
    max_tokens: t.Integer({ minimum: 1 }),
    messages: t.Array(Message, { minItems: 1 }),
    system: t.Optional(t.Union([t.String(), t.Array(Text, { minItems: 1 })])),
    metadata: t.Optional(t.Object({ user_id: t.String() }, closed)),
    stop_sequences: t.Optional(t.Array(t.String({ pattern: '\\S' }))),
    stream: t.Optional(t.Boolean()),
    temperature: t.Optional(t.Number({ minimum: 0, maximum: 1 })),
    top_p: t.Optional(t.Number({ minimum: 0, maximum: 1 })),
    top_k: t.Optional(t.Integer({ minimum: 1 })),
    thinking: t.Optional(
      t.Object({ type: t.String(), budget_tokens: t.Optional(t.Integer({ minimum: 1_024 })) }, closed),
    ),
    output_config: t.Optional(
      t.Object(
        {
          effort: t.Optional(t.String()),
          format: t.Optional(t.Object({ type: t.Literal('json_schema'), schema: t.Object({}) }, closed)),
        },
        closed,
      ),
    ),
    tools: t.Optional(
      t.Array(
        t.Object(
          {
            name: t.String({ pattern: '^[a-zA-Z0-9_-]{1,128}$' }),
            description: t.Optional(t.String()),
            input_schema: t.Object({ type: t.Literal('object') }),
            strict: t.Optional(t.Boolean()),
            cache_control: Cache,
          },
          closed,
        ),
        { minItems: 1 },
      ),
    ),
    tool_choice: t.Optional(
      t.Union([
        t.Object({ type: t.Union([t.Literal('auto'), t.Literal('any')]), disable_parallel_tool_use: Single }, closed),
        t.Object({ type: t.Literal('none') }, closed),
        t.Object({ type: t.Literal('tool'), name: t.String(), disable_parallel_tool_use: Single }, closed),
      ]),
    ),
  },
  closed,
)

type Block = Json & { readonly type: string }
const blocks = (content: unknown): Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : (content as Block[])
const textOf = (content: unknown): string =>
  blocks(content ?? '')
    .flatMap(({ type, text }) => (type === 'text' ? [text as string] : []))
    .join('')

const imageOf = ({ source }: Json): string => {
  const { type, media_type, data, url } = source as Record<string, string>
  return type === 'url' ? imageOfUrl(url) : imageName(media_type!, data!)
}

const turnOf = ({ role, content }: { role: string; content: unknown }): Turn => {
  const all = blocks(content)
  const of = (type: string) => all.filter((block) => block.type === type)
  const results = of('tool_result')
  need(
    all.slice(0, results.length).every(({ type }) => type === 'tool_result'),
    'tool_result blocks must come first',
  )
  return {
    role: role as Turn['role'],
    text: textOf(content),
    images: of('image').map(imageOf),
    calls: of('tool_use').map(({ id, name, input }) => ({ id, name, args: input }) as Turn['calls'][number]),
    results: results.map((block) => ({ id: block.tool_use_id as string, text: textOf(block.content) })),
  }
}

const LIMITS = /"(?:minimum|maximum|multipleOf|minLength|maxLength|pattern|minItems|maxItems|oneOf)":/
const closedObjects = (schema: unknown): boolean =>
  !isObject(schema) ||
  ((schema.type !== 'object' || schema.additionalProperties === false) &&
    Object.values(schema).every((one) => (Array.isArray(one) ? one.every(closedObjects) : closedObjects(one))))

/** Claude before 4.5 has no JSON output; 4.5 and 4.6 accept one of temperature and top_p; later ones neither. */
const checkModel = (body: Json, model: string): void => {
  const format = isObject(body.output_config) ? body.output_config.format : undefined
  if (isObject(format)) {
    need(!/claude-3|-4-2025/.test(model), 'output_config.format: not supported by this model')
    need(!LIMITS.test(JSON.stringify(format.schema)), 'output_config.format.schema: a limit that is not supported')
    need(closedObjects(format.schema), 'output_config.format.schema: additionalProperties must be false')
  }
  const sampling = ['temperature', 'top_p', 'top_k'].filter((name) => body[name] !== undefined)
  need(!/opus-4-[78]|(?:opus|sonnet|haiku)-5/.test(model) || sampling.length === 0, `${sampling[0]} is not supported`)
  need(
    !/-4-[56]/.test(model) || body.temperature === undefined || body.top_p === undefined,
    '`temperature` and `top_p` cannot both be specified',
  )
  if (isObject(body.thinking) && body.thinking.type !== 'disabled') {
    need(body.temperature === undefined && body.top_k === undefined, 'no temperature with thinking')
    const { budget_tokens: budget } = body.thinking
    need(typeof budget !== 'number' || budget < (body.max_tokens as number), 'max_tokens must be above budget_tokens')
  }
}

const read = ({ path, query, headers, body }: Received, speaker: Speaker): Asked => {
  const { model, secret } = speaker
  need(path === '/v1/messages' && query.size === 0, `there is nothing at ${path}`, 404)
  need(headers.get('x-api-key') === secret && !headers.has('authorization'), 'invalid x-api-key', 401)
  need(headers.get('anthropic-version') === '2023-06-01', 'anthropic-version: header is required')
  need(headers.get('content-type') === 'application/json', 'the body must be JSON')
  const [flaw] = [...Value.Errors(Body, body)]
  need(flaw === undefined, `${flaw?.path}: ${flaw?.message}`)
  const checked = body as Json & { messages: { role: string; content: unknown }[] }
  need(checked.model === model, `model: ${String(checked.model)}`, 404)
  checkRules(ANTHROPIC_RULES, checked, speaker)
  checkModel(checked, model)
  const turns = checked.messages.map(turnOf)
  need(turns[0]!.role === 'user', 'messages: first message must use the "user" role')
  const tools = ((checked.tools ?? []) as Json[]).map(({ name, input_schema }) => ({
    name: name as string,
    parameters: input_schema,
  }))
  matchResults(turns, null)
  const choice = (checked.tool_choice ?? { type: 'auto' }) as {
    type: string
    name?: string
    disable_parallel_tool_use?: boolean
  }
  need(checked.tool_choice === undefined || tools.length > 0, 'tool_choice may only be specified while providing tools')
  const config = isObject(checked.output_config) ? checked.output_config : {}
  return {
    model,
    stream: checked.stream === true,
    usage: true,
    system: textOf(checked.system),
    turns,
    tools,
    choice:
      choice.type === 'tool'
        ? { name: choice.name! }
        : choice.type === 'any'
          ? 'required'
          : (choice.type as 'auto' | 'none'),
    single: choice.disable_parallel_tool_use === true,
    format: isObject(config.format) ? (config.format.schema as Json) : null,
  }
}

const contentOf = (reply: Reply): Json[] =>
  'text' in reply
    ? [{ type: 'text', text: reply.text }]
    : reply.calls.map(({ name, args }) => ({ type: 'tool_use', id: `toolu_${nextNumber()}`, name, input: args }))

const answer = (reply: Reply): Spoken => {
  const recorded = JSON.parse(recordedAnswer('anthropic')) as Json
  return jsonSpoken({ ...recorded, content: contentOf(reply), stop_reason: 'text' in reply ? 'end_turn' : 'tool_use' })
}

/** As recorded: message_start, ping and the like; then our blocks; then message_delta and message_stop. */
const stream = (reply: Reply): Spoken => {
  const all = blocksOf(recordedStream('anthropic', ['thinking-tools', 'text'], 'sse'))
  const frame = (type: string) => all.find(({ json }) => isObject(json) && json.type === type)?.json as Json
  const event = (data: Json) => `event: ${String(data.type)}\ndata: ${JSON.stringify(data)}\n\n`
  const end = frame('message_delta')
  const block = (content: Json, index: number): Json[] => {
    const isText = content.type === 'text'
    const deltas = isText
      ? pieces(content.text as string).map((text) => ({ type: 'text_delta', text }))
      : ['', ...pieces(JSON.stringify(content.input))].map((partial_json) => ({
          type: 'input_json_delta',
          partial_json,
        }))
    return [
      {
        type: 'content_block_start',
        index,
        content_block: isText ? { type: 'text', text: '' } : { ...content, input: {} },
      },
      { type: 'ping' },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]
  }
  const delta = { stop_reason: 'text' in reply ? 'end_turn' : 'tool_use', stop_sequence: null }
  const events = [
    frame('message_start'),
    ...contentOf(reply).flatMap(block),
    { ...end, delta },
    { type: 'message_stop' },
  ]
  return spoken('text/event-stream; charset=utf-8', events.map(event).join(''))
}

const TYPES: Readonly<Record<number, string>> = { 401: 'authentication_error', 404: 'not_found_error' }

export const anthropicWire = (speaker: Speaker): Wire => ({
  read: (received) => read(received, speaker),
  speak: (asked, reply) => (asked.stream ? stream(reply) : answer(reply)),
  refusal: (status, message) => ({
    body: JSON.stringify({ type: 'error', error: { type: TYPES[status] ?? 'invalid_request_error', message } }),
  }),
})
