// Reads the frames of one segment file, which may still be written: by this process, by another thread of it, or by
// another process.

import type { Files } from '../files.ts'
import { CHUNK_BUFFER_BYTES, ChunkBuffers } from './chunk-buffers.ts'
import { type Frame, isWhole, nextFrame, readFrame } from './frame.ts'

const CHUNK_BYTES = CHUNK_BUFFER_BYTES / 2

/** Reads one file after the other. Synchronous: at most 256 KiB more from the disk at each step. */
export class SegmentFrames {
  descriptor: number | null = null
  /** No reader uses texts of the frames that were returned from these bytes. */
  isFree = true
  /** Not overwritten while returned records may decode their texts from it. */
  private buffer: Buffer = Buffer.allocUnsafe(0)
  private readonly buffers: ChunkBuffers
  /** The loaded bytes are `buffer[at, limit)`; `position` is the offset of `buffer[limit]` in the file. */
  private at = 0
  private limit = 0
  private position = 0

  constructor(
    private readonly files: Files,
    recycling: boolean,
    /** Receives bytes that are no frames, in memory of their own. */
    private readonly onDamage: (position: number, bytes: Buffer) => void,
  ) {
    this.buffers = new ChunkBuffers(recycling)
  }

  /** Opens a file, which must exist; throws the error of the disk, and keeps its position then. */
  open(path: string): void {
    const descriptor = this.files.open(path)
    this.close()
    this.descriptor = descriptor
    if (!this.isFree || this.buffer.length === 0) this.buffer = this.buffers.another(0, this.buffer)
    this.at = 0
    this.limit = 0
    this.position = 0
  }

  close(): void {
    if (this.descriptor !== null) this.files.close(this.descriptor)
    this.descriptor = null
  }

  /** Memory of records that are no longer in use is reused. */
  recycle(): void {
    this.buffers.recycle()
  }

  /** Whether the next frame can be returned without overwriting memory in use. */
  get isNextAtHand(): boolean {
    return isWhole(this.buffer, this.at, this.limit)
  }

  /** A copy of the frame that was returned last. */
  bytesOf({ start, end }: Frame): Buffer {
    return Buffer.from(this.buffer.subarray(start, end))
  }

  /** The frame that was returned last is read again. */
  rewind({ start }: Frame): void {
    this.at = start
  }

  /** The next frame of this segment. `ended`: the file is complete, so bytes that are no frame are damage. */
  next(ended: boolean): Frame | null {
    for (;;) {
      const found = readFrame(this.buffer, this.at, this.limit)
      if (typeof found === 'object') {
        this.at = found.end
        return found
      }
      if (this.fill()) continue
      if (this.at === this.limit) return null
      const later = nextFrame(this.buffer, this.at, this.limit)
      if (later === null && !ended) return this.unread()
      this.damaged(later?.start ?? this.limit)
      if (later === null) return null
    }
  }

  /** Incomplete bytes are read again: a start cuts them off, and so does a writer that gives the segment up. */
  private unread(): null {
    this.position = this.place
    this.limit = this.at
    return null
  }

  /** The bytes before `limit` are no frame. */
  private damaged(limit: number): void {
    this.onDamage(this.place, Buffer.from(this.buffer.subarray(this.at, limit)))
    this.at = limit
  }

  /** The offset of the loaded bytes in the file. */
  private get place(): number {
    return this.position - (this.limit - this.at)
  }

  /** Loads more bytes; false at the end of the file. */
  private fill(): boolean {
    if (this.limit === this.buffer.length) {
      const left = this.limit - this.at
      const isRoomy = this.isFree && 2 * left <= this.buffer.length
      const buffer = isRoomy ? this.buffer : this.buffers.another(2 * left, this.buffer)
      this.buffer.copy(buffer, 0, this.at, this.limit)
      this.buffer = buffer
      this.limit = left
      this.at = 0
    }
    const count = this.files.read(
      this.descriptor!,
      this.buffer,
      this.limit,
      Math.min(CHUNK_BYTES, this.buffer.length - this.limit),
      this.position,
    )
    this.limit += count
    this.position += count
    return count > 0
  }
}
