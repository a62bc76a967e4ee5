// Memory that a reader of segments reads into. It is used again: fresh memory is given by the kernel page by page,
// which costs as much as what is read into it.

/** A reader takes at most half of it from the disk at once. */
export const CHUNK_BUFFER_BYTES = 512 * 1024
/**
 * What is kept of memory that comes and goes: enough for a batch of the sender, 2 MiB of frames, where units leave as
 * much as a block at the end of each.
 */
export const SPARE_BUFFERS = 6

export class ChunkBuffers {
  /** Buffers that readers may still use, and free ones. */
  private readonly left: Buffer[] = []
  private readonly spares: Buffer[] = []

  /** `isRecycling`: of what was given out before `recycle` is called, nothing is read afterwards. */
  constructor(private readonly isRecycling: boolean) {}

  recycle(): void {
    for (const buffer of this.left.splice(0)) if (this.spares.length < SPARE_BUFFERS) this.spares.push(buffer)
  }

  /** A buffer for at least so much, in place of the one at hand. */
  another(bytes: number, atHand: Buffer): Buffer {
    if (this.isRecycling && atHand.length === CHUNK_BUFFER_BYTES) this.left.push(atHand)
    const spare = bytes <= CHUNK_BUFFER_BYTES ? this.spares.pop() : undefined
    return spare ?? Buffer.allocUnsafe(Math.max(CHUNK_BUFFER_BYTES, bytes))
  }
}
