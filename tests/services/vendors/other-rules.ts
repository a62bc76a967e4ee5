// What Gemini, Cohere and Ollama refuse in their own wires.
import { isObject } from './conversation.ts'
import { listOf, objectOf, type Rule } from './rule.ts'

const GEMINI = 'https://ai.google.dev/api/generate-content'
const COHERE = 'https://docs.cohere.com/reference/chat'
const OLLAMA = 'https://docs.ollama.com/api/chat'
const PARAMETERS = { type: 'object', properties: {} }
const TOOLS = [{ type: 'function', function: { name: 'f', parameters: PARAMETERS } }]
const SCHEMA = { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object', properties: {} } } }
const FIRST = {
  messages: [
    { role: 'assistant', content: 'Hello, how can I help?' },
    { role: 'user', content: 'hi' },
  ],
}

export const GEMINI_RULES: readonly Rule[] = [
  {
    name: 'the user speaks first',
    source: 'https://ai.google.dev/gemini-api/docs/text-generation',
    holds: (body) => listOf(body.contents)[0]?.role === 'user',
    message: 'Please ensure that multiturn requests start with a user turn.',
    breaks: { contents: [{ role: 'model', parts: [{ text: 'x' }] }] },
    against: FIRST,
  },
  {
    name: 'at most five stop sequences',
    source: GEMINI,
    holds: (body) => ((objectOf(body.generationConfig).stopSequences as unknown[] | undefined)?.length ?? 0) <= 5,
    message: 'The number of stop sequences must be at most 5.',
    breaks: { generationConfig: { stopSequences: ['a', 'b', 'c', 'd', 'e', 'f'] } },
    against: { stop: ['a', 'b', 'c', 'd', 'e', 'f'] },
    onPurpose: 'which of them may be left out is for the client to say',
  },
]

const between = (value: unknown, least: number, most: number): boolean =>
  value === undefined || (typeof value === 'number' && value >= least && value <= most)

export const COHERE_RULES: readonly Rule[] = [
  {
    name: 'bounds of sampling',
    source: COHERE,
    holds: (body) =>
      between(body.temperature, 0, 1) &&
      between(body.p, 0.01, 0.99) &&
      between(body.k, 0, 500) &&
      between(body.frequency_penalty, 0, 1) &&
      between(body.presence_penalty, 0, 1),
    message: 'invalid request: p must be between 0.01 and 0.99 inclusive',
    breaks: { p: 1 },
    against: { temperature: 1.5, top_p: 1, top_k: 1_000, frequency_penalty: -1, presence_penalty: 2 },
  },
  {
    name: 'no format beside tools',
    source: COHERE,
    holds: ({ tools, response_format: format }) => tools === undefined || objectOf(format).type !== 'json_object',
    message: 'invalid request: response_format of type json_object is not supported with tools',
    breaks: { tools: TOOLS, response_format: { type: 'json_object' } },
    against: { tools: TOOLS, response_format: { type: 'json_object' } },
  },
  {
    name: 'no schema beside tools',
    source: COHERE,
    holds: ({ tools, response_format: format }) => tools === undefined || objectOf(format).json_schema === undefined,
    message: 'invalid request: response_format with a schema is not supported with tools',
    breaks: { tools: TOOLS, response_format: { json_schema: {} } },
    against: { tools: TOOLS, response_format: SCHEMA },
  },
  {
    name: 'at most five stop sequences',
    source: COHERE,
    holds: ({ stop_sequences: stop }) => !Array.isArray(stop) || stop.length <= 5,
    message: 'invalid request: stop_sequences must have at most 5 elements',
    breaks: { stop_sequences: ['a', 'b', 'c', 'd', 'e', 'f'] },
    against: { stop: ['a', 'b', 'c', 'd', 'e', 'f'] },
    onPurpose: 'which of them may be left out is for the client to say',
  },
]

export const OLLAMA_RULES: readonly Rule[] = [
  {
    name: 'arguments of calls are objects',
    source: OLLAMA,
    holds: (body) =>
      listOf(body.messages)
        .flatMap(({ tool_calls: calls }) => listOf(calls))
        .every((call) => isObject(objectOf(call.function).arguments)),
    message: 'json: cannot unmarshal string into Go struct field .messages.tool_calls.function.arguments',
    breaks: { messages: [{ tool_calls: [{ function: { arguments: '{}' } }] }] },
    against: {
      tools: TOOLS,
      messages: [
        { role: 'user', content: 'hi' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '' } }],
        },
        { role: 'tool', tool_call_id: 'a', content: 'x' },
      ],
    },
  },
]
