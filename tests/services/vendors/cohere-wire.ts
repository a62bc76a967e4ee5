// Cohere's v2 chat.
import {
  type Asked,
  type Call,
  imageOfUrl,
  isObject,
  type Json,
  matchResults,
  need,
  objectText,
  pieces,
  type Received,
  type Reply,
  type Turn,
} from './conversation.ts'
import { recordedAnswer, recordedStream } from './fixtures.ts'
import { COHERE_RULES } from './other-rules.ts'
import { checkRules } from './rule.ts'
import { blocksOf, jsonSpoken, nextNumber, type Speaker, type Spoken, spoken, type Wire } from './wire.ts'

// biome-ignore format: one list
const FIELDS = [
  'model', 'messages', 'stream', 'tools', 'tool_choice', 'strict_tools', 'documents', 'citation_options', 'response_format', 'safety_mode',
  'max_tokens', 'stop_sequences', 'temperature', 'seed', 'frequency_penalty', 'presence_penalty', 'k', 'p', 'logprobs', 'thinking', 'priority',
]
const MESSAGE_FIELDS: Readonly<Record<string, readonly string[]>> = {
  system: ['role', 'content'],
  user: ['role', 'content'],
  assistant: ['role', 'content', 'tool_calls', 'tool_plan', 'citations'],
  tool: ['role', 'content', 'tool_call_id'],
}

const contentOf = (content: unknown, at: string, types: readonly string[]): { text: string; images: string[] } => {
  if (typeof content === 'string') return { text: content, images: [] }
  need(Array.isArray(content) && content.length > 0, `${at}.content must be a string or parts`)
  let text = ''
  const images: string[] = []
  for (const part of content as unknown[]) {
    need(isObject(part) && types.includes(part.type as string), `${at}.content: a part that cannot stand here`)
    if (part.type === 'text') text += String(part.text)
    if (part.type === 'document') text += JSON.stringify((part.document as Json).data)
    if (part.type === 'image_url') {
      need(isObject(part.image_url), `${at}.content: image_url must be an object`)
      images.push(imageOfUrl(part.image_url.url))
    }
  }
  return { text, images }
}

const callOf = (call: unknown, at: string): Call => {
  need(isObject(call) && call.type === 'function' && isObject(call.function), `${at}: not a call of a function`)
  need(typeof call.id === 'string' && typeof call.function.name === 'string', `${at}: a call needs id and name`)
  return { id: call.id, name: call.function.name, args: objectText(call.function.arguments, at) }
}

const conversationOf = (messages: readonly unknown[]): { system: string; turns: Turn[] } => {
  const system: string[] = []
  const turns: Turn[] = []
  messages.forEach((message, i) => {
    const at = `messages[${i}]`
    need(isObject(message), `${at} must be an object`)
    const { role } = message
    const known = MESSAGE_FIELDS[String(role)]
    need(known !== undefined, `${at}: unknown role ${String(role)}`)
    for (const name of Object.keys(message)) need(known.includes(name), `${at}: unknown field ${name}`)
    if (role === 'system') system.push(contentOf(message.content, at, ['text']).text)
    if (role === 'user')
      turns.push({ role, calls: [], results: [], ...contentOf(message.content, at, ['text', 'image_url']) })
    if (role === 'assistant') {
      const calls = ((message.tool_calls ?? []) as unknown[]).map((call) => callOf(call, at))
      need(
        calls.length === 0 || message.content === undefined || Array.isArray(message.content),
        `${at}: a turn with calls says its text as tool_plan`,
      )
      const said =
        message.content === undefined ? { text: '', images: [] } : contentOf(message.content, at, ['text', 'thinking'])
      need(calls.length > 0 || message.content !== undefined, `${at}: neither content nor tool_calls`)
      turns.push({ role, calls, results: [], ...said })
    }
    if (role !== 'tool') return
    const result = { id: String(message.tool_call_id), text: contentOf(message.content, at, ['text', 'document']).text }
    const last = turns.at(-1)
    if (last !== undefined && last.results.length > 0) (last.results as { id: string; text: string }[]).push(result)
    else turns.push({ role: 'user', text: '', images: [], calls: [], results: [result] })
  })
  return { system: system.join('\n'), turns }
}

const read = ({ path, query, headers, body }: Received, speaker: Speaker): Asked => {
  const { model, secret } = speaker
  need(path === '/v2/chat' && query.size === 0, `there is nothing at ${path}`, 404)
  need(headers.get('authorization') === `Bearer ${secret}`, 'invalid api token', 401)
  need(body !== null && headers.get('content-type') === 'application/json', 'the body must be JSON')
  for (const name of Object.keys(body)) need(FIELDS.includes(name), `unknown field: ${name}`, 422)
  need(body.model === model, `model '${String(body.model)}' not found`, 404)
  checkRules(COHERE_RULES, body, speaker)
  need(body.stop_sequences === undefined || Array.isArray(body.stop_sequences), 'stop_sequences must be a list')
  need(Array.isArray(body.messages) && body.messages.length > 0, 'messages must not be empty')
  const { system, turns } = conversationOf(body.messages)
  const tools = ((body.tools ?? []) as Json[]).map((tool) => {
    need(tool.type === 'function' && isObject(tool.function), 'a tool must be a function')
    for (const name of Object.keys(tool.function))
      need(['name', 'description', 'parameters'].includes(name), `tools: unknown field ${name}`)
    return { name: tool.function.name as string, parameters: tool.function.parameters }
  })
  matchResults(turns, null)
  const choice = body.tool_choice
  need(
    choice === undefined || ((choice === 'REQUIRED' || choice === 'NONE') && tools.length > 0),
    `bad tool_choice ${String(choice)}`,
  )
  const format = isObject(body.response_format) ? body.response_format : {}
  need(format.type !== 'json_schema', 'response_format.type must be text or json_object')
  need(format.type !== 'json_object' || tools.length === 0, 'response_format cannot be used with tools')
  return {
    model,
    stream: body.stream === true,
    usage: true,
    system,
    turns,
    tools,
    choice: choice === 'REQUIRED' ? 'required' : choice === 'NONE' ? 'none' : 'auto',
    single: false,
    format: isObject(format.json_schema) ? format.json_schema : format.type === 'json_object' ? 'json' : null,
  }
}

const callsOf = (reply: Extract<Reply, { calls: unknown }>): Json[] =>
  reply.calls.map(({ name, args }) => ({
    id: `${name}_${nextNumber()}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(args) },
  }))

const answer = (reply: Reply): Spoken => {
  const recorded = JSON.parse(recordedAnswer('cohere')) as Json
  const message =
    'text' in reply
      ? { role: 'assistant', content: [{ type: 'text', text: reply.text }] }
      : { role: 'assistant', tool_plan: 'I will look.', tool_calls: callsOf(reply) }
  return jsonSpoken({ ...recorded, message, finish_reason: 'text' in reply ? 'COMPLETE' : 'TOOL_CALL' })
}

const stream = (reply: Reply): Spoken => {
  const all = blocksOf(recordedStream('cohere', ['tools'], 'sse'))
  const recorded = (type: string) => all.find(({ json }) => isObject(json) && json.type === type)?.json as Json
  const event = (data: Json) => `event: ${String(data.type)}\ndata: ${JSON.stringify(data)}\n\n`
  const message = (type: string, value: Json, index?: number) => ({
    type,
    ...(index === undefined ? {} : { index }),
    delta: { message: value },
  })
  const content =
    'text' in reply
      ? [
          message('content-start', { content: { type: 'text', text: '' } }, 0),
          ...pieces(reply.text).map((text) => message('content-delta', { content: { text } }, 0)),
          { type: 'content-end', index: 0 },
        ]
      : [
          message('tool-plan-delta', { tool_plan: 'I will look.' }),
          ...callsOf(reply).flatMap((call, index) => {
            const { name, arguments: args } = call.function as { name: string; arguments: string }
            return [
              message('tool-call-start', { tool_calls: { ...call, function: { name, arguments: '' } } }, index),
              ...pieces(args).map((piece) =>
                message('tool-call-delta', { tool_calls: { function: { arguments: piece } } }, index),
              ),
              { type: 'tool-call-end', index },
            ]
          }),
        ]
  const end = recorded('message-end') as Json & { delta: Json }
  const delta = { ...end.delta, finish_reason: 'text' in reply ? 'COMPLETE' : 'TOOL_CALL' }
  return spoken('text/event-stream', [recorded('message-start'), ...content, { ...end, delta }].map(event).join(''))
}

export const cohereWire = (speaker: Speaker): Wire => ({
  read: (received) => read(received, speaker),
  speak: (asked, reply) => (asked.stream ? stream(reply) : answer(reply)),
  refusal: (_status, message) => ({ body: JSON.stringify({ id: 'c0', message }) }),
})
