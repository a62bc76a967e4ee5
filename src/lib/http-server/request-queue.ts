// The bytes of a connection that have arrived and were not read: the beginning of a head, or pipelined requests.
import { LARGE_BYTES } from '../http/large-read-pacing.ts'
import { headEnd, mayBecomeHead, type RequestHead, readHead } from './request-head.ts'

export class RequestQueue {
  #bytes: Buffer | null = null
  #from = 0
  /** Bytes that were searched for the end of a head. */
  #searched = 0

  get length(): number {
    return this.#bytes === null ? 0 : this.#bytes.length - this.#from
  }

  /**
   * Where the queue begins in the bytes of `take`; earlier bytes are read. A view of the rest would cost 1 % of a
   * request.
   */
  get from(): number {
    return this.#from
  }

  /** A head has begun and not ended. */
  get hasBegun(): boolean {
    return this.#searched > 0
  }

  /** Null: no bytes. */
  append(bytes: Buffer | null): void {
    if (bytes === null) return
    const before = this.#unread()
    this.#bytes = before === null ? bytes : Buffer.concat([before, bytes])
  }

  /**
   * The next head, or null while it is incomplete; what follows it stays. Throws MalformedRequest and clears the queue.
   */
  head(): RequestHead | null {
    const bytes = this.#unread()
    if (bytes === null) return null
    const end = headEnd(bytes, this.#searched)
    if (end < 0 && mayBecomeHead(bytes, this.#searched)) {
      this.#searched = bytes.length
      return null
    }
    this.clear()
    // A head lives as long as its request, and must not retain the body that arrived with it: up to half a megabyte for
    // each request that waits for an upstream.
    const isLarge = end >= 0 && bytes.length >= LARGE_BYTES
    const head = readHead(isLarge ? Buffer.from(bytes.subarray(0, end + 4)) : bytes, end)
    if (end + 4 < bytes.length) {
      this.#bytes = bytes
      this.#from = end + 4
    }
    return head
  }

  /** All bytes, or null; they begin at `from`, which must be read before. */
  take(): Buffer | null {
    const bytes = this.#bytes
    this.#bytes = null
    this.#from = 0
    return bytes
  }

  clear(): void {
    this.#bytes = null
    this.#from = 0
    this.#searched = 0
  }

  #unread(): Buffer | null {
    if (this.#bytes !== null && this.#from > 0) {
      this.#bytes = this.#bytes.subarray(this.#from)
      this.#from = 0
    }
    return this.#bytes
  }
}
