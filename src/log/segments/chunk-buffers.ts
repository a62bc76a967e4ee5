// Buffers of a reader of segments. They are reused: the kernel provides fresh memory page by page, which costs as much
// as the read itself.

/** A reader takes at most half of it from the disk at once. */
export const CHUNK_BUFFER_BYTES = 512 * 1024
/** Spare buffers that are retained: enough for a batch of the sender, 2 MiB of frames. */
export const SPARE_BUFFERS = 6

export class ChunkBuffers {
  /** Buffers that readers may still use, and free ones. */
  private readonly left: Buffer[] = []
  private readonly spares: Buffer[] = []

  /** `isRecycling`: nothing that was returned before a call of `recycle` is read after it. */
  constructor(private readonly isRecycling: boolean) {}

  recycle(): void {
    for (const buffer of this.left.splice(0)) if (this.spares.length < SPARE_BUFFERS) this.spares.push(buffer)
  }

  /** A buffer of at least `bytes`, in place of the current one. */
  another(bytes: number, atHand: Buffer): Buffer {
    if (this.isRecycling && atHand.length === CHUNK_BUFFER_BYTES) this.left.push(atHand)
    const spare = bytes <= CHUNK_BUFFER_BYTES ? this.spares.pop() : undefined
    return spare ?? Buffer.allocUnsafe(Math.max(CHUNK_BUFFER_BYTES, bytes))
  }
}
