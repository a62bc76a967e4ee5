// A table for very many rows: packed in bytes and made into objects when they are asked for. A million rows are some thousand buffers, not a
// million objects that every collection has to walk. Its rows come in no particular order.
import { HashSlots } from '../lib/hash-slots.ts'
import { NumberLists } from '../lib/number-lists.ts'
import type { RowReader } from '../lib/packed-row-reader.ts'
import { RowPacker } from '../lib/packed-rows.ts'
import { RowPages } from '../lib/row-pages.ts'
import type { Indexes, StoredTable } from './tables.ts'

/** How the rows of a table are packed. */
export interface Packing {
  /** Members whose values many rows have in common: stored once. */
  readonly shared: readonly string[]
  /** Indexes under whose keys there is hardly ever more than one row. Each has the name of the member whose text is its key. */
  readonly nearlyUnique: readonly string[]
}

interface Index<Row> {
  readonly keyOf: (row: Row) => string | null
  readonly held: NumberLists | HashSlots
}

export class PackedTable<Row extends object> implements StoredTable<Row> {
  readonly #pages = new RowPages()
  readonly #packer: RowPacker<Row>
  readonly #reader: RowReader<Row>
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
    this.#reader = this.#packer.reader
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
    const { held } = this.#indexes.get(index)!
    if (held instanceof NumberLists) return held.of(key).map((number) => this.#idOf(number))
    const ids: string[] = []
    for (let number = held.first(hashOf(key)); number !== -1; number = held.next())
      if (this.#isAt(number, index, key)) ids.push(this.#idOf(number))
    return ids
  }

  findRows(index: string, key: string): readonly Row[] {
    const { held } = this.#indexes.get(index)!
    if (held instanceof NumberLists) return held.of(key).map((number) => this.#rowOf(number))
    const rows: Row[] = []
    for (let number = held.first(hashOf(key)); number !== -1; number = held.next())
      if (this.#isAt(number, index, key)) rows.push(this.#rowOf(number))
    return rows
  }

  readOne(index: string, key: string, names: ReadonlySet<string>, into: Record<string, unknown>): number {
    const { held } = this.#indexes.get(index)!
    if (held instanceof NumberLists) throw new RangeError(`many rows of ${this.name} have one ${index}`)
    let count = 0
    for (let number = held.first(hashOf(key)); number !== -1; number = held.next()) {
      if (!this.#isAt(number, index, key)) continue
      count += 1
      this.#reader.readInto(this.#pages.bytesOf(number), this.#pages.offsetOf(number), names, into)
    }
    return count
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
    let number = this.#byId.first(hashOf(id))
    while (number !== -1 && this.#idOf(number) !== id) number = this.#byId.next()
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
    return this.#reader.idAt(this.#pages.bytesOf(number), this.#pages.offsetOf(number))
  }

  #isAt(number: number, name: string, text: string): boolean {
    return this.#reader.isAt(this.#pages.bytesOf(number), this.#pages.offsetOf(number), name, text)
  }

  #rowOf(number: number): Row {
    return this.#reader.rowAt(this.#pages.bytesOf(number), this.#pages.offsetOf(number))
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
