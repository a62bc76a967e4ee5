// What one chunk of a stream of the OpenAI shape contains, without knowledge of the rest of the stream.
import { isObject } from '../../wire/json.ts'
import { finishReasonOf } from '../shared/finish-reason.ts'
import { generatedBytes } from '../shared/generated.ts'
import { type Json, objectOf, textOf } from '../shared/read-json.ts'
import { calledTools, hasError, hasHead } from './answer.ts'

const NO_TOOLS: readonly string[] = []

const filled = (value: unknown): boolean =>
  typeof value === 'string' ? value !== '' : value !== undefined && value !== null

/** True when the delta has content that a client can show. */
export const hasContent = (delta: Json): boolean =>
  filled(delta.content) ||
  filled(delta.tool_calls) ||
  filled(delta.refusal) ||
  filled(delta.reasoning_content) ||
  filled(delta.reasoning) ||
  filled(delta.function_call) ||
  filled(delta.audio)

/** True when a choice of the chunk has its finish reason. */
export const ends = (choices: readonly unknown[]): boolean =>
  choices.some((choice) => (textOf(objectOf(choice).finish_reason) ?? '') !== '')

/** The content of the choices of a chunk. */
export const readChoices = (choices: readonly unknown[]) => {
  let content = false
  let text = ''
  let bytes = 0
  let finishReason: string | null = null
  let toolNames = NO_TOOLS
  for (const value of choices) {
    const choice = objectOf(value)
    const delta = objectOf(choice.delta)
    const reason = textOf(choice.finish_reason) ?? ''
    if (hasContent(delta)) content = true
    bytes += generatedBytes(delta)
    if (delta.tool_calls !== undefined || delta.function_call !== undefined)
      toolNames = [...toolNames, ...calledTools(delta)]
    if (choice.index !== undefined && choice.index !== 0) continue
    if (typeof delta.content === 'string') text += delta.content
    if (reason !== '') finishReason = finishReasonOf(reason)
  }
  return { content, text, bytes, finishReason, toolNames }
}

/** Finish reasons that need no mapping. */
const PLAIN_FINISH = new Set<unknown>([null, undefined, 'stop', 'length', 'tool_calls'])

const isWhole = (choice: unknown): boolean =>
  isObject(choice) && Number.isInteger(choice.index) && isObject(choice.delta)

/**
 * Choices that all have their index and a delta, if an empty one: clients read `delta.content` without a check. A
 * `message` is all of the answer at once, unless its choice has `begun`: then it repeats what came. The same list when
 * nothing is missing.
 */
export const wholeDeltas = (choices: readonly unknown[], begun: { has(index: number): boolean }): readonly unknown[] =>
  choices.every(isWhole)
    ? choices
    : choices.map((value, place) => {
        if (isWhole(value)) return value
        const { message, ...choice } = objectOf(value)
        const index = Number.isInteger(choice.index) ? (choice.index as number) : place
        const delta = isObject(choice.delta) || begun.has(index) ? choice.delta : message
        return { ...choice, index, delta: objectOf(delta) }
      })

/**
 * The choice of a chunk that has all its fields, one choice, and nothing to map, repair or count: nearly every chunk.
 * Null for any other.
 */
export const plainChoice = (
  chunk: Json,
  choices: readonly unknown[],
): { delta: Json; finishReason: string | null } | null => {
  const choice = choices[0]
  if (chunk.gateway !== undefined || hasError(chunk)) return null
  if (choices.length !== 1 || !isObject(choice) || choice.index !== 0) return null
  if (!PLAIN_FINISH.has(choice.finish_reason) || isObject(choice.usage)) return null
  if (!hasHead(chunk, 'chat.completion.chunk') || (chunk.usage !== null && chunk.usage !== undefined)) return null
  const { delta } = choice
  if (isObject(delta) && typeof delta.content === 'object' && delta.content !== null) return null
  return isObject(delta) && delta.tool_calls === undefined && delta.function_call === undefined
    ? { delta, finishReason: textOf(choice.finish_reason) }
    : null
}
