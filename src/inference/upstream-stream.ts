// An open stream of a provider, part by part. Pulled: nothing is read before somebody asks.
import { LARGE_BYTES } from '../lib/big-reads.ts'
import { failpoint } from '../lib/failpoints.ts'
import {
  createSseParser,
  type EventParser,
  FrameDamaged,
  LONG_BYTES,
  type Skim,
  type SseEvent,
  SseTooLarge,
} from '../lib/sse.ts'
import type { ByteReader } from '../lib/upstream.ts'
import type { StreamDecoder, StreamPart } from '../providers/provider.ts'
import { GatewayError } from '../wire/errors.ts'

/** After its last event the rest of the body is read for this long, so that the connection can be used again. */
const REST_MS = 1_000

export class UpstreamStream {
  /** Its content goes to a client: what came before a failure is handed out before the failure is. */
  shown = false
  /** What had come along with a failure and was not handed out: it may say what the failure cost. */
  unread: readonly StreamPart[] = []
  readonly #parser: EventParser
  #done = false
  #failure: { readonly thrown: unknown } | null = null

  constructor(
    private readonly reader: ByteReader,
    private readonly decoder: StreamDecoder,
    framing: (() => EventParser) | undefined,
    /** Nobody needs the text of the parts: frames that hold nothing else may pass in one piece. */
    skims: boolean,
  ) {
    this.#parser = framing?.() ?? createSseParser(undefined, skims ? skimOf(decoder) : null)
  }

  /** Nothing more will come. */
  get done(): boolean {
    return this.#done
  }

  /** All that was begun has its finish reason, whatever happens to the connection. */
  get complete(): boolean {
    return this.decoder.complete
  }

  /** Frames that could not be read and were passed over. */
  get unreadable(): number {
    return this.decoder.unreadable
  }

  /** The parts that have come already; null when there are none without waiting. Throws like `next`. */
  ready(): StreamPart[] | null {
    if (this.#failure !== null) throw this.#failure.thrown
    while (!this.#done) {
      const read = this.#readNow()
      if (read === null && this.reader.ended !== true) return null
      const parts = this.#partsOf(read)
      if (parts.length > 0) return parts
    }
    return null
  }

  /** The next parts, never an empty list (`stirred` is told of bytes that complete none); null after the last. Throws GatewayError for an in-band error or an end that comes too early, and whatever the connection throws. */
  async next(stirred?: () => void): Promise<StreamPart[] | null> {
    if (this.#failure !== null) throw this.#failure.thrown
    failpoint('mid_stream')
    while (!this.#done) {
      if (this.reader.arrival !== undefined) {
        await this.reader.arrival()
        const parts = this.ready()
        if (parts !== null) return parts
        stirred?.()
        continue
      }
      const { done, value } = await this.reader.read()
      const parts = this.#partsOf(done ? null : value!)
      if (parts.length > 0) return parts
      stirred?.()
    }
    return null
  }

  /** Lets go of the connection. Never throws. */
  cancel(): void {
    this.#done = true
    this.reader.cancel().catch(ignoreClosed)
  }

  /** What has come, as text where that costs less. */
  #readNow(): string | Uint8Array | null {
    const text = this.#parser.takesText === true ? (this.reader.textNow?.(LONG_BYTES - 1) ?? null) : null
    return text ?? this.reader.readNow?.() ?? null
  }

  /** What this completes; null: the body has ended. */
  #partsOf(read: string | Uint8Array | null): StreamPart[] {
    const parts: StreamPart[] = []
    try {
      this.#take(read === null ? this.#parser.end() : this.#push(read), parts)
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

  #push(bytes: string | Uint8Array): SseEvent[] {
    try {
      if (typeof bytes === 'string') return this.#parser.pushText!(bytes)
      const events = this.#parser.push(bytes)
      if (bytes.length >= LARGE_BYTES) this.reader.release?.(bytes)
      return events
    } catch (error) {
      if (error instanceof SseTooLarge)
        throw new GatewayError('upstream_error', 'the provider sent an event that is too large')
      if (error instanceof FrameDamaged)
        throw new GatewayError('upstream_error', 'the provider sent a frame that is damaged')
      throw error
    }
  }

  #take(events: readonly SseEvent[], parts: StreamPart[]): void {
    for (const event of events) {
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
      // The answer was complete; what comes after it is of no interest.
    } finally {
      clearTimeout(timer)
    }
  }
}

const skimOf = (decoder: StreamDecoder): Skim | null =>
  decoder.skim === undefined ? null : (text, from) => decoder.skim!(text, from)

const ignoreClosed = (): void => {
  // Canceling a connection that is closed already is what was wanted.
}
