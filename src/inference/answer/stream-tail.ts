// The frames that the gateway itself adds at the end of a stream.
import { sseFrame } from '../../lib/text/sse.ts'
import { errorFrame, finishChunk, type StreamHead, usageChunk } from '../../wire/chat.ts'
import type { GatewayError } from '../../wire/errors.ts'
import { firstFrameGatewayJson, gatewayJson, withGateway } from '../../wire/gateway-block.ts'
import { isObject } from '../../wire/json.ts'
import type { Measured } from '../money/charge.ts'
import type { Ending } from '../request/ending.ts'
import type { Called } from '../request/progress.ts'
import { usageOfStream, withUsage } from './shown-usage.ts'

const FIELD = 'data: '
const FRAME_END = '\n\n'

/** The end of a stream: its record, and the frames that are sent once that is written. */
export interface StreamEnd {
  readonly ending: Ending
  readonly measured: Measured
  readonly frames: string
}

export class StreamTail {
  /** A chunk of the upstream: the fields that all chunks share are taken from it. */
  chunkJson: string | null = null
  /** The upstream's own usage chunk, buffered until the end. */
  usageJson: string | null = null

  constructor(private readonly exchange: Called) {}

  /**
   * The frames that end an answer: the buffered ones, then the usage with the attribution for a client that requested
   * it. Without such a request, the debug block and `more` (further members of the block) are added to the last frame
   * of the answer.
   */
  ending(buffered: string, measured: Measured, more: string): string {
    const { includeUsage, debug } = this.exchange.intent
    if (includeUsage) return buffered + this.usage(measured, more)
    if (buffered === '' || (!debug && more === '')) return buffered
    const last = buffered.lastIndexOf(FRAME_END, buffered.length - FRAME_END.length - 1)
    const start = last < 0 ? 0 : last + FRAME_END.length
    const json = buffered.slice(start + FIELD.length, -FRAME_END.length)
    return buffered.slice(0, start) + sseFrame(withGateway(json, this.#block(more)))
  }

  /** The last frame, with the usage; '' when the client did not request it. */
  usage(measured: Measured, more: string): string {
    if (!this.exchange.intent.includeUsage) return ''
    const json =
      this.usageJson === null
        ? usageChunk(this.#head(), usageOfStream(this.exchange.usage, measured))
        : withUsage(this.usageJson, this.exchange.usage, measured)
    return sseFrame(withGateway(json, this.#block(more)))
  }

  /** Ends the choices that the time limit cut. The block is on the usage frame; without one, on this frame. */
  cutShort(choices: readonly number[], measured: Measured, more: string): string {
    const finish = finishChunk(this.#head(), 'length', choices)
    if (this.exchange.intent.includeUsage) return sseFrame(finish) + this.usage(measured, more)
    return sseFrame(withGateway(finish, this.#block(more)))
  }

  error(error: GatewayError, more: string): string {
    return errorFrame(error, this.#block(more))
  }

  /**
   * The provider is shown to clients that requested usage or the debug block. The default block counts the attempts,
   * the debug block lists them.
   */
  #block(more: string): string {
    const { exchange } = this
    const { identity, intent, entry } = exchange
    if (!intent.includeUsage && !intent.debug)
      return firstFrameGatewayJson(identity.requestId, intent.model, entry.name, more)
    const facts = exchange.facts()
    const attempts = facts.debug === null ? `,"attempts":${exchange.attempts.length}` : ''
    return gatewayJson(facts, attempts + more)
  }

  #head(): StreamHead {
    const chunk: unknown = this.chunkJson === null ? null : JSON.parse(this.chunkJson)
    const { id, created, model } = isObject(chunk) ? chunk : {}
    const { identity, intent } = this.exchange
    return {
      id: typeof id === 'string' ? id : identity.id,
      created: typeof created === 'number' ? created : Math.floor(identity.atMs / 1_000),
      model: typeof model === 'string' ? model : intent.model,
    }
  }
}
