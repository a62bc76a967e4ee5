// The bytes of a response body that have arrived and were not read. Nearly all bodies arrive in one piece, of which no
// view is made: the first view of a buffer is expensive.
import { freeIfLarge, LARGE_BYTES } from '../http/large-read-pacing.ts'
import { bytesToText, viewOf } from '../text/bytes-to-text.ts'
import type { BodySink } from './response-parser.ts'
import { inPieces } from './stream-text.ts'

// The most that one read returns. Each stream with a slow client makes several copies, and those that survive a young
// collection live long.
const READ_BYTES = 16 * 1024

const decoder = new TextDecoder()

export class ReceivedBytes implements BodySink {
  /** The piece before the queue. */
  #first: Buffer | null = null
  #from = 0
  #to = 0
  #queue: Uint8Array[] | null = null
  /** Bytes of all pieces. */
  #waiting = 0

  protected get waitingBytes(): number {
    return this.#waiting
  }

  /** A piece of the body. */
  take(bytes: Buffer, from: number, to: number): void {
    if (this.#waiting > 0) {
      this.#queue ??= []
      this.#queue.push(viewOf(bytes, from, to))
    } else {
      this.#first = bytes
      this.#from = from
      this.#to = to
    }
    this.#waiting += to - from
  }

  /** The bytes that have arrived as one piece, at most READ_BYTES; null for none. */
  protected takeNext(): Uint8Array | null {
    if (this.#waiting > READ_BYTES) return this.#takePart()
    if (this.#waiting === 0) return null
    const chunks = this.#takeAll()
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
  }

  /** All bytes as text; large buffers are freed. */
  protected takeText(): string {
    const text = this.takeSinglePieceText()
    if (text !== null) return text
    const chunks = this.#takeAll()
    const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
    const decoded = decoder.decode(bytes)
    freeIfLarge(bytes)
    for (const chunk of chunks) freeIfLarge(chunk)
    return decoded
  }

  /**
   * The body will not be read: large buffers are freed at once. Pieces of one socket read are handed out together, so
   * no other reader holds a part of the buffer.
   */
  protected freeAll(): void {
    for (const chunk of this.#takeAll()) freeIfLarge(chunk)
  }

  #drop(): void {
    this.#first = null
    this.#queue = null
    this.#waiting = 0
  }

  /** All bytes as text, if they arrived in one piece and are certain to be whole characters; else null. */
  protected takeSinglePieceText(): string | null {
    const first = this.#first
    if (first === null || this.#queue !== null) return null
    const text = bytesToText(first, this.#from, this.#to)
    if (text === null) return null
    this.#drop()
    // `byteLength` of a view's buffer would materialise that buffer.
    if (first.length >= LARGE_BYTES || first.byteOffset > 0) freeIfLarge(first)
    return text
  }

  #takeAll(): Uint8Array[] {
    const chunks = this.#queue ?? []
    if (this.#first !== null) chunks.unshift(viewOf(this.#first, this.#from, this.#to))
    this.#drop()
    return chunks
  }

  /**
   * The beginning of the queue; the socket stays paused until the rest is read too. The rest may wait for long, so it
   * is copied: the socket's buffers are many times larger.
   */
  #takePart(): Uint8Array {
    const waiting = this.#waiting
    let chunks = this.#takeAll()
    if (chunks[0]!.buffer.byteLength > READ_BYTES) {
      const read = chunks
      chunks = inPieces(read, waiting, READ_BYTES)
      for (const chunk of read) freeIfLarge(chunk)
    }
    const value = chunks.shift()!
    this.#queue = chunks
    this.#waiting = waiting - value.length
    return value
  }
}
