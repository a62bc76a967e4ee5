// The port of the one outbound dialer (`lib/http-client/dialer.ts`): every part that calls out is given a `Dial`.
import type { CancelSignal } from '../event-loop/cancellation.ts'

export interface DialRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

export interface DialLimits {
  /** Aborting it closes the connection, also while the body is read. */
  readonly signal: CancelSignal
  readonly connectMs: number
  /** From the request being sent to the response headers. */
  readonly headersMs: number
}

/** Told of what it waits for, in the turn in which that comes: a promise for each wait costs a stream more than most of its bytes do. */
export interface ArrivalListener {
  arrived(): void
}

/** Reads a body piece by piece; `value` is there unless `done`. A `ReadableStreamDefaultReader` is one as well. */
export interface ByteReader {
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>
  cancel(): Promise<void>
  /** What has come already, without waiting; null when that is nothing. Throws like `read`. */
  readNow?(): Uint8Array | null
  /** The same as text, where it is at most so many bytes and whole characters beyond doubt; else null, and `readNow` has it. */
  textNow?(mostBytes: number): string | null
  /** Tells it once, when `readNow` has something, or `ended` or a failure has come; to be called where none of these is so. There where `readNow` and `ended` are. */
  listen?(listener: ArrivalListener): void
  /** Gives back what was read, when nobody looks at it any more; its bytes are gone then. */
  release?(bytes: Uint8Array): void
  /** True when it is known that nothing more will come than what can be read at once. */
  readonly ended?: boolean
}

export interface DialResponse {
  readonly status: number
  readonly headers: Headers
  readonly body: ReadableStream<Uint8Array> | null
  /** Takes the body, to be read without a stream in between where that is possible. */
  reader?(): ByteReader
  /** The same as `text`, without a promise, where all of the body has come with its head, as it does nearly always; else null, and `text` has it. */
  wholeText?(maxBytes: number): string | null
  /** The whole body as text; throws `DialFailure('too_large')` beyond the limit. */
  text(maxBytes: number): Promise<string>
}

/** `refused`: by our egress rules. `redirect` is never followed. */
export type DialFailureKind =
  | 'blocked'
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout_connect'
  | 'timeout_headers'
  | 'reset'
  | 'too_large'
  | 'canceled'
  | 'invalid_url'
  | 'invalid_header'

export class DialFailure extends Error {
  override readonly name = 'DialFailure'
  constructor(
    readonly kind: DialFailureKind,
    message: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause })
  }
}

/** Opens one request. A 3xx comes back as it is: redirects are never followed. */
export type Dial = (request: DialRequest, limits: DialLimits) => Promise<DialResponse>
