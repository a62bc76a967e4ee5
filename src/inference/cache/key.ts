// The key of a request in the response cache, the keys of the shorter conversations that it continues, and the
// partition within which its last message may be compared by likeness. Pure.
import { hmacHex, sha256Hex } from '../../lib/crypto/digest.ts'
import { canonicalForm, mayChangeNumbers, parseForCanonical } from '../../lib/json/canonical-form.ts'
import { isObject } from '../../wire/json.ts'

/** A change of what a key is made of gives other keys. */
const VERSION = 1

/**
 * Members of a body that do not change the answer. Every other member does, known or not. The model is in the key by
 * its registry name, and messages by their chain.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  'stream',
  'stream_options',
  'user',
  'metadata',
  'store',
  'model',
  'messages',
])
const CONTENT: ReadonlySet<string> = new Set(['content'])

/** A boundary further back is not searched. */
export const MOST_BOUNDARIES = 8

/** One dimension by which a rule separates entries, and the request's value. */
export type PartitionValue = readonly [dimension: string, value: string]

/** What a key depends on beside the body. */
export interface KeyFields {
  readonly tenantId: string
  /** Slug of the endpoint scope. */
  readonly scope: string | null
  /** Registry name of the model. */
  readonly model: string
  /** Identity of the effective policy. */
  readonly policy: string
  readonly partition: readonly PartitionValue[]
  /** `tool_execution` as the client sent it, which is no member of a forwarded body. Undefined: absent. */
  readonly toolExecution?: unknown
}

/** A shorter conversation that ends where an assistant's message follows. */
export interface Boundary {
  /** Its exact key. */
  readonly key: string
  /** Index of the assistant's message in the longer conversation. */
  readonly at: number
}

export interface CacheKeys {
  /** 64 hex digits. */
  readonly exact: string
  /** The newest first, at most `MOST_BOUNDARIES`. */
  readonly boundaries: readonly Boundary[]
  /** Requests that differ in the text of the last user message only. Null: that message is more than text. */
  readonly likeness: Likeness | null
}

/** The last user message, to be compared by likeness. */
export interface Likeness {
  /** 64 hex digits: equal where all else is equal. */
  readonly partition: string
  readonly text: string
}

/** A forwarded body: its text, and the same parsed. */
export interface KeyBody {
  readonly raw: string
  readonly body: Readonly<Record<string, unknown>>
}

/** The keys of a request under the key of digests. `wantsLikeness`: the partition of the last message is needed. */
export const cacheKeys = (
  digestKey: Uint8Array,
  fields: KeyFields,
  { raw, body }: KeyBody,
  wantsLikeness = false,
): CacheKeys => {
  const exactBody = mayChangeNumbers(raw) ? (parseForCanonical(raw) as KeyBody['body']) : body
  const messages: readonly unknown[] = Array.isArray(exactBody.messages) ? exactBody.messages : []
  const start = sha256Hex(headOf(fields, exactBody))
  const lastUser = wantsLikeness ? messages.findLastIndex((message) => roleOf(message) === 'user') : -1
  const text = lastUser < 0 ? null : textOf(messages[lastUser])
  const boundaries: Boundary[] = []
  let chain = start
  let likeness = start
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]
    if (i > 0 && roleOf(message) === 'assistant') boundaries.push({ key: chain, at: i })
    const form = canonicalForm(message)
    chain = sha256Hex(chain + form)
    if (text !== null) likeness = sha256Hex(likeness + (i === lastUser ? openForm(message) : form))
  }
  const newest = boundaries.slice(-MOST_BOUNDARIES).reverse()
  return {
    exact: exactKey(digestKey, chain),
    boundaries: newest.map(({ key, at }) => ({ key: exactKey(digestKey, key), at })),
    likeness: text === null ? null : { partition: hmacHex(digestKey, `likeness\n${likeness}`), text },
  }
}

const exactKey = (digestKey: Uint8Array, chain: string): string => hmacHex(digestKey, `exact\n${chain}`)

/** All that the key depends on but the messages. */
const headOf = (fields: KeyFields, body: KeyBody['body']): string => {
  const { tenantId, scope, model, policy, partition, toolExecution } = fields
  const outside = toolExecution === undefined ? [] : [toolExecution]
  const about = canonicalForm([VERSION, tenantId, scope, model, policy, partition, outside])
  return `${about}\n${canonicalForm(body, LEFT_OUT)}`
}

const roleOf = (message: unknown): unknown => (isObject(message) ? message.role : undefined)

/** The text of a message that is nothing but text; null for any other. */
const textOf = (message: unknown): string | null => {
  const content = isObject(message) ? message.content : null
  if (typeof content === 'string') return content
  if (!Array.isArray(content) || content.length !== 1) return null
  const [part] = content as readonly unknown[]
  if (!isObject(part) || part.type !== 'text' || Object.keys(part).length !== 2) return null
  return typeof part.text === 'string' ? part.text : null
}

/** A message without its text: as a string and as a part are two forms. */
const openForm = (message: unknown): string => {
  const content = isObject(message) ? message.content : null
  return `${canonicalForm(message, CONTENT)}\n${typeof content === 'string' ? 'string' : 'part'}`
}
