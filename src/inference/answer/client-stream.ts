// Stations 7 and 8 of a stream: upstream parts become frames for the client, and the outcome is written before the last
// of them.

import { inStep } from '../../lib/event-loop/stages.ts'
import type { ArrivalListener } from '../../lib/http-client/http-client.ts'
import type { AnswerSink, LiveBody } from '../../lib/http-server/http-server.ts'
import type { StreamPart } from '../../providers/port.ts'
import { DONE_FRAME } from '../../wire/chat.ts'
import { GatewayError } from '../../wire/errors.ts'
import { finishAttempt, type StreamedAnswer } from '../attempt/attempt.ts'
import type { UpstreamStream } from '../attempt/upstream-stream.ts'
import { type ChoiceFacts, cutOr } from '../intent/choices.ts'
import { reserveMore } from '../money/budget.ts'
import { measure } from '../money/charge.ts'
import { Settlement, settle } from '../records/settle.ts'
import type { ActiveRequests } from '../request/active.ts'
import type { InferenceDeps } from '../request/deps.ts'
import { type Ending, SUCCESS } from '../request/ending.ts'
import { asGatewayError, failureOf } from '../request/failure.ts'
import type { Called } from '../request/progress.ts'
import { ClientFrames } from './client-frames.ts'
import { conformance, cutOf, extraMembers, failureMembers, NonConforming, OUT_OF_TIME, stopReasonOf } from './shape.ts'
import type { StreamEnd } from './stream-tail.ts'

/** Bound of what may follow the finish reason, which is buffered; more is not part of an answer. */
const BUFFERED_CHARS = 256 * 1024

const NO_CHOICES: readonly ChoiceFacts[] = []

/** The frames of one stream. Pulled by the client: while it does not read, the upstream is not read. */
export class ClientStream implements LiveBody, ArrivalListener {
  /** Where its frames are written, from `run` until the last frame. */
  #writing: { readonly sink: AnswerSink; written(): void; broken(error: unknown): void } | null = null
  /** The frames before the last ones. */
  #unsent = ''
  /**
   * Monotonic milliseconds until which frames behind the finish reason are waited for; null: there is no finish reason
   * yet.
   */
  #restUntilMs: number | null = null
  private readonly exchange: Called
  private readonly source: UpstreamStream
  readonly #frames: ClientFrames
  #reading = false
  #tail: Promise<string> | null = null
  /** A comment of server-sent events. */
  readonly idleText = ':\n\n'

  constructor(
    { exchange, parts, source }: StreamedAnswer,
    private readonly deps: InferenceDeps,
    /** The settled request leaves it. */
    private readonly active: Pick<ActiveRequests, 'leave'>,
  ) {
    this.exchange = exchange
    this.source = source
    this.#frames = new ClientFrames(exchange, parts)
    exchange.onEnd = () => {
      if (!this.#reading) this.#end(null)
    }
  }

  /** The client has disconnected: ends and settles the request. */
  disconnected(): void {
    this.exchange.end('client')
    void this.#end(null)
  }

  /** For a stream that came whole: its text in pieces, without what `end` returns. */
  whole(): readonly string[] {
    const frames = this.#frames.opening()
    return [this.#frames.takePrefix(), frames]
  }

  /** The last frames, once the request is settled; for a stream that was read to its end. */
  end(): Promise<string> {
    return this.#end(null)
  }

  /** Writes the stream: what comes is sent in the same iteration of the event loop, as long as the client reads. */
  run(sink: AnswerSink): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#writing = { sink, written: resolve, broken: reject }
    this.#advance()
    return promise
  }

  /** Bytes came that may complete no part (a keep-alive comment, a piece of a long event), or the stream ended. */
  arrived(): void {
    this.#reading = false
    this.exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
    this.#advance()
  }

  /**
   * Writes the frames that are there. Called again when more came from the upstream, a budget was extended, or the
   * client reads on.
   */
  #advance(): void {
    if (this.#writing === null) return // it is closed
    const { broken } = this.#writing
    try {
      while (this.#tail === null) {
        const { buffered } = this.#frames
        const frames = this.#nextFrames()
        if (frames === null) return
        const more = this.#tail === null ? reserveMore(this.exchange, this.source, this.deps) : null
        if (more !== null) return void this.#reserved(frames, buffered, more).catch(broken)
        if (!this.#send(frames)) return
      }
      this.#tail.then((tail) => this.#close(tail)).catch(broken)
    } catch (error) {
      broken(error)
    }
  }

  /** Frames of content, '' where there are none; null while they are waited for. */
  #nextFrames(): string | null {
    const opening = this.#frames.opening()
    if (opening !== '') return opening
    const { exchange, source } = this
    let parts: StreamPart[] | null
    try {
      parts = source.ready()
    } catch (error) {
      this.#end(error)
      return ''
    }
    if (parts === null && !source.done) {
      this.#reading = true
      exchange.waitReason = 'idle'
      if (exchange.waitEnded === null) exchange.waitDeadlineMs = this.#idleUntilMs()
      source.listen(this)
      return null
    }
    if (parts === null || exchange.ended !== null) {
      this.#end(null)
      return ''
    }
    const frames = this.#frames.of(parts, false)
    if (frames === '' && this.#frames.buffered.length > BUFFERED_CHARS)
      this.#end(new GatewayError('upstream_error', 'the provider does not end its stream'))
    return frames
  }

  /**
   * Reserves and records what came, before it is sent; else the stream is cut here. `buffered`: the frames that were
   * buffered before it came.
   */
  async #reserved(frames: string, buffered: string, more: Promise<GatewayError | null>): Promise<void> {
    const cut = await more
    if (this.#tail === null && cut !== null) {
      // The frames are not sent, except choices that had ended before.
      this.#frames.takePrefix()
      this.#frames.buffered = buffered
      this.#end(cut)
    }
    // It may have ended meanwhile.
    if (this.#tail !== null || this.#send(frames)) this.#advance()
  }

  /** False while the client does not read: `#advance` is called when it does. */
  #send(frames: string): boolean {
    if (frames === '') return true
    const { sink, broken } = this.#writing!
    const prefix = this.#frames.takePrefix()
    if (prefix !== '') sink.write(prefix)
    if (this.source.done) {
      // The stream is complete: its frames and its end go out in one write.
      this.#unsent = frames
      return true
    }
    sink.write(frames)
    const flushed = sink.flush()
    if (typeof flushed === 'number') return true
    flushed.then(() => this.#advance(), broken)
    return false
  }

  #close(tail: string): void {
    if (this.#writing === null) return
    const { sink, written } = this.#writing
    this.#writing = null
    if (this.exchange.ended !== 'client') {
      if (this.#unsent !== '') sink.write(this.#unsent)
      sink.write(tail)
    }
    sink.close()
    written()
  }

  /** The idle limit holds for each part, and for all parts together behind a finish reason. */
  #idleUntilMs(): number {
    const untilMs = performance.now() + this.exchange.plan.policy.streamIdleMs
    if (this.#frames.buffered === '') this.#restUntilMs = null
    else this.#restUntilMs ??= untilMs
    return this.#restUntilMs ?? untilMs
  }

  /** Ends the stream, once: settles, and resolves with the last frames. */
  #end(thrown: unknown): Promise<string> {
    this.#tail ??= this.#settled(thrown)
    return this.#tail
  }

  async #settled(thrown: unknown): Promise<string> {
    const { exchange, source } = this
    exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
    if (source.unreadable > 0)
      exchange.shaping = [...exchange.shaping, `skipped ${source.unreadable} unreadable frames`]
    // With a finish reason for every choice the answer is whole, even if the connection fails behind it.
    const failed = thrown !== null || exchange.ended !== null
    const whole = failed && exchange.ended !== 'client' && exchange.finishReason !== null && source.complete
    const broken = failed && !whole
    if (broken || whole) source.cancel()
    try {
      const ends = broken ? this.#broken(failureOf(thrown, exchange, exchange.entry)) : this.#completed()
      await inStep
      // Releasing the upstream may have ended the stream, and so may an error behind an earlier outcome.
      if (exchange.settled) return ends.frames
      const settlement = new Settlement(exchange, ends.ending, ends.measured, this.deps)
      try {
        await settlement.record
      } catch (error) {
        const refused = settlement.refused(error)
        if (refused !== null) throw refused
        return ends.frames
      }
      settlement.written()
      return ends.frames
    } catch (failure) {
      return await this.#unsettled(failure)
    } finally {
      exchange.onEnd = null
      this.active.leave(exchange)
    }
  }

  /** The outcome could not be written, or the gateway failed before: the client gets a failure. */
  async #unsettled(failure: unknown): Promise<string> {
    const error = asGatewayError(failure)
    const ending = { outcome: 'interrupted', status: 200, error } as const
    if (!this.exchange.settled)
      await settle(this.exchange, ending, measure(this.exchange), this.deps).catch(asGatewayError)
    return this.#frames.tail.error(error, failureMembers(this.exchange, error)) + DONE_FRAME
  }

  /** The provider completed its answer. */
  #completed(): StreamEnd {
    const { exchange } = this
    const { intent } = exchange
    finishAttempt(exchange, 'success', null)
    const measured = measure(exchange)
    const choices = this.#frames.choices?.facts() ?? NO_CHOICES
    let checked = null
    try {
      checked = conformance(intent, choices)
    } catch (thrown) {
      if (!(thrown instanceof NonConforming)) throw thrown
      const members = failureMembers(exchange, thrown)
      const frames = this.#frames.buffered + this.#frames.tail.error(thrown, members) + DONE_FRAME
      return { ending: { outcome: 'error', status: 200, error: thrown }, measured, frames }
    }
    const more = extraMembers(exchange, measured, {
      cut: cutOf(cutOr(exchange.finishReason, choices)),
      toolNames: this.#frames.toolNames,
      stopReason: 'completed',
      checked,
    })
    const frames = this.#frames.tail.ending(this.#frames.buffered, measured, more) + DONE_FRAME
    return { ending: SUCCESS, measured, frames }
  }

  /**
   * The stream broke after its first byte, or the client disconnected. Frames that came before are sent as they are,
   * including choices that had ended by then.
   */
  #broken(error: GatewayError): StreamEnd {
    const { exchange } = this
    const left = exchange.ended === 'client'
    finishAttempt(exchange, left ? 'canceled' : 'interrupted', error)
    const measured = measure(exchange)
    const outOfTime = exchange.ended === 'total'
    if (outOfTime) exchange.finishReason = 'length'
    const ending: Ending = { outcome: left ? 'canceled' : 'interrupted', status: left ? error.status : 200, error }
    const { buffered, tail, toolNames, choices } = this.#frames
    const broken = { finishReason: null, reason: error.code === 'timeout' ? 'timeout' : null } as const
    const more = extraMembers(exchange, measured, {
      cut: outOfTime ? OUT_OF_TIME : broken,
      toolNames,
      stopReason: stopReasonOf(error),
      checked: null,
    })
    const end = outOfTime
      ? tail.cutShort(choices?.unfinished(exchange.intent.choices) ?? [0], measured, more)
      : tail.error(error, more)
    return { ending, measured, frames: buffered + end + DONE_FRAME }
  }
}
