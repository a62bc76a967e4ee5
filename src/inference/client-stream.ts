// Stations 7 and 8 of a stream: upstream parts become the client's frames, and the outcome is written before the last of them.
import type { AnswerSink, LiveBody } from '../lib/answer.ts'
import { sseFrame } from '../lib/sse.ts'
import type { StreamPart } from '../providers/provider.ts'
import { DONE_FRAME } from '../wire/chat.ts'
import { GatewayError } from '../wire/errors.ts'
import { firstFrameGatewayJson, withGateway } from '../wire/gateway-block.ts'
import { finishAttempt } from './attempt.ts'
import { goesOn, reserveMore } from './budget.ts'
import { measure } from './charge.ts'
import { type ChoiceFacts, cutOr, StreamedChoices } from './choices.ts'
import type { InferenceDeps } from './deps.ts'
import type { Exchange } from './exchange.ts'
import { asGatewayError, failureOf } from './failed.ts'
import type { Intent } from './intent.ts'
import { type Ending, SUCCESS, settle } from './settle.ts'
import { conformance, extraMembers, NonConforming, structuredMember } from './shape.ts'
import { type StreamEnd, StreamTail } from './stream-tail.ts'
import { demandsJson } from './structured.ts'
import type { UpstreamStream } from './upstream-stream.ts'

/** What may come after the finish reason, which is held back; more is no part of an answer. */
const HELD_CHARS = 256 * 1024

/** From here on a run of frames is not joined to what comes before it. */
const LONG_CHARS = 4 * 1024
const NO_CHOICES: readonly ChoiceFacts[] = []
const hasJson = ({ json }: StreamPart): boolean => json !== null

/** The frames of one stream. Pulled by the client: while it does not read, nothing is read from the upstream. */
export class ClientStream implements LiveBody {
  /** Frames that make the answer complete for a client: held until the outcome is written. */
  #held = ''
  /** What goes out before the frames that were just made: joined to a long run of them it would be a copy of all. */
  #ahead = ''
  /** Until when what follows the finish reason is waited for; null: none has come. */
  #restUntilMs: number | null = null
  #first: StreamPart[] | null
  readonly #toolNames: string[] = []
  /** Only where several choices were asked for, or a form of the answer. */
  readonly #choices: StreamedChoices | null
  readonly #frameTail: StreamTail
  #reading = false
  #tail: Promise<string> | null = null

  constructor(
    private readonly exchange: Exchange,
    private readonly intent: Intent,
    held: StreamPart[],
    private readonly source: UpstreamStream,
    private readonly deps: InferenceDeps,
    private readonly whenSettled: () => void,
  ) {
    this.#first = held
    const { choices, ownWords, structured } = intent
    const isFormed = structured !== null && demandsJson(structured)
    this.#choices = choices > 1 || ownWords !== null || isFormed ? new StreamedChoices(isFormed) : null
    this.#frameTail = new StreamTail(exchange, intent)
    exchange.onEnd = () => {
      if (!this.#reading) this.#conclude(null)
    }
  }

  /** The client has left: what is on its way is ended and settled. */
  left(): void {
    this.exchange.end('client')
    void this.#conclude(null)
  }

  /** The whole stream as text in pieces, once all of it has come. Settles it like a stream that is read. */
  async whole(): Promise<readonly string[]> {
    const frames = this.#opening()
    return [this.#ahead, frames, await this.#conclude(null)]
  }

  /** Writes all of it. `flush` waits while the client does not read. */
  async run(sink: AnswerSink): Promise<void> {
    let unsent = ''
    for (;;) {
      const text = this.#tail === null ? await this.#nextFrames() : null
      if (text === null) break
      if (this.#ahead !== '') {
        sink.write(this.#ahead)
        this.#ahead = ''
      }
      if (this.source.done) {
        // All has come already: it goes out with what ends it, in one write.
        unsent = text
        continue
      }
      sink.write(text)
      const flushed = sink.flush()
      if (typeof flushed !== 'number') await flushed
    }
    const tail = await this.#tail!
    if (this.exchange.ended !== 'client') sink.write(unsent + tail)
    sink.close()
  }

  /** Frames of content; null when the stream has come to its end, whatever end that is. */
  async #nextFrames(): Promise<string | null> {
    for (;;) {
      let parts: StreamPart[] | null
      const opening = this.#opening()
      if (opening !== '') return goesOn(this.exchange, this.source) && !(await this.#isReserved()) ? null : opening
      this.#reading = true
      this.exchange.waitReason = 'idle'
      this.exchange.waitDeadlineMs = this.#idleUntilMs()
      try {
        parts = this.source.ready() ?? (await this.source.next(this.#stirred))
      } catch (error) {
        this.#conclude(error)
        return null
      } finally {
        this.#reading = false
        this.exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
      }
      if (parts === null || this.exchange.ended !== null) {
        this.#conclude(null)
        return null
      }
      const frames = this.#frames(parts, false)
      if (goesOn(this.exchange, this.source) && !(await this.#isReserved())) return null
      if (frames !== '') return frames
      if (this.#held.length > HELD_CHARS) {
        this.#conclude(new GatewayError('upstream_error', 'the provider does not end its stream'))
        return null
      }
    }
  }

  /** What has come so far is reserved, and recorded as that, before it goes out; else the stream is cut here. */
  async #isReserved(): Promise<boolean> {
    const cut = await reserveMore(this.exchange, this.deps)
    if (this.#tail !== null) return false // it has ended meanwhile
    if (cut === null) return true
    this.#ahead = ''
    this.#conclude(cut)
    return false
  }

  /** Bytes came that complete no part: a comment that keeps the connection alive, a piece of a long frame. The provider is not idle. */
  readonly #stirred = (): void => {
    if (this.#reading && this.exchange.waitEnded === null) this.exchange.waitDeadlineMs = this.#idleUntilMs()
  }

  /** Each part may take so long; all that follows a finish reason, together, no longer. */
  #idleUntilMs(): number {
    const untilMs = performance.now() + this.exchange.plan!.policy.streamIdleMs
    if (this.#held === '') this.#restUntilMs = null
    else this.#restUntilMs ??= untilMs
    return this.#restUntilMs ?? untilMs
  }

  /** The frames of what was held until the first content came, once. */
  #opening(): string {
    const parts = this.#first
    if (parts === null) return ''
    this.#first = null
    this.#frameTail.chunkJson = parts.find(hasJson)?.json ?? null
    return this.#frames(parts, true)
  }

  /** What of these parts goes to the client now. From the finish reason on, frames are held; content after all lets them go. */
  #frames(parts: readonly StreamPart[], opening: boolean): string {
    let out = ''
    let first = opening
    for (const part of parts) {
      this.#note(part)
      const ends =
        (this.#choices !== null && part.json !== null && this.#choices.note(part.json)) || part.finishReason !== null
      if (part.frames !== undefined) {
        const before = out + this.#held
        this.#held = ''
        if (before !== '' && part.frames.length >= LONG_CHARS) {
          this.#ahead += before
          out = part.frames
        } else out = before + part.frames
        continue
      }
      if (part.json === null) continue
      if (part.usageOnly) {
        this.#frameTail.usageJson = part.json
        continue
      }
      const json = first ? this.#withRoute(part.json) : part.json
      first = false
      if (ends || (this.#held !== '' && !part.content)) this.#held += sseFrame(json)
      else if (this.#held === '') out += sseFrame(json)
      else {
        out += this.#held + sseFrame(json)
        this.#held = ''
      }
    }
    return out
  }

  #note(part: StreamPart): void {
    const { exchange } = this
    exchange.answerBytes += part.bytes
    if (part.usage !== null) exchange.usage = part.usage
    if (part.finishReason !== null) exchange.finishReason = part.finishReason
    for (const name of part.toolNames) this.#toolNames.push(name)
  }

  #withRoute(json: string): string {
    const { exchange, intent } = this
    return withGateway(json, firstFrameGatewayJson(exchange.identity.requestId, intent.model, exchange.entry!.name))
  }

  /** Ends the stream, once: settles, and keeps the frames that come after. */
  #conclude(thrown: unknown): Promise<string> {
    this.#tail ??= this.#settled(thrown)
    return this.#tail
  }

  async #settled(thrown: unknown): Promise<string> {
    const { exchange, source } = this
    exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
    if (source.unreadable > 0)
      exchange.shaping = [...exchange.shaping, `skipped ${source.unreadable} unreadable frames`]
    // Every choice has its finish reason: the answer is whole, whatever happened to the connection after it.
    const failed = thrown !== null || exchange.ended !== null
    const whole = failed && exchange.ended !== 'client' && exchange.finishReason !== null && source.complete
    const broken = failed && !whole
    if (broken || whole) source.cancel()
    try {
      const ends = broken ? this.#broken(failureOf(thrown, exchange, exchange.entry!)) : this.#completed()
      await settle(exchange, ends.ending, ends.measured, this.deps)
      return ends.frames
    } catch (failure) {
      return await this.#unsettled(failure)
    } finally {
      exchange.onEnd = null
      this.whenSettled()
    }
  }

  /** The outcome could not be written, or a fault of ours came first: the client holds a failure. */
  async #unsettled(failure: unknown): Promise<string> {
    const error = asGatewayError(failure)
    const ending = { outcome: 'interrupted', status: 200, error } as const
    if (!this.exchange.settled)
      await settle(this.exchange, ending, measure(this.exchange), this.deps).catch(asGatewayError)
    return this.#frameTail.error(error) + DONE_FRAME
  }

  /** The provider said all that it had to say. */
  #completed(): StreamEnd {
    const { exchange, intent } = this
    finishAttempt(exchange, 'success', null)
    const measured = measure(exchange)
    const choices = this.#choices?.facts() ?? NO_CHOICES
    let checked = null
    try {
      checked = conformance(intent, choices)
    } catch (thrown) {
      if (!(thrown instanceof NonConforming)) throw thrown
      const frames = this.#held + this.#frameTail.error(thrown, thrown.blockJson) + DONE_FRAME
      return { ending: { outcome: 'error', status: 200, error: thrown }, measured, frames }
    }
    const more = extraMembers(exchange, intent, measured, {
      finishReason: cutOr(exchange.finishReason, choices),
      reason: 'max_tokens',
      toolNames: this.#toolNames,
      checked,
    })
    const frames = this.#frameTail.ending(this.#held, measured, more, structuredMember(intent, checked)) + DONE_FRAME
    return { ending: SUCCESS, measured, frames }
  }

  /** It broke after the first byte, or the client left. */
  #broken(error: GatewayError): StreamEnd {
    const { exchange, intent } = this
    const left = exchange.ended === 'client'
    finishAttempt(exchange, left ? 'canceled' : 'interrupted', error)
    const measured = measure(exchange)
    const outOfTime = exchange.ended === 'total'
    if (outOfTime) exchange.finishReason = 'length'
    const ending: Ending = { outcome: left ? 'canceled' : 'interrupted', status: left ? error.status : 200, error }
    if (!outOfTime) return { ending, measured, frames: this.#frameTail.error(error) + DONE_FRAME }
    const more = extraMembers(exchange, intent, measured, {
      finishReason: 'length',
      reason: 'timeout',
      toolNames: this.#toolNames,
      checked: null,
    })
    const unfinished = this.#choices?.unfinished(intent.choices) ?? [0]
    const frames = this.#held + this.#frameTail.cutShort(unfinished, measured, more) + DONE_FRAME
    return { ending, measured, frames }
  }
}
