// The output of a connection: whole responses in one write, chunks of live ones, and the bytes that the kernel has not
// taken. Why pieces instead of one text: `bench -- tricks` (answers).

import type { Socket } from 'bun'
import { charsOf, latin1Length, type TextPieces, wholeText, writeLatin1, writeText } from '../text/text-pieces.ts'

/**
 * Responses are assembled here, the head in front of the body; each is written to its socket, or copied, before the
 * next one is assembled. Responses of all tenants pass through it: start and length are computed from the bytes written
 * for this response, so bytes of another tenant are never sent.
 */
const HEAD_ROOM = 8 * 1024
const SCRATCH = Buffer.allocUnsafe(256 * 1024)
/** A character takes at most three bytes in UTF-8. */
const MOST_CHARS = Math.floor((SCRATCH.length - HEAD_ROOM - 16) / 3)
/** The rest of HEAD_ROOM is for the first line, the date and the length. */
const MOST_LINES_CHARS = HEAD_ROOM - 256
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
const LAST_CHUNK = '0\r\n\r\n'
const CR = 13
const LF = 10
const CHUNKED_LINES = 'transfer-encoding: chunked\r\n\r\n'
const NO_LENGTH_LINES = '\r\n'

/** Reason phrases, for human readers. */
const REASONS: Readonly<Record<number, string>> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'No Content',
  301: 'Moved Permanently',
  302: 'Found',
  303: 'See Other',
  304: 'Not Modified',
  307: 'Temporary Redirect',
  308: 'Permanent Redirect',
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  417: 'Expectation Failed',
  422: 'Unprocessable Content',
  425: 'Too Early',
  428: 'Precondition Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  499: 'Client Closed Request',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  505: 'HTTP Version Not Supported',
}
const statusLine = (status: number): string => `HTTP/1.1 ${status} ${REASONS[status] ?? 'Status'}\r\n`
const OK = statusLine(200)

// Mutable: the time of a process has one value, and the line is needed in each response.
let dateSecond = 0
let dateLine = ''
/** The `Date` line, made once a second. */
const date = (): string => {
  const second = Math.floor(Date.now() / 1_000)
  if (second !== dateSecond) {
    dateSecond = second
    dateLine = `date: ${new Date(second * 1_000).toUTCString()}\r\n`
  }
  return dateLine
}

const firstLine = (status: number): string => (status === 200 ? OK : statusLine(status))
const lastLines = (closes: boolean): string => (closes ? `${date()}connection: close\r\n` : date())
/** The length is set for each response. */
const LENGTH_LINES: [string, number, string] = ['content-length: ', 0, '\r\n\r\n']

/** The head of a response, without its length and end. */
export const headText = (status: number, lines: string, closes: boolean): string =>
  firstLine(status) + lines + lastLines(closes)

/** The head of a response of unknown length. `lines`: without those that the server adds. */
export interface OpenHead {
  readonly status: number
  readonly lines: TextPieces
  readonly closes: boolean
}

/** Writes a head that ends at `end`; returns where it begins. `coding`: its last lines. */
const writeHead = (end: number, status: number, lines: TextPieces, closes: boolean, coding: TextPieces): number => {
  const first = firstLine(status)
  const last = lastLines(closes)
  const start = end - first.length - latin1Length(lines) - last.length - latin1Length(coding)
  let at = writeLatin1(SCRATCH, start, first)
  at = writeLatin1(SCRATCH, at, lines)
  at = writeLatin1(SCRATCH, at, last)
  writeLatin1(SCRATCH, at, coding)
  return start
}

/** Writes the size line of a chunk, which ends at HEAD_ROOM; returns where it begins. */
const writeSize = (size: number): number => {
  let at = HEAD_ROOM - 2
  SCRATCH[at] = CR
  SCRATCH[at + 1] = LF
  for (let rest = size; rest > 0; rest >>>= 4) {
    const digit = rest & 15
    SCRATCH[--at] = digit + (digit < 10 ? 48 : 87)
  }
  return at
}

/** How a response must be sent. */
export interface ReplyForm {
  readonly closes: boolean
  /** Only the head is sent. */
  readonly isHead: boolean
  /** The client speaks HTTP/1.1 and reads chunks; else the end of the connection ends a body of unknown length. */
  readonly isOne: boolean
}

/** Receives the progress of a connection's output. */
export interface OutputWatch {
  /** The kernel takes no more for now, or has taken some. */
  blocked(): void
  /** The kernel has taken everything. */
  drained(): void
}

export class ServerOutput {
  #socket: Socket<unknown> | null = null
  #unsent: Buffer[] = []
  #whenDrained: (() => void) | null = null
  /** The socket is closed: output is dropped. */
  dead = false
  /** A part of the current response has been sent. */
  hasBegun = false
  #continued = false
  /** Called when the socket closes. */
  whenDead: (() => void) | null = null

  constructor(private readonly watch: OutputWatch) {}

  opened(socket: Socket<unknown>): void {
    this.#socket = socket
  }

  /** A response begins. */
  begin(): void {
    this.hasBegun = false
    this.#continued = false
  }

  /** Requests the body from a client that waits for `100 Continue`; once, and not within a response. */
  sendContinue(): void {
    if (this.#continued || this.hasBegun) return
    this.#continued = true
    this.text(CONTINUE)
    this.hasBegun = false
  }

  /** Sends an interim response, which no client takes for the response: a client that has disconnected resets it. */
  sendInterim(): void {
    if (this.hasBegun || this.isBlocked) return
    this.text(CONTINUE)
    this.hasBegun = false
  }

  get isBlocked(): boolean {
    return this.#unsent.length > 0
  }

  /** A response with a known body. `lines`: of its head, without those that the server adds. */
  whole(status: number, lines: TextPieces, closes: boolean, body: TextPieces): void {
    if (charsOf(body) > MOST_CHARS || charsOf(lines) > MOST_LINES_CHARS) {
      this.#large(headText(status, wholeText(lines), closes), Buffer.from(wholeText(body)))
      return
    }
    const size = writeText(SCRATCH, HEAD_ROOM, body) - HEAD_ROOM
    LENGTH_LINES[1] = size
    const start = writeHead(HEAD_ROOM, status, lines, closes, LENGTH_LINES)
    this.#sendScratch(start, HEAD_ROOM + size - start)
  }

  /** As `whole`, with a body of bytes. */
  bytes(head: string, body: Uint8Array): void {
    this.#large(head, body)
  }

  /** A head, or another short text of one byte a character. */
  text(text: string): void {
    if (text.length > HEAD_ROOM) this.#send(Buffer.from(text, 'latin1'))
    else this.#sendScratch(0, SCRATCH.write(text, 0, 'latin1'))
  }

  /** A piece of a body, as a chunk unless the client reads none. `head`: sent first. `last`: ends the body. */
  piece(head: OpenHead | null, first: string, others: readonly string[] | null, chunked: boolean, last: boolean): void {
    const coding = chunked ? CHUNKED_LINES : NO_LENGTH_LINES
    const length = first.length + (others === null ? 0 : charsOf(others))
    if (length > MOST_CHARS || (head !== null && charsOf(head.lines) > MOST_LINES_CHARS)) {
      const before = head === null ? '' : headText(head.status, wholeText(head.lines), head.closes) + coding
      this.pieceOfBytes(before, Buffer.from(first + (others ?? []).join('')), chunked, last)
      return
    }
    let end = writeText(SCRATCH, HEAD_ROOM, first)
    if (others !== null) end = writeText(SCRATCH, end, others)
    const size = end - HEAD_ROOM
    const isChunk = chunked && size > 0
    if (isChunk) {
      SCRATCH[end++] = CR
      SCRATCH[end++] = LF
    }
    if (chunked && last) end = writeLatin1(SCRATCH, end, LAST_CHUNK)
    let start = isChunk ? writeSize(size) : HEAD_ROOM
    if (head !== null) start = writeHead(start, head.status, head.lines, head.closes, coding)
    this.#sendScratch(start, end - start)
  }

  pieceOfBytes(before: string, data: Uint8Array, chunked: boolean, last: boolean): void {
    const isChunk = chunked && data.length > 0
    const end = `${isChunk ? '\r\n' : ''}${chunked && last ? LAST_CHUNK : ''}`
    this.#send(
      Buffer.concat([
        Buffer.from(isChunk ? `${before}${data.length.toString(16)}\r\n` : before, 'latin1'),
        data,
        Buffer.from(end),
      ]),
    )
  }

  /** 0 when the kernel has taken all output, else a promise of that; it also settles when the client disconnects. */
  flushed(): number | Promise<number> {
    if (!this.isBlocked) return 0
    const { promise, resolve } = Promise.withResolvers<number>()
    const earlier = this.#whenDrained
    this.#whenDrained = () => {
      earlier?.()
      resolve(0)
    }
    return promise
  }

  /** The socket takes more. */
  drain(): void {
    if (!this.isBlocked) return
    const socket = this.#socket!
    while (this.#unsent.length > 0 && !this.dead) {
      const first = this.#unsent[0]!
      const written = socket.write(first)
      if (written < 0) return
      if (written < first.length) {
        this.#unsent[0] = first.subarray(written)
        this.watch.blocked()
        return
      }
      this.#unsent.shift()
    }
    this.#settle()
    this.watch.drained()
  }

  /** The socket is closed. */
  close(): void {
    this.dead = true
    this.#unsent = []
    this.#settle()
    this.whenDead?.()
  }

  #settle(): void {
    const settle = this.#whenDrained
    this.#whenDrained = null
    settle?.()
  }

  #large(head: string, body: Uint8Array): void {
    this.#send(Buffer.concat([Buffer.from(`${head}content-length: ${body.length}\r\n\r\n`, 'latin1'), body]))
  }

  #sendScratch(start: number, length: number): void {
    this.hasBegun = true
    if (this.dead) return
    const written = this.isBlocked ? 0 : this.#socket!.write(SCRATCH, start, length)
    if (written < 0 || written === length) return
    this.#buffer(Buffer.from(SCRATCH.subarray(start + written, start + length)))
  }

  #send(bytes: Buffer): void {
    this.hasBegun = true
    if (this.dead) return
    const written = this.isBlocked ? 0 : this.#socket!.write(bytes)
    if (written < 0 || written === bytes.length) return
    this.#buffer(written === 0 ? bytes : bytes.subarray(written))
  }

  #buffer(rest: Buffer): void {
    this.#unsent.push(rest)
    if (this.#unsent.length === 1) this.watch.blocked()
  }
}
