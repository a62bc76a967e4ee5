// Anthropic's streams -> chunks of the client's wire.
import { isObject } from '../wire/json.ts'
import { anthropicFinish, anthropicInBand, anthropicUsage, clientUsage } from './anthropic-answer.ts'
import { JSON_TOOL } from './anthropic-request.ts'
import { malformed } from './failure.ts'
import { MOST_UNREADABLE } from './openai-stream.ts'
import type { Reading, SseEvent, StreamDecoder, StreamPart, Usage } from './provider.ts'
import { type Json, objectOf, parseJson, textOf } from './read-json.ts'

interface OpenBlock {
  readonly type: unknown
  /** Index among the tool calls; null when it is none to the client. */
  readonly call: number | null
  readonly answer: boolean
  /** Whether its input came in fragments. */
  fragments: boolean
  thinking: string
  signature: string
  readonly data: unknown
  /** Some proxies give the whole input at the start. */
  readonly input: string
}

const NOTHING: readonly StreamPart[] = []
const NO_TOOLS: readonly string[] = []
const MOST_BLOCKS = 10_000

class AnthropicDecoder implements StreamDecoder {
  unreadable = 0
  readonly #reading: Reading | undefined
  #id: string
  #model: unknown = ''
  readonly #blocks = new Map<unknown, OpenBlock>()
  #seen = 0
  #calls = 0
  #byTool = false
  #rawUsage: Record<string, unknown> = {}
  #usage: Usage | null = null
  #finished = false
  #over = false

  constructor(reading: Reading | undefined) {
    this.#reading = reading
    this.#id = reading?.id ?? 'chatcmpl-unnamed'
  }

  get complete(): boolean {
    return this.#finished
  }

  push({ event, data }: SseEvent): readonly StreamPart[] {
    if (this.#over || data === '') return NOTHING
    const value = parseJson(data)
    if (!isObject(value)) {
      if (event === 'error') throw anthropicInBand({ message: data }, this.#reading)
      if (++this.unreadable > MOST_UNREADABLE) throw malformed('its stream cannot be read')
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
        // `ping` and events that do not exist yet. An error without a type is still an error.
        if (isObject(value.error)) throw anthropicInBand(value, this.#reading)
        return NOTHING
    }
  }

  end(): readonly StreamPart[] {
    if (this.#over) return NOTHING
    if (!this.#finished) throw malformed('its stream ended early')
    return this.#stop()
  }

  #part(delta: Json, more: Partial<StreamPart> = {}): StreamPart {
    const finishReason = more.finishReason ?? null
    return {
      json: this.#chunk({ choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }] }),
      content: false,
      text: '',
      finishReason,
      usage: this.#usage,
      usageOnly: false,
      toolNames: NO_TOOLS,
      ...more,
    }
  }

  #chunk(fields: Json): string {
    return JSON.stringify({
      id: this.#id,
      object: 'chat.completion.chunk',
      created: this.#reading?.createdS ?? 0,
      model: this.#model,
      ...fields,
    })
  }

  #start(message: Json): readonly StreamPart[] {
    this.#id = textOf(message.id) ?? this.#id
    this.#model = message.model
    this.#merge(message.usage)
    return [this.#part({ role: 'assistant', content: '' })]
  }

  /** Presence decides, not truth: a 0 that was said replaces what was known, what was not said does not. */
  #merge(usage: unknown): void {
    if (!isObject(usage)) return
    for (const [name, value] of Object.entries(usage))
      if (value !== null && value !== undefined) this.#rawUsage[name] = value
    this.#usage = anthropicUsage({ ...this.#rawUsage })
  }

  #open(index: unknown, block: Json): readonly StreamPart[] {
    if (++this.#seen > MOST_BLOCKS) throw malformed('it has too many blocks')
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
    if (call !== null) {
      const name = textOf(block.name) ?? ''
      const start = { index: call, id: block.id, type: 'function', function: { name, arguments: '' } }
      return [this.#part({ tool_calls: [start] }, { content: true, toolNames: [name] })]
    }
    const text = block.type === 'text' ? (textOf(block.text) ?? '') : ''
    return text === '' ? NOTHING : [this.#part({ content: text }, { content: true, text })]
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
    if (delta.type === 'text_delta') return [this.#part({ content: text }, { content: true, text })]
    if (delta.type === 'thinking_delta') {
      if (block !== undefined) block.thinking += text
      return [this.#part({ reasoning_content: text }, { content: true })]
    }
    if (delta.type !== 'input_json_delta' || block === undefined) return NOTHING
    block.fragments = true
    if (block.answer) return [this.#part({ content: text }, { content: true, text })]
    return block.call === null
      ? NOTHING
      : [this.#part({ tool_calls: [{ index: block.call, function: { arguments: text } }] }, { content: true })]
  }

  #close(index: unknown): readonly StreamPart[] {
    const block = this.#blocks.get(index)
    this.#blocks.delete(index)
    if (block === undefined) return NOTHING
    // A call without input still has arguments to a client: the empty object.
    if (block.answer && !block.fragments)
      return [this.#part({ content: block.input }, { content: true, text: block.input })]
    if (block.call !== null && !block.fragments)
      return [
        this.#part({ tool_calls: [{ index: block.call, function: { arguments: block.input } }] }, { content: true }),
      ]
    if (block.type === 'thinking' && block.signature !== '')
      return [
        this.#part({ reasoning_details: [{ type: 'thinking', thinking: block.thinking, signature: block.signature }] }),
      ]
    return block.type === 'redacted_thinking'
      ? [
          this.#part({
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
    return [this.#part({}, { finishReason: anthropicFinish(reason, this.#byTool) })]
  }

  #stop(): readonly StreamPart[] {
    this.#over = true
    if (this.#usage === null) return NOTHING
    const json = this.#chunk({ choices: [], usage: clientUsage(this.#usage) })
    return [
      { json, content: false, text: '', finishReason: null, usage: this.#usage, usageOnly: true, toolNames: NO_TOOLS },
    ]
  }
}

export const anthropicStream = (reading?: Reading): StreamDecoder => new AnthropicDecoder(reading)
