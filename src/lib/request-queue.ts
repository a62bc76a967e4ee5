// What has come on a connection and is not read yet: the beginning of a head, or requests that were sent ahead.
import { headEnd, mayBecomeHead, type RequestHead, readHead } from './request-head.ts'

export class RequestQueue {
  #bytes: Buffer | null = null
  /** So much of it was looked at for the end of a head. */
  #looked = 0

  get length(): number {
    return this.#bytes?.length ?? 0
  }

  /** A head has begun and not ended. */
  get hasBegun(): boolean {
    return this.#looked > 0
  }

  keep(bytes: Buffer): void {
    this.#bytes = this.#bytes === null ? bytes : Buffer.concat([this.#bytes, bytes])
  }

  /** The next head, or null while it is not there whole; what stands behind it stays. Throws MalformedRequest, once: nothing is left then. */
  head(): RequestHead | null {
    const bytes = this.#bytes
    if (bytes === null) return null
    const end = headEnd(bytes, this.#looked)
    if (end < 0 && mayBecomeHead(bytes, this.#looked)) {
      this.#looked = bytes.length
      return null
    }
    this.clear()
    const head = readHead(bytes, end)
    if (end + 4 < bytes.length) this.#bytes = bytes.subarray(end + 4)
    return head
  }

  /** All of it, or null. */
  take(): Buffer | null {
    const bytes = this.#bytes
    this.#bytes = null
    return bytes
  }

  clear(): void {
    this.#bytes = null
    this.#looked = 0
  }
}
