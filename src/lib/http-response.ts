// An incremental parser of one HTTP/1.1 response, strict where leniency is how answers get mixed up: both lengths, bad
// lengths, folded or malformed headers and early ends are errors.

/** The head of an answer. Its headers are read when somebody asks: nearly all answers are used without. */
export class ResponseHead {
  #headers: readonly (readonly [string, string])[] | null = null

  constructor(
    readonly status: number,
    /** The first `Content-Encoding`, lower case; '' when absent. */
    readonly contentEncoding: string,
    /** Well-formed header lines, each after its CRLF. */
    private readonly lines: string,
  ) {}

  /** Names in lower case, in order. */
  get headers(): readonly (readonly [string, string])[] {
    this.#headers ??= this.lines
      .split('\r\n')
      .slice(1)
      .map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
      })
    return this.#headers
  }
}

/** The bytes are no HTTP response that we accept, or ended early. */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse'
}

const MAX_HEAD_BYTES = 64 * 1024
const MAX_HEADERS = 256
const MAX_LINE_BYTES = 4 * 1024
const MAX_INTERIM = 10

const STATUS_LINE = /^HTTP\/1\.[01] [1-9]\d\d(?: .*)?$/
/** Every header line of a head at once: a token, a colon, no control characters. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const HEADER_LINES = /^(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\0-\x08\x0a-\x1f\x7f]*)*$/
const CHUNK_SIZE = /^([0-9A-Fa-f]{1,12})[ \t]*(?:;.*)?$/
const LENGTH = /^\d{1,15}$/
const EMPTY = Buffer.alloc(0)

/** The value of an ASCII hexadecimal digit, -1 for anything else. */
const hexDigit = (code: number | undefined): number => {
  if (code === undefined) return -1
  if (code >= 48 && code <= 57) return code - 48
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/** The stretches of `bytes` between pairs of edges, moved together in place: what stands between them is of no more use. */
const joined = (bytes: Buffer, edges: readonly number[]): Buffer => {
  const start = edges[0]!
  let at = edges[1]!
  for (let i = 2; i < edges.length; i += 2) {
    bytes.copyWithin(at, edges[i]!, edges[i + 1]!)
    at += edges[i + 1]! - edges[i]!
  }
  return bytes.subarray(start, at)
}

interface Framing {
  length: string | null
  coding: string | null
  connection: string
  encoding: string
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

/** Takes the pieces of a body, in order; the bytes are its own to keep. */
export interface BodySink {
  take(chunk: Uint8Array): void
}

export class ResponseParser {
  /** Set by the first push that completes it. */
  head: ResponseHead | null = null
  /** The connection may serve another request once this one is done. */
  keepAlive = false
  /** Seconds that the server promised to keep an idle connection; null: it said nothing. */
  keepAliveS: number | null = null
  #state: State = State.Head
  #held: Buffer = EMPTY // an unfinished head or line, as a copy: the bytes are the sink's
  #left = 0 // of the body or the chunk
  #interim = 0
  #trailerBytes = 0
  readonly #edges: number[] = []

  constructor(
    readonly method: string,
    private readonly body: BodySink,
  ) {}

  get done(): boolean {
    return this.#state === State.Done
  }

  /** Throws MalformedResponse. True when bytes came after the end: the connection must not be used again. */
  push(bytes: Buffer): boolean {
    let rest = bytes
    while (rest.length > 0) {
      if (this.#state === State.Done) return true
      rest = this.#step(rest)
    }
    return false
  }

  /** The connection closed. Throws when more should have come. */
  close(): void {
    if (this.#state === State.UntilClose) this.#state = State.Done
    if (this.#state !== State.Done) throw new MalformedResponse('the connection closed before the answer was complete')
  }

  #step(bytes: Buffer): Buffer {
    switch (this.#state) {
      case State.Head:
        return this.#readHead(bytes)
      case State.Length:
      case State.ChunkData: {
        const take = Math.min(this.#left, bytes.length)
        this.body.take(take === bytes.length ? bytes : bytes.subarray(0, take))
        this.#left -= take
        if (this.#left === 0) this.#state = this.#state === State.Length ? State.Done : State.ChunkEnd
        return bytes.subarray(take)
      }
      case State.UntilClose:
        this.body.take(bytes)
        return EMPTY
      case State.ChunkSize: {
        const taken = this.#held.length === 0 ? this.#wholeChunks(bytes) : 0
        return taken > 0 ? bytes.subarray(taken) : this.#readLine(bytes)
      }
      default:
        return this.#readLine(bytes)
    }
  }

  /**
   * Takes the well-formed chunks that are there whole, as one piece and without a string for each size; answers how many bytes those were.
   * The rest goes line by line.
   */
  #wholeChunks(bytes: Buffer): number {
    const edges = this.#edges
    edges.length = 0
    let taken = 0
    for (;;) {
      let size = 0
      let at = taken
      for (let digit = hexDigit(bytes[at]); digit >= 0 && at < taken + 7; digit = hexDigit(bytes[++at])) {
        size = size * 16 + digit
      }
      const from = at + 2
      const end = from + size
      if (size === 0 || bytes[at] !== 13 || bytes[at + 1] !== 10 || bytes[end] !== 13 || bytes[end + 1] !== 10) break
      edges.push(from, end)
      taken = end + 2
    }
    if (edges.length === 2) this.body.take(bytes.subarray(edges[0], edges[1]))
    else if (edges.length > 2) this.body.take(joined(bytes, edges))
    return taken
  }

  #readHead(bytes: Buffer): Buffer {
    const from = Math.max(0, this.#held.length - 3)
    const all = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    const end = all.indexOf('\r\n\r\n', from, 'latin1')
    if (end > MAX_HEAD_BYTES || (end === -1 && all.length > MAX_HEAD_BYTES))
      throw new MalformedResponse(`response headers exceed ${MAX_HEAD_BYTES} bytes`)
    if (end === -1) {
      // What does not begin like a response is refused now: it may never send an empty line.
      if (!all.toString('latin1', 0, 5).startsWith('HTTP/'.slice(0, Math.min(5, all.length))))
        throw new MalformedResponse('not an HTTP response')
      this.#held = all === bytes ? Buffer.from(bytes) : all
      return EMPTY
    }
    this.#held = EMPTY
    this.#parseHead(all.toString('latin1', 0, end))
    return all.subarray(end + 4)
  }

  #parseHead(text: string): void {
    const first = text.indexOf('\r\n')
    const statusLine = first === -1 ? text : text.slice(0, first)
    if (!STATUS_LINE.test(statusLine)) throw new MalformedResponse('malformed status line')
    const lines = first === -1 ? '' : text.slice(first)
    if (!HEADER_LINES.test(lines)) throw new MalformedResponse('malformed response header')
    const isOne = statusLine.charCodeAt(7) === 49
    const status = Number(statusLine.slice(9, 12))
    const framing = this.#readFraming(lines)
    if (status < 200) {
      if (status === 101 || ++this.#interim > MAX_INTERIM) throw new MalformedResponse(`unexpected status ${status}`)
      return
    }
    const { connection } = framing
    this.keepAlive = isOne
      ? connection === '' || !/\bclose\b/.test(connection)
      : connection !== '' && /\bkeep-alive\b/.test(connection)
    this.head = new ResponseHead(status, framing.encoding, lines)
    this.#frame(status, framing.length, framing.coding, isOne)
  }

  /** What the head says about the body and the connection. Lines of other headers are passed over by the length of their names. */
  #readFraming(lines: string): Framing {
    const framing: Framing = { length: null, coding: null, connection: '', encoding: '' }
    let count = 0
    for (let at = 0; at < lines.length; ) {
      if (++count >= MAX_HEADERS) throw new MalformedResponse(`more than ${MAX_HEADERS} response headers`)
      const colon = lines.indexOf(':', at)
      let end = lines.indexOf('\r\n', colon)
      if (end === -1) end = lines.length
      const length = colon - at - 2
      if (length === 10 || length === 14 || length === 16 || length === 17)
        this.#readHeader(lines.slice(at + 2, colon).toLowerCase(), lines.slice(colon + 1, end).trim(), framing)
      at = end
    }
    return framing
  }

  #readHeader(name: string, value: string, framing: Framing): void {
    if (name === 'content-length') {
      if (!LENGTH.test(value) || (framing.length !== null && framing.length !== value))
        throw new MalformedResponse('bad content-length')
      framing.length = value
    } else if (name === 'transfer-encoding') {
      const coding = value.toLowerCase()
      framing.coding = framing.coding === null ? coding : `${framing.coding},${coding}`
    } else if (name === 'connection') framing.connection += `,${value.toLowerCase()}`
    else if (name === 'keep-alive') this.#readKeepAlive(value)
    else if (name === 'content-encoding' && framing.encoding === '') framing.encoding = value.toLowerCase()
  }

  #readKeepAlive(value: string): void {
    const timeout = /\btimeout=(\d{1,6})\b/i.exec(value)?.[1]
    if (timeout !== undefined) this.keepAliveS = Number(timeout)
  }

  #frame(status: number, length: string | null, coding: string | null, chunkedAllowed: boolean): void {
    if (coding !== null && (coding !== 'chunked' || length !== null || !chunkedAllowed))
      throw new MalformedResponse('unusable transfer-encoding')
    if (this.method === 'HEAD' || status === 204 || status === 304 || length === '0') this.#state = State.Done
    else if (coding !== null) this.#state = State.ChunkSize
    else if (length !== null) {
      this.#left = Number(length)
      this.#state = this.#left === 0 ? State.Done : State.Length
    } else {
      this.keepAlive = false
      this.#state = State.UntilClose
    }
  }

  /** One CRLF line of the chunked framing. */
  #readLine(bytes: Buffer): Buffer {
    const all = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    const end = all.indexOf(10)
    if (end > MAX_LINE_BYTES || (end === -1 && all.length > MAX_LINE_BYTES))
      throw new MalformedResponse('a line of the chunked body is too long')
    if (end === -1) {
      this.#held = all === bytes ? Buffer.from(bytes) : all
      return EMPTY
    }
    this.#held = EMPTY
    if (end === 0 || all[end - 1] !== 13) throw new MalformedResponse('a line of the chunked body ends without CR')
    this.#line(all.toString('latin1', 0, end - 1))
    return all.subarray(end + 1)
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
