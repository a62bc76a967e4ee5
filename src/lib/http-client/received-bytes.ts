// What has come of an answer's body and was not read yet. Nearly all answers come in one piece, of which no view is made: the
// first view of a buffer costs 0.8 us.
import { freeIfLarge, LARGE_BYTES } from '../http/large-read-pacing.ts'
import { plainText, viewOf } from '../text/bytes-to-text.ts'
import type { BodySink } from './response-parser.ts'
import { inPieces } from './stream-text.ts'

// One read gives no more: several copies are made of it for each stream whose client is slow, and what of them a collection of the young meets lives long.
const READ_BYTES = 16 * 1024

const decoder = new TextDecoder()

export class ReceivedBytes implements BodySink {
  /** Stands before the queue. */
  #first: Buffer | null = null
  #from = 0
  #to = 0
  #queue: Uint8Array[] | null = null
  /** Bytes of all of it. */
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

  /** What has come, as one; of much only the beginning. Null: nothing. */
  protected takeSome(): Uint8Array | null {
    if (this.#waiting > READ_BYTES) return this.#someOfMuch()
    if (this.#waiting === 0) return null
    const chunks = this.#takeAll()
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
  }

  /** All of it, as text; large bytes are given back. */
  protected takeText(): string {
    const text = this.takeFirstText()
    if (text !== null) return text
    const chunks = this.#takeAll()
    const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
    const decoded = decoder.decode(bytes)
    freeIfLarge(bytes)
    for (const chunk of chunks) freeIfLarge(chunk)
    return decoded
  }

  /** Nobody will read it: what is large is given back at once. Pieces of one read are handed out together, so nobody holds another part of it. */
  protected giveBack(): void {
    for (const chunk of this.#takeAll()) freeIfLarge(chunk)
  }

  #drop(): void {
    this.#first = null
    this.#queue = null
    this.#waiting = 0
  }

  /** All of it as text, where it has come in one piece and is whole characters beyond doubt; else null. */
  protected takeFirstText(): string | null {
    const first = this.#first
    if (first === null || this.#queue !== null) return null
    const text = plainText(first, this.#from, this.#to)
    if (text === null) return null
    this.#drop()
    // Asking how large the read under a view is makes a buffer of it.
    if (first.length >= LARGE_BYTES || first.byteOffset > 0) freeIfLarge(first)
    return text
  }

  #takeAll(): Uint8Array[] {
    const chunks = this.#queue ?? []
    if (this.#first !== null) chunks.unshift(viewOf(this.#first, this.#from, this.#to))
    this.#drop()
    return chunks
  }

  /** The beginning of the queue; the socket waits until the rest is read too. That may lie here for long: as copies, since the socket's buffers are many times larger. */
  #someOfMuch(): Uint8Array {
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
