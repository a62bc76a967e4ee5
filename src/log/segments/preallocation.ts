// Room that a segment has ahead of its records: zeros, which records then take the place of. The kernel takes memory for it once for many records and in large
// pieces, instead of page by page with each write (docs/decisions/0051): that is half of what a write costs. Zeros are no frame. Readers take them for the end of
// what is written, a start cuts them off, and so does who gives a segment up. Of the disk nothing is asked here: it would be waited for by the thread that serves.
import type { Files } from '../files.ts'

/** One large piece of the page cache; a reader at the end may come to read as much for nothing. */
const MOST_STEP_BYTES = 256 * 1024
/** Segments of a test are small. */
const STEPS_OF_A_SEGMENT = 8
const ZEROS = Buffer.alloc(MOST_STEP_BYTES)

/** Of one segment after the other. */
export class SegmentRoom {
  readonly #files: Files
  readonly #stepBytes: number
  /** The file is zeros from its records up to there. */
  #end = 0
  /** The disk had none: this segment goes on without. */
  #isRefused = false

  constructor(files: Files, segmentBytes: number) {
    this.#files = files
    this.#stepBytes = Math.min(MOST_STEP_BYTES, Math.floor(segmentBytes / STEPS_OF_A_SEGMENT))
  }

  /** A new segment: it has none. */
  begin(): void {
    this.#end = 0
    this.#isRefused = false
  }

  /**
   * Before so many bytes are written behind `size`. Nothing while the segment is small, as most of those are that a quiet gateway writes, nor beyond `limit`, where the next
   * segment begins. What the disk refuses is said by the write that follows.
   */
  make(descriptor: number, size: number, bytes: number, limit: number): void {
    const step = this.#stepBytes
    if (size + bytes <= this.#end || size < step || this.#isRefused) return
    const from = Math.max(this.#end, size)
    const to = Math.min((Math.floor((size + bytes) / step) + 1) * step, limit)
    try {
      for (this.#end = from; this.#end < to; ) {
        const length = Math.min(to - this.#end, ZEROS.length)
        this.#end += this.#files.write(descriptor, ZEROS, 0, length, this.#end)
      }
    } catch {
      this.#isRefused = true
    }
  }

  /** Whether the file is longer than that. */
  isBeyond(size: number): boolean {
    return this.#end > size
  }
}
