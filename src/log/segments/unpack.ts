// What a reader of segments has unpacked and not given out yet. Several packed frames come to stand behind each other, so that those that were given out can be read
// until the reader says that nobody does.
import { BEYOND_BYTES, type Lz4Unpacker, lz4Unpacker, lz4UnpackerWith } from '../../lib/compression/lz4-unpack.ts'
import { CHUNK_BUFFER_BYTES, ChunkBuffers } from './chunk-buffers.ts'
import { type Frame, type PackedFrame, readUnsealed } from './frame.ts'
import { unpackedBytes, unpackTo } from './packed-frames.ts'

/** For a batch of the sender, 2 MiB of frames, where units leave as much as a block at the end of each. */
export const OWN_BUFFERS = 6
/** Of one buffer, and what lies between it and the next. */
const OWN_STEP = CHUNK_BUFFER_BYTES + BEYOND_BYTES
const OWN_BYTES = OWN_BUFFERS * OWN_STEP
const NOTHING = Buffer.allocUnsafe(0)

/** Where frames are unpacked. Memory that is used again and again is the unpacker's own, which spares a copy: 0.20 us for a record of 2.9 KB instead of 0.27 (`bench -- tricks`, own). */
class UnpackingMemory {
  readonly unpacker: Lz4Unpacker
  readonly buffers: ChunkBuffers

  constructor(recycling: boolean) {
    this.unpacker = recycling ? lz4UnpackerWith(OWN_BYTES) : lz4Unpacker()
    const { own } = this.unpacker
    const buffers: Buffer[] = []
    if (own !== null)
      for (let at = 0; at < OWN_BYTES; at += OWN_STEP) buffers.push(own.subarray(at, at + CHUNK_BUFFER_BYTES))
    this.buffers = new ChunkBuffers(recycling, buffers)
  }
}

export class UnpackedFrames {
  /** Where the next one begins. */
  at = 0
  buffer: Buffer = NOTHING
  #limit = 0
  /** Made for the first packed frame: many readers meet none. */
  #memory: UnpackingMemory | null = null

  constructor(private readonly recycling: boolean) {}

  get hasMore(): boolean {
    return this.at < this.#limit
  }

  /** Those that are left will not be asked for. */
  forget(): void {
    this.at = this.#limit
  }

  /** Memory of frames that nobody uses any more serves again. */
  recycle(): void {
    if (this.#memory === null) return
    const { buffers } = this.#memory
    if (this.recycling && !this.hasMore) {
      // What is left of it may not be of the unpacker, and the next one is.
      buffers.leave(this.buffer)
      this.buffer = NOTHING
      this.at = 0
      this.#limit = 0
    }
    buffers.recycle()
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
    this.#memory ??= new UnpackingMemory(this.recycling)
    const { unpacker, buffers } = this.#memory
    const bytes = unpackedBytes(packed)
    if (isFree || !this.hasRoomFor(bytes)) {
      if (!isFree || this.buffer.length === 0) this.buffer = buffers.another(bytes, this.buffer)
      this.at = 0
      this.#limit = 0
    }
    if (!unpackTo(unpacker, this.buffer, this.#limit, from, packed)) return false
    this.#limit += bytes
    return true
  }
}
