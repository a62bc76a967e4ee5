// Cohere's streams -> chunks of the client's wire.
import { isObject } from '../../wire/json.ts'
import type { Reading, SseEvent, StreamDecoder, StreamPart } from '../port.ts'
import { ChunkWriter } from '../shared/client-wire.ts'
import { present } from '../shared/converting.ts'
import { inBandFailure, malformed } from '../shared/failure.ts'
import { type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { skipUnreadable } from '../shared/unreadable.ts'
import { cohereFinish, cohereLogprobs, cohereUsage } from './answer.ts'

const NOTHING: readonly StreamPart[] = []
const MOST_CALLS = 1_024

class CohereDecoder implements StreamDecoder {
  unreadable = 0
  over = false
  readonly #reading: Reading | undefined
  readonly #chunks: ChunkWriter
  #begun = false
  #calls = 0
  /** The call under way, by its index among the calls; they come one after another. Whether it has arguments yet. */
  #open: { readonly index: number; hasArguments: boolean } | null = null
  /** It came with the usage of the stream: thrown after that is returned. */
  #failure: { readonly thrown: unknown } | null = null

  constructor(reading: Reading | undefined) {
    this.#reading = reading
    this.#chunks = new ChunkWriter(reading)
  }

  get complete(): boolean {
    return this.over && this.#failure === null
  }

  push({ event, data }: SseEvent): readonly StreamPart[] {
    if (this.over || data === '' || data === '[DONE]') return NOTHING
    const value = parseJson(data)
    if (!isObject(value)) {
      if (event === 'error') throw inBandFailure({ message: data }, this.#reading)
      this.unreadable = skipUnreadable(data, this.unreadable, this.complete)
      return NOTHING
    }
    const type = textOf(value.type) ?? event
    const parts = this.#partsOf(type, value)
    if (this.#begun || parts.length === 0) return parts
    this.#begun = true
    return type === 'message-start' ? parts : [this.#role(), ...parts]
  }

  end(): readonly StreamPart[] {
    if (this.#failure !== null) throw this.#failure.thrown
    if (!this.over) throw malformed('its stream ended early')
    return NOTHING
  }

  #partsOf(type: string | null, value: Json): readonly StreamPart[] {
    const message = objectOf(objectOf(value.delta).message)
    switch (type) {
      case 'message-start':
        this.#chunks.id = textOf(value.id) ?? this.#chunks.id
        return [this.#role()]
      case 'content-start':
      case 'content-delta':
        return this.#content(objectOf(message.content), value.logprobs)
      case 'tool-plan-delta':
        return this.#text(textOf(message.tool_plan), null)
      case 'tool-call-start':
        return [...this.#closeCall(), ...this.#startCall(objectOf(message.tool_calls))]
      case 'tool-call-delta':
        return this.#arguments(objectOf(objectOf(message.tool_calls).function).arguments)
      case 'tool-call-end':
        return this.#closeCall()
      case 'citation-start':
        return isObject(message.citations) ? [this.#chunks.part({ citations: [message.citations] })] : NOTHING
      case 'message-end':
        return [...this.#closeCall(), ...this.#finish(objectOf(value.delta))]
      default:
        // Future events are skipped, failures are not.
        if (type === 'error' || present(value.error) || (type === null && typeof value.message === 'string'))
          throw inBandFailure(value, this.#reading)
        return NOTHING
    }
  }

  #role(): StreamPart {
    return this.#chunks.part({ role: 'assistant', content: '' })
  }

  #text(text: string | null, logprobs: unknown): readonly StreamPart[] {
    return text === null || text === '' ? NOTHING : [this.#chunks.text(text, logprobs)]
  }

  #content(content: Json, logprobs: unknown): readonly StreamPart[] {
    const thinking = textOf(content.thinking) ?? ''
    if (thinking !== '') return [this.#chunks.part({ reasoning_content: thinking }, { content: true })]
    return this.#text(textOf(content.text), isObject(logprobs) ? cohereLogprobs([logprobs]) : null)
  }

  #startCall(call: Json): readonly StreamPart[] {
    if (this.#calls >= MOST_CALLS) throw malformed('it has too many tool calls')
    const { name, arguments: args } = objectOf(call.function)
    const index = this.#calls++
    this.#open = { index, hasArguments: false }
    return [this.#chunks.call(index, call.id, textOf(name) ?? '', ''), ...this.#arguments(args)]
  }

  /** `null` as the first and only piece is a call without arguments, as in whole answers. */
  #arguments(args: unknown): readonly StreamPart[] {
    const open = this.#open
    const text = textOf(args) ?? ''
    if (open === null || text === '' || (!open.hasArguments && text.trim() === 'null')) return NOTHING
    open.hasArguments = true
    return [this.#chunks.callArguments(open.index, text)]
  }

  /** The client's wire requires arguments of a call without input: the empty object. */
  #closeCall(): readonly StreamPart[] {
    const open = this.#open
    this.#open = null
    return open === null || open.hasArguments ? NOTHING : [this.#chunks.callArguments(open.index, '{}')]
  }

  #finish(delta: Json): readonly StreamPart[] {
    if (isObject(delta.usage)) this.#chunks.usage = cohereUsage(delta.usage)
    this.over = true
    try {
      const reason = cohereFinish(textOf(delta.finish_reason), delta.error, this.#reading)
      const finishReason = reason ?? (this.#calls > 0 ? 'tool_calls' : 'stop')
      return [this.#chunks.part({}, { finishReason }), ...this.#chunks.usagePart()]
    } catch (thrown) {
      this.#failure = { thrown }
      return this.#chunks.usagePart()
    }
  }
}

export const cohereStream = (reading?: Reading): StreamDecoder => new CohereDecoder(reading)
