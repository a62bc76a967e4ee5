// The response to one request on a connection: headers, then a body that is read as text or as a stream, with
// backpressure.
import type { CancelSignal } from '../event-loop/cancellation.ts'
import type { Deadlines, Timed } from '../event-loop/deadlines.ts'
import { type Arrival, stages } from '../event-loop/stages.ts'
import { freeIfLarge, LARGE_BYTES, type PacedReader, resumePaced } from '../http/large-read-pacing.ts'
import { type ArrivalListener, type ByteReader, DialFailure, type DialLimits, type DialResponse } from './dial.ts'
import { ReceivedBytes } from './received-bytes.ts'
import { headersOf, MalformedResponse, type ResponseHead } from './response-head.ts'
import { ResponseParser } from './response-parser.ts'
import { mapErrors, readerOf, readText, streamOf } from './stream-text.ts'

// Content codings of responses: the client requests none, but decodes the common ones.

const FORMATS: Readonly<Record<string, Bun.CompressionFormat>> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'brotli',
  zstd: 'zstd',
}

/** The format of a `Content-Encoding` in lower case; null for none and for an unsupported one. */
export const formatOf = (encoding: string): Bun.CompressionFormat | null => FORMATS[encoding] ?? null

/**
 * A compressed body may be this many bytes, and beyond that so many times what was received: events that are alike
 * compress some thirtyfold, bombs a thousandfold.
 */
const FREE_DECODED_BYTES = 8 * 1024 * 1024
const MOST_EXPANSION = 100

type Bytes = TransformStream<Uint8Array, Uint8Array>
const watched = (see: (size: number) => void): Bytes =>
  new TransformStream({
    transform(bytes, controller) {
      see(bytes.length)
      controller.enqueue(bytes)
    },
  })

/** The decoded body; its errors are DialFailures. `too_large`: it expands like nothing that a provider sends. */
export const decompressed = (
  body: ReadableStream<Uint8Array>,
  format: Bun.CompressionFormat,
): ReadableStream<Uint8Array> => {
  let received = 0
  let decoded = 0
  const counted = watched((size) => {
    received += size
  })
  const bounded = watched((size) => {
    decoded += size
    if (decoded > FREE_DECODED_BYTES + MOST_EXPANSION * received)
      throw new DialFailure('too_large', 'the compressed answer expands too much')
  })
  const decoder = new DecompressionStream(format as CompressionFormat) as unknown as Bytes
  return mapErrors(body.pipeThrough(counted).pipeThrough(decoder).pipeThrough(bounded), (error) =>
    error instanceof DialFailure ? error : new DialFailure('reset', 'the compressed answer could not be read', error),
  )
}

// The socket is paused while more than this is unread.
const PAUSE_BYTES = 64 * 1024

const NO_MORE = { done: true, value: undefined } as const
const CANCELED = Promise.resolve()

const canceled = () => new DialFailure('canceled', 'the request was canceled')

/** What an exchange calls on its connection. */
export interface ConnectionControl {
  pause(): void
  resume(): void
  /** The response is complete. `reusable`: no surplus bytes came and the server keeps the connection open. */
  finished(reusable: boolean, keepAliveS: number | null): void
  destroy(): void
}

export class HttpExchange extends ReceivedBytes implements DialResponse, Timed, ByteReader, PacedReader, Arrival {
  /** Resolves with this exchange once the headers have arrived, or rejects with a DialFailure. */
  readonly answered: Promise<DialResponse>
  readonly #parser: ResponseParser
  readonly #connection: ConnectionControl
  readonly #signal: CancelSignal
  readonly #deadlines: Deadlines
  readonly #headersMs: number
  place = -1
  /** Monotonic milliseconds by which the headers must have arrived. */
  readonly deadlineMs: number
  readonly #resolve: (response: DialResponse) => void
  readonly #reject: (failure: DialFailure) => void
  #headers: Headers | null = null
  #body: ReadableStream<Uint8Array> | null = null
  #paused = false
  #ended = false
  #failure: DialFailure | null = null
  #waiting: ArrivalListener | null = null
  /** The listener is called in this iteration of the event loop; `#unparsed` are its bytes. */
  #isScheduled = false
  #unparsed: Buffer | null = null

  constructor(method: string, connection: ConnectionControl, limits: DialLimits, deadlines: Deadlines) {
    super()
    this.#connection = connection
    this.#signal = limits.signal
    this.#parser = new ResponseParser(method, this)
    const { promise, resolve, reject } = Promise.withResolvers<DialResponse>()
    this.answered = promise
    this.#resolve = resolve
    this.#reject = reject
    this.#deadlines = deadlines
    this.#headersMs = limits.headersMs
    this.deadlineMs = performance.now() + limits.headersMs
    deadlines.add(this)
    limits.signal.addEventListener('abort', this)
  }

  get status(): number {
    return this.#head.status
  }

  get headers(): Headers {
    this.#headers ??= headersOf(this.#head)
    return this.#headers
  }

  get body(): ReadableStream<Uint8Array> | null {
    if (!this.#hasBody()) return null
    if (this.#body !== null) return this.#body
    const coding = this.#coding()
    this.#body = coding === null ? streamOf(this) : decompressed(streamOf(this), coding)
    return this.#body
  }

  /** The body without a stream around it, where it has no content coding. */
  reader(): ByteReader {
    return this.#body === null && this.#hasBody() && this.#coding() === null ? this : readerOf(this.body)
  }

  /**
   * Everything that has arrived since the last read, as one piece: providers send one event a chunk, and each further
   * read costs more than the copy.
   */
  async read(): Promise<{ readonly done: boolean; readonly value: Uint8Array | undefined }> {
    while (this.waitingBytes === 0 && !this.#ended && this.#failure === null) await this.#waitForMore()
    const value = this.readNow()
    return value === null ? NO_MORE : { done: false, value }
  }

  /** The caller waits for more: a paused socket is resumed. */
  listen(listener: ArrivalListener): void {
    this.#waiting = listener
    if (!this.#paused) return
    this.#paused = false
    resumePaced(this)
  }

  readNow(): Uint8Array | null {
    if (this.#failure !== null && this.waitingBytes === 0) throw this.#failure
    return this.takeNext()
  }

  textNow(mostBytes: number): string | null {
    if (this.#failure !== null && this.waitingBytes === 0) throw this.#failure
    return this.waitingBytes > mostBytes ? null : this.takeSinglePieceText()
  }

  release(bytes: Uint8Array): void {
    freeIfLarge(bytes)
  }

  get ended(): boolean {
    return this.#ended
  }

  cancel(): Promise<void> {
    this.handleEvent()
    return CANCELED
  }

  wholeText(maxBytes: number): string | null {
    if (!this.#ended || this.waitingBytes > maxBytes || this.#body !== null || this.#coding() !== null) return null
    return this.takeText()
  }

  text(maxBytes: number): Promise<string> {
    if (this.#body !== null || this.#coding() !== null) return readText(this.body, maxBytes)
    const whole = this.wholeText(maxBytes)
    return whole === null ? this.#readText(maxBytes) : Promise.resolve(whole)
  }

  async #readText(maxBytes: number): Promise<string> {
    while (!this.#ended && this.#failure === null && this.waitingBytes <= maxBytes) await this.#waitForMore()
    if (this.#failure !== null) throw this.#failure
    if (this.waitingBytes > maxBytes) {
      const failure = new DialFailure('too_large', `the answer exceeds ${maxBytes} bytes`)
      this.fail(failure)
      throw failure
    }
    return this.takeText()
  }

  /**
   * Bytes from the socket. The listener is called once in this iteration of the event loop, so that pieces which arrive
   * separately are read, and written to the client, together.
   */
  receive(bytes: Buffer): void {
    const fresh = this.#unparsed
    if ((fresh === null ? 0 : fresh.length) + bytes.length < LARGE_BYTES) {
      this.#unparsed = fresh === null ? bytes : Buffer.concat([fresh, bytes])
    } else {
      this.#parseUnparsed()
      // The connection has returned to the pool with what came before; these bytes follow a complete response.
      if (this.#ended) this.#connection.destroy()
      else this.#parse(bytes)
      // Under load each large response is read before the next one arrives.
      this.deliver()
      return
    }
    this.#scheduleDelivery()
  }

  deliver(): void {
    this.#isScheduled = false
    this.#parseUnparsed()
    if (this.#parser.head !== null) this.#resolve(this)
    try {
      this.#notify()
    } catch (error) {
      this.#break('what came could not be taken', error)
    }
  }

  #scheduleDelivery(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    stages.arrived(this)
  }

  #parseUnparsed(): void {
    const fresh = this.#unparsed
    if (fresh === null) return
    this.#unparsed = null
    this.#parse(fresh)
  }

  #parse(bytes: Buffer): void {
    if (this.#ended || this.#failure !== null) return
    let leftover = false
    try {
      const before = this.#parser.head
      leftover = this.#parser.push(bytes)
      if (before === null && this.#parser.head !== null) this.#onHead()
    } catch (error) {
      this.#break(error instanceof MalformedResponse ? error.message : 'the answer could not be read', error)
    }
    if (this.#failure !== null) return
    if (this.#parser.done) this.#end(this.#parser.keepAlive && !leftover)
    else if (this.waitingBytes > PAUSE_BYTES && !this.#paused) {
      this.#paused = true
      this.#connection.pause()
    }
  }

  /** The socket has closed. */
  closed(broken: boolean): void {
    this.#parseUnparsed()
    if (this.#ended || this.#failure !== null) return
    if (broken) {
      this.#break('the connection was reset before the answer was complete')
      return
    }
    try {
      this.#parser.close()
      this.#end(false)
      this.#scheduleDelivery()
    } catch (error) {
      this.#break((error as Error).message)
    }
  }

  /** Fails the exchange and closes its connection: a response that was read in part ends the connection. */
  fail(failure: DialFailure): void {
    // Bytes that arrived before the failure count.
    this.#parseUnparsed()
    if (this.#ended || this.#failure !== null) return
    this.freeAll()
    this.#failed(failure)
  }

  /** The connection or its bytes are broken; what arrived before can still be read. */
  #break(reason: string, cause?: unknown): void {
    if (!this.#ended && this.#failure === null) this.#failed(new DialFailure('reset', reason, cause))
  }

  #failed(failure: DialFailure): void {
    this.#failure = failure
    this.#release()
    if (this.#parser.head === null) this.#reject(failure)
    else this.#resolve(this)
    this.#connection.destroy()
    this.#notify()
  }

  overdue(): void {
    this.#parseUnparsed()
    if (this.#parser.head !== null) return
    this.fail(new DialFailure('timeout_headers', `no response headers within ${this.#headersMs} ms`))
  }

  /** The cancel signal was raised. */
  handleEvent(): void {
    this.fail(canceled())
  }

  #onHead(): void {
    this.#deadlines.delete(this)
    const encoding = this.#head.contentEncoding
    if (encoding === '' || encoding === 'identity' || this.#coding() !== null) return
    const failure = new DialFailure('reset', 'the answer has a content-encoding that was not asked for')
    this.#reject(failure)
    this.fail(failure)
  }

  get #head(): ResponseHead {
    return this.#parser.head!
  }

  #hasBody(): boolean {
    return this.status !== 204 && this.status !== 304
  }

  #coding(): Bun.CompressionFormat | null {
    return formatOf(this.#head.contentEncoding)
  }

  #end(reusable: boolean): void {
    this.#ended = true
    this.#release()
    if (this.#paused) this.#connection.resume()
    this.#paused = false
    this.#connection.finished(reusable, this.#parser.keepAliveS)
  }

  #release(): void {
    this.#deadlines.delete(this)
    this.#signal.removeEventListener('abort', this)
  }

  #notify(): void {
    const waiting = this.#waiting
    this.#waiting = null
    waiting?.arrived()
  }

  #waitForMore(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.listen({ arrived: resolve })
    return promise
  }

  resumeReading(): void {
    if (!this.#paused) this.#connection.resume()
  }
}
