// The conversations with every kind's vendor, what each vendor can do, and answers as a user of an SDK reads them.
import { expect } from 'bun:test'
import type OpenAI from 'openai'
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam } from 'openai/resources/chat/completions'
import { KINDS } from '../../../src/providers/kinds.ts'
import { ALL_CAPABILITIES } from '../../../src/providers/port.ts'
import type { Vendor } from '../../services/vendors/vendors.ts'

/**
 * What all models of a kind, or one of them, cannot do, or the gateway does not offer there, by the vendors' own
 * documents. Everything else they can do.
 */
const LACKS: Readonly<Record<string, readonly string[]>> = {
  anthropic: ['json_mode', 'seed'],
  bedrock: ['json_mode', 'seed'],
  cerebras: ['vision'],
  cohere: ['vision'],
  cohere_vision: ['tools', 'parallel_tool', 'json_schema'],
  deepseek: ['json_schema', 'parallel_tool', 'seed', 'vision'],
  ollama: ['parallel_tool'],
  perplexity: ['tools', 'json_mode', 'parallel_tool', 'seed'],
  tgi: ['parallel_tool'],
  together: ['parallel_tool'],
}
/** They fetch no image by its address. */
export const NO_ADDRESSES = ['bedrock', 'ollama']
/** They call as many tools at once as they like. */
export const NO_SINGLE = ['bedrock_api_key', 'cohere', 'gemini', 'gemini_signed']
/** They cannot be made to call a tool. */
export const NO_FORCED = ['ollama']

export const SYSTEM = { role: 'system', content: 'Be brief.' } as const
export const user = (content: string) => ({ role: 'user', content }) as const
export const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    description: 'The weather in a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
  },
}
export const REPORT = {
  type: 'json_schema' as const,
  json_schema: {
    name: 'report',
    strict: true,
    schema: {
      type: 'object',
      properties: {
        city: { type: 'string', minLength: 1 },
        celsius: { type: 'integer' },
        sky: { enum: ['clear', 'grey'] },
      },
      required: ['city', 'celsius', 'sky'],
      additionalProperties: false,
    },
  },
}
export const PNG =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
export const ADDRESS = 'https://example.org/cat.png'
export const seen = (url: string): ChatCompletionMessageParam[] => [
  {
    role: 'user',
    content: [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url } },
    ],
  },
]

export const gatewayOf = (answer: unknown) => (answer as { gateway?: Record<string, unknown> }).gateway
export const expectUsage = (usage: OpenAI.CompletionUsage | null | undefined) => {
  expect(usage?.prompt_tokens).toBeGreaterThan(0)
  expect(usage?.completion_tokens).toBeGreaterThan(0)
  expect(usage!.total_tokens).toBeGreaterThanOrEqual(usage!.prompt_tokens + usage!.completion_tokens)
}
export const refusal = async (asking: Promise<unknown>): Promise<unknown> =>
  asking.then(
    () => null,
    (error: unknown) => error,
  )
export const callsOf = (answer: ChatCompletion) =>
  (answer.choices[0]!.message.tool_calls ?? []).map((call) => {
    if (call.type !== 'function') throw new Error(`a call of type ${call.type}`)
    const { name, arguments: args } = call.function
    return { id: call.id, name, args: JSON.parse(args) as { city: string } }
  })
export const said = (answer: ChatCompletion) => answer.choices[0]!.message.content

/** Chunks of a stream as an SDK's user folds them. */
export const fold = async (stream: AsyncIterable<ChatCompletionChunk>) => {
  let text = ''
  let finish: string | null = null
  let usage: OpenAI.CompletionUsage | null = null
  let last: unknown
  const pieces: string[] = []
  const calls: { id: string; name: string; args: string }[] = []
  for await (const chunk of stream) {
    const [choice] = chunk.choices
    if (choice?.delta.content) pieces.push(choice.delta.content)
    text += choice?.delta.content ?? ''
    for (const { index, id, function: called } of choice?.delta.tool_calls ?? []) {
      calls[index] ??= { id: '', name: '', args: '' }
      const call = calls[index]
      call.id += id ?? ''
      call.name += called?.name ?? ''
      call.args += called?.arguments ?? ''
    }
    finish = choice?.finish_reason ?? finish
    usage = chunk.usage ?? usage
    last = gatewayOf(chunk) ?? last
  }
  return { text, pieces, calls, finish, usage, last }
}

/** As it stands in a client that spoke with another vendor so far. */
export const moved: ChatCompletionMessageParam[] = [
  SYSTEM,
  user('What is the weather in Oslo?'),
  {
    role: 'assistant',
    content: null,
    refusal: null,
    annotations: [],
    tool_calls: [
      {
        id: 'call_2KpG7EF7NJHtBmaLzbWPuwHY',
        type: 'function',
        function: { name: 'weather', arguments: '{"city":"Oslo"}' },
      },
    ],
  } as ChatCompletionMessageParam,
  { role: 'tool', tool_call_id: 'call_2KpG7EF7NJHtBmaLzbWPuwHY', content: '{"celsius":-3}' },
  { role: 'assistant', content: 'Cold.', refusal: null, reasoning_content: 'hm' } as ChatCompletionMessageParam,
]

export const takenBy = ({ name, kind, assumed }: Vendor): string[] => {
  if (assumed) return [...KINDS.get(kind)!.capabilities]
  return ALL_CAPABILITIES.filter((capability) => !(LACKS[name] ?? LACKS[kind] ?? []).includes(capability))
}
