// A stored stream as one whole answer.
import { isLongNumber, parseExact } from '../../../lib/json/exact-json.ts'
import type { Answer, Usage } from '../../../providers/port.ts'
import { isObject } from '../../../wire/json.ts'
import type { RecordedAnswer } from './recorded.ts'

type Members = Record<string, unknown>

/** A stored answer as one `chat.completion`. `usage`: as it was recorded. */
export const asAnswer = (recorded: RecordedAnswer, usage: Usage | null): Answer => {
  const json = recorded.form === 'whole' ? recorded.json : JSON.stringify(joined(recorded.chunks, recorded.usageChunk))
  const parsed: unknown = JSON.parse(json)
  const choices: readonly unknown[] = isObject(parsed) && Array.isArray(parsed.choices) ? parsed.choices : []
  const first = isObject(choices[0]) ? choices[0] : {}
  const message = isObject(first.message) ? first.message : {}
  return {
    json,
    usage,
    finishReason: typeof first.finish_reason === 'string' ? first.finish_reason : null,
    content: typeof message.content === 'string' ? message.content : null,
    refusal: typeof message.refusal === 'string' && message.refusal !== '',
    toolNames: [],
  }
}

interface Choice {
  readonly index: number
  readonly message: Members
  readonly own: Members
}

const joined = (chunks: readonly string[], usageChunk: string | null): Members => {
  const top: Members = {}
  const choices = new Map<number, Choice>()
  for (const text of usageChunk === null ? chunks : [...chunks, usageChunk]) {
    const chunk = parseExact(text)
    if (!isObject(chunk)) continue
    for (const [name, value] of Object.entries(chunk)) {
      if (name === 'choices' || name === 'object' || name === 'gateway') continue
      if (name === 'id' || name === 'created' || name === 'model') top[name] ??= value
      else if (value !== null || top[name] === undefined) top[name] = value
    }
    if (Array.isArray(chunk.choices)) for (const choice of chunk.choices) if (isObject(choice)) join(choices, choice)
  }
  const { id, created, model, usage, ...others } = top
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: [...choices.values()].sort((left, right) => left.index - right.index).map(choiceOf),
    ...(isObject(usage) ? { usage } : {}),
    ...others,
  }
}

const join = (choices: Map<number, Choice>, given: Members): void => {
  const { index: place, delta, ...own } = given
  const index = typeof place === 'number' ? place : 0
  let choice = choices.get(index)
  if (choice === undefined) {
    choice = { index, message: {}, own: {} }
    choices.set(index, choice)
  }
  if (isObject(delta)) addMembers(choice.message, delta, isText)
  const { finish_reason, logprobs, ...others } = own
  if (finish_reason !== undefined && finish_reason !== null) choice.own.finish_reason = finish_reason
  if (logprobs !== undefined) choice.own.logprobs = added(choice.own.logprobs, logprobs, false)
  for (const [name, value] of Object.entries(others)) if (value !== null) choice.own[name] = value
}

/** `role` and names are repeated, texts go on. */
const isText = (name: string): boolean => name !== 'role' && name !== 'name'

const addMembers = (into: Members, more: Members, joins: (name: string) => boolean): void => {
  for (const [name, value] of Object.entries(more)) into[name] = added(into[name], value, joins(name))
}

/** Texts are joined, lists appended, objects merged; of other values the last one counts. */
const added = (before: unknown, value: unknown, joinsText: boolean): unknown => {
  if (value === null || value === undefined) return before === undefined ? value : before
  if (before === null || before === undefined) return value
  if (typeof before === 'string' && typeof value === 'string') return joinsText ? before + value : value
  if (Array.isArray(before) && Array.isArray(value)) return [...(before as unknown[]), ...(value as unknown[])]
  if (isObject(before) && isObject(value) && !isLongNumber(before) && !isLongNumber(value)) {
    const merged = { ...before }
    for (const [name, member] of Object.entries(value)) {
      const isSame = merged[name] === member
      merged[name] = isSame ? member : added(merged[name], member, !NAMES.test(name))
    }
    return merged
  }
  return value
}

/** Members that name a thing, so that a repetition replaces it. */
const NAMES = /^(?:id|type|name|role|format)$/

const choiceOf = ({ index, message, own }: Choice): Members => {
  const { role, content, refusal, ...others } = message
  const { finish_reason, ...more } = own
  const isRefused = typeof refusal === 'string' && refusal !== ''
  const text = content === '' && isRefused ? null : (content ?? (isRefused ? null : ''))
  return {
    index,
    message: {
      role: role ?? 'assistant',
      content: text,
      ...(refusal === undefined || refusal === '' ? {} : { refusal }),
      ...others,
    },
    ...more,
    finish_reason: finish_reason ?? null,
  }
}
