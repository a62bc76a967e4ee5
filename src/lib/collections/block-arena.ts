// Bytes of many lengths in memory of a fixed size: each run of bytes is a chain of blocks. Nothing moves and nothing is
// left to the collector, so that what is reserved is what is used.

const SLAB_BYTES = 1024 * 1024

/** Bytes that each block takes beside its content: the place of the next one. */
export const BLOCK_OVERHEAD_BYTES = 4

export class BlockArena {
  /** Made when the first of its blocks is needed. */
  readonly #slabs: Uint8Array[] = []
  /** The next block of the same chain, or of the free list, plus one; 0: the last. */
  readonly #next: Int32Array
  readonly #blocksASlab: number
  /** First block of the free list plus one; 0: none. */
  #firstFree = 0
  /** Blocks from here on were never used. */
  #unused = 0
  #free: number

  constructor(
    readonly blocks: number,
    readonly blockBytes: number,
  ) {
    this.#next = new Int32Array(blocks)
    this.#blocksASlab = Math.max(1, Math.floor(SLAB_BYTES / blockBytes))
    this.#free = blocks
  }

  /** Blocks that are not used. */
  get free(): number {
    return this.#free
  }

  /** How many blocks that many bytes take. */
  blocksOf(bytes: number): number {
    return Math.max(1, Math.ceil(bytes / this.blockBytes))
  }

  /** Stores `head` and `rest` as one run; returns its first block, or -1 without enough free blocks. */
  write(head: Uint8Array, rest: Uint8Array): number {
    const length = head.length + rest.length
    const count = this.blocksOf(length)
    if (count > this.#free) return -1
    let first = -1
    let before = -1
    for (let i = 0; i < count; i++) {
      const block = this.#take()
      if (before === -1) first = block
      else this.#next[before] = block + 1
      before = block
      this.#fill(block, i * this.blockBytes, head, rest)
    }
    this.#next[before] = 0
    return first
  }

  /** A copy of the bytes of a run from `from` to `to`. */
  read(first: number, from: number, to: number): Uint8Array {
    const bytes = new Uint8Array(to - from)
    let block = first
    for (let at = 0; at < to; at += this.blockBytes) {
      const start = Math.max(from, at)
      const end = Math.min(to, at + this.blockBytes)
      if (start < end) bytes.set(this.#bytesOf(block).subarray(start - at, end - at), start - from)
      block = this.#next[block]! - 1
    }
    return bytes
  }

  /** Whether a run begins with these bytes, which one block holds. */
  startsWith(first: number, bytes: Uint8Array): boolean {
    const block = this.#bytesOf(first)
    for (let i = 0; i < bytes.length; i++) if (block[i] !== bytes[i]) return false
    return true
  }

  /** Frees the blocks of a run. */
  release(first: number): void {
    let last = first
    let count = 1
    for (; this.#next[last] !== 0; count++) last = this.#next[last]! - 1
    this.#next[last] = this.#firstFree
    this.#firstFree = first + 1
    this.#free += count
  }

  #take(): number {
    this.#free--
    if (this.#firstFree === 0) return this.#unused++
    const block = this.#firstFree - 1
    this.#firstFree = this.#next[block]!
    return block
  }

  #fill(block: number, from: number, head: Uint8Array, rest: Uint8Array): void {
    const bytes = this.#bytesOf(block)
    const to = from + this.blockBytes
    if (from < head.length) bytes.set(head.subarray(from, to))
    if (to <= head.length) return
    const begin = Math.max(0, from - head.length)
    bytes.set(rest.subarray(begin, to - head.length), Math.max(0, head.length - from))
  }

  #bytesOf(block: number): Uint8Array {
    const slab = Math.floor(block / this.#blocksASlab)
    this.#slabs[slab] ??= new Uint8Array(this.#blocksASlab * this.blockBytes)
    const start = (block - slab * this.#blocksASlab) * this.blockBytes
    return this.#slabs[slab].subarray(start, start + this.blockBytes)
  }
}
