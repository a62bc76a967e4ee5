// What the vendors of the OpenAI wire answer, made of the kind's recorded answer and stream.
import { type Asked, isObject, type Json, pieces, type Reply } from './conversation.ts'
import { recordedAnswer, recordedStream } from './fixtures.ts'
import type { Rules } from './openai-rules.ts'
import { blocksOf, nextNumber, type Spoken, spoken } from './wire.ts'

/** Where none is recorded. */
const USAGE = { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 }

const ALNUM = 'ABCDEFGHJKLMNPQRSTUVWXYZ'
const madeCalls = (reply: Extract<Reply, { calls: unknown }>, { callId }: Rules): Json[] =>
  reply.calls.map(({ name, args }) => {
    const number = nextNumber()
    const id = callId === undefined ? `call_${number}` : `D${String(number).padStart(7, '0')}${ALNUM[number % 24]}`
    return { id, type: 'function', function: { name, arguments: JSON.stringify(args) } }
  })

/** The recorded answer with another message. What stands before its JSON stays. */
export const whole = (kind: string, reply: Reply, rules: Rules): Spoken => {
  const text = recordedAnswer(kind)
  const answer = JSON.parse(text) as Json & { choices: [Json & { message: Json }] }
  const [choice] = answer.choices
  const { tool_calls: _, ...rest } = choice.message
  const said =
    'text' in reply
      ? { message: { ...rest, content: reply.text } }
      : { message: { ...rest, content: null, tool_calls: madeCalls(reply, rules) }, finish_reason: 'tool_calls' }
  const before = text.slice(0, text.indexOf('{'))
  const usage = isObject(answer.usage) && answer.usage.completion_tokens !== undefined ? answer.usage : USAGE
  return spoken('application/json', before + JSON.stringify({ ...answer, usage, choices: [{ ...choice, ...said }] }))
}

const STREAMS = ['text', 'usage', 'reasoning', 'cost', 'timings', 'filter', 'bare', 'tools']

interface Template {
  /** Blocks before the first content, as they came. */
  readonly head: readonly string[]
  /** The first frame with content, and its delta without it. */
  readonly frame: Json
  readonly delta: Json
  /** That of the frames behind it. */
  readonly later: Json
  /** The frame that ends the choice, without content. */
  readonly finish: Json
  /** Frames behind it. */
  readonly tail: readonly Json[]
}

const firstChoice = (json: unknown): Json | null => {
  const [choice] = isObject(json) && Array.isArray(json.choices) ? (json.choices as unknown[]) : []
  return isObject(choice) ? choice : null
}
const deltaOf = (choice: Json | null): Json => (choice !== null && isObject(choice.delta) ? choice.delta : {})
const hasContent = (choice: Json | null): boolean => {
  const { content, tool_calls: called } = deltaOf(choice)
  return (typeof content === 'string' && content !== '') || Array.isArray(called)
}
const withChoice = (frame: Json, change: Json): Json => ({ ...frame, choices: [{ ...firstChoice(frame), ...change }] })

const templateOf = (kind: string): Template => {
  const blocks = blocksOf(recordedStream(kind, STREAMS, 'sse'))
  const first = blocks.findIndex(({ json }) => hasContent(firstChoice(json)))
  const last = blocks.findIndex(({ json }) => typeof firstChoice(json)?.finish_reason === 'string')
  const frame = blocks[first]?.json
  const finish = blocks[last]?.json
  if (!isObject(frame) || !isObject(finish)) throw new Error(`the recorded stream of ${kind} has no content or no end`)
  const { content: _, tool_calls: _calls, ...delta } = deltaOf(firstChoice(frame))
  // Some repeat the role with every piece; their next frame shows which.
  const { role, ...roleless } = delta
  const second = deltaOf(firstChoice(blocks[first + 1]?.json))
  const later = second.role === undefined ? roleless : { role, ...roleless }
  return {
    head: blocks.slice(0, first).map(({ text }) => text),
    frame: first === last ? withChoice({ ...frame, usage: undefined }, { finish_reason: null }) : frame,
    delta,
    later,
    finish,
    tail: blocks.slice(last + 1).flatMap(({ json }) => (isObject(json) ? [json] : [])),
  }
}

const callDeltas = (reply: Extract<Reply, { calls: unknown }>, rules: Rules): Json[] => {
  const calls = madeCalls(reply, rules)
  if (rules.calls === 'whole')
    return [{ content: '', tool_calls: calls.map((call, index) => ({ ...call, index, type: undefined })) }]
  if (rules.calls === 'without index') return calls.map((call) => ({ tool_calls: [call] }))
  return calls.flatMap((call, index) => {
    const { name, arguments: args } = call.function as { name: string; arguments: string }
    const fragments = pieces(args).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] }))
    return [{ tool_calls: [{ index, id: call.id, type: 'function', function: { name, arguments: '' } }] }, ...fragments]
  })
}

const isUsageOnly = (frame: Json): boolean => Array.isArray(frame.choices) && frame.choices.length === 0

/**
 * The recorded stream with other content. Usage comes as recorded; a separate frame for it only when it is requested.
 */
export const streamed = (kind: string, { usage }: Asked, reply: Reply, rules: Rules): Spoken => {
  const { head, frame, delta, later, finish, tail } = templateOf(kind)
  const deltas = 'text' in reply ? pieces(reply.text).map((content) => ({ content })) : callDeltas(reply, rules)
  const reason = 'text' in reply ? firstChoice(finish)!.finish_reason : 'tool_calls'
  let text = ''
  /** Some repeat with every piece the text before it. */
  const soFar = (one: Json): Json => {
    text += typeof one.content === 'string' ? one.content : ''
    return isObject(firstChoice(frame)?.message) ? { message: { role: 'assistant', content: text } } : {}
  }
  const behind = tail.filter((one) => usage || !isUsageOnly(one))
  const counted = [finish, ...behind].some((one) => isObject(one.usage) || isObject(one.x_groq))
  const frames = [
    ...deltas.map((one, i) => withChoice(frame, { delta: { ...(i === 0 ? delta : later), ...one }, ...soFar(one) })),
    withChoice(finish, {
      ...soFar({}),
      delta: 'text' in reply && deltaOf(firstChoice(finish)).content !== undefined ? { content: '' } : {},
      finish_reason: typeof reason === 'string' && reason !== 'tool_calls' ? reason : 'text' in reply ? 'stop' : reason,
    }),
    ...behind,
    ...(usage && !counted ? [{ ...frame, choices: [], usage: USAGE }] : []),
  ]
  const blocks = [...head, ...frames.map((one) => `data: ${JSON.stringify(one)}`), 'data: [DONE]']
  return spoken('text/event-stream', `${blocks.join('\n\n')}\n\n`)
}
