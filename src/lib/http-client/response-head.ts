// The head of an HTTP/1.1 response, parsed from its bytes in one pass; strings are made only of headers that are
// requested. Strict where leniency mixes responses up.
import { COLON, CR, isDigit, isLineEnd, isNamed, isText, LF, lengthIn, SPACE, TOKEN } from '../http/syntax.ts'

const ZERO = 48

/** The bytes are no HTTP response that the client accepts, or ended early. */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse'
}

/** `chunked`: named once and alone. `unknown`: another value. */
type Coding = 'none' | 'chunked' | 'unknown'

const MAX_HEADERS = 256
/** A larger read is not retained for its head: the header lines are copied out. */
const KEPT_BYTES = 4 * 1024

/** The head of a response. The list of headers is made on request: nearly all responses are used without it. */
export class ResponseHead {
  status = 0
  /** True for HTTP/1.1, false for HTTP/1.0. */
  isOne = false
  /** `Content-Length`; null when absent. */
  length: number | null = null
  coding: Coding = 'none'
  /** The first `Content-Encoding`, lower case; '' when absent. */
  contentEncoding = ''
  /** Seconds for which the server keeps an idle connection; null when it sent none. */
  keepAliveS: number | null = null
  /** Every `Connection` value in lower case, each after a comma. */
  #connection = ''
  #bytes: Buffer | null
  #start = 0
  #lines: string | null = null
  #headers: readonly (readonly [string, string])[] | null = null

  /** `end`: where the empty line begins, with the CRLF before it. Throws MalformedResponse. */
  constructor(
    bytes: Buffer,
    readonly end: number,
  ) {
    this.#bytes = bytes
    this.#readLines(bytes, this.#readStatus(bytes))
    // Reading `bytes.buffer` would materialise it, so the length and offset decide. A view may be of a larger read.
    if (bytes.length > KEPT_BYTES || bytes.byteOffset > 0) this.#text()
  }

  /** Whether the head permits another request on the connection. */
  get keepsAlive(): boolean {
    return this.isOne ? !/\bclose\b/.test(this.#connection) : /\bkeep-alive\b/.test(this.#connection)
  }

  /** Names in lower case, in order. */
  get headers(): readonly (readonly [string, string])[] {
    this.#headers ??= this.#text()
      .split('\r\n')
      .slice(1)
      .map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
      })
    return this.#headers
  }

  /** The header lines, each after its CRLF; the bytes are released. */
  #text(): string {
    this.#lines ??= this.#bytes!.toString('latin1', this.#start, this.end)
    this.#bytes = null
    return this.#lines
  }

  /** `HTTP/1.1 200 OK`; returns where the line ends. */
  #readStatus(bytes: Buffer): number {
    const minor = bytes[7]! - ZERO
    this.status = (bytes[9]! - ZERO) * 100 + (bytes[10]! - ZERO) * 10 + (bytes[11]! - ZERO)
    this.isOne = minor === 1
    const isStatus = isDigit(bytes[9]!) && bytes[9] !== ZERO && isDigit(bytes[10]!) && isDigit(bytes[11]!)
    let at = 12
    if (bytes[at] === SPACE) while (at < this.end && bytes[at] !== CR && bytes[at] !== LF) at++
    if (!isStatus || minor < 0 || minor > 1 || bytes[8] !== SPACE || !isVersion(bytes) || !isLineEnd(bytes, at))
      throw new MalformedResponse('malformed status line')
    this.#start = at
    return at
  }

  #readLines(bytes: Buffer, start: number): void {
    const { end } = this
    let count = 0
    // Each line is parsed from the CRLF before it.
    for (let at = start; at < end; ) {
      if (++count >= MAX_HEADERS) throw new MalformedResponse(`more than ${MAX_HEADERS} response headers`)
      const name = at + 2
      let colon = name
      while (TOKEN[bytes[colon]!] === 1) colon++
      at = colon + 1
      while (at < end && isText(bytes[at]!)) at++
      if (colon === name || bytes[colon] !== COLON || !isLineEnd(bytes, at))
        throw new MalformedResponse('malformed response header')
      const length = colon - name
      if (length === 10 || length === 14 || length === 16 || length === 17)
        this.#readHeader(bytes, name, length, colon + 1, at)
    }
  }

  /** Reads the headers that concern the body or the connection. */
  #readHeader(bytes: Buffer, name: number, length: number, from: number, to: number): void {
    if (length === 14) {
      if (isNamed(bytes, name, 'content-length')) this.#readLength(bytes, from, to)
      return
    }
    const isKnown =
      length === 17
        ? isNamed(bytes, name, 'transfer-encoding')
        : length === 16
          ? isNamed(bytes, name, 'content-encoding')
          : isNamed(bytes, name, 'connection') || isNamed(bytes, name, 'keep-alive')
    if (!isKnown) return
    const value = valueIn(bytes, from, to)
    if (length === 17) this.coding = this.coding === 'none' && value === 'chunked' ? 'chunked' : 'unknown'
    else if (length === 16) {
      if (this.contentEncoding === '') this.contentEncoding = value
    } else if (isNamed(bytes, name, 'connection')) this.#connection += `,${value}`
    else {
      const timeout = /\btimeout=(\d{1,6})\b/.exec(value)?.[1]
      if (timeout !== undefined) this.keepAliveS = Number(timeout)
    }
  }

  #readLength(bytes: Buffer, from: number, to: number): void {
    const length = lengthIn(bytes, from, to)
    if (length === null || (this.length !== null && this.length !== length))
      throw new MalformedResponse('bad content-length')
    this.length = length
  }
}

/** The most frequent values; they are compared without making a string. */
const USUAL = ['chunked', 'keep-alive', 'close'] as const

/** A value without surrounding space, in lower case. */
const valueIn = (bytes: Buffer, from: number, to: number): string => {
  const start = bytes[from] === SPACE ? from + 1 : from
  for (const word of USUAL) if (word.length === to - start && isNamed(bytes, start, word)) return word
  return bytes.toString('latin1', from, to).trim().toLowerCase()
}

const VERSION = Buffer.from('HTTP/1.')
const isVersion = (bytes: Buffer): boolean => {
  for (let i = 0; i < VERSION.length; i++) if (bytes[i] !== VERSION[i]) return false
  return true
}

export const headersOf = (head: ResponseHead): Headers => {
  const headers = new Headers()
  for (const [name, value] of head.headers) headers.append(name, value)
  return headers
}
