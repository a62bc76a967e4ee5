// A chunked request body (RFC 9112, 7.1), read strictly: bytes that one reader takes for data and another one for the
// next request are how requests are smuggled.
import { CR, LF } from '../http/syntax.ts'
import { MalformedRequest } from './request-head.ts'

/** Longest size line with its extensions; longest trailers. */
const LINE_BYTES = 256
const TRAILER_BYTES = 8 * 1024
const SIZE = /^([0-9A-Fa-f]{1,12})(?:[ \t]*;[\t\x20-\x7e]*)?$/
const TRAILER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*$/

/** Fields that a trailer must not have (RFC 9110, 6.5.1): another reader may heed them. */
const FRAMING = /^(?:content-length|transfer-encoding|host|connection|trailer):/i

enum State {
  Size,
  Data,
  DataEnd,
  Trailers,
  Done,
}

const bad = (message: string): MalformedRequest => new MalformedRequest(message, 400, 'Transfer-Encoding')

export class RequestChunks {
  #state = State.Size
  /** Bytes left of the current chunk. */
  #left = 0
  /** The beginning of an unfinished line. */
  #line = ''
  #trailerBytes = 0
  /** Data bytes of the last push. */
  dataLength = 0

  get done(): boolean {
    return this.#state === State.Done
  }

  /**
   * Moves the data in these bytes to their beginning, `dataLength` of it: an object for each of many small chunks would
   * be a hundred times as large. Returns how many bytes were read: all, or those up to the end of the body. Throws
   * MalformedRequest.
   */
  push(bytes: Buffer): number {
    let at = 0
    this.dataLength = 0
    while (at < bytes.length && this.#state !== State.Done) {
      if (this.#state !== State.Data) at = this.#readLine(bytes, at)
      else {
        const end = Math.min(bytes.length, at + this.#left)
        if (at !== this.dataLength) bytes.copyWithin(this.dataLength, at, end)
        this.dataLength += end - at
        this.#left -= end - at
        at = end
        if (this.#left === 0) this.#state = State.DataEnd
      }
    }
    return at
  }

  /** Returns where the next line begins. */
  #readLine(bytes: Buffer, at: number): number {
    const most = this.#state === State.Trailers ? TRAILER_BYTES - this.#trailerBytes : LINE_BYTES
    const end = bytes.indexOf(LF, at)
    const length = this.#line.length + (end < 0 ? bytes.length : end) - at
    if (length > most) throw bad('a chunk is announced by a line that is too long')
    this.#line += bytes.toString('latin1', at, end < 0 ? bytes.length : end)
    if (end < 0) return bytes.length
    const line = this.#line
    this.#line = ''
    if (line.charCodeAt(line.length - 1) !== CR) throw bad('a line of a chunked body must end in CR and LF')
    this.#take(line.slice(0, -1))
    return end + 1
  }

  #take(line: string): void {
    if (this.#state === State.Size) {
      const size = SIZE.exec(line)?.[1]
      if (size === undefined) throw bad('the size of a chunk is not a hexadecimal number')
      this.#left = Number.parseInt(size, 16)
      this.#state = this.#left === 0 ? State.Trailers : State.Data
    } else if (this.#state === State.DataEnd) {
      if (line !== '') throw bad('a chunk is longer than it says')
      this.#state = State.Size
    } else if (line === '') this.#state = State.Done
    else {
      // Trailers are checked and ignored.
      if (!TRAILER.test(line)) throw bad('a trailer is not a name and a colon')
      if (FRAMING.test(line)) throw bad('a trailer must not say where the body ends')
      this.#trailerBytes += line.length + 2
    }
  }
}
