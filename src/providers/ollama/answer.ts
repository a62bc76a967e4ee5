// Ollama's answers, whole or in lines -> the client's wire.
import { isLongNumber, parseExact } from '../../lib/json/exact-json.ts'
import type { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import type { Answer, Reading, Usage } from '../port.ts'
import { callId } from '../shared/call-id.ts'
import { clientUsage, completionJson } from '../shared/client-wire.ts'
import { inBandFailure, malformed } from '../shared/failure.ts'
import { finishReasonOf } from '../shared/finish-reason.ts'
import { arrayOf, countOf, type Json, objectOf, textOf } from '../shared/read-json.ts'

// biome-ignore format: one list
const COUNTS = [
  'prompt_eval_count', 'prompt_eval_cached_count', 'eval_count', 'total_duration', 'load_duration',
  'prompt_eval_duration', 'eval_duration',
] as const

/** Null when the answer reports no tokens. The counts may omit a prompt that was wholly in the cache. */
export const ollamaUsage = (answer: Json): Usage | null => {
  const promptTokens = countOf(answer.prompt_eval_count)
  const completionTokens = countOf(answer.eval_count)
  if (promptTokens === null && completionTokens === null) return null
  return {
    promptTokens,
    completionTokens,
    cachedPromptTokens: countOf(answer.prompt_eval_cached_count),
    reasoningTokens: null,
    raw: Object.fromEntries(COUNTS.filter((name) => name in answer).map((name) => [name, answer[name]])),
  }
}

/** One JSON object, undefined for any other text. Numbers in the arguments of calls keep their spelling. */
export const ollamaJson = (text: string): Json | undefined => {
  try {
    const value = parseExact(text)
    return isObject(value) && !isLongNumber(value) ? value : undefined
  } catch {
    return undefined // the caller says what a text that is no JSON means to it
  }
}

/** `{"error": "..."}`, in a stream perhaps with a `status`. Null when it is no error. */
export const ollamaError = (value: Json, reading?: Reading): GatewayError | null => {
  const { error, status } = value
  if (error === undefined || error === null) return null
  return inBandFailure(typeof error === 'string' ? { message: error, code: status } : value, reading)
}

/** Unix seconds; null when it cannot be read. */
export const ollamaCreatedS = (answer: Json): number | null => {
  const ms = Date.parse(textOf(answer.created_at) ?? '')
  return Number.isNaN(ms) ? null : Math.floor(ms / 1_000)
}

/** Models that call tools report `stop`; old servers report no reason. */
export const ollamaFinish = (answer: Json, calls: number): string => {
  const reason = finishReasonOf(textOf(answer.done_reason) ?? 'stop')
  return reason === 'stop' && calls > 0 ? 'tool_calls' : reason
}

/** Old servers give calls no id: a client needs one, unique within a conversation. */
export const ollamaCall = (call: unknown, index: number, reading?: Reading) => {
  const { id, function: called } = objectOf(call)
  const { name, arguments: args } = objectOf(called)
  const given = textOf(id) ?? ''
  return {
    id: given === '' ? callId(reading, `${index}`) : given,
    name: textOf(name) ?? '',
    arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}),
  }
}

/** They have the client's shape already. */
export const ollamaLogprobs = (answer: Json): Json | null =>
  arrayOf(answer.logprobs).length === 0 ? null : { content: answer.logprobs }

export const ollamaAnswer = (body: string, reading?: Reading): Answer => {
  const parsed = ollamaJson(body)
  if (parsed === undefined) throw malformed('it is no JSON object')
  const error = ollamaError(parsed, reading)
  if (error !== null) throw error
  if (!isObject(parsed.message)) throw malformed('it has no message')
  const { message } = parsed
  const calls = arrayOf(message.tool_calls).map((call, i) => ollamaCall(call, i, reading))
  const thinking = textOf(message.thinking) ?? ''
  const text = textOf(message.content) ?? ''
  const content = text === '' && calls.length > 0 ? null : text
  const usage = ollamaUsage(parsed)
  const finishReason = ollamaFinish(parsed, calls.length)
  return {
    json: completionJson({
      id: null,
      createdS: ollamaCreatedS(parsed),
      model: textOf(parsed.model) ?? reading?.model ?? '',
      message: {
        role: 'assistant',
        content,
        ...(thinking === '' ? {} : { reasoning_content: thinking }),
        ...(calls.length === 0
          ? {}
          : {
              tool_calls: calls.map(({ id, name, arguments: args }) => ({
                id,
                type: 'function',
                function: { name, arguments: args },
              })),
            }),
      },
      logprobs: ollamaLogprobs(parsed),
      finishReason,
      usage: usage === null ? null : clientUsage(usage),
      reading,
    }),
    usage,
    finishReason,
    content,
    refusal: false,
    toolNames: calls.flatMap(({ name }) => (name === '' ? [] : [name])),
  }
}
