// Station 8: the outcome. Written on every way out and before the client holds the last byte; exactly one for each admission.
import type { Outcome, RequestFacts, RequestSettled } from '../domain/request.ts'
import type { Static } from '../lib/schema.ts'
import { SpoolClosed } from '../log/spool-port.ts'
import type { Usage } from '../providers/provider.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { GatewayError } from '../wire/errors.ts'
import { subjectOf } from './admit.ts'
import { candidateList, decisionOf } from './decision.ts'
import type { InferenceDeps, Observed } from './deps.ts'
import { actualNanoUsd, estimateTokens, promptTokensEstimate } from './estimate.ts'
import type { Exchange } from './exchange.ts'
import { rawUsageJson } from './raw-usage.ts'

/** How a request ended. */
export interface Ending {
  readonly outcome: Outcome
  /** The status that the client got, or would have got. */
  readonly status: number
  readonly error: GatewayError | null
}

/** Tokens and cost of the answer so far: the provider's word where there is one, else our estimate. */
export interface Measured {
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  readonly costNanoUsd: number | null
  readonly basis: RequestSettled['cost_basis']
}

/** A record lists no more of what was shaped. */
const LISTED_SHAPING = 64

const NOTHING: Measured = { promptTokens: null, completionTokens: null, costNanoUsd: 0, basis: 'none' }

/** Measures what was used, and remembers the cost for the `gateway` block. */
export const measure = (exchange: Exchange): Measured => {
  const { entry, intent, usage } = exchange
  if (entry === null || intent === null || (usage === null && !exchange.mayBill)) return NOTHING
  const promptTokens = usage?.promptTokens ?? promptTokensEstimate(intent)
  const completionTokens = usage?.completionTokens ?? estimateTokens(exchange.answerChars)
  const said = reportedCost(usage)
  const costNanoUsd = said ?? priced(entry, promptTokens, completionTokens, usage)
  exchange.costNanoUsd = costNanoUsd
  const reported = usage !== null && usage.promptTokens !== null && usage.completionTokens !== null
  const basis =
    said !== null ? 'provider_reported' : costNanoUsd === null ? 'unpriced' : reported ? 'measured' : 'estimated'
  return { promptTokens, completionTokens, costNanoUsd, basis }
}

/** What the provider says that it charges, as whole nano-USD; null when it says nothing, or nothing that can be. */
const reportedCost = (usage: Usage | null): number | null => {
  const said = usage?.reportedNanoUsd ?? null
  return said === null || !(said >= 0 && said <= Number.MAX_SAFE_INTEGER) ? null : Math.ceil(said)
}

/** At what the provider bills where it says so: its discount for cached tokens is in that already. */
const priced = (
  entry: CatalogueEntry,
  promptTokens: number,
  completionTokens: number,
  usage: Usage | null,
): number | null => {
  const billed = usage?.billed ?? null
  return billed === null
    ? actualNanoUsd(entry, promptTokens, completionTokens, usage?.cachedPromptTokens ?? 0)
    : actualNanoUsd(entry, billed.promptTokens ?? promptTokens, billed.completionTokens ?? completionTokens, 0)
}

/**
 * Appends `request.settled`, once; a second call does nothing. Throws GatewayError('internal_error') when the outcome could not be written:
 * the client must then get a failure. Refusals that never were admitted are recorded while the spool has room, and are refusals all the same without it.
 */
export const settle = async (
  exchange: Exchange,
  ending: Ending,
  measured: Measured,
  deps: InferenceDeps,
): Promise<void> => {
  if (exchange.settled) return
  exchange.settled = true
  const latencyMs = exchange.latencyMs()
  let recorded = true
  try {
    if (exchange.factsJson !== null) {
      const data = `${exchange.factsJson},${settledJson(exchange, ending, measured, latencyMs)}`
      await deps.spool.append(
        'requests',
        'request.settled',
        subjectOf(exchange, deps),
        data,
        exchange.admission === null,
        exchange.admission,
      )
    }
  } catch (error) {
    recorded = error instanceof SpoolClosed && error.written !== null
    // Written, though not shipped in time: a client that gets a failure anyway gets the one that it is.
    const isTold = recorded && ending.status >= 400
    if (exchange.admission !== null && !isTold)
      throw new GatewayError('internal_error', 'the outcome could not be recorded', { cause: error })
  } finally {
    exchange.held?.settle((measured.promptTokens ?? 0) + (measured.completionTokens ?? 0))
    deps.observe(observedOf(exchange, ending, measured, latencyMs, recorded))
  }
}

/** What a settlement says beyond the facts, as JSON text without the opening brace. */
const settledJson = (exchange: Exchange, ending: Ending, measured: Measured, latencyMs: number): string => {
  const { entry, usage, admission } = exchange
  const rest: Omit<RequestSettled, keyof Static<typeof RequestFacts> | 'raw_usage'> = {
    admission,
    outcome: ending.outcome,
    status: ending.status,
    error_code: ending.error?.code ?? null,
    provider: entry?.provider ?? null,
    provider_id: entry?.providerId ?? null,
    routed_model: entry?.name ?? null,
    model_id: entry?.modelId ?? null,
    fallback_used: exchange.fallbackUsed(),
    cache_hit: false,
    attempts: exchange.attempts,
    finish_reason: exchange.finishReason,
    prompt_tokens: measured.promptTokens,
    completion_tokens: measured.completionTokens,
    cached_prompt_tokens: usage?.cachedPromptTokens ?? null,
    reasoning_tokens: usage?.reasoningTokens ?? null,
    cost_nano_usd: measured.costNanoUsd,
    cost_basis: measured.basis,
    price_version: measured.basis === 'none' || measured.basis === 'unpriced' ? null : (entry?.revision ?? null),
    latency_ms: latencyMs,
    ttft_ms: exchange.firstTokenMs,
  }
  const { plan, plannedMs, admittedMs, shaping } = exchange
  if (plan !== null && admission === null) {
    rest.candidates = candidateList(plan)
    rest.decision = decisionOf(plan)
  }
  if (shaping.length > 0) rest.shaping = shaping.slice(0, LISTED_SHAPING)
  if (plannedMs !== null)
    rest.timings = admittedMs === null ? { planned_ms: plannedMs } : { planned_ms: plannedMs, admitted_ms: admittedMs }
  return `"raw_usage":${rawUsageJson(usage?.raw)},${JSON.stringify(rest).slice(1)}`
}

const observedOf = (
  exchange: Exchange,
  ending: Ending,
  measured: Measured,
  latencyMs: number,
  recorded: boolean,
): Observed => ({
  outcome: ending.outcome,
  code: ending.error?.code ?? 'none',
  stream: exchange.intent?.stream ?? false,
  latencyMs,
  ttftMs: exchange.firstTokenMs,
  promptTokens: measured.promptTokens ?? 0,
  completionTokens: measured.completionTokens ?? 0,
  costNanoUsd: measured.costNanoUsd ?? 0,
  costBasis: measured.basis,
  recorded,
})
