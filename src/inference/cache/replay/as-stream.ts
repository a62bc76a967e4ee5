// A stored answer as the parts of a stream, as if it came from an upstream.
import { editMembers } from '../../../lib/json/edit.ts'
import { parseExact } from '../../../lib/json/exact-json.ts'
import type { StreamPart, Usage } from '../../../providers/port.ts'
import { isObject } from '../../../wire/json.ts'
import type { RecordedAnswer } from './recorded.ts'
import { textCuts } from './text-cuts.ts'

/** A whole answer is cut into so many pieces of each text at most. */
const MOST_PIECES = 256

type Members = Readonly<Record<string, unknown>>

export interface ReplayedFor {
  /** The client requested the usage. */
  readonly includeUsage: boolean
  /** As it was recorded. */
  readonly usage: Usage | null
}

/** The parts of a stored answer, in order. The usage stands in the last one. */
export const asStream = (recorded: RecordedAnswer, { includeUsage, usage }: ReplayedFor): readonly StreamPart[] => {
  const { chunks, usageChunk } = recorded.form === 'stream' ? recorded : chunksOf(recorded.json)
  const parts = chunks.map((json) => partOf(includeUsage ? json : withoutUsage(json)))
  if (usageChunk !== null && includeUsage) parts.push(usagePart(usageChunk, usage))
  else if (usage !== null && parts.length > 0) parts[parts.length - 1] = { ...parts.at(-1)!, usage }
  return parts
}

/** The usage of a chunk is for clients who requested it. */
const withoutUsage = (json: string): string =>
  json.includes('"usage"') ? editMembers(json, new Map([['usage', { do: 'remove' }]])) : json

const usagePart = (json: string, usage: Usage | null): StreamPart => ({
  json,
  content: false,
  text: '',
  bytes: 0,
  finishReason: null,
  usage,
  usageOnly: true,
  toolNames: [],
})

/** Members of a delta that a client shows. */
const SHOWN: ReadonlySet<string> = new Set([
  ...['content', 'refusal', 'reasoning', 'reasoning_content', 'reasoning_details', 'thinking', 'audio', 'images'],
])
const isFilled = (value: unknown): boolean =>
  value !== null && value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)

const partOf = (json: string): StreamPart => {
  const chunk: unknown = JSON.parse(json)
  const choices: readonly unknown[] = isObject(chunk) && Array.isArray(chunk.choices) ? chunk.choices : []
  let text = ''
  let bytes = 0
  let finishReason: string | null = null
  let content = false
  for (const choice of choices) {
    if (!isObject(choice)) continue
    const delta = isObject(choice.delta) ? choice.delta : {}
    for (const [name, value] of Object.entries(delta)) {
      if (!SHOWN.has(name) || !isFilled(value)) continue
      content = true
      bytes += Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value))
    }
    if ((choice.index ?? 0) !== 0) continue
    if (typeof delta.content === 'string') text += delta.content
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '') finishReason = choice.finish_reason
  }
  return { json, content, text, bytes, finishReason, usage: null, usageOnly: false, toolNames: [] }
}

/** Members of an answer that every chunk repeats; the others stand in the first chunk only. */
const REPEATED = ['id', 'created', 'model', 'system_fingerprint', 'service_tier'] as const
/** Members of an answer that have another place in a stream. */
const MOVED: ReadonlySet<string> = new Set([...REPEATED, 'object', 'choices', 'usage', 'gateway'])

/** A whole answer as chunks. */
const chunksOf = (json: string): { chunks: readonly string[]; usageChunk: string | null } => {
  const answer = parseExact(json)
  if (!isObject(answer)) return { chunks: [], usageChunk: null }
  const head: Record<string, unknown> = {}
  for (const name of REPEATED) if (answer[name] !== undefined) head[name] = answer[name]
  const shared = { ...head, object: 'chat.completion.chunk' }
  const own = Object.fromEntries(Object.entries(answer).filter(([name]) => !MOVED.has(name)))
  const choices: readonly unknown[] = Array.isArray(answer.choices) ? answer.choices : []
  const chunks = choices.flatMap((choice, place) => (isObject(choice) ? choiceChunks(choice, place) : []))
  return {
    chunks: chunks.map((choice, i) => JSON.stringify({ ...shared, ...(i === 0 ? own : {}), choices: [choice] })),
    usageChunk: isObject(answer.usage) ? JSON.stringify({ ...shared, choices: [], usage: answer.usage }) : null,
  }
}

const CHOICE_MOVED: ReadonlySet<string> = new Set(['index', 'message', 'finish_reason', 'logprobs'])
/** Members of a message whose text is cut; the order is the one in which models write. */
const BEFORE = ['reasoning', 'reasoning_content', 'thinking'] as const
const AFTER = ['content', 'refusal'] as const
const CUT: ReadonlySet<string> = new Set(['role', ...BEFORE, ...AFTER])

/** One choice of a whole answer as the choices of chunks. */
const choiceChunks = (choice: Members, place: number): Members[] => {
  const index = choice.index ?? place
  const message: Members = isObject(choice.message) ? choice.message : {}
  const { logprobs } = choice
  const deltas: Members[] = [{ role: message.role ?? 'assistant' }]
  deltas.push(...cutMembers(message, BEFORE, MOST_PIECES))
  const whole = Object.entries(message).filter(([name, value]) => !CUT.has(name) && isFilled(value))
  if (whole.length > 0) deltas.push(Object.fromEntries(whole))
  // Probabilities are those of the tokens of a text, which are not known by words.
  const isScored = logprobs !== undefined && logprobs !== null
  const texts = cutMembers(message, AFTER, isScored ? 1 : MOST_PIECES)
  const chunks: Members[] = deltas.map((delta) => ({ index, delta, finish_reason: null }))
  for (const [i, delta] of texts.entries())
    chunks.push({ index, delta, ...(isScored && i === 0 ? { logprobs } : {}), finish_reason: null })
  const own = Object.entries(choice).filter(([name]) => !CHOICE_MOVED.has(name))
  chunks.push({ index, delta: {}, ...Object.fromEntries(own), finish_reason: choice.finish_reason ?? null })
  return chunks
}

/** The deltas of these members: equal texts side by side, others one after the other. */
const cutMembers = (message: Members, names: readonly string[], mostPieces: number): Members[] => {
  const deltas: Members[] = []
  const byText = new Map<string, string[]>()
  for (const name of names) {
    const value = message[name]
    if (typeof value === 'string') {
      if (value !== '') byText.set(value, [...(byText.get(value) ?? []), name])
    } else if (isFilled(value)) deltas.push({ [name]: value })
  }
  for (const [text, same] of byText)
    for (const piece of textCuts(text, mostPieces)) deltas.push(Object.fromEntries(same.map((name) => [name, piece])))
  return deltas
}
