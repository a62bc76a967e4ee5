// What Claude refuses, in the words of Anthropic's Messages API. Bedrock serves the same models: `converse-rules.ts`
// reads its bodies as if they were these.
import { isObject, type Json } from './conversation.ts'
import { isBlank, listOf, objectOf, objectsIn, type Rule } from './rule.ts'
import type { Speaker } from './wire.ts'

const MESSAGES = 'https://docs.claude.com/en/api/messages'
const THINKING = 'https://docs.claude.com/en/docs/build-with-claude/extended-thinking'
const STRUCTURED = 'https://docs.claude.com/en/docs/build-with-claude/structured-outputs'

export const is = (pattern: RegExp) => (speaker: Speaker) => pattern.test(speaker.model)
const ONE_SAMPLER = is(/-4-[1-6](?!\d)/)
const NO_SAMPLING = is(/opus-4-7|(?:opus|sonnet)-5/)
const STRICT = is(/-4-[5-9](?!\d)|-5/)

const thinks = ({ thinking }: Json): boolean => isObject(thinking) && thinking.type !== 'disabled'
const blocksOf = ({ content }: Json): readonly Json[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content)
const last = <Value>(list: readonly Value[]): Value | undefined => list.at(-1)

/** The messages since the user last said something else than results. */
const turnOf = (body: Json): readonly Json[] => {
  const messages = listOf(body.messages)
  const asks = (message: Json) =>
    message.role === 'user' && !blocksOf(message).some(({ type }) => type === 'tool_result')
  return messages.slice(messages.findLastIndex(asks) + 1)
}
const begunWithThought = (body: Json): boolean => {
  const [first] = turnOf(body).map((message) => blocksOf(message)[0])
  return first === undefined || first.type === 'thinking' || first.type === 'redacted_thinking'
}

const LIMITS = [
  'minimum',
  'maximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'oneOf',
]
const isStrictSchema = (schema: unknown): boolean =>
  objectsIn(schema).every(
    (part) =>
      LIMITS.every((name) => part[name] === undefined) &&
      (part.type !== 'object' || part.additionalProperties === false),
  )

const TOOL = { name: 'f', input_schema: { type: 'object', properties: {} } }
const CLIENT_TOOLS = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
const CALL = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
const USER = { role: 'user', content: 'hi' }
const CLIENT_LOOP = [
  USER,
  { role: 'assistant', content: null, tool_calls: [CALL] },
  { role: 'tool', tool_call_id: 'a', content: 'x' },
]
const LOOP = [
  USER,
  { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'x' }] },
]
const ON = { thinking: { type: 'enabled', budget_tokens: 1_024 }, max_tokens: 4_096 }
const LIMITED = { type: 'object', properties: { n: { type: 'integer', minimum: 1 } } }

/** Rules that hold on every platform. */
export const CLAUDE_RULES: readonly Rule[] = [
  {
    name: 'one of temperature and top_p, 4.1 to 4.6',
    source: 'https://docs.claude.com/en/docs/about-claude/models/migrating-to-claude-4',
    appliesTo: ONE_SAMPLER,
    holds: (body) => body.temperature === undefined || body.top_p === undefined,
    message: '`temperature` and `top_p` cannot both be specified for this model. Please use only one.',
    breaks: { temperature: 0.5, top_p: 0.5 },
    against: { temperature: 0.5, top_p: 0.5 },
  },
  {
    name: 'no sampling, 4.7 and later',
    source: MESSAGES,
    appliesTo: NO_SAMPLING,
    holds: (body) => ['temperature', 'top_p', 'top_k'].every((name) => body[name] === undefined),
    message: '`temperature` is deprecated for this model.',
    breaks: { temperature: 0.5 },
    against: { temperature: 0.5, top_p: 0.5, top_k: 3 },
  },
  {
    name: 'no temperature and no top_k beside thinking, top_p from 0.95',
    source: THINKING,
    holds: (body) =>
      !thinks(body) ||
      ((body.temperature === undefined || body.temperature === 1) &&
        body.top_k === undefined &&
        (typeof body.top_p !== 'number' || body.top_p >= 0.95)),
    message: '`temperature` may only be set to 1 when thinking is enabled; `top_p` must be at least 0.95',
    breaks: { ...ON, top_p: 0.5 },
    against: { reasoning_effort: 'low', top_p: 0.5, top_k: 4, max_tokens: 4_096 },
  },
  {
    name: 'no forced tool beside thinking',
    source: THINKING,
    holds: (body) => !thinks(body) || !['any', 'tool'].includes(String(objectOf(body.tool_choice).type)),
    message: 'Thinking may not be enabled when tool_choice forces tool use.',
    breaks: { ...ON, tools: [TOOL], tool_choice: { type: 'any' } },
    against: { reasoning_effort: 'low', tools: CLIENT_TOOLS, tool_choice: 'required', max_tokens: 4_096 },
  },
  {
    name: 'a turn of thinking begins with a thought',
    source: THINKING,
    holds: (body) => !thinks(body) || begunWithThought(body),
    message: 'messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.',
    breaks: { ...ON, tools: [TOOL], messages: LOOP },
    against: { reasoning_effort: 'low', tools: CLIENT_TOOLS, messages: CLIENT_LOOP, max_tokens: 4_096 },
  },
  {
    name: 'texts are not blank',
    source: MESSAGES,
    holds: (body) =>
      [...listOf(body.messages).flatMap(blocksOf), ...listOf(body.system)].every(
        ({ type, text }) => type !== 'text' || !isBlank(text),
      ),
    message: 'messages: text content blocks must contain non-whitespace text',
    breaks: { messages: [USER, { role: 'assistant', content: ' ' }, USER] },
    against: { messages: [USER, { role: 'assistant', content: ' \n' }, USER, { role: 'system', content: ' ' }] },
  },
  {
    name: 'there are messages, and the user begins',
    source: MESSAGES,
    holds: (body) => listOf(body.messages)[0]?.role === 'user',
    message: 'messages: first message must use the "user" role',
    breaks: { messages: [{ role: 'assistant', content: 'x' }] },
    against: { messages: [{ role: 'assistant', content: 'Hello, how can I help?' }, USER] },
  },
  {
    name: 'no white space ends the answer that is continued',
    source: MESSAGES,
    holds: (body) => {
      const message = last(listOf(body.messages))
      const block = message?.role === 'assistant' ? last(blocksOf(message)) : undefined
      return block === undefined || block.type !== 'text' || !/\s$/.test(String(block.text))
    },
    message: 'messages: final assistant content cannot end with trailing whitespace',
    breaks: { messages: [USER, { role: 'assistant', content: 'It is ' }] },
    against: { messages: [USER, { role: 'assistant', content: 'It is ' }] },
  },
  {
    name: 'schemas of strict tools have no limits, at most 20 are strict',
    source: STRUCTURED,
    appliesTo: STRICT,
    holds: (body) => {
      const strict = listOf(body.tools).filter((tool) => tool.strict === true)
      return strict.length <= 20 && strict.every((tool) => isStrictSchema(tool.input_schema))
    },
    message: "tools.0.custom: For 'integer' type, properties minimum are not supported",
    breaks: { tools: [{ ...TOOL, input_schema: LIMITED, strict: true }] },
    against: { tools: [{ type: 'function', function: { name: 'f', parameters: LIMITED, strict: true } }] },
  },
  {
    name: 'strict tools only for models with structured outputs',
    source: STRUCTURED,
    appliesTo: (speaker) => !STRICT(speaker),
    holds: (body) => listOf(body.tools).every(({ strict }) => strict !== true),
    message: 'tools.0.custom.strict: strict tools are not supported by this model',
    breaks: { tools: [{ ...TOOL, strict: true }] },
    against: { tools: [{ type: 'function', function: { name: 'f', parameters: LIMITED, strict: true } }] },
  },
  {
    name: 'a schema of a tool has the type object',
    source: MESSAGES,
    holds: (body) => listOf(body.tools).every((tool) => objectOf(tool.input_schema).type === 'object'),
    message: 'tools.0.custom.input_schema.type: Field required',
    breaks: { tools: [{ ...TOOL, input_schema: {} }] },
    against: { tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] },
  },
  {
    name: 'max_tokens is above the budget of thinking',
    source: THINKING,
    holds: ({ thinking, max_tokens: most }) =>
      !(Number(objectOf(thinking).budget_tokens) >= (typeof most === 'number' ? most : Number.POSITIVE_INFINITY)),
    message: '`max_tokens` must be greater than `thinking.budget_tokens`',
    breaks: { thinking: { type: 'enabled', budget_tokens: 2_048 }, max_tokens: 2_048 },
    against: { reasoning_effort: 'high', max_tokens: 1_500 },
  },
]

/** Rules of Anthropic's own platform. */
export const ANTHROPIC_RULES: readonly Rule[] = [
  ...CLAUDE_RULES,
  {
    name: 'the id of a user names no person and has at most 256 characters',
    source: MESSAGES,
    holds: ({ metadata }) => {
      const id = objectOf(metadata).user_id
      return typeof id !== 'string' || (id.length <= 256 && !id.includes('@') && !/^\+?[\d\s()-]{7,}$/.test(id))
    },
    message: 'metadata.user_id: user_id appears to contain an email address. Please send a uuid or hash value instead.',
    breaks: { metadata: { user_id: 'ada@example.com' } },
    against: { user: 'ada@example.com' },
  },
  {
    name: 'names of tools',
    source: MESSAGES,
    holds: (body) => listOf(body.tools).every(({ name }) => /^[a-zA-Z0-9_-]{1,128}$/.test(String(name))),
    message: "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    breaks: { tools: [{ ...TOOL, name: 'a.b' }] },
    against: { tools: [{ type: 'function', function: { name: 'a.b', parameters: LIMITED } }] },
    onPurpose: 'the client looks for its own name in the answer',
  },
]
