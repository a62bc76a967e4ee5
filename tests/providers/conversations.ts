// Conversations of every shape that clients send, and parameters to send with them.
import type { Json } from '../services/vendors/conversation.ts'

const user = (content: unknown = 'hi') => ({ role: 'user', content })
const assistant = (content: unknown = 'Hello.') => ({ role: 'assistant', content })
const system = (content = 'Be brief.') => ({ role: 'system', content })
const call = (id: string) => ({ id, type: 'function', function: { name: 'look', arguments: '{"at":1}' } })
const calls = (content: unknown, ...ids: readonly string[]) => ({
  role: 'assistant',
  content,
  tool_calls: ids.map(call),
})
const result = (id: string, content: unknown = 'a cat') => ({ role: 'tool', tool_call_id: id, content })
const text = (of: string, more: Json = {}) => ({ type: 'text', text: of, ...more })
const THOUGHT = { reasoning_details: [{ type: 'thinking', thinking: 'hm', signature: 'sig' }] }
const EPHEMERAL = { cache_control: { type: 'ephemeral' } }

/** The order of roles, blank and empty content, loops of tools. */
export const MESSAGES: Readonly<Record<string, readonly Json[]>> = {
  plain: [user()],
  'system first': [system(), user()],
  'developer first': [{ role: 'developer', content: 'Be brief.' }, user()],
  'two systems': [system(), system('And kind.'), user()],
  'system later': [user(), assistant(), system(), user('more')],
  'system alone': [system()],
  'developer alone': [{ role: 'developer', content: 'Be brief.' }],
  'many turns': [user(), assistant(), user('more'), assistant('Sure.'), user('thanks')],
  'assistant first': [assistant(), user()],
  'assistant alone': [assistant()],
  'assistant last': [user(), assistant('It is')],
  'assistant last, open end': [user(), assistant('It is \n')],
  'two users': [user(), user('there')],
  'two assistants': [user(), assistant(), assistant('Well?'), user('more')],
  'empty user': [user(), assistant(), user('')],
  'blank user': [user(), assistant(), user(' \n\t')],
  'blank user alone': [user(' ')],
  'blank user behind a system': [system(), user(' ')],
  'blank assistant': [user(), assistant(' '), user('more')],
  'empty assistant': [user(), assistant(''), user('more')],
  'blank system': [system(' '), user()],
  'blank parts': [user([text(' '), text('hi'), text('')])],
  'parts of text': [user([text('hi'), text('there')])],
  'marked parts': [user([text('hi', EPHEMERAL)])],
  'a name': [{ ...user(), name: 'ann' }],
  'a refusal': [user(), { role: 'assistant', content: null, refusal: 'No.' }, user('please')],
  'loop of one': [user(), calls(null, 'call_1'), result('call_1')],
  'loop of two': [user(), calls(null, 'call_1', 'call_2'), result('call_1'), result('call_2')],
  'loop with text': [user(), calls('Let me see.', 'call_1'), result('call_1')],
  'loop with empty text': [user(), calls('', 'call_1'), result('call_1')],
  'loop of two steps': [user(), calls(null, 'call_1'), result('call_1'), calls(null, 'call_2'), result('call_2')],
  'loop with a thought': [user(), { ...calls(null, 'call_1'), ...THOUGHT }, result('call_1')],
  'loop and a question': [user(), calls(null, 'call_1'), result('call_1'), user('And?')],
  'loop that is over': [user(), calls(null, 'call_1'), result('call_1'), assistant('A cat.'), user('thanks')],
  'blank result': [user(), calls(null, 'call_1'), result('call_1', ' ')],
  'empty result': [user(), calls(null, 'call_1'), result('call_1', '')],
  'result in marked parts': [user(), calls(null, 'call_1'), result('call_1', [text('a cat', EPHEMERAL)])],
  'ids of other vendors': [user(), calls(null, 'functions.look:0'), result('functions.look:0')],
  'long ids': [user(), calls(null, `call_${'x'.repeat(80)}`), result(`call_${'x'.repeat(80)}`)],
  'calls first': [calls(null, 'call_1'), result('call_1')],
}

const OBJECT = { type: 'object', properties: { at: { type: 'integer', minimum: 1 } }, required: ['at'] }
const tool = (more: Json = {}) => [{ type: 'function', function: { name: 'look', parameters: OBJECT, ...more } }]
const TOOLS = tool()
const FORM = {
  type: 'object',
  properties: { n: { type: 'integer', maximum: 9 }, s: { type: 'string', pattern: '^a' } },
  required: ['n'],
}

/** Parameters that are sent one by one and in pairs. */
export const PARAMETERS: Readonly<Record<string, Json>> = {
  temperature: { temperature: 0.5 },
  'temperature 0': { temperature: 0 },
  'temperature above 1': { temperature: 1.5 },
  top_p: { top_p: 0.5 },
  'top_p 1': { top_p: 1 },
  top_k: { top_k: 5 },
  min_p: { min_p: 0.1 },
  penalties: { frequency_penalty: 0.5, presence_penalty: -0.5 },
  seed: { seed: 7 },
  stop: { stop: 'END' },
  stops: { stop: ['END', ' ', ''] },
  max_tokens: { max_tokens: 4_000 },
  'few tokens': { max_tokens: 50 },
  max_completion_tokens: { max_completion_tokens: 4_000 },
  effort: { reasoning_effort: 'high' },
  'least effort': { reasoning_effort: 'minimal' },
  'most effort': { reasoning_effort: 'xhigh' },
  'no effort': { reasoning_effort: 'none' },
  tools: { tools: TOOLS },
  'no tools': { tools: [] },
  'strict tools': { tools: tool({ strict: true }) },
  'tools without parameters': { tools: tool({ parameters: undefined }) },
  'tools with empty parameters': { tools: tool({ parameters: {} }) },
  'marked tools': { tools: TOOLS.map((one) => ({ ...one, ...EPHEMERAL })) },
  'tools, auto': { tools: TOOLS, tool_choice: 'auto' },
  'tools, none': { tools: TOOLS, tool_choice: 'none' },
  'tools, required': { tools: TOOLS, tool_choice: 'required' },
  'tools, named': { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'look' } } },
  'one at a time': { tools: TOOLS, parallel_tool_calls: false },
  'side by side': { tools: TOOLS, parallel_tool_calls: true },
  'one at a time, no tools': { parallel_tool_calls: false },
  json: { response_format: { type: 'json_object' } },
  schema: { response_format: { type: 'json_schema', json_schema: { name: 'form', schema: FORM } } },
  'strict schema': {
    response_format: { type: 'json_schema', json_schema: { name: 'form', schema: FORM, strict: true } },
  },
  text: { response_format: { type: 'text' } },
  user: { user: 'u1' },
  'user by address': { user: 'ada@example.com' },
  'user by telephone': { metadata: { user_id: '+49 170 1234567' } },
  'user, long': { user: 'x'.repeat(300) },
  stream: { stream: true },
  'stream with usage': { stream: true, stream_options: { include_usage: true } },
  'nothing said': { temperature: null, tools: null, stop: null },
}

/** Pseudo-random numbers from a seed, in [0, 1). */
export const picks = (seed: number) => {
  let state = seed >>> 0
  return (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
