// Station 8: the outcome. Written on every way out and before the client holds the last byte; exactly one for each admission.

import type { BudgetCharge } from '../domain/budget-events.ts'
import type { Outcome, RequestFacts, RequestSettled } from '../domain/request.ts'
import { failpoint } from '../lib/failpoints.ts'
import type { Static } from '../lib/schema.ts'
import type { TextPieces } from '../lib/text-pieces.ts'
import { type RecordId, SpoolClosed } from '../log/spool-port.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { GatewayError } from '../wire/errors.ts'
import { subjectOf } from './admit.ts'
import { chargeBudgets, type Measured } from './charge.ts'
import { candidateList, decisionOf } from './decision.ts'
import type { InferenceDeps, Observed } from './deps.ts'
import type { Exchange } from './exchange.ts'
import { rawUsageJson } from './raw-usage.ts'
import type { FactsText } from './record-text.ts'

/** How a request ended. */
export interface Ending {
  readonly outcome: Outcome
  /** The status that the client got, or would have got. */
  readonly status: number
  readonly error: GatewayError | null
}

export const SUCCESS: Ending = { outcome: 'success', status: 200, error: null }

/** A record lists no more of what was shaped. */
const LISTED_SHAPING = 64

type SettleDeps = Pick<InferenceDeps, 'spool' | 'observe'>

/**
 * Appends `request.settled`, once; a second call does nothing. Throws GatewayError('internal_error') when the outcome could not be written:
 * the client must then get a failure. Refusals that never were admitted are recorded while the spool has room, and are refusals all the same without it.
 */
export const settle = async (
  exchange: Exchange,
  ending: Ending,
  measured: Measured,
  deps: SettleDeps,
): Promise<void> => {
  if (exchange.settled) return
  const settlement = new Settlement(exchange, ending, measured, deps)
  try {
    await settlement.record
  } catch (error) {
    const failure = settlement.refused(error)
    if (failure !== null) throw failure
    return
  }
  settlement.written()
}

/** What `settle` does, for whoever waits by itself: make it, once for each request, wait for its record; then `written`, or `refused`. */
export class Settlement {
  /** Null: there is nothing to record. */
  readonly record: Promise<RecordId> | null
  readonly #latencyMs: number

  constructor(
    private readonly exchange: Exchange,
    private readonly ending: Ending,
    private readonly measured: Measured,
    private readonly deps: SettleDeps,
  ) {
    this.#latencyMs = exchange.latencyMs()
    exchange.settled = true
    this.record = this.#append()
  }

  /** The outcome is as durable as the spool makes it. */
  written(): void {
    const { exchange } = this
    if (exchange.factsText !== null) failpoint('settled')
    exchange.budgets?.outcomeWas('recorded')
    this.#told(true)
  }

  /** It is not, or not in time: what the client is told instead of its answer; null: what it would have been told anyway. */
  refused(error: unknown): GatewayError | null {
    const { exchange, ending } = this
    const recorded = error instanceof SpoolClosed && error.written !== null
    const fate = recorded ? 'recorded' : exchange.admission === null ? 'never_admitted' : 'lost'
    const durable = error instanceof SpoolClosed ? error.durable : null
    if (durable === null) exchange.budgets?.outcomeWas(fate)
    // A power cut would leave it to be settled as orphaned: what it cost would count twice, were it told before.
    else void durable.then(() => exchange.budgets?.outcomeWas(fate))
    this.#told(recorded)
    // Written, though not shipped in time: a client that gets a failure anyway gets the one that it is.
    const isTold = recorded && ending.status >= 400
    return exchange.admission === null || isTold
      ? null
      : new GatewayError('internal_error', 'the outcome could not be recorded', { cause: error })
  }

  #append(): Promise<RecordId> | null {
    const { exchange, ending, measured, deps } = this
    const { admission } = exchange
    try {
      const budget = chargeBudgets(exchange, ending === SUCCESS ? measured : undefined)
      if (exchange.factsText === null) return null
      const data = settledJson(exchange, exchange.factsText, ending, measured, this.#latencyMs, budget)
      const isFirst = admission === null
      return deps.spool.append('requests', 'request.settled', subjectOf(exchange, deps), data, isFirst, admission)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #told(recorded: boolean): void {
    const { exchange, ending, measured, deps } = this
    exchange.held?.settle((measured.promptTokens ?? 0) + (measured.completionTokens ?? 0))
    exchange.trace?.end(exchange, ending, measured)
    deps.observe(observedOf(exchange, ending, measured, this.#latencyMs, recorded))
  }
}

/** A settlement: the facts without their closing brace, and what it says beyond them. */
const settledJson = (
  exchange: Exchange,
  facts: FactsText,
  ending: Ending,
  measured: Measured,
  latencyMs: number,
  budget: BudgetCharge[] | undefined,
): TextPieces => {
  const { entry, usage, admission } = exchange
  const rest: Omit<RequestSettled, keyof Static<typeof RequestFacts> | keyof HowEnded | 'raw_usage' | 'admission'> = {
    attempts: exchange.attempts,
    finish_reason: exchange.finishReason,
    prompt_tokens: measured.promptTokens,
    completion_tokens: measured.completionTokens,
    cached_prompt_tokens: usage?.cachedPromptTokens ?? null,
    reasoning_tokens: usage?.reasoningTokens ?? null,
    cost_nano_usd: measured.costNanoUsd,
    cost_basis: measured.basis,
    price_version: measured.priceVersion,
    latency_ms: latencyMs,
    ttft_ms: exchange.firstTokenMs,
  }
  const { plan, plannedMs, admittedMs, shaping } = exchange
  if (plan !== null && admission === null) {
    rest.candidates = candidateList(plan)
    rest.decision = decisionOf(plan)
  }
  if (budget !== undefined) rest.budget = budget
  if (shaping.length > 0) rest.shaping = shaping.slice(0, LISTED_SHAPING)
  if (plannedMs !== null)
    rest.timings = admittedMs === null ? { planned_ms: plannedMs } : { planned_ms: plannedMs, admitted_ms: admittedMs }
  const quote = admission === null ? '' : '"'
  return [
    facts.own,
    facts.common,
    ',"raw_usage":',
    rawUsageJson(usage?.raw),
    ',"admission":',
    quote,
    admission ?? 'null',
    quote,
    endingJson(ending, entry, exchange.fallbackUsed()),
    JSON.stringify(rest).slice(1),
  ]
}

/** How it ended, as members with a comma on both sides. Nearly all requests end well, by the same few models: that text is made once. */
const endingJson = (ending: Ending, entry: CatalogueEntry | null, fallbackUsed: boolean): string =>
  ending === SUCCESS && entry !== null && !fallbackUsed
    ? successJson(entry)
    : `,${JSON.stringify(howEnded(ending, entry, fallbackUsed)).slice(1, -1)},`

const successTexts = new WeakMap<CatalogueEntry, string>()

const successJson = (entry: CatalogueEntry): string => {
  let json = successTexts.get(entry)
  if (json === undefined) {
    json = `,${JSON.stringify(howEnded(SUCCESS, entry, false)).slice(1, -1)},`
    successTexts.set(entry, json)
  }
  return json
}

type HowEnded = Pick<
  RequestSettled,
  | 'outcome'
  | 'status'
  | 'error_code'
  | 'provider'
  | 'provider_id'
  | 'routed_model'
  | 'model_id'
  | 'fallback_used'
  | 'cache_hit'
>

const howEnded = (ending: Ending, entry: CatalogueEntry | null, fallbackUsed: boolean): HowEnded => ({
  outcome: ending.outcome,
  status: ending.status,
  error_code: ending.error?.code ?? null,
  provider: entry?.provider ?? null,
  provider_id: entry?.providerId ?? null,
  routed_model: entry?.name ?? null,
  model_id: entry?.modelId ?? null,
  fallback_used: fallbackUsed,
  cache_hit: false,
})

const observedOf = (
  exchange: Exchange,
  ending: Ending,
  measured: Measured,
  latencyMs: number,
  recorded: boolean,
): Observed => ({
  outcome: ending.outcome,
  code: ending.error?.code ?? 'none',
  status: ending.status,
  error: ending.error,
  entry: exchange.entry,
  fallbackUsed: exchange.fallbackUsed(),
  attempts: exchange.attempts,
  stream: exchange.intent?.stream ?? false,
  latencyMs,
  ttftMs: exchange.firstTokenMs,
  promptTokens: measured.promptTokens ?? 0,
  completionTokens: measured.completionTokens ?? 0,
  costNanoUsd: measured.costNanoUsd ?? 0,
  costBasis: measured.basis,
  recorded,
})
