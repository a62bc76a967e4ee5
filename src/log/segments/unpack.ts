// What a reader of segments has unpacked and not given out yet. Several packed frames come to stand behind each other, so that those that were given out can be read
// until the reader says that nobody does.
import { lz4Unpacker } from '../../lib/compression/compression.ts'
import { ChunkBuffers } from './chunk-buffers.ts'
import { type Frame, type PackedFrame, readUnsealed } from './frame.ts'
import { unpackedBytes, unpackTo } from './packed-frames.ts'

const NOTHING = Buffer.allocUnsafe(0)

export class UnpackedFrames {
  /** Where the next one begins. */
  at = 0
  buffer: Buffer = NOTHING
  #limit = 0
  readonly #buffers: ChunkBuffers

  constructor(recycling: boolean) {
    this.#buffers = new ChunkBuffers(recycling)
  }

  get hasMore(): boolean {
    return this.at < this.#limit
  }

  /** Those that are left will not be asked for. */
  forget(): void {
    this.at = this.#limit
  }

  /** Memory of frames that nobody uses any more serves again. */
  recycle(): void {
    this.#buffers.recycle()
  }

  next(): Frame | null {
    if (this.at >= this.#limit) return null
    const frame = readUnsealed(this.buffer, this.at, this.#limit)!
    this.at = frame.end
    return frame
  }

  /** Whether so many more bytes can stand behind the frames that were given out, in the same memory. */
  hasRoomFor(bytes: number): boolean {
    return this.buffer.length - this.#limit >= bytes
  }

  /** Those of a packed frame, which stands in `from`, come next. `isFree`: nobody reads those before them any more. False: it holds none. */
  add(from: Buffer, packed: PackedFrame, isFree: boolean): boolean {
    const bytes = unpackedBytes(packed)
    if (isFree || !this.hasRoomFor(bytes)) {
      if (!isFree || this.buffer.length === 0) this.buffer = this.#buffers.another(bytes, this.buffer)
      this.at = 0
      this.#limit = 0
    }
    if (!unpackTo(lz4Unpacker(), this.buffer, this.#limit, from, packed)) return false
    this.#limit += bytes
    return true
  }
}
