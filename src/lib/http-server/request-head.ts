// The head of an HTTP/1.1 request, parsed from its bytes in one pass; strings are made only of headers that are
// requested (`bench -- tricks`, request_head). A head that could be read in two ways is refused: that difference is how
// requests are smuggled (RFC 9112, 11.2).
import { COLON, CR, isDigit, isLineEnd, isNamed, isSpace, isText, LF, lengthIn, SPACE, TOKEN } from '../http/syntax.ts'
import type { HeaderReader } from './inbound.ts'

/** Largest head, and most headers of one. */
export const HEAD_BYTES = 16 * 1024
const MAX_HEADERS = 200
/** Room for twelve headers; it grows. */
const USUAL_FIELDS = 48

/**
 * The bytes are no acceptable request. The connection ends with the response: the beginning of the next request is
 * unknown.
 */
export class MalformedRequest extends Error {
  override readonly name = 'MalformedRequest'
  constructor(
    message: string,
    readonly status: 400 | 417 | 431 | 501 | 505 = 400,
    /** The header at fault, or null. */
    readonly param: string | null = null,
  ) {
    super(message)
  }
}

const EMPTY_LINE = Buffer.from('\r\n\r\n')
/**
 * Index of the empty line that ends the head, with the CRLF before it; -1 when it has not arrived. `from`: bytes
 * searched before.
 */
export const headEnd = (bytes: Buffer, from: number): number => bytes.indexOf(EMPTY_LINE, Math.max(0, from - 3))

/** Whether these bytes, in which no head ends, may be the beginning of one. `from`: bytes searched before. */
export const mayBecomeHead = (bytes: Buffer, from: number): boolean => {
  // Four more bytes may be the end of the largest head.
  if (bytes.length > HEAD_BYTES + EMPTY_LINE.length - 1 || !isUpper(bytes[0]!)) return false
  for (let at = bytes.indexOf(LF, from); at !== -1; at = bytes.indexOf(LF, at + 1))
    if (bytes[at - 1] !== CR) return false
  return true
}

/** `end`: from `headEnd`. Throws MalformedRequest. */
export const readHead = (bytes: Buffer, end: number): RequestHead => {
  if (end >= 0 ? end > HEAD_BYTES : bytes.length > HEAD_BYTES + EMPTY_LINE.length - 1)
    throw new MalformedRequest(`the head is larger than ${HEAD_BYTES} bytes`, 431)
  return new RequestHead(bytes, end < 0 ? bytes.length : end)
}

const METHOD_BYTES = 24
const isUpper = (byte: number): boolean => byte >= 65 && byte <= 90
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[\w.~!$&'()*+;=%-]*)(?::\d{0,5})?$/
const VERSION = Buffer.from('HTTP/1.')

/** Letters, digits, dots and hyphens, and perhaps a port: nearly all hosts, checked without making a string. */
const isPlainHost = (bytes: Buffer, from: number, to: number): boolean => {
  let at = from
  while (at < to && (isDigit(bytes[at]!) || isLower(bytes[at]! | 32) || bytes[at] === 45 || bytes[at] === 46)) at++
  if (at === from || at === to) return at === to
  if (bytes[at] !== COLON || to - at > 6) return false
  at++
  while (at < to && isDigit(bytes[at]!)) at++
  return at === to
}
/** Visible ASCII: other characters of a URL are percent-encoded (RFC 9112, 3.2). */
const isTargetByte = (byte: number): boolean => byte > SPACE && byte < 127
const isLower = (byte: number): boolean => byte >= 97 && byte <= 122

/** Parses the head in the first `end` bytes. Throws MalformedRequest. */
export class RequestHead implements HeaderReader {
  /** True for HTTP/1.1, false for HTTP/1.0. */
  isOne = false
  /** `Content-Length`; null when absent. */
  length: number | null = null
  isChunked = false
  /** The client waits for `100 Continue` before it sends its body. */
  expectsContinue = false
  #closes = false
  /** Where the value of `Host` begins and ends; -1 for none. */
  #hostFrom = -1
  #hostTo = -1
  #methodEnd = 0
  #targetEnd = 0
  /** Four numbers for each header: start and length of its name, start and end of its value. */
  readonly #fields = new Array<number>(USUAL_FIELDS)
  /** Used entries of `#fields`. */
  #used = 0

  constructor(
    readonly bytes: Buffer,
    end: number,
  ) {
    this.#readLines(this.#readRequestLine(end), end)
    this.#check()
  }

  get method(): string {
    return this.bytes.toString('latin1', 0, this.#methodEnd)
  }

  get isHead(): boolean {
    return this.#methodEnd === 4 && isNamed(this.bytes, 0, 'head')
  }

  /** As it was sent. */
  get target(): string {
    return this.bytes.toString('latin1', this.#methodEnd + 1, this.#targetEnd)
  }

  /** `Host`, '' for none in HTTP/1.0. */
  get host(): string {
    return this.#hostFrom < 0 ? '' : this.bytes.toString('latin1', this.#hostFrom, this.#hostTo)
  }

  /** Whether the client permits another request on the connection. HTTP/1.0 connections carry one. */
  get keepsAlive(): boolean {
    return this.isOne && !this.#closes
  }

  /** Whether method and target equal this line, with the space between them. */
  isFor(line: Buffer): boolean {
    if (this.#targetEnd !== line.length) return false
    const { bytes } = this
    for (let i = 0; i < line.length; i++) if (bytes[i] !== line[i]) return false
    return true
  }

  get(name: string): string | null {
    const used = this.#used
    let found: string | null = null
    for (let i = 0; i < used; i += 4)
      if (this.#isField(i, name)) {
        const value = this.#value(i)
        found = found === null ? value : `${found}, ${value}`
      }
    return found
  }

  has(name: string): boolean {
    const used = this.#used
    for (let i = 0; i < used; i += 4) if (this.#isField(i, name)) return true
    return false
  }

  /** All headers, in order. */
  entries(): [string, string][] {
    const all: [string, string][] = []
    const fields = this.#fields
    const used = this.#used
    for (let i = 0; i < used; i += 4)
      all.push([this.bytes.toString('latin1', fields[i]!, fields[i]! + fields[i + 1]!), this.#value(i)])
    return all
  }

  /** Case-insensitive: no two characters of a name differ by the sixth bit alone, except letters, `^` and `~`. */
  #isField(i: number, name: string): boolean {
    const fields = this.#fields
    if (fields[i + 1] !== name.length) return false
    const at = fields[i]!
    const { bytes } = this
    for (let k = 0; k < name.length; k++) if ((bytes[at + k]! | 32) !== (name.charCodeAt(k) | 32)) return false
    return true
  }

  #value(i: number): string {
    const fields = this.#fields
    return this.bytes.toString('latin1', fields[i + 2]!, fields[i + 3]!)
  }

  /** Parses `POST /path HTTP/1.1`; returns where the line ends. */
  #readRequestLine(end: number): number {
    const { bytes } = this
    let at = 0
    while (isUpper(bytes[at]!)) at++
    this.#methodEnd = at
    at++
    while (at < end && isTargetByte(bytes[at]!)) at++
    this.#targetEnd = at
    const version = at + 1
    const lineEnd = version + VERSION.length + 1
    const length = this.#methodEnd
    const hasMethod = length > 0 && length <= METHOD_BYTES && bytes[length] === SPACE
    if (hasMethod && at < end && bytes[at]! > 127)
      throw new MalformedRequest('the path holds a character that must be percent-encoded')
    if (!hasMethod || at === length + 1 || bytes[at] !== SPACE)
      throw new MalformedRequest('the first line must be a method, a path and HTTP/1.1, with one space between')
    for (let i = 0; i < VERSION.length; i++) if (bytes[version + i] !== VERSION[i]) throw this.#otherVersion(version)
    const minor = bytes[lineEnd - 1]!
    if (!isDigit(minor) || !isLineEnd(bytes, lineEnd)) throw this.#otherVersion(version)
    if (minor > 0x31) throw this.#otherVersion(version)
    this.isOne = minor === 0x31
    return lineEnd
  }

  #otherVersion(at: number): MalformedRequest {
    const line = this.bytes.toString('latin1', at, at + 12)
    if (/^HTTP\/\d(?:\.\d)?\r\n/.test(line))
      return new MalformedRequest('only HTTP/1.1 and HTTP/1.0 are spoken here', 505)
    return new MalformedRequest('the first line must end in HTTP/1.1 and a line break of CR and LF')
  }

  #readLines(start: number, end: number): void {
    const { bytes } = this
    const fields = this.#fields
    // Each line is parsed from the CRLF before it.
    for (let at = start; at < end; ) {
      if (this.#used === 4 * MAX_HEADERS) throw new MalformedRequest(`more than ${MAX_HEADERS} headers`, 431)
      const name = at + 2
      let colon = name
      while (TOKEN[bytes[colon]!] === 1) colon++
      at = colon + 1
      while (at < end && isText(bytes[at]!)) at++
      if (colon === name || bytes[colon] !== COLON || !isLineEnd(bytes, at)) throw malformedLine(bytes, name, colon, at)
      let from = colon + 1
      let to = at
      while (from < to && isSpace(bytes[from]!)) from++
      while (to > from && isSpace(bytes[to - 1]!)) to--
      fields[this.#used++] = name
      fields[this.#used++] = colon - name
      fields[this.#used++] = from
      fields[this.#used++] = to
      this.#note(name, colon - name, from, to)
    }
  }

  /** Reads the headers that decide where the request ends and whether the connection stays. */
  #note(name: number, length: number, from: number, to: number): void {
    const { bytes } = this
    if (length === 4) {
      if (isNamed(bytes, name, 'host')) this.#noteHost(from, to)
    } else if (length === 6) {
      if (isNamed(bytes, name, 'expect')) this.#noteExpect(from, to)
    } else if (length === 10) {
      if (isNamed(bytes, name, 'connection')) this.#noteConnection(from, to)
    } else if (length === 14) {
      if (isNamed(bytes, name, 'content-length')) this.#noteLength(from, to)
    } else if (length === 17 && isNamed(bytes, name, 'transfer-encoding')) this.#noteCoding(from, to)
  }

  #noteHost(from: number, to: number): void {
    // A proxy in front may have routed by the other one.
    if (this.#hostFrom >= 0) throw new MalformedRequest('send one Host header', 400, 'host')
    this.#hostFrom = from
    this.#hostTo = to
    if (isPlainHost(this.bytes, from, to)) return
    const { host } = this
    if (host.includes(',')) throw new MalformedRequest('send one Host header', 400, 'host')
    if (!HOST.test(host)) throw new MalformedRequest('the Host header is no host', 400, 'host')
  }

  #noteExpect(from: number, to: number): void {
    if (this.bytes.toString('latin1', from, to).toLowerCase() !== '100-continue')
      throw new MalformedRequest('nothing but 100-continue can be expected', 417, 'Expect')
    // HTTP/1.0 has no interim responses.
    this.expectsContinue = this.isOne
  }

  #noteConnection(from: number, to: number): void {
    if (to - from === 10 && isNamed(this.bytes, from, 'keep-alive')) return
    const options = this.bytes.toString('latin1', from, to).toLowerCase()
    if (options.split(',').some((option) => option.trim() === 'close')) this.#closes = true
  }

  #noteLength(from: number, to: number): void {
    const length = lengthIn(this.bytes, from, to)
    if (length === null || this.length !== null)
      throw new MalformedRequest('send one Content-Length, a whole number', 400, 'Content-Length')
    this.length = length
  }

  #noteCoding(from: number, to: number): void {
    const coding = this.bytes.toString('latin1', from, to).toLowerCase()
    if (coding !== 'chunked' || this.isChunked)
      throw new MalformedRequest('the only Transfer-Encoding is chunked, once', 501, 'Transfer-Encoding')
    this.isChunked = true
  }

  #check(): void {
    if (this.#hostFrom < 0 && this.isOne) throw new MalformedRequest('send a Host header', 400, 'host')
    if (!this.isChunked) return
    if (this.length !== null)
      throw new MalformedRequest('send Content-Length or Transfer-Encoding, not both', 400, 'Transfer-Encoding')
    if (!this.isOne) throw new MalformedRequest('HTTP/1.0 has no Transfer-Encoding', 400, 'Transfer-Encoding')
  }
}

const malformedLine = (bytes: Buffer, name: number, colon: number, end: number): MalformedRequest => {
  const first = bytes[name]
  if (isSpace(first!)) return new MalformedRequest('a header must not be folded over several lines')
  const shown = colon > name && colon - name <= 64 ? ` ${bytes.toString('latin1', name, colon)}` : ''
  if (bytes[colon] !== COLON) return new MalformedRequest(`the header${shown} is not a name and a colon`)
  const isBare = bytes[end] === LF || bytes[end] === CR
  return new MalformedRequest(
    isBare ? `the header${shown} must end in CR and LF` : `the header${shown} holds a control character`,
  )
}
