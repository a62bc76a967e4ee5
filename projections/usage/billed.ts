// What a corrected price is applied to: the tokens of every attempt that was billed, failed ones too, and what was
// booked for them. (The other counters have the tokens of last attempts only, which are what clients got.) Attempts
// with unknown tokens (orphans) keep what was booked.
import type { AttemptSummary, Settlement } from '../../src/domain/events/request-reading.ts'

export type BilledFacts = Pick<
  Settlement,
  'cache_hit' | 'prompt_tokens' | 'completion_tokens' | 'cached_prompt_tokens' | 'cost_nano_usd' | 'attempts'
>

/** Columns of the same names, in the order in which the functions here return them. */
export const BILLED = [
  'billed_prompt_tokens',
  'billed_cached_tokens',
  'billed_completion_tokens',
  'billed_nano_usd',
] as const
type Sums = readonly [prompt: number, cached: number, completion: number, nanoUsd: number]

const NOTHING: Sums = [0, 0, 0, 0]

/** Of one attempt that has its own figures: it has them when it was billed, unless it is the only one that was. */
export const billedOf = (facts: BilledFacts, attempt: AttemptSummary): Sums => {
  const { prompt_tokens: prompt, completion_tokens: completion, cost_nano_usd: nanoUsd } = attempt
  if (prompt == null || completion == null) return NOTHING
  // How much of the prompt was cached is recorded of the last attempt alone.
  const isLast = attempt === facts.attempts.findLast(({ outcome }) => outcome !== 'skipped')
  const cached = isLast ? Math.min(facts.cached_prompt_tokens ?? 0, prompt) : 0
  return [prompt, cached, completion, nanoUsd ?? 0]
}

const wasCalled = ({ outcome }: AttemptSummary): boolean => outcome !== 'skipped'

/** Tokens and cost that all attempts of an outcome are billed for. */
export const billed = (facts: BilledFacts): Sums => {
  const { attempts, prompt_tokens: prompt, completion_tokens: completion } = facts
  if (attempts.some((attempt) => wasCalled(attempt) && attempt.prompt_tokens !== undefined))
    return attempts
      .filter(wasCalled)
      .map((attempt) => billedOf(facts, attempt))
      .reduce(added, NOTHING)
  if (facts.cache_hit || prompt === null || completion === null || !attempts.some(wasCalled)) return NOTHING
  return [prompt, Math.min(facts.cached_prompt_tokens ?? 0, prompt), completion, facts.cost_nano_usd ?? 0]
}

const added = (a: Sums, b: Sums): Sums => [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
