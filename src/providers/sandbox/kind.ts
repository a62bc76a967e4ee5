// A provider in process: deterministic, free, offline. It speaks the OpenAI wire; the name of the model selects what it
// does.
//
// | model                   | behaviour                                                                             |
// |-------------------------|---------------------------------------------------------------------------------------|
// | sandbox-echo            | answers with the text of the last user message, in a stream word by word; stops at    |
// |                         | `max_tokens` words                                                                    |
// | sandbox-delay-<ms>      | the same, the response headers after <ms>                                             |
// | sandbox-slow-<ms>       | the same, <ms> before each chunk of a stream (and before the body of a JSON answer)   |
// | sandbox-error-<status>  | fails with that status (400 to 599) in the shape of the wire; 429 with                |
// |                         | `Retry-After: 1`                                                                      |
// | sandbox-midstream-error | a stream fails with an in-band error after its second chunk; JSON is a 500            |
// | sandbox-cut             | the connection breaks after the second chunk, or in the middle of the JSON            |
// | sandbox-early-end       | the body ends after the second chunk, without finish reason and `[DONE]`; JSON ends   |
// |                         | in the middle                                                                         |
// | sandbox-hang            | nothing more comes after the second chunk, or after the headers of a JSON answer      |
// | sandbox-tools           | calls the first declared tool with sample arguments; without tools, or after a tool's |
// |                         | result, it echoes                                                                     |
// | sandbox-json            | answers with a JSON object: a sample of the `json_schema`, else                       |
// |                         | `{"answer": <last user message>}`                                                     |
//
// <ms> is at most 600000. Any other name echoes. A token is a word. Usage is always reported for JSON, for streams on
// request. With `n` (at most 128) each choice has the same text.
import { isObject } from '../../wire/json.ts'
import { openaiShaped } from '../openai/openai.ts'
import { ALL_CAPABILITIES, type ProviderKind, type Script, type UpstreamRequest } from '../port.ts'
import { arrayOf, countOf, type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { sampleOf } from './schema-sample.ts'

export const SANDBOX_MODELS = [
  'sandbox-echo',
  'sandbox-tools',
  'sandbox-json',
  'sandbox-slow-50',
  'sandbox-delay-500',
  'sandbox-error-503',
  'sandbox-midstream-error',
  'sandbox-cut',
  'sandbox-early-end',
  'sandbox-hang',
] as const

const MOST_MS = 600_000
const MOST_CHUNKS = 200
const MOST_CHOICES = 128

interface Behaviour {
  readonly delayMs: number
  readonly slowMs: number
  readonly status: number
  /** The event after the second chunk, or null. */
  readonly fault: 'error' | 'cut' | 'end' | 'hang' | null
}

const FAULTS: Readonly<Record<string, Behaviour['fault']>> = {
  'sandbox-midstream-error': 'error',
  'sandbox-cut': 'cut',
  'sandbox-early-end': 'end',
  'sandbox-hang': 'hang',
}

const behaviourOf = (model: string): Behaviour => {
  const [, verb, digits] = /^sandbox-(delay|slow|error)-(\d{1,9})$/.exec(model) ?? []
  const value = Number(digits)
  return {
    delayMs: verb === 'delay' ? Math.min(value, MOST_MS) : 0,
    slowMs: verb === 'slow' ? Math.min(value, MOST_MS) : 0,
    status: verb === 'error' && value >= 400 && value <= 599 ? value : 200,
    fault: FAULTS[model] ?? null,
  }
}

const contentText = (content: unknown): string =>
  textOf(content) ??
  arrayOf(content)
    .flatMap((part) => textOf(objectOf(part).text) ?? [])
    .join('\n')

/** Words with the space that follows them: joined they are the text. */
const wordsOf = (text: string): readonly string[] => text.match(/\s*\S+\s*$|\s*\S+\s+/g) ?? (text === '' ? [] : [text])

interface Reply {
  readonly text: string
  readonly tool: { readonly name: string; readonly arguments: string } | null
  readonly finish: 'stop' | 'length' | 'tool_calls'
  /** How many choices have this text. */
  readonly choices: number
  readonly usage: Json
}

const replyOf = (model: string, body: Json): Reply => {
  const messages = arrayOf(body.messages).map(objectOf)
  const prompt = messages.reduce((sum, { content }) => sum + wordsOf(contentText(content)).length, 0)
  const question = contentText(messages.findLast(({ role }) => role === 'user')?.content)
  const choices = Math.min(MOST_CHOICES, countOf(body.n) || 1)
  const usage = (completion: number) => ({
    prompt_tokens: prompt,
    completion_tokens: completion * choices,
    total_tokens: prompt + completion * choices,
  })

  const declared = objectOf(objectOf(arrayOf(body.tools)[0]).function)
  if (model === 'sandbox-tools' && typeof declared.name === 'string' && messages.at(-1)?.role !== 'tool') {
    const call = { name: declared.name, arguments: JSON.stringify(sampleOf(declared.parameters) ?? {}) }
    return { text: '', tool: call, finish: 'tool_calls', choices, usage: usage(wordsOf(call.arguments).length) }
  }
  const schema = objectOf(objectOf(body.response_format).json_schema).schema
  const text =
    model === 'sandbox-json' ? JSON.stringify(isObject(schema) ? sampleOf(schema) : { answer: question }) : question
  const words = wordsOf(text)
  const limit = countOf(body.max_completion_tokens) ?? countOf(body.max_tokens)
  const cut = limit !== null && limit < words.length
  const taken = cut ? words.slice(0, limit) : words
  return { text: taken.join(''), tool: null, finish: cut ? 'length' : 'stop', choices, usage: usage(taken.length) }
}

const completion = (model: unknown, { text, tool, finish, choices, usage }: Reply): string => {
  const message =
    tool === null
      ? { role: 'assistant', content: text }
      : {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'call_sandbox', type: 'function', function: tool }],
        }
  return JSON.stringify({
    object: 'chat.completion', // id and time are filled in by the reader
    model,
    choices: Array.from({ length: choices }, (_, index) => ({ index, message, logprobs: null, finish_reason: finish })),
    usage,
  })
}

const inBandError = {
  error: { message: 'the sandbox fails here as asked', type: 'server_error', param: null, code: null },
}

/** The frames of a stream: role, content, finish, usage when requested, `[DONE]`. */
const framesOf = (body: Json, reply: Reply): { content: readonly string[]; tail: readonly string[] } => {
  const frame = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`
  const base = { object: 'chat.completion.chunk', model: body.model }
  const { tool, text, finish, choices, usage } = reply
  const indexes = Array.from({ length: choices }, (_, index) => index)
  /** One server-sent event for each choice, all with the same delta. */
  const chunk = (delta: Json, reason: string | null = null) =>
    indexes
      .map((index) => frame({ ...base, choices: [{ index, delta, logprobs: null, finish_reason: reason }] }))
      .join('')
  const words = wordsOf(text)
  const size = Math.ceil(words.length / MOST_CHUNKS)
  const pieces = Array.from({ length: Math.min(words.length, Math.ceil(words.length / Math.max(1, size))) }, (_, i) =>
    words.slice(i * size, (i + 1) * size).join(''),
  )
  const calls = (fields: Json) => chunk({ tool_calls: [{ index: 0, ...fields }] })
  const content =
    tool === null
      ? pieces.map((piece) => chunk({ content: piece }))
      : [
          calls({ id: 'call_sandbox', type: 'function', function: { name: tool.name, arguments: '' } }),
          calls({ function: { arguments: tool.arguments } }),
        ]
  const requested = objectOf(body.stream_options).include_usage === true
  return {
    content: [chunk({ role: 'assistant', content: tool === null ? '' : null }), ...content],
    tail: [chunk({}, finish), ...(requested ? [frame({ ...base, choices: [], usage })] : []), 'data: [DONE]\n\n'],
  }
}

const ENDINGS: Readonly<Record<string, Script['ending']>> = { cut: 'abort', hang: 'hang' }

const script = (request: UpstreamRequest): Script => {
  const json = { 'content-type': 'application/json' }
  const whole = (text: string, more: Partial<Script> = {}, afterMs = 0): Script => ({
    status: 200,
    headers: json,
    headerDelayMs: 0,
    pieces: [{ afterMs, text }],
    ending: 'end',
    ...more,
  })
  if (request.method === 'GET')
    return whole(
      JSON.stringify({
        object: 'list',
        data: SANDBOX_MODELS.map((id) => ({ id, object: 'model', owned_by: 'sandbox' })),
      }),
    )
  const body = objectOf(parseJson(request.body ?? ''))
  const model = textOf(body.model) ?? ''
  const { delayMs, slowMs, status, fault } = behaviourOf(model)
  const failing = body.stream !== true && fault === 'error' ? 500 : status
  if (failing !== 200)
    return whole(JSON.stringify(inBandError), {
      status: failing,
      headers: failing === 429 ? { ...json, 'retry-after': '1' } : json,
    })

  const reply = replyOf(model, body)
  const ending = ENDINGS[fault ?? ''] ?? 'end'
  if (body.stream !== true) {
    const text = completion(body.model, reply)
    if (fault === null) return whole(text, { headerDelayMs: delayMs }, slowMs)
    return whole(fault === 'hang' ? '' : text.slice(0, text.length / 2), { ending })
  }
  const { content, tail } = framesOf(body, reply)
  const sent = fault === null ? [...content, ...tail] : content.slice(0, 3) // role and two chunks
  if (fault === 'error') sent.push(`data: ${JSON.stringify(inBandError)}\n\n`)
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream' },
    headerDelayMs: delayMs,
    pieces: sent.map((text) => ({ afterMs: slowMs, text })),
    ending,
  }
}

export const sandbox: ProviderKind = {
  ...openaiShaped({
    kind: 'sandbox',
    needsCredential: false,
    capabilities: ALL_CAPABILITIES,
    stopsBillingWhenLeft: true,
    defaultBaseUrl: null,
    usualEnv: null,
  }),
  script,
}
