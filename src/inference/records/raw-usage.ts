// The usage of a provider as the log holds it: numbers and their names, where they say more than the tokens of the
// outcome. Text that a provider echoes there does not reach the log.
import type { RequestSettled } from '../../domain/events/request.ts'
import { isObject } from '../../wire/json.ts'

const MAX_CHARS = 4_096
const MAX_DEPTH = 3
const NAME = /^[A-Za-z0-9_.-]{1,64}$/
/** Names that matched, so that those of every answer are not matched again. Bounded; no result depends on it. */
const MATCHED = new Set<string>()
const MAX_MATCHED = 256

/** The tokens of an outcome that usage objects repeat. */
export type RecordedTokens = Pick<
  RequestSettled,
  'prompt_tokens' | 'completion_tokens' | 'cached_tokens' | 'cache_write_tokens' | 'reasoning_tokens'
>

type Plain = { [name: string]: number | true | Plain }

/**
 * Numbers and `true` under short plain names, at most 3 levels, without zeros. Null: nothing of it is beyond the tokens
 * that are recorded anyway, or it is more than 4 KiB.
 */
export const rawUsage = (raw: unknown, recorded: RecordedTokens): Plain | null => {
  if (!isObject(raw) || !saysMore(raw, recorded, 1)) return null
  const plain = plainOf(raw, 1)
  return JSON.stringify(plain).length > MAX_CHARS ? null : plain
}

/** Whether any number has a meaning that no recorded one has, or another value. */
const saysMore = (raw: Record<string, unknown>, recorded: RecordedTokens, depth: number): boolean => {
  for (const name in raw) {
    const value = raw[name]
    if (isObject(value)) {
      if (depth < MAX_DEPTH && saysMore(value, recorded, depth + 1)) return true
    } else if (isSaid(value) && isPlain(name) && MEANINGS[name]?.(recorded) !== value) return true
  }
  return false
}

const isSaid = (value: unknown): value is number | true =>
  value === true || (typeof value === 'number' && Number.isFinite(value) && value !== 0)

const promptTokens = ({ prompt_tokens }: RecordedTokens) => prompt_tokens
const completionTokens = ({ completion_tokens }: RecordedTokens) => completion_tokens
const cachedTokens = ({ cached_tokens }: RecordedTokens) => cached_tokens
const writtenTokens = ({ cache_write_tokens }: RecordedTokens) => cache_write_tokens
const reasoningTokens = ({ reasoning_tokens }: RecordedTokens) => reasoning_tokens
const allTokens = ({ prompt_tokens = 0, completion_tokens = 0 }: RecordedTokens) => prompt_tokens + completion_tokens

/** Names by which vendors repeat what is recorded. A table without a prototype: vendors choose the names. */
const MEANINGS: Readonly<Record<string, (recorded: RecordedTokens) => number | undefined>> = Object.assign(
  Object.create(null),
  {
    prompt_tokens: promptTokens,
    input_tokens: promptTokens,
    inputTokens: promptTokens,
    promptTokenCount: promptTokens,
    completion_tokens: completionTokens,
    output_tokens: completionTokens,
    outputTokens: completionTokens,
    candidatesTokenCount: completionTokens,
    total_tokens: allTokens,
    totalTokens: allTokens,
    totalTokenCount: allTokens,
    cached_tokens: cachedTokens,
    cache_read_input_tokens: cachedTokens,
    cacheReadInputTokens: cachedTokens,
    cachedContentTokenCount: cachedTokens,
    prompt_cache_hit_tokens: cachedTokens,
    cache_creation_input_tokens: writtenTokens,
    cacheWriteInputTokens: writtenTokens,
    reasoning_tokens: reasoningTokens,
    thoughtsTokenCount: reasoningTokens,
  },
)

const plainOf = (raw: Record<string, unknown>, depth: number): Plain => {
  const plain: Plain = {}
  for (const name in raw) {
    const value = raw[name]
    if (!isPlain(name)) continue
    if (isSaid(value)) plain[name] = value
    else if (depth < MAX_DEPTH && isObject(value)) {
      const inner = plainOf(value, depth + 1)
      for (const _ in inner) {
        plain[name] = inner
        break
      }
    }
  }
  return plain
}

const isPlain = (name: string): boolean => {
  if (MATCHED.has(name)) return true
  if (!NAME.test(name) || name === '__proto__') return false
  if (MATCHED.size < MAX_MATCHED) MATCHED.add(name)
  return true
}
