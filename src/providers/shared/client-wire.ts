// Answers and chunks in the client's wire, for kinds whose own wire differs.

import type { Reading, StreamPart, Usage } from '../port.ts'
import { generatedBytes } from './generated.ts'
import type { Json } from './read-json.ts'

const NO_TOOLS: readonly string[] = []

/** Usage in the client's wire. A number that the upstream did not report is 0 only where the wire requires one. */
export const clientUsage = (usage: Usage, cacheWriteTokens: number | null = null): Json => {
  const { promptTokens, completionTokens, cachedPromptTokens, reasoningTokens } = usage
  const details = {
    ...(cachedPromptTokens === null ? {} : { cached_tokens: cachedPromptTokens }),
    ...(cacheWriteTokens === null ? {} : { cache_write_tokens: cacheWriteTokens }),
  }
  return {
    prompt_tokens: promptTokens ?? 0,
    completion_tokens: completionTokens ?? 0,
    total_tokens: (promptTokens ?? 0) + (completionTokens ?? 0),
    ...(Object.keys(details).length === 0 ? {} : { prompt_tokens_details: details }),
    ...(reasoningTokens === null ? {} : { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
  }
}

/** A `chat.completion` with one choice. `usage` is in the client's wire. */
export const completionJson = (answer: {
  readonly id: string | null
  readonly createdS: number | null
  readonly model: unknown
  readonly message: Json
  readonly logprobs: unknown
  readonly finishReason: string | null
  readonly usage: Json | null
  readonly reading: Reading | undefined
}): string =>
  JSON.stringify({
    id: answer.id ?? answer.reading?.id ?? 'chatcmpl-unnamed',
    object: 'chat.completion',
    created: answer.createdS ?? answer.reading?.createdS ?? 0,
    model: answer.model,
    choices: [
      { index: 0, message: answer.message, logprobs: answer.logprobs ?? null, finish_reason: answer.finishReason },
    ],
    ...(answer.usage === null ? {} : { usage: answer.usage }),
  })

/**
 * Makes the parts of one stream. `id`, `createdS` and `model` are set as the upstream names them, `usage` as it grows.
 */
export class ChunkWriter {
  id: string
  createdS: number
  model: unknown
  usage: Usage | null = null

  constructor(reading: Reading | undefined) {
    this.id = reading?.id ?? 'chatcmpl-unnamed'
    this.createdS = reading?.createdS ?? 0
    this.model = reading?.model ?? ''
  }

  part(delta: Json, more: Partial<StreamPart> = {}, logprobs: unknown = null, index = 0): StreamPart {
    const finishReason = more.finishReason ?? null
    return {
      json: this.#chunk({ choices: [{ index, delta, logprobs, finish_reason: finishReason }] }),
      content: false,
      text: '',
      bytes: generatedBytes(delta),
      finishReason,
      usage: this.usage,
      usageOnly: false,
      toolNames: NO_TOOLS,
      ...more,
    }
  }

  /** A piece of the answer's text. */
  text(text: string, logprobs: unknown = null): StreamPart {
    return this.part({ content: text }, { content: true, text }, logprobs)
  }

  /** The start of a tool call, or all of it. */
  call(index: number, id: unknown, name: string, args: string): StreamPart {
    const call = { index, id, type: 'function', function: { name, arguments: args } }
    return this.part({ tool_calls: [call] }, { content: true, toolNames: name === '' ? NO_TOOLS : [name] })
  }

  /** More of a call's arguments. */
  callArguments(index: number, args: string): StreamPart {
    return this.part({ tool_calls: [{ index, function: { arguments: args } }] }, { content: true })
  }

  /** The usage-only chunk; none when the upstream reported no usage. */
  usagePart(cacheWriteTokens: number | null = null): readonly StreamPart[] {
    if (this.usage === null) return []
    const json = this.#chunk({ choices: [], usage: clientUsage(this.usage, cacheWriteTokens) })
    const { usage } = this
    return [
      { json, content: false, text: '', bytes: 0, finishReason: null, usage, usageOnly: true, toolNames: NO_TOOLS },
    ]
  }

  #chunk(fields: Json): string {
    return JSON.stringify({
      id: this.id,
      object: 'chat.completion.chunk',
      created: this.createdS,
      model: this.model,
      ...fields,
    })
  }
}
