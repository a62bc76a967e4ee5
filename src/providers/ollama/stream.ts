// Ollama's streams, a line of JSON after the other -> chunks of the client's wire.

import type { Reading, SseEvent, StreamDecoder, StreamPart } from '../port.ts'
import { ChunkWriter } from '../shared/client-wire.ts'
import { malformed } from '../shared/failure.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { skipUnreadable } from '../shared/unreadable.ts'
import {
  ollamaCall,
  ollamaCreatedS,
  ollamaError,
  ollamaFinish,
  ollamaJson,
  ollamaLogprobs,
  ollamaUsage,
} from './answer.ts'

const NOTHING: readonly StreamPart[] = []
const MOST_CALLS = 1_024

class OllamaDecoder implements StreamDecoder {
  unreadable = 0
  over = false
  readonly #reading: Reading | undefined
  readonly #chunks: ChunkWriter
  #begun = false
  #calls = 0

  constructor(reading: Reading | undefined) {
    this.#reading = reading
    this.#chunks = new ChunkWriter(reading)
  }

  get complete(): boolean {
    return this.over
  }

  push({ data }: SseEvent): readonly StreamPart[] {
    if (this.over || data === '') return NOTHING
    const line = ollamaJson(data)
    if (line === undefined) {
      this.unreadable = skipUnreadable(data, this.unreadable, this.complete)
      return NOTHING
    }
    const error = ollamaError(line, this.#reading)
    if (error !== null) throw error
    const parts: StreamPart[] = []
    if (!this.#begun) parts.push(this.#begin(line))
    this.#take(objectOf(line.message), ollamaLogprobs(line), parts)
    if (line.done === true) this.#finish(line, parts)
    return parts
  }

  end(): readonly StreamPart[] {
    if (!this.over) throw malformed('its stream ended early')
    return NOTHING
  }

  #begin(line: Json): StreamPart {
    this.#begun = true
    this.#chunks.model = textOf(line.model) ?? this.#chunks.model
    this.#chunks.createdS = ollamaCreatedS(line) ?? this.#chunks.createdS
    return this.#chunks.part({ role: 'assistant', content: '' })
  }

  #take(message: Json, logprobs: Json | null, parts: StreamPart[]): void {
    const thinking = textOf(message.thinking) ?? ''
    const text = textOf(message.content) ?? ''
    if (thinking !== '') parts.push(this.#chunks.part({ reasoning_content: thinking }, { content: true }))
    if (text !== '') parts.push(this.#chunks.text(text, logprobs))
    for (const call of arrayOf(message.tool_calls)) {
      if (this.#calls >= MOST_CALLS) throw malformed('it has too many tool calls')
      const index = this.#calls++
      const { id, name, arguments: args } = ollamaCall(call, index, this.#reading)
      parts.push(this.#chunks.call(index, id, name, args))
    }
  }

  #finish(line: Json, parts: StreamPart[]): void {
    this.over = true
    this.#chunks.usage = ollamaUsage(line)
    parts.push(this.#chunks.part({}, { finishReason: ollamaFinish(line, this.#calls) }), ...this.#chunks.usagePart())
  }
}

export const ollamaStream = (reading?: Reading): StreamDecoder => new OllamaDecoder(reading)
