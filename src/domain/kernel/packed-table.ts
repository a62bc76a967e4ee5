// A table for very many rows: packed in bytes, made into objects on access. A million rows are some thousand buffers
// instead of a million objects that every garbage collection has to walk. Its rows come in no particular order.
import { HashSlots, NumberLists, RowPacker, RowPages, type RowReader } from '../../lib/packed-table/packed-table.ts'
import { canonicalJson, headOf, type Indexes, type IndexKeys, rowText, type StoredTable } from './tables.ts'

/** How the rows of a table are packed. */
export interface Packing {
  /** Members with values that many rows share: each value is stored once. */
  readonly shared: readonly string[]
  /** Indexes that rarely have more than one row under a key. Each has the name of the member whose text is its key. */
  readonly nearlyUnique: readonly string[]
}

interface List<Row> {
  readonly keyOf: (row: Row) => string | null
  readonly numbers: NumberLists
}

/**
 * Rows of an index with few rows under a key: their slots, so that a reader need not look up the slot of each number.
 */
interface Slots<Row> {
  readonly keyOf: (row: Row) => string | null
  readonly places: HashSlots
  /** The name of the index, which is that of its member. */
  readonly member: ReadonlySet<string>
}

export class PackedTable<Row extends object> implements StoredTable<Row> {
  readonly #pages = new RowPages((_, from, to) => this.#moved(from, to))
  readonly #packer: RowPacker<Row>
  readonly #reader: RowReader<Row>
  readonly #byId = new HashSlots()
  readonly #lists = new Map<string, List<Row>>()
  readonly #slots = new Map<string, Slots<Row>>()
  /** Numbers of removed rows, for reuse. */
  readonly #free: number[] = []
  #numbers = 0
  #size = 0
  /** The row that was read or written last: a decision reads the rows that it then changes. */
  #last: { readonly id: string; readonly number: number; readonly row: Row } | null = null

  constructor(
    readonly name: string,
    indexes: Indexes<Row>,
    { shared, nearlyUnique }: Packing,
  ) {
    this.#packer = new RowPacker(shared)
    this.#reader = this.#packer.reader
    for (const [index, keysOf] of Object.entries(indexes)) {
      const keyOf = (row: Row) => onlyKey(keysOf(row))
      if (nearlyUnique.includes(index)) {
        this.#slots.set(index, { keyOf, places: new HashSlots(), member: new Set([index]) })
      } else this.#lists.set(index, { keyOf, numbers: new NumberLists() })
    }
  }

  get size(): number {
    return this.#size
  }

  get(id: string): Row | undefined {
    return this.#held(id)?.row
  }

  find(index: string, key: string): readonly string[] {
    return this.#placesOf(index, key).map((place) => this.#idAt(place))
  }

  findRows(index: string, key: string): readonly Row[] {
    return this.#placesOf(index, key).map((place) => this.#rowAt(place))
  }

  readOne(index: string, key: string, names: ReadonlySet<string>, into: Record<string, unknown>): number {
    const { places } = this.#slots.get(index)!
    let count = 0
    for (let place = places.first(hashOf(key)); place !== 0; place = places.next()) {
      const bytes = this.#pages.bytesAt(place)
      const offset = this.#pages.offsetAt(place)
      if (!this.#reader.isAt(bytes, offset, index, key)) continue
      count += 1
      this.#reader.readInto(bytes, offset, names, into)
    }
    return count
  }

  *rows(): IterableIterator<[string, Row]> {
    for (let number = 0; number < this.#numbers; number++) {
      const place = this.#pages.placeOf(number)
      if (place !== 0) yield [this.#idAt(place), this.#rowAt(place)]
    }
  }

  *texts(): IterableIterator<string | Uint8Array> {
    const head = Buffer.from(headOf(this.name))
    const json = this.#packer.json(canonicalJson)
    for (let number = 0; number < this.#numbers; number++) {
      const place = this.#pages.placeOf(number)
      if (place === 0) continue
      const text = json.write(head, this.#pages.bytesAt(place), this.#pages.offsetAt(place))
      yield text ?? rowText(this.name, this.#idAt(place), this.#rowAt(place))
    }
  }

  set(id: string, after: Row | null): void {
    const hash = hashOf(id)
    const before = this.#held(id)
    if (after === null && before === null) return
    const number = before?.number ?? this.#free.pop() ?? this.#numbers++
    const row = before?.row ?? null
    const from = before === null ? 0 : this.#pages.placeOf(number)
    this.#relist(number, row, after)
    this.#last = null
    if (after === null) {
      this.#reslot(row, null, from, 0)
      this.#byId.remove(hash, from)
      this.#pages.remove(number)
      this.#free.push(number)
      this.#size -= 1
      return
    }
    this.#pages.put(number, this.#packer.pack(id, after))
    const to = this.#pages.placeOf(number)
    this.#reslot(row, after, from, to)
    this.#last = { id, number, row: after }
    if (before !== null) this.#byId.replace(hash, from, to)
    else {
      this.#byId.add(hash, to)
      this.#size += 1
    }
  }

  #held(id: string): { readonly number: number; readonly row: Row } | null {
    if (this.#last?.id === id) return this.#last
    let place = this.#byId.first(hashOf(id))
    while (place !== 0 && this.#idAt(place) !== id) place = this.#byId.next()
    if (place === 0) return null
    this.#last = { id, number: this.#pages.numberAt(place), row: this.#rowAt(place) }
    return this.#last
  }

  #placesOf(index: string, key: string): readonly number[] {
    const list = this.#lists.get(index)
    if (list !== undefined) return list.numbers.of(key).map((number) => this.#pages.placeOf(number))
    const { places } = this.#slots.get(index)!
    const found: number[] = []
    for (let place = places.first(hashOf(key)); place !== 0; place = places.next()) {
      if (this.#reader.isAt(this.#pages.bytesAt(place), this.#pages.offsetAt(place), index, key)) found.push(place)
    }
    return found
  }

  #relist(number: number, before: Row | null, after: Row | null): void {
    for (const { keyOf, numbers } of this.#lists.values()) {
      const old = before && keyOf(before)
      const key = after && keyOf(after)
      if (old === key) continue
      if (old !== null) numbers.remove(old, number)
      if (key !== null) numbers.add(key, number)
    }
  }

  /** A row moved to another slot, or its index key changed. */
  #reslot(before: Row | null, after: Row | null, from: number, to: number): void {
    for (const { keyOf, places } of this.#slots.values()) {
      const old = before && keyOf(before)
      const key = after && keyOf(after)
      if (old !== null && old === key) places.replace(hashOf(key), from, to)
      else {
        if (old !== null) places.remove(hashOf(old), from)
        if (key !== null) places.add(hashOf(key), to)
      }
    }
  }

  /** The row was moved with others, so that its page could be freed. */
  #moved(from: number, to: number): void {
    this.#byId.replace(hashOf(this.#idAt(to)), from, to)
    const bytes = this.#pages.bytesAt(to)
    const offset = this.#pages.offsetAt(to)
    for (const [index, { member, places }] of this.#slots) {
      const read: Record<string, unknown> = {}
      this.#reader.readInto(bytes, offset, member, read)
      places.replace(hashOf(read[index]), from, to)
    }
  }

  #idAt(place: number): string {
    return this.#reader.idAt(this.#pages.bytesAt(place), this.#pages.offsetAt(place))
  }

  #rowAt(place: number): Row {
    return this.#reader.rowAt(this.#pages.bytesAt(place), this.#pages.offsetAt(place))
  }
}

/** `evolve` is total: it may look up a value that is no text, for which there is no row. */
const hashOf = (text: unknown): number => {
  if (text === hashedText) return textHash // a decision reads a row, then changes it
  if (typeof text !== 'string') return 0
  hashedText = text
  textHash = Bun.hash.xxHash32(text)
  return textHash
}

/** Module state: a cache of one entry for a pure function. */
let hashedText = ''
let textHash = Bun.hash.xxHash32('')

/** A packed row has at most one key in an index. */
const onlyKey = (keys: IndexKeys): string | null => {
  if (keys !== null && typeof keys !== 'string') throw new Error('a packed table has no index of several keys')
  return keys
}
