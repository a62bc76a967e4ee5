// The port of the outbound dialer (`dialer.ts`): every part that calls an upstream receives a `Dial`.
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

/**
 * Called in the iteration of the event loop in which the awaited bytes come. A promise for each wait would cost a
 * stream more than most of its bytes.
 */
export interface ArrivalListener {
  arrived(): void
}

/** Reads a body piece by piece; `value` is set unless `done`. A `ReadableStreamDefaultReader` is one as well. */
export interface ByteReader {
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>
  cancel(): Promise<void>
  /** The bytes that have arrived, without waiting; null for none. Throws like `read`. */
  readNow?(): Uint8Array | null
  /**
   * The same as text, if it is at most `mostBytes` long and certain to be whole characters; else null, and `readNow`
   * returns it.
   */
  textNow?(mostBytes: number): string | null
  /**
   * Calls `listener` once, when `readNow` has bytes, the body has ended or a failure has come. To be called only when
   * none of these holds. Present where `readNow` and `ended` are.
   */
  listen?(listener: ArrivalListener): void
  /** Frees bytes that were read and are no longer used; they are empty afterwards. */
  release?(bytes: Uint8Array): void
  /** True when no more bytes will come than those that `readNow` returns. */
  readonly ended?: boolean
}

export interface DialResponse {
  readonly status: number
  readonly headers: Headers
  readonly body: ReadableStream<Uint8Array> | null
  /** Takes the body, as a reader without a stream in between where possible. */
  reader?(): ByteReader
  /**
   * The same as `text`, without a promise, when the whole body has arrived; else null, and `text` returns it. Nearly
   * all bodies arrive with their head.
   */
  wholeText?(maxBytes: number): string | null
  /** The whole body as text; throws `DialFailure('too_large')` beyond the limit. */
  text(maxBytes: number): Promise<string>
}

/** `blocked`: refused by the egress rules. */
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
