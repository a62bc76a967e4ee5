// Byte strings by number, packed one behind the other in pages: millions of them are a few thousand buffers, which a collection never walks.
// One that is replaced is written anew at the end; a page that is a quarter dead is emptied there too, so no step takes long.

const PAGE_BYTES = 65_536
/** Before each record: its number, its length (of one that is larger than a page, which stands alone, the page knows it). */
const HEADER_BYTES = 6
const FIRST_CAPACITY = 64
const KEPT_SHARE = 0.75

interface Page {
  readonly bytes: Buffer
  used: number
  live: number
}

export class RowPages {
  /** By page number; null for one that was emptied. */
  readonly #pages: (Page | null)[] = []
  readonly #freePages: number[] = []
  #last = -1
  /** By number: its page, plus one (0: none), and where it begins there. */
  #pageOf = new Uint32Array(FIRST_CAPACITY)
  #offsetOf = new Uint16Array(FIRST_CAPACITY)

  has(number: number): boolean {
    return number < this.#pageOf.length && this.#pageOf[number] !== 0
  }

  /** The buffer that holds it. */
  bytesOf(number: number): Buffer {
    return this.#pages[this.#pageOf[number]! - 1]!.bytes
  }

  /** Where it begins in that buffer. */
  offsetOf(number: number): number {
    return this.#offsetOf[number]! + HEADER_BYTES
  }

  /** Stores a copy. */
  put(number: number, bytes: Uint8Array): void {
    this.remove(number)
    if (number >= this.#pageOf.length) this.#grow(number)
    const size = HEADER_BYTES + bytes.length
    const page = this.#room(size)
    page.bytes.writeUInt32LE(number, page.used)
    page.bytes.writeUInt16LE(bytes.length & 0xffff, page.used + 4)
    page.bytes.set(bytes, page.used + HEADER_BYTES)
    this.#pageOf[number] = this.#last + 1
    this.#offsetOf[number] = page.used
    page.used += size
    page.live += size
  }

  remove(number: number): void {
    if (!this.has(number)) return
    const at = this.#pageOf[number]! - 1
    const page = this.#pages[at]!
    this.#pageOf[number] = 0
    page.live -= sizeOf(page, this.#offsetOf[number]!)
    if (at !== this.#last && page.live < page.used * KEPT_SHARE) this.#empty(at, page)
  }

  /** Room for a record at the end of the last page, or of a new one. */
  #room(size: number): Page {
    const last = this.#pages[this.#last]
    if (last != null && last.used + size <= last.bytes.length) return last
    // What is larger than a page has one for itself.
    const page = { bytes: Buffer.allocUnsafeSlow(Math.max(PAGE_BYTES, size)), used: 0, live: 0 }
    this.#last = this.#freePages.pop() ?? this.#pages.length
    this.#pages[this.#last] = page
    return page
  }

  /** Moves what lives to the end, then lets the page go. */
  #empty(at: number, page: Page): void {
    const { bytes, used } = page
    for (let offset = 0; offset < used; ) {
      const number = bytes.readUInt32LE(offset)
      const end = offset + sizeOf(page, offset)
      if (this.#pageOf[number] === at + 1 && this.#offsetOf[number] === offset) {
        this.#pageOf[number] = 0
        this.put(number, bytes.subarray(offset + HEADER_BYTES, end))
      }
      offset = end
    }
    this.#pages[at] = null
    this.#freePages.push(at)
  }

  #grow(number: number): void {
    const capacity = Math.max(number + 1, this.#pageOf.length * 2)
    const [pages, offsets] = [new Uint32Array(capacity), new Uint16Array(capacity)]
    pages.set(this.#pageOf)
    offsets.set(this.#offsetOf)
    this.#pageOf = pages
    this.#offsetOf = offsets
  }
}

const sizeOf = ({ bytes, used }: Page, offset: number): number =>
  bytes.length > PAGE_BYTES ? used : HEADER_BYTES + bytes.readUInt16LE(offset + 4)
