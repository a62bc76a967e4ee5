// Ollama's native chat. It ignores unknown fields, so the checks name each field that must not be lost.
import {
  type Asked,
  imageName,
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
import { OLLAMA_RULES } from './other-rules.ts'
import { checkRules } from './rule.ts'
import { jsonSpoken, nextNumber, type Speaker, type Spoken, spoken, type Wire } from './wire.ts'

const FIELDS = [
  'model',
  'messages',
  'tools',
  'format',
  'options',
  'stream',
  'keep_alive',
  'think',
  'truncate',
  'shift',
  'logprobs',
  'top_logprobs',
]
// biome-ignore format: one list
const OPTIONS = [
  'temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty', 'frequency_penalty', 'presence_penalty', 'seed', 'stop', 'num_predict', 'num_ctx',
]

/** PNG, the one that the conversations show. */
const image = (value: unknown): string => {
  need(typeof value === 'string' && !value.startsWith('data:'), 'illegal base64 data in images')
  return imageName(Buffer.from(value, 'base64').subarray(1, 4).toString() === 'PNG' ? 'image/png' : 'image', value)
}

const turnsOf = (messages: readonly unknown[]): { system: string; turns: Turn[] } => {
  const system: string[] = []
  const turns: Turn[] = []
  messages.forEach((message, i) => {
    need(isObject(message) && typeof message.content === 'string', `messages[${i}]: content must be a string`)
    const { role, content: text } = message
    if (role === 'system') {
      system.push(text as string)
      return
    }
    if (role === 'tool') {
      // Newer servers match by id; older ones know the name alone.
      need(typeof message.tool_name === 'string', `messages[${i}]: tool_name is missing`)
      const result = { id: String(message.tool_call_id), text: text as string }
      const last = turns.at(-1)
      if (last !== undefined && last.results.length > 0) (last.results as { id: string; text: string }[]).push(result)
      else turns.push({ role: 'user', text: '', images: [], calls: [], results: [result] })
      return
    }
    need(role === 'user' || role === 'assistant', `messages[${i}]: unknown role ${String(role)}`)
    const calls = ((message.tool_calls ?? []) as Json[]).map(({ id, function: called }) => {
      need(isObject(called) && isObject(called.arguments), `messages[${i}]: arguments must be an object`)
      return { id: String(id), name: called.name as string, args: called.arguments }
    })
    const images = ((message.images ?? []) as unknown[]).map(image)
    turns.push({ role, text: text as string, images, calls, results: [] })
  })
  return { system: system.join('\n'), turns }
}

const read = ({ path, query, headers, body }: Received, speaker: Speaker): Asked => {
  const { model, secret } = speaker
  need(path === '/api/chat' && query.size === 0, '404 page not found', 404)
  need(headers.get('authorization') === (secret === null ? null : `Bearer ${secret}`), 'unauthorized', 401)
  need(body !== null, 'missing request body')
  for (const name of Object.keys(body)) need(FIELDS.includes(name), `${name} would be ignored`)
  const options = body.options ?? {}
  need(isObject(options), 'options must be an object')
  for (const name of Object.keys(options)) need(OPTIONS.includes(name), `invalid option provided: ${name}`)
  need(options.stop === undefined || Array.isArray(options.stop), 'option "stop" must be of type array')
  need(typeof body.stream === 'boolean', 'stream is on when it is left out')
  need(body.model === model, `model '${String(body.model)}' not found`, 404)
  need(Array.isArray(body.messages), 'messages must be a list')
  checkRules(OLLAMA_RULES, body, speaker)
  const { system, turns } = turnsOf(body.messages)
  matchResults(turns, null)
  const tools = ((body.tools ?? []) as Json[]).map(({ type, function: declared }) => {
    need(
      type === 'function' && isObject(declared) && (isObject(declared.parameters) || declared.parameters === undefined),
      'a tool must be a function',
    )
    return { name: declared.name as string, parameters: declared.parameters }
  })
  need(body.format === undefined || body.format === 'json' || isObject(body.format), 'invalid format')
  return {
    model,
    stream: body.stream,
    usage: true,
    system,
    turns,
    tools,
    choice: 'auto',
    single: false,
    format: (body.format ?? null) as Asked['format'],
  }
}

/** Every other call has an id, as servers old and new are found. */
const callsOf = (reply: Extract<Reply, { calls: unknown }>): Json[] =>
  reply.calls.map(({ name, args }, index) => ({
    ...(index % 2 === 0 ? {} : { id: `call_own${nextNumber()}` }),
    function: { index, name, arguments: args },
  }))

const messageOf = (reply: Reply): Json => ({
  role: 'assistant',
  content: 'text' in reply ? reply.text : '',
  ...('text' in reply ? {} : { tool_calls: callsOf(reply) }),
})

const answer = (reply: Reply): Spoken => {
  const recorded = JSON.parse(recordedAnswer('ollama')) as Json
  return jsonSpoken({ ...recorded, message: messageOf(reply), done: true, done_reason: 'stop' })
}

const stream = (reply: Reply): Spoken => {
  const lines = recordedStream('ollama', ['tools'], 'ndjson')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Json)
  const first = lines[0]!
  const last = lines.find(({ done }) => done === true)!
  const said = 'text' in reply ? pieces(reply.text).map((text) => messageOf({ text })) : [messageOf(reply)]
  const all = [...said.map((message) => ({ ...first, message, done: false })), last]
  return spoken('application/x-ndjson', all.map((line) => `${JSON.stringify(line)}\n`).join(''))
}

export const ollamaWire = (speaker: Speaker): Wire => ({
  read: (received) => read(received, speaker),
  speak: (asked, reply) => (asked.stream ? stream(reply) : answer(reply)),
  refusal: (_status, message) => ({ body: JSON.stringify({ error: message }) }),
})
