// The form in which an answer is stored, in memory and in Redis: a line of facts that can be read without a key, then
// the sealed content. The seal also authenticates the line, the tenant and the key, so that an entry which was forged,
// cut, swapped or copied to another key does not open.
import { type Static, TypeCompiler, t } from '../../../lib/schema/schema.ts'
import type { Usage } from '../../../providers/port.ts'
import type { ContentKeys } from '../../../state/data-keys/content-keys.ts'
import type { EntrySubject, FlushBook } from '../flush.ts'
import type { RecordedAnswer } from '../replay/recorded.ts'

/** Entries of another version are not read. */
const VERSION = 1
const HEAD = `gatelog-cache/${VERSION} `
const LINE_END = 0x0a
/** The line of facts holds ids and names only. */
export const MOST_HEAD_BYTES = 4_096
/** A short text is not worth packing. */
const PACKED_FROM_BYTES = 512
const PLAIN = 0
const PACKED = 1

const Mode = t.Union([t.Literal('exact'), t.Literal('prefix'), t.Literal('semantic')])
const nullable = <Schema extends ReturnType<typeof t.String | typeof t.Integer>>(schema: Schema) =>
  t.Union([schema, t.Null()])

const Head = t.Object({
  content_key: t.String(),
  tenant: t.String(),
  mode: Mode,
  model: t.String(),
  provider: t.String(),
  endpoint: nullable(t.String()),
  key: t.String(),
  rule: t.String(),
  origin: t.String(),
  created_ms: t.Integer(),
  expires_ms: t.Integer(),
  height: t.Integer(),
})
type Head = Static<typeof Head>
/** Compiled: every hit reads one. */
const HEAD_CHECK = TypeCompiler.Compile(Head)

/** What is known of an entry without opening it. */
export interface EntryFacts extends EntrySubject {
  readonly ruleId: string
  /** The request whose answer it is. */
  readonly originId: string
  readonly createdMs: number
  readonly expiresMs: number
  /** Of the newest flush, as its request was admitted. */
  readonly height: number
}

/** A stored answer. */
export interface StoredAnswer {
  readonly answer: RecordedAnswer
  readonly finishReason: string
  /** As the provider reported it. */
  readonly usage: Usage | null
  /** As they were recorded: estimates where the provider reports none. */
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  /** The cost of its request; null: no price was known. */
  readonly costNanoUsd: number | null
  readonly latencyMs: number
  /** Id of the registry row of the model that answered: it must still be a candidate. */
  readonly modelId: string
  /** The last user message, for the comparison by likeness; null in other modes. */
  readonly text: string | null
}

/** An answer of this gateway to a shorter conversation, with the facts of its own entry. */
export interface StoredTurn {
  /** Exact key of the shorter conversation. */
  readonly key: string
  readonly facts: EntryFacts
  readonly answer: StoredAnswer
}

/** What an entry holds. */
export interface EntryContent extends StoredAnswer {
  /** The newest first (`prefix.ts`). */
  readonly turns: readonly StoredTurn[]
}

/** Why bytes are no entry that may be served. */
export const MISSES = ['unreadable', 'foreign', 'expired', 'flushed', 'erased', 'forged'] as const
export type EntryMiss = (typeof MISSES)[number]

export type EntryKeys = Pick<ContentKeys, 'sealBytes' | 'openBytes'>

const headOf = (facts: EntryFacts, contentKey: string): Head => ({
  content_key: contentKey,
  tenant: facts.tenantId,
  mode: facts.mode,
  model: facts.model,
  provider: facts.provider,
  endpoint: facts.endpoint,
  key: facts.keyId,
  rule: facts.ruleId,
  origin: facts.originId,
  created_ms: facts.createdMs,
  expires_ms: facts.expiresMs,
  height: facts.height,
})

const factsOf = (head: Head): EntryFacts => ({
  tenantId: head.tenant,
  mode: head.mode,
  model: head.model,
  provider: head.provider,
  endpoint: head.endpoint,
  keyId: head.key,
  ruleId: head.rule,
  originId: head.origin,
  createdMs: head.created_ms,
  expiresMs: head.expires_ms,
  height: head.height,
})

/** Everything in front of the seal that the seal depends on. The id of the content key is bound by the seal itself. */
const boundTo = (key: string, facts: EntryFacts): string =>
  JSON.stringify(['cache-entry', VERSION, key, { ...headOf(facts, ''), content_key: undefined }])

/**
 * The plain content of an entry within a bound: the oldest kept turns go first. Null: the answer alone is too large.
 */
export const packEntry = (content: EntryContent, maxBytes: number): Uint8Array | null => {
  for (let turns = content.turns.length; turns >= 0; turns = turns === 0 ? -1 : turns >> 1) {
    const bytes = packed({ ...content, turns: content.turns.slice(0, turns) })
    if (bytes.length <= maxBytes - MOST_HEAD_BYTES) return bytes
  }
  return null
}

/** The bytes of an entry. Rejects where the tenant's content key cannot be made now. */
export const sealEntry = async (
  keys: EntryKeys,
  key: string,
  facts: EntryFacts,
  plain: Uint8Array,
): Promise<Uint8Array> => {
  const { keyId, sealed } = await keys.sealBytes(facts.tenantId, boundTo(key, facts), plain)
  const head = Buffer.from(`${HEAD}${JSON.stringify(headOf(facts, keyId))}\n`)
  if (head.length > MOST_HEAD_BYTES) throw new RangeError('the facts of the entry are too long')
  return Buffer.concat([head, sealed])
}

/** The facts of stored bytes, as yet unproved. Null: they are no entry of this version. */
export const readFacts = (bytes: Uint8Array): EntryFacts | null => {
  const head = readHead(bytes)
  return head === null ? null : factsOf(head.value)
}

const readHead = (bytes: Uint8Array): { value: Head; end: number } | null => {
  const end = bytes.subarray(0, MOST_HEAD_BYTES).indexOf(LINE_END)
  if (end < 0) return null
  const line = Buffer.from(bytes.buffer, bytes.byteOffset, end).toString('utf8')
  if (!line.startsWith(HEAD)) return null
  try {
    const value: unknown = JSON.parse(line.slice(HEAD.length))
    return HEAD_CHECK.Check(value) ? { value, end } : null
  } catch {
    return null // damaged
  }
}

/** What an entry is tested against. */
export interface OpenedFor {
  readonly tenantId: string
  readonly nowMs: number
  readonly flushes: Pick<FlushBook, 'isDead'>
}

export type Opened = { readonly facts: EntryFacts; readonly content: EntryContent; readonly miss: null }

/** Opens an entry that was stored under this key; or why it may not be served. Never throws. */
export const openEntry = (
  keys: EntryKeys,
  key: string,
  bytes: Uint8Array,
  { tenantId, nowMs, flushes }: OpenedFor,
): Opened | { readonly miss: EntryMiss } => {
  const head = readHead(bytes)
  if (head === null) return { miss: 'unreadable' }
  const facts = factsOf(head.value)
  if (facts.tenantId !== tenantId) return { miss: 'foreign' }
  if (facts.expiresMs <= nowMs) return { miss: 'expired' }
  if (flushes.isDead(facts, facts.height)) return { miss: 'flushed' }
  try {
    const sealed = bytes.subarray(head.end + 1)
    const plain = keys.openBytes(tenantId, boundTo(key, facts), head.value.content_key, sealed)
    return plain === null ? { miss: 'erased' } : { facts, content: unpacked(plain), miss: null }
  } catch {
    return { miss: 'forged' } // it does not open under the key it names, or its master key is not here
  }
}

/** The content as bytes: a flag, then its text, packed where that saves something. */
const packed = (content: EntryContent): Uint8Array => {
  const text = Buffer.from(JSON.stringify(content))
  if (text.length < PACKED_FROM_BYTES) return Buffer.concat([Buffer.of(PLAIN), text])
  return Buffer.concat([Buffer.of(PACKED), Bun.zstdCompressSync(text, { level: 1 })])
}

const unpacked = (bytes: Uint8Array): EntryContent => {
  const body = bytes.subarray(1)
  const text = bytes[0] === PACKED ? Bun.zstdDecompressSync(body) : Buffer.from(body)
  return JSON.parse(text.toString('utf8')) as EntryContent // its own text: the seal is proved
}
