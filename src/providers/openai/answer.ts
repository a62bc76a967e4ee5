// Whole answers of the OpenAI shape: read for what the gateway needs, passed on in the upstream's own bytes.

import { type Edit, editMembers } from '../../lib/json/edit.ts'
import { hasLongNumber, parseExact } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import type { Answer, Reading, Usage } from '../port.ts'
import { cacheWritesOf } from '../shared/billing.ts'
import { inBandFailure, malformed, reportsFailure } from '../shared/failure.ts'
import { finishReasonOf, isFailedFinish } from '../shared/finish-reason.ts'
import { arrayOf, countOf, type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { flattened, textChoices } from './parts.ts'
import { isUsual, saneUsage, wholeChoices } from './whole.ts'

/** The differences of one kind in its answers: hooks of a row. */
export interface Dialect {
  /** The usage of an answer or a chunk, wherever this kind puts it. */
  usageOf(source: Json): Usage | null
  /** The choices of an answer or chunk in the client's wire; null when they are that already. */
  choicesOf?(choices: readonly unknown[]): readonly unknown[] | null
}

/**
 * Null when there is no usage object. Some servers count under the names of OpenAI's Responses API; cached tokens are
 * also `prompt_cache_hit_tokens` (DeepSeek) and `cached_tokens` beside the others (Together, Kimi).
 */
export const openaiUsage = (value: unknown): Usage | null => {
  if (!isObject(value)) return null
  const { cached_tokens: cached, cache_write_tokens: written } = objectOf(
    value.prompt_tokens_details ?? value.input_tokens_details,
  )
  const details = objectOf(value.completion_tokens_details ?? value.output_tokens_details)
  const usage = {
    promptTokens: countOf(value.prompt_tokens ?? value.input_tokens),
    completionTokens: countOf(value.completion_tokens ?? value.output_tokens),
    cachedPromptTokens: countOf(cached ?? value.prompt_cache_hit_tokens ?? value.cached_tokens),
    reasoningTokens: countOf(details.reasoning_tokens),
    raw: value,
  }
  return written === undefined ? usage : { ...usage, ...cacheWritesOf(countOf(written), null, null) }
}

export const STANDARD: Dialect = { usageOf: (source) => openaiUsage(source.usage) }

const NO_TOOLS: readonly string[] = []
const REMOVE: Edit = { do: 'remove' }

/** Names of the called tools, in order; calls of the old `function_call` too. */
export const calledTools = (message: Json): readonly string[] => {
  if (message.tool_calls === undefined && message.function_call === undefined) return NO_TOOLS
  const calls = arrayOf(message.tool_calls).map((call) => objectOf(objectOf(call).function ?? objectOf(call).custom))
  if (isObject(message.function_call)) calls.push(message.function_call)
  return calls.flatMap(({ name }) => (typeof name === 'string' && name !== '' ? [name] : []))
}

/** Whether it has the members that every answer, or every chunk, has; `object` names which of the two is expected. */
export const hasHead = (source: Json, object: string): boolean =>
  typeof source.id === 'string' &&
  source.id !== '' &&
  source.object === object &&
  isTime(source.created) &&
  typeof source.model === 'string' &&
  source.model !== ''

const edited = (edits: Map<string, Edit> | null, name: string, edit: Edit): Map<string, Edit> =>
  (edits ?? new Map<string, Edit>()).set(name, edit)

/**
 * It holds an `error`. An empty one is not passed on: SDKs that find the member in a chunk throw, whatever its value.
 */
export const hasError = ({ error }: Json): boolean => error !== undefined && error !== null

/** Whole Unix seconds. Servers without a time write 0, as Azure does in chunks about its filter. */
const isTime = (created: unknown): created is number => Number.isInteger(created) && created !== 0

/** Whole Unix seconds: some servers send fractions. Null: no time. */
const secondsOf = (created: unknown): number | null =>
  typeof created === 'number' && Number.isFinite(created) && created !== 0 ? Math.floor(created) : null

/**
 * Edits for members that every answer must have and this one lacks. `head`: of a chunk, the first one of its stream,
 * which belongs to the same answer.
 */
export const missingFields = (
  answer: Json,
  object: string,
  reading: Reading | undefined,
  head: Json = answer,
): Map<string, Edit> => {
  const edits = new Map<string, Edit>()
  const set = (name: string, value: unknown) => edits.set(name, { do: 'set', json: JSON.stringify(value) })
  const { id, created, model } = answer
  if (typeof id !== 'string' || id === '') set('id', textOf(head.id) || (reading?.id ?? 'chatcmpl-unnamed'))
  if (answer.object !== object) set('object', object)
  if (!isTime(created)) set('created', secondsOf(created) ?? secondsOf(head.created) ?? reading?.createdS ?? 0)
  if (typeof model !== 'string' || model === '') set('model', textOf(head.model) || (reading?.model ?? ''))
  return edits
}

/** Its finish reason needs no mapping: absent, or a common one. */
const isMapped = (choice: unknown): boolean => {
  const reason = objectOf(choice).finish_reason
  return typeof reason !== 'string' || reason === 'stop' || reason === 'tool_calls' || reason === 'length'
}

/**
 * The choices with finish reasons of the client's wire, or null when they have them already. Throws for one that means
 * failure.
 */
export const mappedChoices = (choices: readonly unknown[], reading?: Reading): readonly unknown[] | null => {
  if (choices.every(isMapped)) return null
  let changed = false
  const mapped = choices.map((choice) => {
    const reason = objectOf(choice).finish_reason
    if (typeof reason !== 'string') return choice
    if (isFailedFinish(reason))
      throw isObject(objectOf(choice).error)
        ? inBandFailure(choice, reading)
        : malformed(`the generation ended with ${reason.slice(0, 40)}`)
    // An empty reason: an unfinished choice has null.
    const finish = reason === '' ? null : finishReasonOf(reason)
    if (finish === reason) return choice
    changed = true
    return { ...objectOf(choice), finish_reason: finish }
  })
  return changed ? mapped : null
}

/** Replaces usage whose numbers differ from the recorded ones, or are none. Null: it stays. */
export const usageEdit = (given: unknown, counted: Usage | null): Edit | null => {
  if (given === undefined || given === null) return null
  if (!isObject(given)) return { do: 'remove' }
  const sane = counted === null ? null : saneUsage(given, counted)
  return sane === null ? null : { do: 'set', json: JSON.stringify(sane) }
}

/**
 * The choices with members of the dialect under the client's names, and content parts joined; the same list when there
 * are none.
 */
export const choicesOfDialect = (given: readonly unknown[], dialect: Dialect): readonly unknown[] =>
  dialect.choicesOf === undefined ? textChoices(given) : (dialect.choicesOf(given) ?? given)

/** The choices as the client gets them; the same list when they are that already. */
const clientChoices = (given: readonly unknown[], dialect: Dialect, reading?: Reading) => {
  if (given.length === 1 && dialect.choicesOf === undefined && isUsual(given[0])) return given
  const converted = choicesOfDialect(given, dialect)
  return wholeChoices(mappedChoices(converted, reading) ?? converted, reading)
}

const isFirst = (choice: unknown): boolean => objectOf(choice).index === 0
const firstOf = (choices: readonly unknown[]): Json =>
  objectOf(choices.length === 1 ? choices[0] : (choices.find(isFirst) ?? choices[0]))

/** Throws GatewayError: an error in the body is classified, anything else that is no answer is `upstream_error`. */
export const openaiAnswer = (body: string, reading?: Reading, dialect: Dialect = STANDARD): Answer => {
  const parsed = parseJson(body)
  if (!isObject(parsed)) throw malformed('it is no JSON object')
  if (reportsFailure(parsed)) throw inBandFailure(parsed, reading)
  const given = arrayOf(parsed.choices)
  if (given.length === 0) throw malformed('it has no choices')
  if (!isObject(firstOf(given).message)) throw malformed('its first choice has no message')

  const choices = clientChoices(given, dialect, reading)
  const usage = dialect.usageOf(parsed)
  let edits = hasHead(parsed, 'chat.completion') ? null : missingFields(parsed, 'chat.completion', reading)
  if (choices !== given) {
    // The parsed answer is enough for a decision; the written one keeps its long numbers.
    const exact = hasLongNumber(body) ? arrayOf(objectOf(parseExact(body)).choices) : null
    const shown = exact === null ? choices : clientChoices(exact, dialect, reading)
    edits = edited(edits, 'choices', { do: 'set', json: JSON.stringify(shown) })
  }
  if (parsed.gateway !== undefined) edits = edited(edits, 'gateway', REMOVE)
  if (hasError(parsed)) edits = edited(edits, 'error', REMOVE)
  const usageChange = usageEdit(parsed.usage, usage)
  if (usageChange !== null) edits = edited(edits, 'usage', usageChange)
  const first = firstOf(choices)
  const message = objectOf(first.message)
  const reason = textOf(first.finish_reason)
  return {
    json: edits === null || edits.size === 0 ? body : editMembers(body, edits),
    usage,
    finishReason: reason === null ? null : finishReasonOf(reason),
    content: Array.isArray(message.content) ? textOf(flattened(message.content).content) : textOf(message.content),
    refusal: typeof message.refusal === 'string' && message.refusal !== '',
    toolNames: calledTools(message),
  }
}
