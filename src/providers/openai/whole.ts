// Completes whole answers of the OpenAI shape that lack required members; the rest stays as it came.
import { isObject } from '../../wire/json.ts'
import type { Reading } from '../port.ts'
import { callId } from '../shared/call-id.ts'
import { arrayOf, countOf, type Json, objectOf } from '../shared/read-json.ts'
import { wholeCall } from './tool-calls.ts'

const filled = (value: unknown): boolean => typeof value === 'string' && value !== ''

/** It has content other than text, so its `content` may be null. */
const hasOtherContent = ({ tool_calls: calls, refusal, function_call, audio }: Json): boolean =>
  arrayOf(calls).length > 0 || filled(refusal) || isObject(function_call) || isObject(audio)

const wholeMessage = (message: Json, place: number, reading: Reading | undefined): Json => {
  const given = arrayOf(message.tool_calls)
  const calls = given.map((call, i) => wholeCall(call, () => callId(reading, place === 0 ? `${i}` : `${place}_${i}`)))
  const isCalled = calls.every((call, i) => call === given[i])
  const content = message.content ?? (hasOtherContent(message) ? null : '')
  if (isCalled && filled(message.role) && content === message.content) return message
  return {
    ...message,
    role: filled(message.role) ? message.role : 'assistant',
    content,
    ...(isCalled ? {} : { tool_calls: calls }),
  }
}

const finishOf = ({ tool_calls: calls, function_call }: Json): string => {
  if (arrayOf(calls).length > 0) return 'tool_calls'
  return isObject(function_call) ? 'function_call' : 'stop'
}

/** Nothing is missing, and nothing belongs to another wire: nearly every answer. */
export const isUsual = (choice: unknown): boolean => {
  if (!isObject(choice) || !isObject(choice.message)) return false
  const { message, finish_reason: reason } = choice
  return (
    (reason === 'stop' || reason === 'length') &&
    Number.isInteger(choice.index) &&
    filled(message.role) &&
    typeof message.content === 'string' &&
    (message.tool_calls === undefined || message.tool_calls === null)
  )
}

/** The choices with every missing member added; returns the same list when nothing is missing. */
export const wholeChoices = (choices: readonly unknown[], reading: Reading | undefined): readonly unknown[] => {
  let changed = false
  const whole = choices.map((value, place) => {
    const choice = objectOf(value)
    if (!isObject(choice.message)) return value
    const message = wholeMessage(choice.message, place, reading)
    const isNumbered = Number.isInteger(choice.index)
    if (message === choice.message && isNumbered && filled(choice.finish_reason)) return value
    changed = true
    return {
      ...choice,
      index: isNumbered ? choice.index : place,
      message,
      finish_reason: filled(choice.finish_reason) ? choice.finish_reason : finishOf(message),
    }
  })
  return changed ? whole : choices
}

const DETAILS = ['prompt_tokens_details', 'completion_tokens_details']

const isSane = (value: unknown): boolean => value === null || isObject(value) || countOf(value) !== null

const areSane = (details: unknown): boolean => {
  if (!isObject(details)) return true
  for (const name in details) if (!isSane(details[name])) return false
  return true
}

const saneDetails = (details: Json): Json =>
  Object.fromEntries(Object.entries(details).filter(([, value]) => isSane(value)))

/**
 * The usage of an answer with the tokens that are recorded and charged, without values that are no numbers; null when
 * it has them already. A total that is no number, or does not match, becomes the sum; what the upstream did not report
 * is left out here.
 */
export const saneUsage = (
  given: Json,
  counts: { readonly promptTokens: number | null; readonly completionTokens: number | null },
): Json | null => {
  const { promptTokens, completionTokens } = counts
  const agrees =
    (given.prompt_tokens ?? null) === promptTokens && (given.completion_tokens ?? null) === completionTokens
  const isDetailed = areSane(given.prompt_tokens_details) && areSane(given.completion_tokens_details)
  if (agrees && isDetailed && countOf(given.total_tokens) !== null) return null
  const { prompt_tokens: _, completion_tokens: __, total_tokens: total, ...others } = given
  const rest: Record<string, unknown> = others
  for (const name of DETAILS) {
    const details = rest[name]
    if (isObject(details) && !areSane(details)) rest[name] = saneDetails(details)
  }
  const isCounted = promptTokens !== null && completionTokens !== null
  return {
    ...(promptTokens === null ? {} : { prompt_tokens: promptTokens }),
    ...(completionTokens === null ? {} : { completion_tokens: completionTokens }),
    ...(isCounted ? { total_tokens: agrees && countOf(total) !== null ? total : promptTokens + completionTokens } : {}),
    ...rest,
  }
}
