// An open stream of a provider, part by part. Pulled: nothing is read before it is requested.

import { LARGE_BYTES } from '../../lib/http/large-read-pacing.ts'
import type { ArrivalListener, ByteReader } from '../../lib/http-client/http-client.ts'
import { BareJson, mayBegin } from '../../lib/json/bare-json.ts'
import { failpoint } from '../../lib/process/failpoints.ts'
import {
  createSseParser,
  type EventParser,
  FrameDamaged,
  LONG_BYTES,
  type SseEvent,
  SseTooLarge,
} from '../../lib/text/sse.ts'
import type { StreamDecoder, StreamPart } from '../../providers/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { requireBounded } from '../../wire/upstream-json.ts'

/** Time to read the rest of the body after its last event, so that the connection can be reused. */
const REST_MS = 1_000

/**
 * Bytes in which no event ends. An event may be 8 MiB long; comments keep a connection alive and are short.
 */
const MOST_IDLE_BYTES = 16 * 1024 * 1024

export class UpstreamStream {
  /** Its content goes to a client: parts that came before a failure are handed out before the failure is thrown. */
  shown = false
  /** Parts that came along with a failure and were not handed out: they may hold the usage that is billed. */
  unread: readonly StreamPart[] = []
  readonly #parser: EventParser
  #done = false
  #failure: { readonly thrown: unknown } | null = null
  /** No byte has come yet that shows whether the body is a stream or JSON. */
  #isUndetermined: boolean
  /** A body that may be JSON instead of a stream. */
  #bare: BareJson | null = null
  /** Bytes that have come since the last event, comments included. */
  #idleBytes = 0
  /** Read by a promise. */
  #pending: { readonly done: boolean; readonly value: Uint8Array | null } | null = null

  constructor(
    private readonly reader: ByteReader,
    private readonly decoder: StreamDecoder,
    framing: (() => EventParser) | undefined,
    /** The text of the parts is not used: events that hold nothing else may pass in one piece. */
    isTextUnused: boolean,
  ) {
    this.#isUndetermined = framing === undefined
    this.#parser = framing?.() ?? createSseParser(undefined, isTextUnused ? (decoder.skimmer ?? null) : null)
  }

  /** Nothing more will come. */
  get done(): boolean {
    return this.#done
  }

  /** Every choice that began has its finish reason, whatever happens to the connection. */
  get complete(): boolean {
    return this.decoder.complete
  }

  /** The body was JSON: the whole answer at once. */
  get cameWhole(): boolean {
    return this.#done && this.#bare !== null
  }

  /** Events that could not be read and were skipped. */
  get unreadable(): number {
    return this.decoder.unreadable
  }

  /**
   * The parts that have come, never an empty list; null when there are none without waiting, or after the last. Throws
   * GatewayError for an in-band error or an early end, and the errors of the connection.
   */
  ready(): StreamPart[] | null {
    if (this.#failure !== null) throw this.#failure.thrown
    while (!this.#done) {
      const read = this.#readNow()
      if (read === null && !this.#hasEnded()) return null
      const parts = this.#partsOf(read)
      if (parts.length > 0) return parts
    }
    return null
  }

  /**
   * For use when `ready` returns null: notifies the listener once that more bytes came, which may complete no part, or
   * that the stream ended.
   */
  listen(listener: ArrivalListener): void {
    failpoint('mid_stream')
    if (this.reader.listen === undefined) void this.#readLater(listener)
    else this.reader.listen(listener)
  }

  /** Waits like `listen`: resolves when more bytes came or the stream ended. Never rejects. */
  more(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.listen({ arrived: resolve })
    return promise
  }

  /** The next parts; null after the last. Throws like `ready`. */
  async next(): Promise<StreamPart[] | null> {
    for (;;) {
      const parts = this.ready()
      if (parts !== null || this.#done) return parts
      await this.more()
    }
  }

  /** Releases the connection. Never throws. */
  cancel(): void {
    this.#done = true
    this.reader.cancel().catch(ignoreClosed)
  }

  /** For a reader that has nothing without waiting. */
  async #readLater(listener: ArrivalListener): Promise<void> {
    try {
      const { done, value } = await this.reader.read()
      this.#pending = { done, value: value ?? null }
    } catch (thrown) {
      this.#failure = { thrown }
    }
    listener.arrived()
  }

  #hasEnded(): boolean {
    return this.reader.ended === true || this.#pending?.done === true
  }

  /** The bytes that have come; as text where that costs less. */
  #readNow(): string | Uint8Array | null {
    if (this.#pending !== null && !this.#pending.done) {
      const { value } = this.#pending
      this.#pending = null
      return value
    }
    const text = this.#parser.takesText === true ? (this.reader.textNow?.(LONG_BYTES - 1) ?? null) : null
    return text ?? this.reader.readNow?.() ?? null
  }

  /** The parts that these bytes complete; null: the body has ended. */
  #partsOf(read: string | Uint8Array | null): StreamPart[] {
    const parts: StreamPart[] = []
    try {
      this.#take(read === null ? this.#lastEvents() : this.#push(read), parts)
      if (read === null && !this.#done) this.#end(parts)
    } catch (thrown) {
      if (!this.shown || parts.length === 0) {
        this.unread = parts
        throw thrown
      }
      this.#failure = { thrown }
    }
    return parts
  }

  /**
   * Some servers answer a streamed call with JSON: an error, or the whole answer. It is read as the one event of the
   * stream.
   */
  #lastEvents(): SseEvent[] {
    const json = this.#bare?.end() ?? null
    return json === null ? this.#parser.end() : [{ event: null, data: json }]
  }

  #look(bytes: string | Uint8Array): void {
    const isJson = mayBegin(bytes)
    this.#isUndetermined = isJson === null
    if (isJson === true) this.#bare = new BareJson()
  }

  #push(bytes: string | Uint8Array): SseEvent[] {
    if (this.#isUndetermined) this.#look(bytes)
    if (this.#bare?.takes(bytes) === false) this.#bare = null
    try {
      const events = typeof bytes === 'string' ? this.#parser.pushText!(bytes) : this.#parser.push(bytes)
      if (events.length > 0) this.#idleBytes = 0
      else this.#countIdle(bytes.length)
      if (typeof bytes !== 'string' && bytes.length >= LARGE_BYTES) this.reader.release?.(bytes)
      return events
    } catch (error) {
      if (error instanceof SseTooLarge)
        throw new GatewayError('upstream_error', 'the provider sent an event that is too large')
      if (error instanceof FrameDamaged)
        throw new GatewayError('upstream_error', 'the provider sent a frame that is damaged')
      throw error
    }
  }

  #countIdle(count: number): void {
    this.#idleBytes += count
    if (this.#idleBytes > MOST_IDLE_BYTES)
      throw new GatewayError('upstream_error', 'the provider sent too much that is no event')
  }

  #take(events: readonly SseEvent[], parts: StreamPart[]): void {
    for (const event of events) {
      if (event.skimmed === undefined) requireBounded(event.data)
      for (const part of this.decoder.push(event)) parts.push(part)
      if (event.data === '[DONE]' || this.decoder.over === true) {
        this.#end(parts)
        if (this.reader.ended !== true) void this.#readRest()
        return
      }
    }
  }

  #end(parts: StreamPart[]): void {
    this.#done = true
    for (const part of this.decoder.end()) parts.push(part)
  }

  async #readRest(): Promise<void> {
    const timer = setTimeout(() => this.cancel(), REST_MS)
    try {
      while (!(await this.reader.read()).done);
    } catch {
      // The answer was complete; a failure behind it changes nothing.
    } finally {
      clearTimeout(timer)
    }
  }
}

const ignoreClosed = (): void => {
  // The connection was closed already.
}
