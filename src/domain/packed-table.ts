// A table for very many rows: packed in bytes and made into objects when they are asked for. A million rows are some thousand buffers, not a
// million objects that every collection has to walk. Its rows come in no particular order.
import { HashSlots } from '../lib/hash-slots.ts'
import { NumberLists } from '../lib/number-lists.ts'
import { RowPacker } from '../lib/packed-rows.ts'
import { RowPages } from '../lib/row-pages.ts'
import type { Indexes, StoredTable } from './tables.ts'

/** How the rows of a table are packed. */
export interface Packing {
  /** Members whose values many rows have in common: stored once. */
  readonly shared: readonly string[]
  /** Indexes under whose keys there is hardly ever more than one row. */
  readonly nearlyUnique: readonly string[]
}

interface Index<Row> {
  readonly keyOf: (row: Row) => string | null
  readonly held: NumberLists | HashSlots
}

export class PackedTable<Row extends object> implements StoredTable<Row> {
  readonly #pages = new RowPages()
  readonly #packer: RowPacker<Row>
  readonly #byId = new HashSlots()
  readonly #indexes: ReadonlyMap<string, Index<Row>>
  /** Numbers of rows that are gone, to be given again. */
  readonly #free: number[] = []
  #numbers = 0
  #size = 0
  /** The row read or written last: a decision reads what it then changes. */
  #last: { readonly id: string; readonly number: number; readonly row: Row } | null = null

  constructor(
    readonly name: string,
    indexes: Indexes<Row>,
    { shared, nearlyUnique }: Packing,
  ) {
    this.#packer = new RowPacker(shared)
    this.#indexes = new Map(
      Object.entries(indexes).map(([index, keyOf]) => {
        const held = nearlyUnique.includes(index) ? new HashSlots() : new NumberLists()
        return [index, { keyOf, held }]
      }),
    )
  }

  get size(): number {
    return this.#size
  }

  get(id: string): Row | undefined {
    return this.#held(id)?.row
  }

  find(index: string, key: string): readonly string[] {
    const { held, keyOf } = this.#indexes.get(index)!
    if (held instanceof NumberLists) return held.of(key).map((number) => this.#idOf(number))
    const ids: string[] = []
    held.find(hashOf(key), (number) => {
      if (keyOf(this.#rowOf(number)) === key) ids.push(this.#idOf(number))
      return false // there may be others
    })
    return ids
  }

  findRows(index: string, key: string, names: ReadonlySet<string> | null = null): readonly Row[] {
    const { held, keyOf } = this.#indexes.get(index)!
    if (held instanceof NumberLists) return held.of(key).map((number) => this.#rowOf(number, names))
    const rows: Row[] = []
    held.find(hashOf(key), (number) => {
      const row = this.#rowOf(number, names)
      if (keyOf(row) === key) rows.push(row)
      return false // there may be others
    })
    return rows
  }

  *rows(): IterableIterator<[string, Row]> {
    for (let number = 0; number < this.#numbers; number++) {
      if (this.#pages.has(number)) yield [this.#idOf(number), this.#rowOf(number)]
    }
  }

  set(id: string, after: Row | null): void {
    const hash = hashOf(id)
    const before = this.#held(id)
    if (after === null && before === null) return
    const number = before?.number ?? this.#free.pop() ?? this.#numbers++
    this.#reindex(number, before?.row ?? null, after)
    this.#last = null
    if (after === null) {
      this.#byId.remove(hash, number)
      this.#pages.remove(number)
      this.#free.push(number)
      this.#size -= 1
      return
    }
    this.#pages.put(number, this.#packer.pack(id, after))
    this.#last = { id, number, row: after }
    if (before !== null) return
    this.#byId.add(hash, number)
    this.#size += 1
  }

  #held(id: string): { readonly number: number; readonly row: Row } | null {
    if (this.#last?.id === id) return this.#last
    const number = this.#byId.find(hashOf(id), (one) => this.#idOf(one) === id)
    if (number === -1) return null
    this.#last = { id, number, row: this.#rowOf(number) }
    return this.#last
  }

  #reindex(number: number, before: Row | null, after: Row | null): void {
    for (const { keyOf, held } of this.#indexes.values()) {
      const old = before && keyOf(before)
      const key = after && keyOf(after)
      if (old === key) continue
      if (held instanceof NumberLists) {
        if (old !== null) held.remove(old, number)
        if (key !== null) held.add(key, number)
      } else {
        if (old !== null) held.remove(hashOf(old), number)
        if (key !== null) held.add(hashOf(key), number)
      }
    }
  }

  #idOf(number: number): string {
    return this.#packer.idAt(this.#pages.bytesOf(number), this.#pages.offsetOf(number))
  }

  #rowOf(number: number, names: ReadonlySet<string> | null = null): Row {
    return this.#packer.rowAt(this.#pages.bytesOf(number), this.#pages.offsetOf(number), names)
  }
}

/** `evolve` is total: it may look for what is no text, of which there is nothing. */
const hashOf = (text: unknown): number => {
  if (text === hashedText) return textHash // a decision asks for a row, then changes it
  if (typeof text !== 'string') return 0
  hashedText = text
  textHash = Bun.hash.xxHash32(text)
  return textHash
}

let hashedText = ''
let textHash = Bun.hash.xxHash32('')
