// Station 5 and 6: what an attempt may cost is reserved of every budget that it falls under, before it is made. The settlement charges it (charge.ts, inference/records/settle.ts).
import { resetsAt, scopeText } from '../../domain/budgets/budget.ts'
import { MOST_ACCOUNTS } from '../../domain/budgets/budget-events.ts'
import { usdOf } from '../../lib/money.ts'
import type { Bound, BudgetRefusal, Cost } from '../../state/budgets/budgets.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { UpstreamStream } from '../attempt/upstream-stream.ts'
import type { Intent } from '../intent/intent.ts'
import type { Plan } from '../plan/plan.ts'
import { admitMore } from '../records/admit.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import { attemptCost, endReserved } from './charge.ts'
import { reservedNanoUsd, reservedTokens } from './estimate.ts'
import { dearerField } from './premium-fields.ts'

const RETRY_AFTER_S = 1
/** A stream that goes on beyond what is reserved asks for so much more at once, as a share of its reservation. */
const STEP_SHARE = 4

/** How much more is asked for where so much was reserved and so much is spent; 0: nothing. */
const stepOf = (bound: number | null, spent: number): number =>
  bound === null || spent <= bound ? 0 : Math.max(spent - bound, Math.ceil(bound / STEP_SHARE))

/** At a dearer service than the row has a price for, the request has none. */
const boundOf = (intent: Intent, entry: CatalogueEntry): Bound => ({
  nanoUsd: dearerOf(intent, entry) === null ? reservedNanoUsd(intent, entry) : null,
  tokens: reservedTokens(intent, entry),
})

const dearerOf = ({ body }: Intent, { kind, options }: CatalogueEntry): string | null =>
  dearerField(body, kind, options.drop)

/**
 * Reserves for the first candidate that its budgets allow, before the admission names it. Those whose own budgets (of their provider, of their model) do
 * not allow it are passed over. Null: it is done; a promise only where a lease does not hold enough. Throws 402 when nobody is left, and 429 while the log
 * cannot be asked for a lease.
 */
export const reserveFirst = (
  exchange: Exchange,
  intent: Intent,
  plan: Plan,
  deps: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): Promise<void> | null => {
  for (let place = 0; ; place++) {
    const reserved = reserveAt(place, exchange, intent, plan)
    if (reserved instanceof Promise) return reserveFrom(place, reserved, exchange, intent, plan, deps)
    if (!passedOver(reserved, place, exchange, plan, deps)) return null
  }
}

const reserveAt = (place: number, { budgets }: Exchange, intent: Intent, plan: Plan) => {
  const entry = plan.ordered[place]!
  return budgets!.reserve(entry.providerId, entry.name, boundOf(intent, entry))
}

/** The same from a candidate on whose lease has to be waited for. */
const reserveFrom = async (
  from: number,
  waiting: Promise<BudgetRefusal | null>,
  exchange: Exchange,
  intent: Intent,
  plan: Plan,
  deps: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): Promise<void> => {
  let reserved = await waiting
  for (let place = from; passedOver(reserved, place, exchange, plan, deps); ) {
    const next = reserveAt(++place, exchange, intent, plan)
    reserved = next instanceof Promise ? await next : next
  }
}

/** Whether the next candidate is to be asked instead. False: it is reserved. Throws when nobody is left. */
const passedOver = (
  refused: BudgetRefusal | null,
  place: number,
  exchange: Exchange,
  { ordered }: Plan,
  { budgets, nowMs }: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): boolean => {
  const entry = ordered[place]!
  if (refused === null) {
    exchange.passedOver = place
    exchange.reservedFor = entry
    return false
  }
  const error = budgetError(refused, budgets, nowMs(), dearerOf(exchange.intent!, entry))
  if (!isOfCandidate(refused) || place + 1 === ordered.length) throw error
  exchange.skip(entry, error.code)
  return true
}

/** Reserves for a further attempt, once the one before it is charged. Null: it may be made; else it is listed as passed over. */
export const reserveNext = async (
  exchange: Exchange,
  intent: Intent,
  entry: CatalogueEntry,
  { budgets, nowMs }: Pick<InferenceDeps, 'budgets' | 'nowMs'>,
): Promise<GatewayError | null> => {
  endReserved(exchange)
  const refused = await exchange.budgets!.reserve(entry.providerId, entry.name, boundOf(intent, entry))
  if (refused === null) {
    exchange.reservedFor = entry
    return null
  }
  const error = budgetError(refused, budgets, nowMs(), dearerOf(intent, entry))
  exchange.skip(entry, error.code)
  return error
}

/**
 * What comes next of a stream may cost more than is reserved: called before what has come goes out. Null: what it has cost so far is reserved, or nothing more
 * comes. Else more is asked for: null once that is reserved and recorded, or why the stream is cut. Called with every piece: no promise where nothing is waited for.
 */
export const reserveMore = (
  exchange: Exchange,
  { done, complete }: Pick<UpstreamStream, 'done' | 'complete'>,
  deps: Pick<InferenceDeps, 'budgets' | 'nowMs' | 'spool'>,
): Promise<GatewayError | null> | null => {
  // The reason is that of the first choice: others may go on.
  if (exchange.budgets === null || done || (exchange.finishReason !== null && complete)) return null
  const bound = exchange.budgets.bound()
  const cost = attemptCost(exchange)
  const more = { nanoUsd: stepOf(bound.nano_usd, cost?.nanoUsd ?? 0), tokens: stepOf(bound.tokens, cost?.tokens ?? 0) }
  return more.nanoUsd === 0 && more.tokens === 0 ? null : extend(exchange, more, cost, deps)
}

const extend = async (
  exchange: Exchange,
  more: { readonly nanoUsd: number; readonly tokens: number },
  cost: Cost | null,
  { budgets, nowMs, spool }: Pick<InferenceDeps, 'budgets' | 'nowMs' | 'spool'>,
): Promise<GatewayError | null> => {
  const own = exchange.budgets!
  const refused = await own.extend(more)
  // Its client may have left, or its time have run out, while it waited: nothing is recorded behind an attempt's end.
  if (exchange.settled || exchange.finished !== null) return null
  if (refused !== null) return budgetError(refused, budgets, nowMs())
  return admitMore(exchange, reservedNow(exchange, own.bound().nano_usd, cost), { spool })
}

/** What the attempt under way may cost now that more is reserved for it: never less than what it is known to have cost. */
const reservedNow = ({ intent, entry }: Exchange, bound: number | null, cost: Cost | null): number | null => {
  const first = intent === null || entry === null ? null : reservedNanoUsd(intent, entry)
  return first === null && bound === null ? null : Math.max(first ?? 0, bound ?? 0, cost?.nanoUsd ?? 0)
}

/** Nothing is spent that this request needs: it may be made a moment later. */
const PASSING: ReadonlySet<BudgetRefusal['reason']> = new Set(['unreachable', 'height', 'unknown', 'closed', 'early'])

const isOfCandidate = ({ open, reason }: BudgetRefusal): boolean =>
  reason !== 'unreachable' && ['provider', 'model'].includes(open.line.row.scope.type)

const budgetError = (
  { reason, open }: BudgetRefusal,
  budgets: InferenceDeps['budgets'],
  nowMs: number,
  dearer: string | null = null,
): GatewayError => {
  const { row } = open.line
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
  if (reason === 'no_price' && dearer !== null) {
    const message = `${what} limits what may be spent, and what \`${dearer}\` costs is not known; leave it out`
    return new GatewayError('quota_exceeded', message, { param: dearer, details })
  }
  return new GatewayError('quota_exceeded', messageOf(reason, what), { details })
}

const messageOf = (reason: BudgetRefusal['reason'], what: string): string => {
  if (reason === 'no_price') return `${what} limits what may be spent, and the model has no price`
  if (reason === 'too_many')
    return `more than ${MOST_ACCOUNTS} budgets hold for this request, ${what} among them, those of windows that ended meanwhile counted: end some of them`
  if (reason === 'overrun')
    return `${what} is closed: a provider billed or counted more than was reserved. It opens with the next window, or when its limits are set again`
  if (reason === 'forgotten')
    return `${what} is closed: what it has spent in this window is no longer in the log. It opens with the next window, or when its limits are set again`
  return `${what} does not have as much left as this request may cost; a lower \`max_completion_tokens\` lowers it`
}
