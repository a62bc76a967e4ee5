// Answers that a longer conversation keeps. A client that continues a conversation sends back what the assistant said
// before. Where this gateway produced that message itself, the entry of the longer conversation keeps the produced
// answer under the key of the shorter one, and can give it after the shorter entry is evicted. What a client merely
// claims is never kept. Pure.
import { isObject } from '../../wire/json.ts'
import { type Boundary, type KeyBody, MOST_BOUNDARIES } from './key.ts'

/** An answer of this gateway as far as a later conversation can show it. */
export interface ProducedText {
  readonly content: string | null
  readonly refusal: string | null
}

/** A message of the assistant that this gateway is known to have produced. */
export interface KeptTurn<Entry> {
  /** Exact key of the conversation that it answers. */
  readonly key: string
  readonly entry: Entry
}

/** Where the produced answer of a key is found: an entry of its own, or one that another entry keeps. */
export type Produced<Entry> = (key: string) => { readonly entry: Entry; readonly text: ProducedText } | null

/** The assistant's messages of a conversation that are equal to what this gateway produced there, the newest first. */
export const keptTurns = <Entry>(
  boundaries: readonly Boundary[],
  { body }: Pick<KeyBody, 'body'>,
  produced: Produced<Entry>,
): readonly KeptTurn<Entry>[] => {
  const messages: readonly unknown[] = Array.isArray(body.messages) ? body.messages : []
  const kept: KeptTurn<Entry>[] = []
  for (const { key, at } of boundaries.slice(0, MOST_BOUNDARIES)) {
    const found = produced(key)
    if (found !== null && isClaimed(messages[at], found.text)) kept.push({ key, entry: found.entry })
  }
  return kept
}

/** Members that a client sends back with an assistant's message. Another one may carry what was not produced here. */
const KNOWN: ReadonlySet<string> = new Set(['role', 'content', 'refusal', 'annotations', 'audio', 'name'])

/** Whether the message is exactly the produced answer. */
const isClaimed = (message: unknown, { content, refusal }: ProducedText): boolean => {
  if (!isObject(message) || message.role !== 'assistant') return false
  for (const name of Object.keys(message)) if (!KNOWN.has(name) && isFilled(message[name])) return false
  if (isFilled(message.audio) || isFilled(message.name)) return false
  return textOf(message.content) === (content ?? '') && textOf(message.refusal) === (refusal ?? '')
}

const isFilled = (value: unknown): boolean =>
  value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0)

/** Null for a content that is more than one text. */
const textOf = (content: unknown): string | null => {
  if (content === undefined || content === null) return ''
  if (typeof content === 'string') return content
  if (!Array.isArray(content) || content.length !== 1) return null
  const [part] = content as readonly unknown[]
  return isObject(part) && part.type === 'text' && typeof part.text === 'string' ? part.text : null
}
