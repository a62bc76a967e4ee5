// An incremental parser of one HTTP/1.1 response, strict where leniency mixes responses up: both lengths, invalid
// lengths, folded or malformed headers and early ends are errors.
import { MalformedResponse, ResponseHead } from './response-head.ts'

const MAX_HEAD_BYTES = 64 * 1024
const MAX_LINE_BYTES = 4 * 1024
const MAX_INTERIM = 10

const CHUNK_SIZE = /^([0-9A-Fa-f]{1,12})[ \t]*(?:;.*)?$/
const EMPTY = Buffer.alloc(0)

/** The value of an ASCII hexadecimal digit, -1 for anything else. */
const hexDigit = (code: number | undefined): number => {
  if (code === undefined) return -1
  if (code >= 48 && code <= 57) return code - 48
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/**
 * Offsets of the chunks of one read. Shared by all parsers, since `#wholeChunks` is synchronous; it clears them first
 * and they hold no bytes.
 */
const edges: number[] = []

/**
 * Joins the stretches of `bytes` between pairs of edges in place, behind the first stretch; the framing between them is
 * overwritten.
 */
const joinEdges = (bytes: Buffer): void => {
  let at = edges[1]!
  for (let i = 2; i < edges.length; i += 2) {
    bytes.copyWithin(at, edges[i]!, edges[i + 1]!)
    at += edges[i + 1]! - edges[i]!
  }
  edges[1] = at
}

enum State {
  Head,
  Length,
  ChunkSize,
  ChunkData,
  ChunkEnd,
  Trailers,
  UntilClose,
  Done,
}

/**
 * Takes the pieces of a body in order: the bytes from `from` to before `to`, which no other component writes to.
 * Offsets instead of views: a view for each response costs 1 % of a request.
 */
export interface BodySink {
  take(bytes: Buffer, from: number, to: number): void
}

export class ResponseParser {
  /** Set by the push that completes it. */
  head: ResponseHead | null = null
  /** The connection may carry another request after this response. */
  keepAlive = false
  #state: State = State.Head
  // An unfinished head or line, as a copy: the bytes belong to the sink.
  #buffered: Buffer = EMPTY
  // Bytes left of the body or the chunk.
  #left = 0
  #interim = 0
  #trailerBytes = 0

  constructor(
    readonly method: string,
    private readonly body: BodySink,
  ) {}

  /** Seconds for which the server keeps an idle connection; null when it sent none. */
  get keepAliveS(): number | null {
    return this.head?.keepAliveS ?? null
  }

  get done(): boolean {
    return this.#state === State.Done
  }

  /** Throws MalformedResponse. True when bytes followed the end: the connection must not be reused. */
  push(bytes: Buffer): boolean {
    let at = 0
    while (at < bytes.length) {
      if (this.#state === State.Done) return true
      at = this.#step(bytes, at)
    }
    return false
  }

  /** The connection has closed. Throws when the response is incomplete. */
  close(): void {
    if (this.#state === State.UntilClose) this.#state = State.Done
    if (this.#state !== State.Done) throw new MalformedResponse('the connection closed before the answer was complete')
  }

  /** Parses from `at` on; returns how far it came. */
  #step(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case State.Head:
        return this.#readHead(bytes, at)
      case State.Length:
      case State.ChunkData: {
        const to = Math.min(at + this.#left, bytes.length)
        this.body.take(bytes, at, to)
        this.#left -= to - at
        if (this.#left === 0) this.#state = this.#state === State.Length ? State.Done : State.ChunkEnd
        return to
      }
      case State.UntilClose:
        this.body.take(bytes, at, bytes.length)
        return bytes.length
      case State.ChunkSize: {
        const to = this.#buffered.length === 0 ? this.#wholeChunks(bytes, at) : at
        return to > at ? to : this.#readLine(bytes, at)
      }
      default:
        return this.#readLine(bytes, at)
    }
  }

  /**
   * Takes the well-formed chunks that have arrived whole, as one piece and without a string for each size, and the end
   * of the body behind them; returns how far that was. The rest is parsed line by line.
   */
  #wholeChunks(bytes: Buffer, start: number): number {
    edges.length = 0
    let taken = start
    for (;;) {
      let size = 0
      let at = taken
      for (let digit = hexDigit(bytes[at]); digit >= 0 && at < taken + 7; digit = hexDigit(bytes[++at])) {
        size = size * 16 + digit
      }
      const from = at + 2
      const end = from + size
      if (at === taken || bytes[at] !== 13 || bytes[at + 1] !== 10 || bytes[end] !== 13 || bytes[end + 1] !== 10) break
      taken = end + 2
      if (size === 0) {
        this.#state = State.Done
        break
      }
      edges.push(from, end)
    }
    if (edges.length > 2) joinEdges(bytes)
    if (edges.length > 0) this.body.take(bytes, edges[0]!, edges[1]!)
    return taken
  }

  #readHead(bytes: Buffer, at: number): number {
    const { length } = this.#buffered
    const came = at === 0 ? bytes : bytes.subarray(at)
    const all = length === 0 ? came : Buffer.concat([this.#buffered, came])
    const end = all.indexOf('\r\n\r\n', Math.max(0, length - 3), 'latin1')
    if (end > MAX_HEAD_BYTES || (end === -1 && all.length > MAX_HEAD_BYTES))
      throw new MalformedResponse(`response headers exceed ${MAX_HEAD_BYTES} bytes`)
    if (end === -1) {
      // Bytes that do not begin like a response are refused now: they may never contain an empty line.
      if (!all.toString('latin1', 0, 5).startsWith('HTTP/'.slice(0, Math.min(5, all.length))))
        throw new MalformedResponse('not an HTTP response')
      this.#buffered = all === came ? Buffer.from(came) : all
      return bytes.length
    }
    this.#buffered = EMPTY
    this.#headRead(new ResponseHead(all, end))
    return at + end + 4 - length
  }

  #headRead(head: ResponseHead): void {
    const { status, length, coding } = head
    if (status < 200) {
      if (status === 101 || ++this.#interim > MAX_INTERIM) throw new MalformedResponse(`unexpected status ${status}`)
      return
    }
    if (coding === 'unknown' || (coding === 'chunked' && (length !== null || !head.isOne)))
      throw new MalformedResponse('unusable transfer-encoding')
    this.head = head
    this.keepAlive = head.keepsAlive
    if (this.method === 'HEAD' || status === 204 || status === 304 || length === 0) this.#state = State.Done
    else if (coding === 'chunked') this.#state = State.ChunkSize
    else if (length !== null) {
      this.#left = length
      this.#state = State.Length
    } else {
      this.keepAlive = false
      this.#state = State.UntilClose
    }
  }

  /** One CRLF line of the chunked framing. */
  #readLine(bytes: Buffer, at: number): number {
    const lineEnd = bytes.indexOf(10, at)
    const to = lineEnd === -1 ? bytes.length : lineEnd
    if (this.#buffered.length + to - at > MAX_LINE_BYTES)
      throw new MalformedResponse('a line of the chunked body is too long')
    if (lineEnd === -1) {
      this.#buffered = Buffer.concat([this.#buffered, bytes.subarray(at)])
      return to
    }
    const line = this.#buffered.toString('latin1') + bytes.toString('latin1', at, to)
    this.#buffered = EMPTY
    if (!line.endsWith('\r')) throw new MalformedResponse('a line of the chunked body ends without CR')
    this.#line(line.slice(0, -1))
    return to + 1
  }

  #line(text: string): void {
    if (this.#state === State.ChunkEnd) {
      if (text !== '') throw new MalformedResponse('a chunk is longer than its size')
      this.#state = State.ChunkSize
    } else if (this.#state === State.ChunkSize) {
      const size = CHUNK_SIZE.exec(text)?.[1]
      if (size === undefined) throw new MalformedResponse('malformed chunk size')
      this.#left = Number.parseInt(size, 16)
      this.#state = this.#left === 0 ? State.Trailers : State.ChunkData
    } else {
      this.#trailerBytes += text.length
      if (this.#trailerBytes > MAX_HEAD_BYTES) throw new MalformedResponse('trailers are too long')
      if (text === '') this.#state = State.Done
    }
  }
}
