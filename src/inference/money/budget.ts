// Stations 5 and 6: what an attempt may cost is reserved of every budget that it falls under, before it is made. The
// settlement charges it (`charge.ts`, `records/settle.ts`).
import { resetsAt, scopeText } from '../../domain/budgets/budget.ts'
import { MOST_ACCOUNTS } from '../../domain/budgets/budget-events.ts'
import { usdOf } from '../../lib/money.ts'
import type { Bound, BudgetRefusal, Cost, RequestBudgets } from '../../state/budgets/budgets.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { UpstreamStream } from '../attempt/upstream-stream.ts'
import type { Intent } from '../intent/intent.ts'
import { admitMore } from '../records/admit.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Called, Planned } from '../request/progress.ts'
import { attemptCost, endReserved } from './charge.ts'
import { reservedNanoUsd, reservedTokens } from './estimate.ts'
import { premiumField } from './premium-fields.ts'

const RETRY_AFTER_S = 1
/** A stream that costs more than is reserved reserves at least this share (1/4) of its reservation at a time. */
const STEP_SHARE = 4

/** How much more to reserve, of the amount that is reserved and the amount that is spent; 0: nothing. */
const stepOf = (bound: number | null, spent: number): number =>
  bound === null || spent <= bound ? 0 : Math.max(spent - bound, Math.ceil(bound / STEP_SHARE))

/** A request with a premium field has no price: the row does not hold it. */
const boundOf = (intent: Intent, entry: CatalogueEntry): Bound => ({
  nanoUsd: premiumFieldOf(intent, entry) === null ? reservedNanoUsd(intent, entry) : null,
  tokens: reservedTokens(intent, entry),
})

const premiumFieldOf = ({ body }: Intent, { kind, options }: CatalogueEntry): string | null =>
  premiumField(body, kind, options.drop)

/**
 * Reserves for the first candidate that its budgets allow, before the admission names it. Candidates whose own budgets
 * (of their provider or model) do not allow it are passed over. Null: reserved; a promise only where a lease does not
 * hold enough. Throws 402 when no candidate is left, and 429 while the log cannot be reached for a lease.
 */
export const reserveFirst = (
  exchange: Planned,
  budgets: RequestBudgets,
  deps: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): Promise<void> | null => {
  for (let place = 0; ; place++) {
    const refused = reserveAt(place, exchange, budgets)
    if (refused instanceof Promise) return reserveFrom(place, refused, exchange, budgets, deps)
    if (!mustPassOver(refused, place, exchange, deps)) return null
  }
}

const reserveAt = (place: number, { intent, plan }: Planned, budgets: RequestBudgets) => {
  const entry = plan.ordered[place]!
  return budgets.reserve(entry.providerId, entry.name, boundOf(intent, entry))
}

/** Continues `reserveFirst` at the candidate `from`, which waits for a lease. Throws like it. */
const reserveFrom = async (
  from: number,
  waiting: Promise<BudgetRefusal | null>,
  exchange: Planned,
  budgets: RequestBudgets,
  deps: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): Promise<void> => {
  let refused = await waiting
  for (let place = from; mustPassOver(refused, place, exchange, deps); ) {
    const next = reserveAt(++place, exchange, budgets)
    refused = next instanceof Promise ? await next : next
  }
}

/** Whether the next candidate is to be tried. False: this one is reserved. Throws when no candidate is left. */
const mustPassOver = (
  refused: BudgetRefusal | null,
  place: number,
  exchange: Planned,
  { budgets, nowMs }: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): boolean => {
  const { intent, plan } = exchange
  const entry = plan.ordered[place]!
  if (refused === null) {
    exchange.passedOver = place
    exchange.reservedFor = entry
    return false
  }
  const error = budgetError(refused, budgets, nowMs(), premiumFieldOf(intent, entry))
  if (!isOfCandidate(refused) || place + 1 === plan.ordered.length) throw error
  exchange.skip(entry, error.code)
  return true
}

/**
 * Reserves for a further attempt, once the one before it is charged. Null: it may be made; else the candidate is listed
 * as passed over.
 */
export const reserveNext = async (
  exchange: Planned,
  own: RequestBudgets,
  entry: CatalogueEntry,
  { budgets, nowMs }: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): Promise<GatewayError | null> => {
  const { intent } = exchange
  endReserved(exchange)
  const refused = await own.reserve(entry.providerId, entry.name, boundOf(intent, entry))
  if (refused === null) {
    exchange.reservedFor = entry
    return null
  }
  const error = budgetError(refused, budgets, nowMs(), premiumFieldOf(intent, entry))
  exchange.skip(entry, error.code)
  return error
}

/**
 * Called with every piece of a stream before it is sent, since the next piece may cost more than is reserved. Null: the
 * cost so far is reserved, or nothing more comes. Else more is reserved: resolves with null once that is recorded, or
 * with the error that cuts the stream.
 */
export const reserveMore = (
  exchange: Called,
  { done, complete }: Pick<UpstreamStream, 'done' | 'complete'>,
  deps: Pick<InferenceDeps, 'budgets' | 'nowMs' | 'spool'>,
): Promise<GatewayError | null> | null => {
  // The finish reason is that of the first choice: others may go on.
  if (exchange.budgets === null || done || (exchange.finishReason !== null && complete)) return null
  const bound = exchange.budgets.bound()
  const cost = attemptCost(exchange)
  const more = { nanoUsd: stepOf(bound.nano_usd, cost?.nanoUsd ?? 0), tokens: stepOf(bound.tokens, cost?.tokens ?? 0) }
  return more.nanoUsd === 0 && more.tokens === 0 ? null : extend(exchange, exchange.budgets, more, cost, deps)
}

const extend = async (
  exchange: Called,
  own: RequestBudgets,
  more: { readonly nanoUsd: number; readonly tokens: number },
  cost: Cost | null,
  { budgets, nowMs, spool }: Pick<InferenceDeps, 'budgets' | 'nowMs' | 'spool'>,
): Promise<GatewayError | null> => {
  const refused = await own.extend(more)
  // The client may have disconnected, or the time ended, meanwhile: nothing is recorded behind the end of an attempt.
  if (exchange.settled || exchange.finished !== null) return null
  if (refused !== null) return budgetError(refused, budgets, nowMs())
  return admitMore(exchange, reservedNow(exchange, own.bound().nano_usd, cost), { spool })
}

/** Nano-USD that the attempt under way may cost, more being reserved for it: never less than it has cost so far. */
const reservedNow = ({ intent, entry }: Called, bound: number | null, cost: Cost | null): number | null => {
  const first = reservedNanoUsd(intent, entry)
  return first === null && bound === null ? null : Math.max(first ?? 0, bound ?? 0, cost?.nanoUsd ?? 0)
}

/** Refusals that pass by themselves: the budget has money left, and the request may be sent again a moment later. */
const PASSING: ReadonlySet<BudgetRefusal['reason']> = new Set(['unreachable', 'height', 'unknown', 'closed', 'early'])

const isOfCandidate = ({ open, reason }: BudgetRefusal): boolean =>
  reason !== 'unreachable' && ['provider', 'model'].includes(open.budget.row.scope.type)

const budgetError = (
  { reason, open }: BudgetRefusal,
  budgets: InferenceDeps['budgets'],
  nowMs: number,
  premium: string | null = null,
): GatewayError => {
  const { row } = open.budget
  const what = `the budget of ${scopeText(row.scope)}`
  if (PASSING.has(reason)) {
    const message = `${what} cannot be asked for more at the moment; try again in ${RETRY_AFTER_S} s`
    return new GatewayError('rate_limited', message, { retryAfterS: RETRY_AFTER_S })
  }
  const standing = budgets.standing(row)
  const usd = (nanoUsd: number | null | undefined): number | null => (nanoUsd == null ? null : usdOf(nanoUsd))
  const details = {
    scope: row.scope,
    budget_id: row.id,
    limit_usd: usd(row.limit_nano_usd),
    limit_tokens: row.limit_tokens,
    spent_usd: usd(standing?.spent.nano_usd),
    reserved_usd: usd(standing?.reserved.nano_usd),
    resets_at: resetsAt(row, nowMs),
    ...(reason === 'no_price' ? { rejected_reason: 'no_price' } : {}),
  }
  if (reason === 'no_price' && premium !== null) {
    const message = `${what} limits what may be spent, and what \`${premium}\` costs is not known; leave it out`
    return new GatewayError('quota_exceeded', message, { param: premium, details })
  }
  return new GatewayError('quota_exceeded', messageOf(reason, what), { details })
}

const REOPENS = 'It opens with the next window, or when its limits are set again'

const messageOf = (reason: BudgetRefusal['reason'], what: string): string => {
  if (reason === 'no_price') return `${what} limits what may be spent, and the model has no price`
  if (reason === 'too_many')
    return (
      `more than ${MOST_ACCOUNTS} budgets hold for this request, ${what} among them, ` +
      'those of windows that ended meanwhile counted: end some of them'
    )
  if (reason === 'overrun') return `${what} is closed: a provider billed or counted more than was reserved. ${REOPENS}`
  if (reason === 'forgotten')
    return `${what} is closed: what it has spent in this window is no longer in the log. ${REOPENS}`
  return `${what} does not have as much left as this request may cost; a lower \`max_completion_tokens\` lowers it`
}
