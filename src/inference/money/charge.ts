// The one place where usage becomes money: the cost of each attempt, and of a request with all its attempts
// (docs/decisions/0014).
import type { Limits } from '../../domain/budgets/amount.ts'
import type { BudgetCharge } from '../../domain/budgets/recorded-parts.ts'
import type { RequestSettled } from '../../domain/events/request.ts'
import type { AttemptSummary } from '../../domain/events/request-reading.ts'
import { sumNanoUsd } from '../../lib/money.ts'
import type { Answer, Usage } from '../../providers/port.ts'
import { picturePrice, reasonsInvisibly, writtenAt } from '../../providers/shared/billing.ts'
import { answeredBytes } from '../../providers/shared/generated.ts'
import type { Cost } from '../../state/budgets/budgets.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Intent } from '../intent/intent.ts'
import type { Exchange } from '../request/exchange.ts'
import { estimateTokens, highestNanoUsd, promptBound, promptTokensEstimate } from './estimate.ts'
import { actualNanoUsd } from './price.ts'

type Basis = RequestSettled['cost_basis']

/** Money, and how certain it is. */
export interface Charge {
  /** Null: nothing that was billed has a known price. */
  readonly costNanoUsd: number | null
  readonly basis: Basis
}

/**
 * Tokens of the last attempt, as the provider reports them or else estimated; and the cost of all attempts together.
 */
export interface Measured extends Charge {
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  /** Revision of the row whose prices the last attempt was charged at. */
  readonly priceVersion: string | null
}

const NOTHING: Measured = {
  promptTokens: null,
  completionTokens: null,
  costNanoUsd: 0,
  basis: 'none',
  priceVersion: null,
}

/** Measures what was used, and notes the cost for the `gateway` block. May be called repeatedly. */
export const measure = (exchange: Exchange): Measured => {
  const own = ofAttempt(exchange)
  const { charged, finished } = exchange
  if (finished !== null && own.basis !== 'none' && (charged !== null || finished.outcome !== 'success'))
    note(finished, own)
  const measured = charged === null ? own : { ...own, ...sum(charged, own) }
  exchange.costNanoUsd = measured.costNanoUsd
  return measured
}

/** Sums up what the ended attempt has cost, or may have, before another begins. */
export const chargeAttempt = (exchange: Exchange): void => {
  const { finished } = exchange
  if (finished === null) return
  exchange.finished = null
  const own = ofAttempt(exchange)
  if (own.basis === 'none') return
  note(finished, own)
  exchange.charged = exchange.charged === null ? own : sum(exchange.charged, own)
}

/**
 * The cost so far of the attempt under way, or of the last one, for budgets; null: nothing was sent that may be billed.
 */
export const attemptCost = (exchange: Exchange, own: Measured = ofAttempt(exchange)): Cost | null => {
  const { basis, costNanoUsd, promptTokens, completionTokens } = own
  if (basis === 'none') return null
  return {
    nanoUsd: costNanoUsd,
    tokens: (promptTokens ?? 0) + (completionTokens ?? 0),
    exact: basis === 'unpriced' ? hasCounts(exchange.usage) : basis !== 'estimated',
  }
}

/** An attempt that may be billed: sent and not refused, or with usage that the provider reported. */
type Billable = Exchange & { readonly entry: CatalogueEntry; readonly intent: Intent }

const isBillable = (exchange: Exchange): exchange is Billable =>
  exchange.entry !== null && exchange.intent !== null && (exchange.usage !== null || exchange.mayBill)

/**
 * The most that the ended attempt may have been billed. All that was reserved where none of its answer came, part of it
 * is never shown, or the provider generates and bills on after the client left. Else the prompt at its bound, and every
 * byte of the answer that came as a token.
 */
const mostBilled = (exchange: Billable): Limits => {
  const { entry, intent, usage, answerBytes } = exchange
  const goesOn = !isWhole(exchange) && !stopsBilling(exchange)
  if (answerBytes === 0 || goesOn || reasonsInvisibly(intent.body, entry.upstreamModel, entry.kind)) return ALL_RESERVED
  const promptTokens = Math.max(promptBound(intent, entry), usage?.promptTokens ?? 0)
  const completionTokens = Math.max(answerBytes, usage?.completionTokens ?? 0)
  return {
    nano_usd: highestNanoUsd(entry, promptTokens, completionTokens, intent.raw),
    tokens: promptTokens + completionTokens,
  }
}

const ALL_RESERVED: Limits = { nano_usd: null, tokens: null }

const stopsBilling = ({ kind, entry }: Billable): boolean => {
  const stops = kind?.stopsBillingWhenLeft
  return typeof stops === 'function' ? stops(entry.options) : stops === true
}

/** What the ended attempt is charged to budgets, with its bound where the provider has not reported all of it. */
const endedCost = (exchange: Exchange, own?: Measured): Cost | null => {
  const cost = attemptCost(exchange, own)
  if (cost === null || !isBillable(exchange) || isCounted(exchange)) return cost
  const atMost = mostBilled(exchange)
  const isReported = isWhole(exchange) && reportedCost(exchange.usage) !== null
  return { ...cost, atMost: isReported ? { ...atMost, nano_usd: cost.nanoUsd } : atMost }
}

/**
 * Charges the reserved attempt, if there is one, to the budgets of the request. What it did not cost is free once the
 * outcome is recorded. `own`: its measurement, where the caller has it.
 */
export const endReserved = (exchange: Exchange, own?: Measured): void => {
  const { budgets, reservedFor } = exchange
  // Reserved for an attempt that did not begin: nothing was sent.
  budgets?.endAttempt(reservedFor === null ? endedCost(exchange, own) : null)
  exchange.reservedFor = null
}

/**
 * Charges the request to its budgets, once, right before its outcome is appended. Undefined: it falls under none.
 * `measured`: of the request, where nothing has changed since.
 */
export const chargeBudgets = (exchange: Exchange, measured?: Measured): BudgetCharge[] | undefined => {
  if (exchange.budgets === null) return undefined
  endReserved(exchange, exchange.charged === null ? measured : undefined)
  const charges = exchange.budgets.settle()
  return charges.length === 0 ? undefined : charges
}

/** The measurement of the attempt under way, or of the last one. */
const ofAttempt = (exchange: Exchange): Measured => {
  if (!isBillable(exchange)) return NOTHING
  const { entry, intent, usage } = exchange
  const promptTokens = usage?.promptTokens ?? promptTokensEstimate(intent)
  const counted = usage?.completionTokens ?? null
  const estimated = estimateTokens(exchange.answerBytes)
  // Some providers count from the beginning: the usage of a stream that breaks off may be that of its first token.
  const isLess = counted !== null && isUnfinished(exchange) && estimated > counted
  const completionTokens = counted === null || isLess ? estimated : counted
  const reportedNanoUsd = reportedCost(usage)
  const costNanoUsd = reportedNanoUsd ?? priced(entry, promptTokens, completionTokens, usage, intent.raw)
  const reported = usage !== null && usage.promptTokens !== null && counted !== null && !isLess
  const basis =
    reportedNanoUsd !== null
      ? 'provider_reported'
      : costNanoUsd === null
        ? 'unpriced'
        : reported
          ? 'measured'
          : 'estimated'
  return {
    promptTokens,
    completionTokens,
    costNanoUsd,
    basis,
    priceVersion: costNanoUsd === null ? null : entry.revision,
  }
}

/** A stream whose attempt is under way, or broke off before a finish reason. */
const isUnfinished = ({ intent, finishReason, finished }: Billable): boolean =>
  intent.stream && finishReason === null && finished?.outcome !== 'success'

/** The answer has ended: its counts are final. */
const isWhole = ({ intent, finishReason, finished }: Billable): boolean =>
  !intent.stream || finished?.outcome === 'success' || (finishReason !== null && intent.choices === 1)

/** The provider has reported all tokens of the answer. */
const isCounted = (exchange: Billable): boolean => hasCounts(exchange.usage) && isWhole(exchange)

const hasCounts = (usage: Usage | null): boolean =>
  typeof usage?.promptTokens === 'number' && typeof usage.completionTokens === 'number'

/** UTF-8 bytes of an answer; the JSON is measured only where the provider does not count its tokens. */
export const bytesOf = ({ usage, content, json }: Answer): number =>
  typeof usage?.completionTokens === 'number' ? Buffer.byteLength(content ?? '') : answeredBytes(json)

/** The cost that the provider reports, as whole nano-USD; null when it reports none, or an impossible one. */
const reportedCost = (usage: Usage | null): number | null => {
  const reportedNanoUsd = usage?.reportedNanoUsd ?? null
  return reportedNanoUsd === null || !(reportedNanoUsd >= 0 && reportedNanoUsd <= Number.MAX_SAFE_INTEGER)
    ? null
    : Math.ceil(reportedNanoUsd)
}

/**
 * The cost at the row's prices, of the tokens that the provider bills where it reports those: they include its discount
 * for cached tokens.
 */
const priced = (
  entry: CatalogueEntry,
  promptTokens: number,
  completionTokens: number,
  usage: Usage | null,
  raw: string,
): number | null => {
  const billed = usage?.billed ?? null
  const written = writtenAt(usage, raw, entry.kind, entry.upstreamModel)
  const pictures = picturesOf(entry, usage, completionTokens)
  return billed === null
    ? actualNanoUsd(entry, promptTokens, completionTokens, usage?.cachedPromptTokens ?? 0, {
        written,
        pictures,
      })
    : actualNanoUsd(entry, billed.promptTokens ?? promptTokens, billed.completionTokens ?? completionTokens, 0)
}

/** Tokens of pictures in the answer, at their price; null where there are none. */
const picturesOf = (
  { kind, upstreamModel, outputCostPerMillion }: CatalogueEntry,
  usage: Usage | null,
  most: number,
) =>
  usage?.pictureTokens === undefined || outputCostPerMillion === null
    ? null
    : {
        tokens: Math.min(usage.pictureTokens, most),
        price: picturePrice(kind, upstreamModel, outputCostPerMillion),
      }

const note = (attempt: AttemptSummary, own: Measured): void => {
  attempt.prompt_tokens = own.promptTokens
  attempt.completion_tokens = own.completionTokens
  attempt.cost_nano_usd = own.costNanoUsd
  attempt.cost_basis = own.basis
  attempt.price_version = own.priceVersion
}

const WEAKEST_LAST: readonly Basis[] = ['none', 'provider_reported', 'measured', 'estimated', 'unpriced']

/**
 * The sum is as certain as its less certain part. A part without a price adds nothing, so that the rest is an estimate.
 */
const sum = (one: Charge, other: Charge): Charge => {
  if (one.basis === 'none') return { costNanoUsd: other.costNanoUsd, basis: other.basis }
  if (other.basis === 'none') return { costNanoUsd: one.costNanoUsd, basis: one.basis }
  const basis = WEAKEST_LAST[Math.max(WEAKEST_LAST.indexOf(one.basis), WEAKEST_LAST.indexOf(other.basis))]!
  if (one.costNanoUsd === null && other.costNanoUsd === null) return { costNanoUsd: null, basis: 'unpriced' }
  return {
    costNanoUsd: sumNanoUsd(one.costNanoUsd ?? 0, other.costNanoUsd ?? 0),
    basis: basis === 'unpriced' ? 'estimated' : basis,
  }
}
