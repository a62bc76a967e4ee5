// Streams of Converse -> chunks of the client's wire.
import { appendMembers } from '../../lib/json/edit.ts'
import { isObject } from '../../wire/json.ts'
import type { Reading, SseEvent, StreamDecoder, StreamPart } from '../port.ts'
import { ChunkWriter } from '../shared/client-wire.ts'
import { JSON_TOOL } from '../shared/converting.ts'
import { malformed } from '../shared/failure.ts'
import { type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { skipUnreadable } from '../shared/unreadable.ts'
import {
  bedrockFinish,
  bedrockInBand,
  bedrockUsage,
  cacheWrites,
  extras,
  reasoningDetail,
  shownModel,
} from './answer.ts'

/** A block under way. A text block has no start event. */
interface OpenBlock {
  /** Index among the tool calls; null when it is none for the client. */
  readonly call: number | null
  /** It is the tool that carries the JSON answer. */
  readonly answer: boolean
  fragments: boolean
  thinking: string
  signature: string
  redacted: string
}

const NOTHING: readonly StreamPart[] = []
const MOST_BLOCKS = 10_000
const FAILURE = /exception$/i

class BedrockDecoder implements StreamDecoder {
  unreadable = 0
  over = false
  readonly #reading: Reading | undefined
  readonly #chunks: ChunkWriter
  readonly #blocks = new Map<unknown, OpenBlock>()
  #blockCount = 0
  #calls = 0
  #byTool = false
  #finished = false
  /** The failure at the end of the stream: thrown after the usage, which comes next, is returned. */
  #failure: { readonly thrown: unknown } | null = null
  #more = ''

  constructor(reading: Reading | undefined) {
    this.#reading = reading
    this.#chunks = new ChunkWriter(reading)
    this.#chunks.model = shownModel(reading?.model)
  }

  get complete(): boolean {
    return this.#finished
  }

  push({ event, data }: SseEvent): readonly StreamPart[] {
    if (this.over) return NOTHING
    const value = parseJson(data)
    if (event !== null && (event === 'error' || FAILURE.test(event)))
      throw bedrockInBand(event === 'error' ? null : event, isObject(value) ? value : { message: data }, this.#reading)
    if (!isObject(value)) {
      if (data !== '') this.unreadable = skipUnreadable(data, this.unreadable, this.complete)
      return NOTHING
    }
    switch (event) {
      case 'messageStart':
        return [this.#chunks.part({ role: 'assistant', content: '' })]
      case 'contentBlockStart':
        return this.#start(value.contentBlockIndex, objectOf(objectOf(value.start).toolUse))
      case 'contentBlockDelta':
        return this.#delta(value.contentBlockIndex, objectOf(value.delta))
      case 'contentBlockStop':
        return this.#stop(value.contentBlockIndex)
      case 'messageStop':
        return this.#finish(value)
      case 'metadata':
        return this.#metadata(value)
      default:
        return NOTHING // events that do not exist yet
    }
  }

  end(): readonly StreamPart[] {
    if (this.#failure !== null) throw this.#failure.thrown
    if (this.over) return NOTHING
    if (!this.#finished) throw malformed('its stream ended early')
    this.over = true
    return this.#usagePart()
  }

  #open(index: unknown, call: number | null, answer: boolean): OpenBlock {
    if (++this.#blockCount > MOST_BLOCKS) throw malformed('it has too many blocks')
    const block: OpenBlock = { call, answer, fragments: false, thinking: '', signature: '', redacted: '' }
    this.#blocks.set(index, block)
    return block
  }

  #start(index: unknown, toolUse: Json): readonly StreamPart[] {
    const name = textOf(toolUse.name)
    if (name === null) return NOTHING
    const answer = name === JSON_TOOL
    if (answer) this.#byTool = true
    const { call } = this.#open(index, answer ? null : this.#calls++, answer)
    return call === null ? NOTHING : [this.#chunks.call(call, toolUse.toolUseId, name, '')]
  }

  #delta(index: unknown, delta: Json): readonly StreamPart[] {
    const text = textOf(delta.text) ?? ''
    if (text !== '') return [this.#chunks.text(text)]
    if (isObject(delta.reasoningContent)) return this.#reason(index, delta.reasoningContent)
    const input = textOf(objectOf(delta.toolUse).input) ?? ''
    const block = this.#blocks.get(index)
    if (input === '' || block === undefined) return NOTHING
    block.fragments = true
    if (block.answer) return [this.#chunks.text(input)]
    return block.call === null ? NOTHING : [this.#chunks.callArguments(block.call, input)]
  }

  #reason(index: unknown, { text, signature, redactedContent }: Json): readonly StreamPart[] {
    const block = this.#blocks.get(index) ?? this.#open(index, null, false)
    const thought = textOf(text) ?? ''
    block.thinking += thought
    block.signature += textOf(signature) ?? ''
    block.redacted += textOf(redactedContent) ?? ''
    return thought === '' ? NOTHING : [this.#chunks.part({ reasoning_content: thought }, { content: true })]
  }

  #stop(index: unknown): readonly StreamPart[] {
    const block = this.#blocks.get(index)
    this.#blocks.delete(index)
    if (block === undefined) return NOTHING
    // The client's wire requires arguments of a call without input: the empty object.
    if (!block.fragments && block.answer) return [this.#chunks.text('{}')]
    if (!block.fragments && block.call !== null) return [this.#chunks.callArguments(block.call, '{}')]
    const details = reasoningDetail(block.thinking, block.signature, block.redacted)
    return details.length === 0 ? NOTHING : [this.#chunks.part({ reasoning_details: details })]
  }

  #finish(value: Json): readonly StreamPart[] {
    const reason = textOf(value.stopReason)
    if (reason === null) return NOTHING
    try {
      const finishReason = bedrockFinish(reason, this.#byTool)
      this.#finished = true
      return [withMore(this.#chunks.part({}, { finishReason }), extras(value))]
    } catch (thrown) {
      this.#failure = { thrown }
      return NOTHING
    }
  }

  /** The last event. Without a finish reason before it the answer is incomplete. */
  #metadata(value: Json): readonly StreamPart[] {
    if (isObject(value.usage)) this.#chunks.usage = bedrockUsage(value.usage)
    this.#more = extras(value)
    if (!this.#finished && this.#failure === null) return NOTHING
    this.over = true
    return this.#usagePart()
  }

  #usagePart(): readonly StreamPart[] {
    const { usage } = this.#chunks
    return this.#chunks.usagePart(cacheWrites(usage?.raw)).map((part) => withMore(part, this.#more))
  }
}

const withMore = (part: StreamPart, more: string): StreamPart =>
  more === '' || part.json === null ? part : { ...part, json: appendMembers(part.json, more) }

export const bedrockStream = (reading?: Reading): StreamDecoder => new BedrockDecoder(reading)
