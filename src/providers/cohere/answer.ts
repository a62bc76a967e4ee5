// Cohere's whole answers and its usage -> the client's wire.
import { isObject } from '../../wire/json.ts'
import type { Answer, Reading, Usage } from '../port.ts'
import { clientUsage, completionJson } from '../shared/client-wire.ts'
import { inBandFailure, malformed } from '../shared/failure.ts'
import { finishReasonOf, isFailedFinish } from '../shared/finish-reason.ts'
import { arrayOf, countOf, type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'

/** `tokens` is what the model read and wrote; Cohere charges for `billed_units`, which omit its own templates. */
export const cohereUsage = (raw: Json): Usage => {
  const tokens = objectOf(raw.tokens)
  const billed = objectOf(raw.billed_units)
  const promptTokens = countOf(tokens.input_tokens) ?? countOf(billed.input_tokens)
  const completionTokens = countOf(tokens.output_tokens) ?? countOf(billed.output_tokens)
  const units = { promptTokens: countOf(billed.input_tokens), completionTokens: countOf(billed.output_tokens) }
  return {
    promptTokens,
    completionTokens,
    cachedPromptTokens: countOf(raw.cached_tokens),
    reasoningTokens: null,
    billed: units.promptTokens === null && units.completionTokens === null ? null : units,
    raw,
  }
}

/** Throws for a generation that failed; `error` is Cohere's text about it. */
export const cohereFinish = (reason: string | null, error: unknown, reading?: Reading): string | null => {
  if (reason === null) return null
  if (!isFailedFinish(reason)) return finishReasonOf(reason)
  throw typeof error === 'string' && error !== ''
    ? inBandFailure({ message: error }, reading)
    : malformed(`the generation ended with ${reason.slice(0, 40)}`)
}

/**
 * Cohere reports the probability of each token of a piece of text; the client's wire has one for the piece: their sum.
 */
export const cohereLogprobs = (items: unknown): Json | null => {
  if (!Array.isArray(items)) return null
  const content = items.flatMap((item: unknown): Json[] => {
    const { text, logprobs } = objectOf(item)
    const values = arrayOf(logprobs).filter((value) => typeof value === 'number')
    if (values.length === 0) return []
    const logprob = values.reduce((sum, value) => sum + value, 0)
    return [{ token: textOf(text) ?? '', logprob, bytes: null, top_logprobs: [] }]
  })
  return content.length === 0 ? null : { content }
}

/** A tool without parameters is called with nothing, or with `null`; for a client that is the empty object. */
const argumentsOf = (args: unknown): string => {
  if (typeof args === 'string') return args.trim() === '' || args.trim() === 'null' ? '{}' : args
  return JSON.stringify(args ?? {})
}

const toolCall = (call: unknown): Json => {
  const { id, function: called } = objectOf(call)
  const { name, arguments: args } = objectOf(called)
  return { id, type: 'function', function: { name, arguments: argumentsOf(args) } }
}

const messageOf = (message: Json): { message: Json; content: string | null; names: readonly string[] } => {
  const parts = typeof message.content === 'string' ? [{ text: message.content }] : arrayOf(message.content)
  const texts = parts.map((part) => textOf(objectOf(part).text) ?? '')
  const thinking = parts.map((part) => textOf(objectOf(part).thinking) ?? '').join('')
  const calls = arrayOf(message.tool_calls).map(toolCall)
  const text = [textOf(message.tool_plan) ?? '', ...texts].join('')
  const content = text === '' && calls.length > 0 ? null : text
  return {
    message: {
      role: 'assistant',
      content,
      ...(thinking === '' ? {} : { reasoning_content: thinking }),
      ...(arrayOf(message.citations).length === 0 ? {} : { citations: message.citations }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
    content,
    names: calls.flatMap((call) => textOf(objectOf(call.function).name) ?? []),
  }
}

export const cohereAnswer = (body: string, reading?: Reading): Answer => {
  const parsed = parseJson(body)
  if (!isObject(parsed)) throw malformed('it is no JSON object')
  if (!isObject(parsed.message))
    throw typeof parsed.message === 'string' || parsed.error !== undefined
      ? inBandFailure(parsed, reading)
      : malformed('it has no message')
  const reason = textOf(parsed.finish_reason)
  const finishReason = cohereFinish(reason, parsed.error, reading)
  const { message, content, names } = messageOf(parsed.message)
  const usage = isObject(parsed.usage) ? cohereUsage(parsed.usage) : null
  return {
    json: completionJson({
      id: textOf(parsed.id),
      createdS: null,
      model: textOf(parsed.model) ?? reading?.model ?? '',
      message,
      logprobs: cohereLogprobs(parsed.logprobs),
      finishReason,
      usage: usage === null ? null : clientUsage(usage),
      reading,
    }),
    usage,
    finishReason,
    content,
    refusal: finishReason === 'content_filter',
    toolNames: names,
  }
}
