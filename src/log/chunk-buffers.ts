// Memory that a reader of segments reads into. Fresh memory is cold and has to be given by the kernel, page by page: it costs as much as what is read into it. With
// envelopes and requests that are written into memory used before, paced watermarks and shorter heads 13.8 us of the sender for a request instead of 22.9 (docs/profile.md).

/** A reader takes at most half of it from the disk at once. */
export const CHUNK_BUFFER_BYTES = 512 * 1024
/** For what one batch of the sender takes. */
export const SPARE_BUFFERS = 7

export class ChunkBuffers {
  /** In which somebody may still read, and in which nobody does. */
  private readonly left: Buffer[] = []
  private readonly spares: Buffer[] = []

  /** `isRecycling`: of what was given out before `recycle` is called, nothing is read afterwards. `first`: what is given out before more memory is taken. */
  constructor(
    private readonly isRecycling: boolean,
    first: readonly Buffer[] = [],
  ) {
    this.spares.push(...first)
  }

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
