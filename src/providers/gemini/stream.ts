// Gemini's streams -> chunks of the client's wire. Every event is a whole small answer; only the finish reason of the
// last candidate ends the stream.
import { parseExact } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import type { Reading, SseEvent, StreamDecoder, StreamPart } from '../port.ts'
import { ChunkWriter } from '../shared/client-wire.ts'
import { malformed } from '../shared/failure.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { skipUnreadable } from '../shared/unreadable.ts'
import {
  CallIds,
  candidateFacts,
  clientLogprobs,
  type Delta,
  deltaOf,
  geminiFinish,
  geminiUsage,
  indexOf,
  partsOf,
} from './answer.ts'
import { blockedPrompt, geminiInBand } from './failure.ts'

const NOTHING: readonly StreamPart[] = []
/** A client may request 128 at most; more were not requested. */
const MOST_CHOICES = 128

interface Choice {
  readonly index: number
  calls: number
  finished: boolean
}

class GeminiDecoder implements StreamDecoder {
  unreadable = 0
  readonly #reading: Reading | undefined
  readonly #ids: CallIds
  readonly #chunks: ChunkWriter
  readonly #choices = new Map<number, Choice>()
  #unfinished = 0
  #rawUsage: Json = {}
  #over = false
  /** It came with content: thrown after that is returned. */
  #failure: { readonly thrown: unknown } | null = null

  constructor(reading: Reading | undefined) {
    this.#reading = reading
    this.#ids = new CallIds(reading)
    this.#chunks = new ChunkWriter(reading)
  }

  get complete(): boolean {
    return this.#choices.size > 0 && this.#unfinished === 0
  }

  /** Only a failure ends these streams before their body does. */
  get over(): boolean {
    return this.#failure !== null
  }

  push({ event, data }: SseEvent): readonly StreamPart[] {
    if (this.#over || this.#failure !== null || data === '' || data === '[DONE]') return NOTHING
    let value: unknown
    try {
      value = parseExact(data)
    } catch {
      // After a whole answer it counts as litter.
      if (event === 'error' && this.complete) return NOTHING
      if (event === 'error') throw geminiInBand({ message: data }, this.#reading)
      this.unreadable = skipUnreadable(data, this.unreadable, this.complete)
      return NOTHING
    }
    // Without `alt=sse`, and for errors, the body is a list of the events.
    const events = Array.isArray(value) ? value : [value]
    const parts: StreamPart[] = []
    const usageBefore = this.#chunks.usage
    try {
      for (const one of events) this.#answer(one, parts)
    } catch (thrown) {
      // Parts carry the usage so far: without any part, the usage gets one of its own.
      if (parts.length === 0 && this.#chunks.usage !== usageBefore) parts.push(...this.#chunks.usagePart())
      if (parts.length === 0) throw thrown
      this.#failure = { thrown }
    }
    return parts
  }

  end(): readonly StreamPart[] {
    if (this.#over) return NOTHING
    if (this.#failure !== null) throw this.#failure.thrown
    if (!this.complete) throw malformed('its stream ended early')
    this.#over = true
    return this.#chunks.usagePart()
  }

  #answer(value: unknown, parts: StreamPart[]): void {
    if (!isObject(value)) {
      this.unreadable = skipUnreadable('', this.unreadable, this.complete)
      return
    }
    if (value.error !== undefined && value.error !== null) throw geminiInBand(value, this.#reading)
    const blocked = blockedPrompt(value)
    if (blocked !== null) throw blocked
    const chunks = this.#chunks
    chunks.id = textOf(value.responseId) ?? chunks.id
    chunks.model = textOf(value.modelVersion) ?? chunks.model
    if (isObject(value.usageMetadata)) {
      // Cumulative; a member that one event omits may be in an earlier one.
      this.#rawUsage = { ...this.#rawUsage, ...value.usageMetadata }
      chunks.usage = geminiUsage(this.#rawUsage)
    }
    for (const candidate of arrayOf(value.candidates)) this.#candidate(objectOf(candidate), parts)
  }

  #candidate(candidate: Json, parts: StreamPart[]): void {
    const choice = this.#choice(indexOf(candidate), parts)
    let logprobs = clientLogprobs(candidate.logprobsResult)
    for (const part of partsOf(candidate)) {
      const delta = deltaOf(part, this.#ids)
      if (delta === null) continue
      parts.push(this.#delta(choice, delta, logprobs))
      logprobs = null
    }
    const google = candidateFacts(candidate)
    if (google !== null || logprobs !== null)
      parts.push(this.#part(choice, google === null ? {} : { extra_content: { google } }, logprobs))
    const finishReason = choice.finished ? null : geminiFinish(candidate.finishReason, choice.calls > 0)
    if (finishReason === null) return
    choice.finished = true
    this.#unfinished--
    parts.push(this.#part(choice, {}, null, { finishReason }))
  }

  #choice(index: number, parts: StreamPart[]): Choice {
    const existing = this.#choices.get(index)
    if (existing !== undefined) return existing
    if (this.#choices.size >= MOST_CHOICES) throw malformed('it has too many candidates')
    const choice = { index, calls: 0, finished: false }
    this.#choices.set(index, choice)
    this.#unfinished++
    parts.push(this.#part(choice, { role: 'assistant', content: '' }, null))
    return choice
  }

  #delta(choice: Choice, delta: Delta, logprobs: Json | null): StreamPart {
    const { tool_calls: calls, content } = delta
    const text = choice.index === 0 ? (content ?? '') : ''
    if (calls === undefined) {
      const shown = content ?? delta.reasoning_content ?? delta.images ?? delta.audio
      return this.#part(choice, { ...delta }, logprobs, { content: shown !== undefined, text })
    }
    const numbered = calls.map((call) => ({ index: choice.calls++, ...call }))
    const toolNames = calls.map((call) => call.function.name)
    return this.#part(choice, { ...delta, tool_calls: numbered }, logprobs, { content: true, toolNames })
  }

  #part({ index }: Choice, delta: Json, logprobs: Json | null, more: Partial<StreamPart> = {}): StreamPart {
    return this.#chunks.part(delta, more, logprobs, index)
  }
}

export const geminiStream = (reading?: Reading): StreamDecoder => new GeminiDecoder(reading)
