// Control state as tables of immutable rows with secondary indexes. `evolve` returns row changes; applying them is the
// only mutation, so before and after (audit), digests, overlays and the hot indexes all come from the same list.
import { sha256Into } from '../../lib/crypto/digest.ts'

export interface RowChange<Row = unknown> {
  readonly table: string
  readonly id: string
  readonly before: Row | null
  readonly after: Row | null
}

/** The key of a row in an index, several keys, or null: none. */
export type IndexKeys = string | readonly string[] | null
/** Index name -> the keys of a row. */
export type Indexes<Row> = Readonly<Record<string, (row: Row) => IndexKeys>>

export interface TableReader<Row> {
  get(id: string): Row | undefined
  /** The ids of the rows with this index key, in no particular order. */
  find(index: string, key: string): readonly string[]
  /** The rows themselves. */
  findRows(index: string, key: string): readonly Row[]
  /**
   * Of an index that rarely has more than one row under a key: copies these members of one row, null for one that it
   * lacks, into an object that the caller reuses. Returns the number of rows.
   */
  readOne(index: string, key: string, names: ReadonlySet<string>, into: Record<string, unknown>): number
  rows(): IterableIterator<[string, Row]>
  readonly size: number
}

/** A table that is written by `ControlState` only. Rows are never changed in place. */
export interface StoredTable<Row> extends TableReader<Row> {
  readonly name: string
  /** The digest inputs of all rows (`rowText`), in no particular order; bytes are overwritten by the next one. */
  texts(): IterableIterator<string | Uint8Array>
  /** Null: the row is removed. */
  set(id: string, after: Row | null): void
}

/** A table, or an overlay on one: reads fall through to the parent, writes stay here. */
export class Table<Row> implements StoredTable<Row> {
  readonly #rows = new Map<string, Row | null>()
  readonly #indexes = new Map<string, Map<string, Set<string>>>()
  readonly #indexed: readonly { keysOf: (row: Row) => IndexKeys; index: Map<string, Set<string>> }[]
  #size: number

  constructor(
    readonly name: string,
    readonly indexes: Indexes<Row>,
    readonly parent: TableReader<Row> | null = null,
  ) {
    this.#size = parent?.size ?? 0
    this.#indexed = Object.entries(indexes).map(([name, keysOf]) => {
      const index = new Map<string, Set<string>>()
      this.#indexes.set(name, index)
      return { keysOf, index }
    })
  }

  get size(): number {
    return this.#size
  }

  get(id: string): Row | undefined {
    const own = this.#rows.get(id)
    if (own !== undefined) return own ?? undefined
    return this.parent?.get(id)
  }

  find(index: string, key: string): readonly string[] {
    const own = this.#indexes.get(index)?.get(key)
    if (this.parent === null) return own === undefined ? [] : [...own]
    const inherited = this.parent.find(index, key).filter((id) => !this.#rows.has(id))
    return own === undefined ? inherited : [...inherited, ...own]
  }

  findRows(index: string, key: string): readonly Row[] {
    return this.find(index, key).map((id) => this.get(id)!)
  }

  readOne(index: string, key: string, names: ReadonlySet<string>, into: Record<string, unknown>): number {
    const ids = this.find(index, key)
    const row = ids.length === 0 ? undefined : (this.get(ids[0]!) as Readonly<Record<string, unknown>>)
    if (row !== undefined) for (const name of names) into[name] = row[name] ?? null
    return ids.length
  }

  *rows(): IterableIterator<[string, Row]> {
    if (this.parent !== null) {
      for (const entry of this.parent.rows()) if (!this.#rows.has(entry[0])) yield entry
    }
    for (const [id, row] of this.#rows) if (row !== null) yield [id, row]
  }

  *texts(): IterableIterator<string | Uint8Array> {
    for (const [id, row] of this.rows()) yield rowText(this.name, id, row)
  }

  set(id: string, after: Row | null): void {
    const own = this.#rows.get(id) ?? null
    const inherited = this.parent?.get(id)
    const wasThere = this.#rows.has(id) ? own !== null : inherited !== undefined
    if (after === null && inherited === undefined) this.#rows.delete(id)
    else this.#rows.set(id, after)
    for (const { keysOf, index } of this.#indexed) {
      const old = own && keysOf(own)
      const keys = after && keysOf(after)
      if (old === keys) continue // sets whose members come and go are the largest cost
      if (typeof old === 'string') leave(index, old, id)
      else if (old !== null) for (const key of old) leave(index, key, id)
      if (typeof keys === 'string') join(index, keys, id)
      else if (keys !== null) for (const key of keys) join(index, key, id)
    }
    this.#size += (after === null ? 0 : 1) - (wasThere ? 1 : 0)
  }
}

const join = (index: Map<string, Set<string>>, key: string, id: string): void => {
  const ids = index.get(key)
  if (ids === undefined) index.set(key, new Set([id]))
  else ids.add(id)
}

const leave = (index: Map<string, Set<string>>, key: string, id: string): void => {
  const ids = index.get(key)
  ids?.delete(id)
  if (ids?.size === 0) index.delete(key)
}

/** JSON with sorted keys and without absent values: equal rows have equal text, however they were built. */
export const canonicalJson = (value: unknown): string => {
  try {
    return JSON.stringify(inOrder(value)) ?? 'null'
  } catch (error) {
    if (error === UNORDERED) return memberByMember(value)
    throw error
  }
}

/** Thrown for an object whose names do not keep their order of insertion: names of digits, and `__proto__`. */
const UNORDERED = new Error('the names of an object do not keep their order')
const UNKEPT = /^(?:\d|__proto__$)/

/** A copy with the members of each object sorted, so that one native call writes it, which is faster. */
const inOrder = (value: unknown): unknown => {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.length === 0 ? value : value.map(inOrder)
  const names = Object.keys(value)
  if (names.length === 0) return value
  const copy: Record<string, unknown> = {}
  for (const name of sorted(names)) copy[name] = inOrder((value as Record<string, unknown>)[name])
  return copy
}

/**
 * The rows of a table share few sets of names: the sets that were sorted last are cached, each in the slot of its
 * length and first letter.
 */
const lastSorted: { readonly met: readonly string[]; readonly names: readonly string[] }[] = []
const SLOTS = 256
const MOST_NAMES = 32

const sorted = (met: readonly string[]): readonly string[] => {
  const slot = ((met.length * 31 + met[0]!.charCodeAt(0)) | 0) % SLOTS
  const last = lastSorted[slot]
  if (last !== undefined && sameTexts(last.met, met)) return last.names
  if (met.some((name) => UNKEPT.test(name))) throw UNORDERED
  const names = met.toSorted()
  if (met.length <= MOST_NAMES) lastSorted[slot] = { met, names }
  return names
}

const sameTexts = (one: readonly string[], other: readonly string[]): boolean => {
  if (one.length !== other.length) return false
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false
  return true
}

/** The text of `canonicalJson`, by a plain loop. */
const memberByMember = (value: unknown): string => {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(memberByMember).join(',')}]`
  const members = Object.keys(value)
    .sort()
    .flatMap((name) => {
      const member = (value as Record<string, unknown>)[name]
      return member === undefined ? [] : [`${JSON.stringify(name)}:${memberByMember(member)}`]
    })
  return `{${members.join(',')}}`
}

/** The digest input of a row. Frozen: instances compare digests. */
export const rowText = (table: string, id: string, row: unknown): string =>
  `${headOf(table)}${id}\0${canonicalJson(row)}`

/** The beginning of the texts of a table's rows. */
export const headOf = (table: string): string => `${table}\0`

const DIGEST_BYTES = 32

/**
 * A digest of a set of rows that is updated row by row: the XOR of the rows' SHA-256. Finds divergence, not forgery.
 */
export class RowSetDigest {
  readonly #bytes = new Uint8Array(DIGEST_BYTES)
  readonly #words = new Uint32Array(this.#bytes.buffer)
  readonly #hash = new Uint8Array(DIGEST_BYTES)
  readonly #hashWords = new Uint32Array(this.#hash.buffer)

  constructor(hex?: string) {
    if (hex !== undefined) this.#bytes.set(Buffer.from(hex, 'hex'))
  }

  /** Adds the row when it is absent, removes it when it is present. */
  toggle(table: string, id: string, row: unknown): void {
    this.toggleText(rowText(table, id, row))
  }

  /** Adds or removes a row, like `toggle`, by its text (`rowText`). */
  toggleText(text: string | Uint8Array): void {
    sha256Into(text, this.#hash)
    const words = this.#words
    const hashWords = this.#hashWords
    for (let at = 0; at < words.length; at++) words[at]! ^= hashWords[at]!
  }

  hex(): string {
    return Buffer.from(this.#bytes).toString('hex')
  }
}
