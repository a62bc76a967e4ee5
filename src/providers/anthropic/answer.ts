// Anthropic's whole answers and its usage -> the client's wire.
import { isObject } from '../../wire/json.ts'
import type { Answer, Reading, Usage } from '../port.ts'
import { cacheWritesOf } from '../shared/billing.ts'
import { clientUsage, completionJson } from '../shared/client-wire.ts'
import { JSON_TOOL } from '../shared/converting.ts'
import { inBandFailure, malformed } from '../shared/failure.ts'
import { finishReasonOf } from '../shared/finish-reason.ts'
import { arrayOf, countOf, type Json, objectOf, parseExactJson, textOf } from '../shared/read-json.ts'

const STATUS: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  conflict_error: 502,
  timeout_error: 504,
  overloaded_error: 529,
}

/** An `error` inside a success, by the type that it names. */
export const anthropicInBand = (body: unknown, reading?: Reading) =>
  inBandFailure(body, reading, (field) => (Object.hasOwn(STATUS, field) ? STATUS[field] : undefined))

const sum = (...counts: readonly (number | null)[]): number | null =>
  counts.every((count) => count === null) ? null : counts.reduce<number>((total, count) => total + (count ?? 0), 0)

/**
 * `input_tokens` omits tokens that were read from or written to the cache; the client's prompt_tokens includes them.
 */
export const anthropicUsage = (raw: Json): Usage => {
  const cached = countOf(raw.cache_read_input_tokens)
  const byTime = objectOf(raw.cache_creation)
  return {
    promptTokens: sum(countOf(raw.input_tokens), countOf(raw.cache_creation_input_tokens), cached),
    completionTokens: countOf(raw.output_tokens),
    cachedPromptTokens: cached,
    reasoningTokens: countOf(objectOf(raw.output_tokens_details).thinking_tokens),
    ...cacheWritesOf(
      countOf(raw.cache_creation_input_tokens),
      countOf(byTime.ephemeral_5m_input_tokens),
      countOf(byTime.ephemeral_1h_input_tokens),
    ),
    raw,
  }
}

/** Tokens that were written to the cache; null when the usage does not report them. */
export const cacheWriteTokens = (usage: Usage): number | null =>
  countOf(objectOf(usage.raw).cache_creation_input_tokens)

/** Null: the text of JSON_TOOL is the content, so the tool call is no tool call to the client. */
export const anthropicFinish = (reason: string | null, answeredByTool: boolean): string | null => {
  if (reason === null) return null
  return answeredByTool && reason === 'tool_use' ? 'stop' : finishReasonOf(reason)
}

const toolCall = (block: Json): Json => ({
  id: block.id,
  type: 'function',
  function: { name: block.name, arguments: JSON.stringify(block.input ?? {}) },
})

const messageOf = (
  blocks: readonly Json[],
): { message: Json; content: string | null; names: readonly string[]; byTool: boolean } => {
  const of = (type: string) => blocks.filter((block) => block.type === type)
  const uses = of('tool_use')
  const answers = uses.filter(({ name }) => name === JSON_TOOL)
  const calls = uses.filter(({ name }) => name !== JSON_TOOL)
  const texts = [
    ...of('text').map(({ text }) => textOf(text) ?? ''),
    ...answers.map(({ input }) => JSON.stringify(input ?? {})),
  ]
  const thinking = of('thinking')
  const details = blocks.filter(({ type }) => type === 'thinking' || type === 'redacted_thinking')
  const content = texts.length === 0 && calls.length > 0 ? null : texts.join('')
  return {
    message: {
      role: 'assistant',
      content,
      ...(thinking.length === 0
        ? {}
        : { reasoning_content: thinking.map(({ thinking: text }) => textOf(text) ?? '').join('') }),
      ...(details.length === 0 ? {} : { reasoning_details: details }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map(toolCall) }),
    },
    content,
    names: calls.flatMap(({ name }) => textOf(name) ?? []),
    byTool: answers.length > 0,
  }
}

export const anthropicAnswer = (body: string, reading?: Reading): Answer => {
  const parsed = parseExactJson(body)
  if (!isObject(parsed)) throw malformed('it is no JSON object')
  if (parsed.type === 'error' || isObject(parsed.error)) throw anthropicInBand(parsed, reading)
  if (!Array.isArray(parsed.content)) throw malformed('it has no content')
  const { message, content, names, byTool } = messageOf(arrayOf(parsed.content).map(objectOf))
  const reason = textOf(parsed.stop_reason)
  const finishReason = anthropicFinish(reason, byTool)
  const usage = isObject(parsed.usage) ? anthropicUsage(parsed.usage) : null
  return {
    json: completionJson({
      id: textOf(parsed.id),
      createdS: null,
      model: textOf(parsed.model) ?? reading?.model ?? '',
      message,
      logprobs: null,
      finishReason,
      usage: usage === null ? null : clientUsage(usage, cacheWriteTokens(usage)),
      reading,
    }),
    usage,
    finishReason,
    content,
    refusal: reason === 'refusal',
    toolNames: names,
  }
}
