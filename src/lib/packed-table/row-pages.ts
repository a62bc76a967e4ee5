// Byte strings by number, packed one after another in pages: millions of them are a few hundred buffers, whose contents
// a collection never walks. A replaced record is appended at the end; a page that is a quarter dead is moved to the end
// as well, so no step takes longer than a page.

const FIRST_PAGE_BYTES = 131_072
/**
 * Large, so that the buffer objects of a million rows stay in the processor's cache: a look-up then misses it only for
 * the place and the record.
 */
const PAGE_BYTES = 1_048_576
/** Before each record: its number and its length (0 for a record alone in its page). */
const HEADER_BYTES = 6
const MOST_TOGETHER_BYTES = 65_535
const FIRST_CAPACITY = 64
const KEPT_SHARE = 0.75
/** A place is the page number plus one (0: none), and in the lower bits the offset in words. */
const WORD_BYTES = 4
const WORD_BITS = 18
const WORD_MASK = 2 ** WORD_BITS - 1
const MOST_PAGES = 2 ** (32 - WORD_BITS) - 1

interface Page {
  readonly bytes: Buffer
  /** Holds one record that is too large to share a page. */
  readonly alone: boolean
  used: number
  live: number
}

export class RowPages {
  /** Pages by their number; null: emptied. */
  readonly #pages: (Page | null)[] = []
  readonly #freePages: number[] = []
  #last = -1
  /** Place of a record by its number; 0: none. */
  #places = new Uint32Array(FIRST_CAPACITY)

  /** Called for each record that is moved so that its page can be freed. It must not put or remove. */
  constructor(readonly onMoved: (number: number, from: number, to: number) => void = () => {}) {}

  has(number: number): boolean {
    return this.placeOf(number) !== 0
  }

  /**
   * The place of this record, valid until it is put again, removed or moved; 0 for none. A caller that has the place
   * need not call this first.
   */
  placeOf(number: number): number {
    return number < this.#places.length ? this.#places[number]! : 0
  }

  /** The buffer of a place. */
  bytesAt(place: number): Buffer {
    return this.#pages[pageOf(place)]!.bytes
  }

  /** The offset of the record in that buffer. */
  offsetAt(place: number): number {
    return offsetOf(place) + HEADER_BYTES
  }

  /** The number of the record. */
  numberAt(place: number): number {
    return this.bytesAt(place).readUInt32LE(offsetOf(place))
  }

  /** Stores a copy. */
  put(number: number, bytes: Uint8Array): void {
    this.remove(number)
    if (number >= this.#places.length) this.#grow(number)
    const size = sizeOf(bytes.length)
    const page = this.#room(size, bytes.length > MOST_TOGETHER_BYTES)
    page.bytes.writeUInt32LE(number, page.used)
    page.bytes.writeUInt16LE(page.alone ? 0 : bytes.length, page.used + 4)
    page.bytes.set(bytes, page.used + HEADER_BYTES)
    this.#places[number] = placeOf(this.#last, page.used)
    page.used += size
    page.live += size
  }

  remove(number: number): void {
    if (!this.has(number)) return
    const place = this.#places[number]!
    const at = pageOf(place)
    const page = this.#pages[at]!
    this.#places[number] = 0
    page.live -= sizeAt(page, offsetOf(place))
    if (at !== this.#last && page.live < page.used * KEPT_SHARE) this.#empty(at, page)
  }

  /** Room for a record at the end of the last page, or of a new one. */
  #room(size: number, alone: boolean): Page {
    const last = this.#pages[this.#last]
    if (last != null && !last.alone && !alone && last.used + size <= last.bytes.length) return last
    const next = this.#freePages.pop() ?? this.#pages.length
    if (next === MOST_PAGES) throw new RangeError(`more than ${MOST_PAGES} pages of rows`)
    const bytes = Buffer.allocUnsafeSlow(alone ? size : this.#pages.length === 0 ? FIRST_PAGE_BYTES : PAGE_BYTES)
    const page = { bytes, alone, used: 0, live: 0 }
    this.#last = next
    this.#pages[next] = page
    return page
  }

  /** Moves the live records to the end, then frees the page. */
  #empty(at: number, page: Page): void {
    const { bytes, used } = page
    for (let offset = 0; offset < used; ) {
      const number = bytes.readUInt32LE(offset)
      const end = offset + sizeAt(page, offset)
      if (this.#places[number] === placeOf(at, offset)) {
        this.#places[number] = 0
        const from = offset + HEADER_BYTES
        this.put(number, bytes.subarray(from, page.alone ? end : from + bytes.readUInt16LE(offset + 4)))
        this.onMoved(number, placeOf(at, offset), this.#places[number]!)
      }
      offset = end
    }
    this.#pages[at] = null
    this.#freePages.push(at)
  }

  #grow(number: number): void {
    const larger = new Uint32Array(Math.max(number + 1, this.#places.length * 2))
    larger.set(this.#places)
    this.#places = larger
  }
}

const placeOf = (page: number, offset: number): number => (((page + 1) << WORD_BITS) | (offset / WORD_BYTES)) >>> 0
const pageOf = (place: number): number => (place >>> WORD_BITS) - 1
const offsetOf = (place: number): number => (place & WORD_MASK) * WORD_BYTES

/** Bytes that a record takes: whole words. */
const sizeOf = (bytes: number): number => Math.ceil((HEADER_BYTES + bytes) / WORD_BYTES) * WORD_BYTES

const sizeAt = ({ bytes, alone, used }: Page, offset: number): number =>
  alone ? used : sizeOf(bytes.readUInt16LE(offset + 4))
