// Packs the frames of a batch before they are written. A record of a gateway is mostly like the last one of its kind,
// so that a fifth or a sixth is left for the checksum and the kernel (`bench -- tricks`, packed;
// docs/decisions/0056-segments-packed.md).

import { BLOCK_BYTES, BLOCK_HEAD_BYTES, type Lz4Block, Lz4Models, lz4Block } from '../../lib/compression/compression.ts'
import type { Batch, Sealed } from './batch.ts'
import { FRAME_HEAD_BYTES, frameAround, frameTimeMs, sealFrame } from './frame.ts'

/** Fewer frames gain little, and unpacked ones survive damage of another. */
const FEWEST_FRAMES = 8
/** Upper bound of the bytes that a unit adds to its frames. */
const UNIT_MORE_BYTES = FRAME_HEAD_BYTES + BLOCK_HEAD_BYTES

export class BatchPacker {
  readonly #kinds = new Lz4Models()
  readonly #block: Lz4Block
  #into = Buffer.allocUnsafe(0)

  private constructor(block: Lz4Block) {
    this.#block = block
  }

  /** Null where there can be none (`lz4Block`). */
  static make(): BatchPacker | null {
    const block = lz4Block()
    return block === null ? null : new BatchPacker(block)
  }

  /**
   * The batch as units of at most 64 KiB, in memory that the next call reuses; null where its frames are better
   * unpacked.
   */
  pack(batch: Batch): Sealed | null {
    const { ends: frameEnds, bytes } = batch
    if (frameEnds.length < FEWEST_FRAMES) return null
    const room = bytes + frameEnds.length * UNIT_MORE_BYTES
    if (this.#into.length < room) this.#into = Buffer.allocUnsafe(Math.max(room, 2 * this.#into.length))
    const ends: number[] = []
    const frames: number[] = []
    for (let at = 0, first = 0; first < frameEnds.length; ) {
      const from = first === 0 ? 0 : frameEnds[first - 1]!
      let count = 1
      while (first + count < frameEnds.length && frameEnds[first + count]! - from <= BLOCK_BYTES) count++
      at = this.#unit(batch, first, count, at)
      first += count
      ends.push(at)
      frames.push(first)
    }
    return { buffer: this.#into, bytes: ends.at(-1)!, ends, frames }
  }

  /** Writes `count` frames as one and returns its end. A frame that is longer than a block stays unpacked. */
  #unit({ buffer, ends, abouts, first: { record } }: Batch, first: number, count: number, at: number): number {
    const from = first === 0 ? 0 : ends[first - 1]!
    const bytes = ends[first + count - 1]! - from
    if (bytes > BLOCK_BYTES) {
      const end = at + buffer.copy(this.#into, at, from, from + bytes)
      sealFrame(this.#into, at, end)
      return end
    }
    const block = this.#block
    block.begin()
    this.#kinds.forget()
    for (let index = first, start = 0; index < first + count; index++) {
      const end = ends[index]! - from
      block.part(start, this.#kinds.modelOf(abouts[index], end - start, start))
      start = end
    }
    buffer.copy(block.content, 0, from, from + bytes)
    const end = block.pack(bytes, this.#into, at + FRAME_HEAD_BYTES)
    const numbers = { record: record + first, offset: bytes, sequence: count, atMs: frameTimeMs(buffer, from) }
    frameAround(this.#into, at, end, numbers, count)
    return end
  }
}
