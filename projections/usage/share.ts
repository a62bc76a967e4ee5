// What one outcome adds to each of its cells. Pure; integers only.
import type { AttemptSummary, Settlement } from '../../src/domain/events/request-reading.ts'
import { storableText } from '../database.ts'
import { BILLED, billed, billedOf } from './billed.ts'
import { binOf } from './histogram.ts'

/** The part of an outcome that usage is made of. */
export type UsageFacts = Pick<
  Settlement,
  | 'at_ms'
  | 'tenant_id'
  | 'key_id'
  | 'provider'
  | 'routed_model'
  | 'endpoint'
  | 'policy_id'
  | 'error_code'
  | 'outcome'
  | 'cache_hit'
  | 'fallback_used'
  | 'prompt_tokens'
  | 'completion_tokens'
  | 'cached_prompt_tokens'
  | 'reasoning_tokens'
  | 'cost_nano_usd'
  | 'latency_ms'
  | 'ttft_ms'
  | 'attempts'
  | 'purpose'
>

/** The counters of a cell; columns of the same names. */
export const COUNTERS = [
  'requests',
  'failed',
  'interrupted',
  'denied',
  'orphaned',
  'canceled',
  'cache_hits',
  'fallbacks',
  'unpriced',
  'attempts',
  'failed_attempts',
  'prompt_tokens',
  'completion_tokens',
  'cached_prompt_tokens',
  'reasoning_tokens',
  'cost_nano_usd',
] as const
export type Counter = (typeof COUNTERS)[number]

/** The order of `Cell.sums`. */
export const SUMS = [...COUNTERS, ...BILLED] as const

const ATTEMPTS = SUMS.indexOf('attempts')
const FAILED_ATTEMPTS = SUMS.indexOf('failed_attempts')
const COST = SUMS.indexOf('cost_nano_usd')
const FIRST_BILLED = COUNTERS.length

/** What one outcome adds to each of its cells, times `sign`. */
export interface Share {
  readonly sums: readonly number[]
  readonly latencyBin: number
  readonly ttftBin: number
  readonly sign: 1 | -1
}

export const NONE = -1

/** A name as Postgres can hold it; '' is none. */
export const nameOf = (text: string | null): string => (text === null ? '' : storableText(text))

const wasCalled = ({ outcome }: AttemptSummary): boolean => outcome !== 'skipped'
const hasFailed = ({ outcome }: AttemptSummary): boolean => outcome === 'error' || outcome === 'interrupted'

/** How many attempts match: nearly always there is one. */
const countOf = (attempts: readonly AttemptSummary[], is: (attempt: AttemptSummary) => boolean): number => {
  let count = 0
  for (let at = 0; at < attempts.length; at++) if (is(attempts[at]!)) count++
  return count
}

/** Refusals take no time, and how long an orphan took is not known: neither measures the speed of a provider. */
const isTimed = ({ outcome }: UsageFacts): boolean => outcome !== 'denied' && outcome !== 'orphaned'

export const shareOf = (facts: UsageFacts, sign: 1 | -1): Share => {
  const { outcome, attempts } = facts
  const is = (value: boolean): number => (value ? sign : 0)
  const [called, failed] = [countOf(attempts, wasCalled), countOf(attempts, hasFailed)]
  const [prompt, cached, completion, nanoUsd] = billed(facts)
  return {
    sign,
    latencyBin: isTimed(facts) ? binOf(facts.latency_ms) : NONE,
    ttftBin: isTimed(facts) && facts.ttft_ms !== null ? binOf(facts.ttft_ms) : NONE,
    sums: [
      sign,
      is(outcome === 'error'),
      is(outcome === 'interrupted'),
      is(outcome === 'denied'),
      is(outcome === 'orphaned'),
      is(outcome === 'canceled'),
      is(facts.cache_hit),
      is(facts.fallback_used),
      is(facts.cost_nano_usd === null && called > 0),
      sign * called,
      sign * failed,
      sign * (facts.prompt_tokens ?? 0),
      sign * (facts.completion_tokens ?? 0),
      sign * (facts.cached_prompt_tokens ?? 0),
      sign * (facts.reasoning_tokens ?? 0),
      sign * (facts.cost_nano_usd ?? 0),
      sign * prompt,
      sign * cached,
      sign * completion,
      sign * nanoUsd,
    ],
  }
}

export const without = (sums: readonly number[], others: readonly Share[]): readonly number[] =>
  others.reduce((left, other) => left.map((sum, at) => sum - other.sums[at]!), sums)

/** Attempts at another provider or model than the one that ended it: what each of them cost is booked there. */
export const attemptsElsewhere = (facts: UsageFacts, sign: 1 | -1): (Share & { provider: string; model: string })[] => {
  if (facts.attempts.length < 2) return []
  return facts.attempts
    .filter(
      (attempt) => wasCalled(attempt) && !(attempt.provider === facts.provider && attempt.model === facts.routed_model),
    )
    .map((attempt) => {
      const sums = new Array<number>(SUMS.length).fill(0)
      sums[ATTEMPTS] = sign
      sums[FAILED_ATTEMPTS] = hasFailed(attempt) ? sign : 0
      sums[COST] = sign * (attempt.cost_nano_usd ?? 0)
      for (const [at, value] of billedOf(facts, attempt).entries()) sums[FIRST_BILLED + at] = sign * value
      return {
        sums,
        sign,
        latencyBin: NONE,
        ttftBin: NONE,
        provider: nameOf(attempt.provider),
        model: nameOf(attempt.model),
      }
    })
}
