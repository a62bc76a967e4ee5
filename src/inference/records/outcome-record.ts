// The record of an outcome, `request.settled`, but for the facts: members that say nothing are left out.
import { type BudgetCharge, recordedCharge } from '../../domain/budgets/recorded-parts.ts'
import type { RequestSettled } from '../../domain/events/request.ts'
import { attemptRecord, decisionName } from '../../domain/events/request-reading.ts'
import type { Measured } from '../money/charge.ts'
import type { Ending } from '../request/ending.ts'
import type { Exchange } from '../request/exchange.ts'
import type { SharedFacts } from './facts.ts'
import { planRecord } from './plan-record.ts'
import { rawUsage } from './raw-usage.ts'

/** A record lists at most so many shaped fields. */
const LISTED_SHAPING = 64

export type SettledExchange = Pick<
  Exchange,
  | 'admission'
  | 'admittedMs'
  | 'attempts'
  | 'entry'
  | 'fallbackUsed'
  | 'finishReason'
  | 'firstTokenMs'
  | 'identity'
  | 'key'
  | 'plan'
  | 'plannedMs'
  | 'revision'
  | 'shaping'
  | 'usage'
>

/** How a request ended. */
export interface Settled {
  readonly ending: Ending
  readonly measured: Measured
  readonly latencyMs: number
  readonly budget: readonly BudgetCharge[] | undefined
  /** Instance and epoch of the record, `<instance>.<epoch>`. */
  readonly writer: string
}

export type OutcomeMembers = Omit<RequestSettled, keyof SharedFacts>

/** Members whose length changes from record to record; they are written last. */
type Figure =
  | 'admission'
  | 'attempts'
  | 'cache_write_tokens'
  | 'cached_tokens'
  | 'completion_tokens'
  | 'cost_nano_usd'
  | 'latency_ms'
  | 'plan'
  | 'prompt_tokens'
  | 'raw_usage'
  | 'reasoning_tokens'
  | 'shaping'
  | 'timings'
  | 'ttft_ms'
type Figures = Pick<OutcomeMembers, Figure>

/**
 * The members of a settlement but the facts. Figures come last: what stands before them stands in the same place as in
 * the record before, which is where batches are packed from (docs/decisions/0053-records-packed-for-kafka.md).
 */
export const outcomeRecord = (exchange: SettledExchange, settled: Settled): OutcomeMembers => ({
  ...namesOf(exchange, settled),
  ...figuresOf(exchange, settled),
})

const namesOf = (exchange: SettledExchange, settled: Settled): Omit<OutcomeMembers, Figure> => {
  const { identity, key, entry, finishReason } = exchange
  const { ending, measured, budget, writer } = settled
  const { outcome, status, error } = ending
  const names: Omit<OutcomeMembers, Figure> = { at_ms: identity.atMs, outcome, cost_basis: measured.basis }
  if (status !== OK) names.status = status
  if (error !== null) names.error_code = error.code
  if (key !== null) names.tenant_id = key.tenantId
  if (entry !== null) {
    names.provider = entry.provider
    names.provider_id = entry.providerId
    names.routed_model = entry.name
    names.model_id = entry.modelId
  }
  if (measured.priceVersion !== null) names.price_version = decisionName(measured.priceVersion)
  if (exchange.fallbackUsed()) names.fallback_used = true
  if (finishReason !== null) names.finish_reason = finishReason
  if (budget !== undefined && budget.length > 0) names.budget = budget.map((charge) => recordedCharge(charge, writer))
  return names
}

const OK = 200

const figuresOf = (exchange: SettledExchange, { measured, latencyMs, writer }: Settled): Figures => {
  const { admission, firstTokenMs, plannedMs, admittedMs } = exchange
  const figures: Figures = { latency_ms: latencyMs }
  if (firstTokenMs !== null) figures.ttft_ms = firstTokenMs
  if (admission !== null) figures.admission = admission.idPrefix === `${writer}.` ? admission.sequence : admission.id
  noteUsage(figures, exchange, measured)
  noteAttempts(figures, exchange)
  if (plannedMs) figures.timings = { planned_ms: plannedMs }
  if (admittedMs) figures.timings = { ...figures.timings, admitted_ms: admittedMs }
  notePlan(figures, exchange)
  return figures
}

const noteAttempts = (figures: Figures, { attempts, entry }: SettledExchange): void => {
  if (attempts.length === 0) return
  const provider = entry?.provider ?? null
  const model = entry?.name ?? null
  figures.attempts = attempts.map((attempt, place) => attemptRecord(attempt, place, provider, model))
}

const noteUsage = (figures: Figures, { usage }: SettledExchange, measured: Measured): void => {
  const { promptTokens, completionTokens, costNanoUsd } = measured
  if (promptTokens !== null) figures.prompt_tokens = promptTokens
  if (completionTokens !== null) figures.completion_tokens = completionTokens
  if (costNanoUsd !== null) figures.cost_nano_usd = costNanoUsd
  if (usage === null) return
  if (usage.cachedPromptTokens) figures.cached_tokens = usage.cachedPromptTokens
  if (usage.cacheWrites?.total) figures.cache_write_tokens = usage.cacheWrites.total
  if (usage.reasoningTokens) figures.reasoning_tokens = usage.reasoningTokens
  const raw = rawUsage(usage.raw, figures)
  if (raw !== null) figures.raw_usage = raw
}

const notePlan = (figures: Figures, { plan, shaping, admission, revision }: SettledExchange): void => {
  if (shaping.length > 0) figures.shaping = shaping.slice(0, LISTED_SHAPING)
  if (plan !== null && admission === null && revision !== null) figures.plan = planRecord(plan, revision)
}
