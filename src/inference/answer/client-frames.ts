// Station 7 of a stream: the frames for the client of each part.
import { sseFrame } from '../../lib/text/sse.ts'
import type { StreamPart } from '../../providers/port.ts'
import { firstFrameGatewayJson, withGateway } from '../../wire/gateway-block.ts'
import { StreamedChoices } from '../intent/choices.ts'
import { demandsJson } from '../intent/structured.ts'
import type { Called } from '../request/progress.ts'
import { StreamTail } from './stream-tail.ts'

/** A run of frames of this length is not joined to the text before it: that would copy both. */
const LONG_CHARS = 256
const hasJson = ({ json }: StreamPart): boolean => json !== null

export class ClientFrames {
  /** Frames that complete the answer for a client: buffered until the outcome is written. */
  buffered = ''
  readonly toolNames: string[] = []
  /** Only where several choices or a form of the answer were requested. */
  readonly choices: StreamedChoices | null
  readonly tail: StreamTail
  #first: StreamPart[] | null
  /** Frames that go out before the ones made last: joined to a long run they would be copied. */
  #prefix = ''

  /** `first`: the parts up to the first content. */
  constructor(
    private readonly exchange: Called,
    first: StreamPart[],
  ) {
    this.#first = first
    const { choices, vendorFields, structured } = exchange.intent
    const isFormed = structured !== null && demandsJson(structured)
    this.choices = choices > 1 || vendorFields !== null || isFormed ? new StreamedChoices(isFormed) : null
    this.tail = new StreamTail(exchange)
  }

  /** The frames of the first parts, once. */
  opening(): string {
    const parts = this.#first
    if (parts === null) return ''
    this.#first = null
    this.tail.chunkJson = parts.find(hasJson)?.json ?? null
    return this.of(parts, true)
  }

  /** The frames that go out before the ones made last, once; mostly ''. */
  takePrefix(): string {
    const prefix = this.#prefix
    this.#prefix = ''
    return prefix
  }

  /**
   * The frames of these parts that go to the client now, behind `takePrefix`. From the finish reason on frames are
   * buffered; content that follows releases them.
   */
  of(parts: readonly StreamPart[], opening: boolean): string {
    let out = ''
    let first = opening
    for (const part of parts) {
      this.#note(part)
      const ends =
        (this.choices !== null && part.json !== null && this.choices.note(part.json)) || part.finishReason !== null
      if (part.frames !== undefined) {
        const before = out + this.buffered
        this.buffered = ''
        if (before !== '' && part.frames.length >= LONG_CHARS) {
          this.#prefix += before
          out = part.frames
        } else out = before + part.frames
        continue
      }
      if (part.json === null) continue
      if (part.usageOnly) {
        this.tail.usageJson = part.json
        continue
      }
      const json = first ? this.#withRoute(part.json) : part.json
      first = false
      if (ends || (this.buffered !== '' && !part.content)) this.buffered += sseFrame(json)
      else if (this.buffered === '') out += sseFrame(json)
      else {
        out += this.buffered + sseFrame(json)
        this.buffered = ''
      }
    }
    return out
  }

  #note(part: StreamPart): void {
    const { exchange } = this
    exchange.answerBytes += part.bytes
    if (part.usage !== null) exchange.usage = part.usage
    if (part.finishReason !== null) exchange.finishReason = part.finishReason
    for (const name of part.toolNames) this.toolNames.push(name)
  }

  #withRoute(json: string): string {
    const { identity, intent, entry } = this.exchange
    return withGateway(json, firstFrameGatewayJson(identity.requestId, intent.model, entry.name))
  }
}
