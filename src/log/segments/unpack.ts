// Frames that a reader of segments has unpacked and not returned yet. Several packed frames are unpacked behind each
// other, so that returned frames stay readable until the reader releases them.
import { lz4Unpacker } from '../../lib/compression/compression.ts'
import { ChunkBuffers } from './chunk-buffers.ts'
import { type Frame, type PackedFrame, readUnsealed } from './frame.ts'
import { unpackedBytes, unpackTo } from './packed-frames.ts'

const NOTHING = Buffer.allocUnsafe(0)

export class UnpackedFrames {
  /** The position of the next frame. */
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

  /** Drops the frames that are left. */
  forget(): void {
    this.at = this.#limit
  }

  /** Memory of frames that are no longer in use is reused. */
  recycle(): void {
    this.#buffers.recycle()
  }

  next(): Frame | null {
    if (this.at >= this.#limit) return null
    const frame = readUnsealed(this.buffer, this.at, this.#limit)!
    this.at = frame.end
    return frame
  }

  /** Whether so many more bytes fit behind the returned frames, in the same memory. */
  hasRoomFor(bytes: number): boolean {
    return this.buffer.length - this.#limit >= bytes
  }

  /**
   * Adds the frames of a packed frame in `from`. `isFree`: the frames before them are no longer in use. False: its
   * content does not match its head.
   */
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
