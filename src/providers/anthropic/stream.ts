// Anthropic's streams -> chunks of the client's wire.
import { isObject } from '../../wire/json.ts'
import type { Reading, SseEvent, StreamDecoder, StreamPart } from '../port.ts'
import { ChunkWriter } from '../shared/client-wire.ts'
import { JSON_TOOL } from '../shared/converting.ts'
import { malformed } from '../shared/failure.ts'
import { type Json, objectOf, parseExactJson, textOf } from '../shared/read-json.ts'
import { skipUnreadable } from '../shared/unreadable.ts'
import { anthropicFinish, anthropicInBand, anthropicUsage, cacheWriteTokens } from './answer.ts'

interface OpenBlock {
  readonly type: unknown
  /** Index among the tool calls; null when it is none for the client. */
  readonly call: number | null
  readonly answer: boolean
  /** Whether its input came in fragments. */
  fragments: boolean
  thinking: string
  signature: string
  readonly data: unknown
  /** Some proxies send the whole input at the start. */
  readonly input: string
}

const NOTHING: readonly StreamPart[] = []
const MOST_BLOCKS = 10_000

class AnthropicDecoder implements StreamDecoder {
  unreadable = 0
  over = false
  readonly #reading: Reading | undefined
  readonly #chunks: ChunkWriter
  readonly #blocks = new Map<unknown, OpenBlock>()
  #blockCount = 0
  #calls = 0
  #byTool = false
  #rawUsage: Record<string, unknown> = {}
  #finished = false

  constructor(reading: Reading | undefined) {
    this.#reading = reading
    this.#chunks = new ChunkWriter(reading)
  }

  get complete(): boolean {
    return this.#finished
  }

  push({ event, data }: SseEvent): readonly StreamPart[] {
    if (this.over || data === '') return NOTHING
    const value = parseExactJson(data)
    if (!isObject(value)) {
      if (event === 'error') throw anthropicInBand({ message: data }, this.#reading)
      this.unreadable = skipUnreadable(data, this.unreadable, this.complete)
      return NOTHING
    }
    const type = textOf(value.type) ?? event
    switch (type) {
      case 'message_start':
        return this.#start(objectOf(value.message))
      case 'content_block_start':
        return this.#open(value.index, objectOf(value.content_block))
      case 'content_block_delta':
        return this.#delta(this.#blocks.get(value.index), objectOf(value.delta))
      case 'content_block_stop':
        return this.#close(value.index)
      case 'message_delta':
        return this.#finish(objectOf(value.delta), value.usage)
      case 'message_stop':
        return this.#stop()
      case 'error':
        throw anthropicInBand(value, this.#reading)
      default:
        // `ping` and future events. An error without a type is still an error.
        if (isObject(value.error)) throw anthropicInBand(value, this.#reading)
        return NOTHING
    }
  }

  end(): readonly StreamPart[] {
    if (this.over) return NOTHING
    if (!this.#finished) throw malformed('its stream ended early')
    return this.#stop()
  }

  #start(message: Json): readonly StreamPart[] {
    const chunks = this.#chunks
    chunks.id = textOf(message.id) ?? chunks.id
    chunks.model = textOf(message.model) ?? chunks.model
    this.#merge(message.usage)
    return [chunks.part({ role: 'assistant', content: '' })]
  }

  /** Presence decides, not truth: a reported 0 replaces an earlier number, an absent member does not. */
  #merge(usage: unknown): void {
    if (!isObject(usage)) return
    for (const [name, value] of Object.entries(usage))
      if (value !== null && value !== undefined) this.#rawUsage[name] = value
    this.#chunks.usage = anthropicUsage({ ...this.#rawUsage })
  }

  #open(index: unknown, block: Json): readonly StreamPart[] {
    if (++this.#blockCount > MOST_BLOCKS) throw malformed('it has too many blocks')
    const isTool = block.type === 'tool_use'
    const answer = isTool && block.name === JSON_TOOL
    const call = isTool && !answer ? this.#calls++ : null
    if (answer) this.#byTool = true
    const open: OpenBlock = {
      type: block.type,
      call,
      answer,
      fragments: false,
      thinking: textOf(block.thinking) ?? '',
      signature: textOf(block.signature) ?? '',
      data: block.data,
      input: JSON.stringify(block.input ?? {}),
    }
    this.#blocks.set(index, open)
    if (call !== null) return [this.#chunks.call(call, block.id, textOf(block.name) ?? '', '')]
    const text = block.type === 'text' ? (textOf(block.text) ?? '') : ''
    return text === '' ? NOTHING : [this.#chunks.text(text)]
  }

  #delta(block: OpenBlock | undefined, delta: Json): readonly StreamPart[] {
    const text =
      textOf(
        delta.type === 'thinking_delta'
          ? delta.thinking
          : delta.type === 'input_json_delta'
            ? delta.partial_json
            : delta.text,
      ) ?? ''
    if (block !== undefined && delta.type === 'signature_delta') block.signature += textOf(delta.signature) ?? ''
    if (text === '') return NOTHING
    if (delta.type === 'text_delta') return [this.#chunks.text(text)]
    if (delta.type === 'thinking_delta') {
      if (block !== undefined) block.thinking += text
      return [this.#chunks.part({ reasoning_content: text }, { content: true })]
    }
    if (delta.type !== 'input_json_delta' || block === undefined) return NOTHING
    block.fragments = true
    if (block.answer) return [this.#chunks.text(text)]
    return block.call === null ? NOTHING : [this.#chunks.callArguments(block.call, text)]
  }

  #close(index: unknown): readonly StreamPart[] {
    const block = this.#blocks.get(index)
    this.#blocks.delete(index)
    if (block === undefined) return NOTHING
    // The client's wire requires arguments of a call without input: the empty object.
    if (block.answer && !block.fragments) return [this.#chunks.text(block.input)]
    if (block.call !== null && !block.fragments) return [this.#chunks.callArguments(block.call, block.input)]
    if (block.type === 'thinking' && block.signature !== '')
      return [
        this.#chunks.part({
          reasoning_details: [{ type: 'thinking', thinking: block.thinking, signature: block.signature }],
        }),
      ]
    return block.type === 'redacted_thinking'
      ? [
          this.#chunks.part({
            reasoning_details: [{ type: 'redacted_thinking', data: block.data }],
          }),
        ]
      : NOTHING
  }

  #finish(delta: Json, usage: unknown): readonly StreamPart[] {
    this.#merge(usage)
    const reason = textOf(delta.stop_reason)
    if (reason === null) return NOTHING
    this.#finished = true
    return [this.#chunks.part({}, { finishReason: anthropicFinish(reason, this.#byTool) })]
  }

  #stop(): readonly StreamPart[] {
    this.over = true
    const { usage } = this.#chunks
    return this.#chunks.usagePart(usage === null ? null : cacheWriteTokens(usage))
  }
}

export const anthropicStream = (reading?: Reading): StreamDecoder => new AnthropicDecoder(reading)
