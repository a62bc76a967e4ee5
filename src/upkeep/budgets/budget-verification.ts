// Recomputes what a budget's present window has cost: from the outcomes in the requests topic, and the account once
// more from its partition. Compares both.
import { type Amount, isEqual, minus, NO_AMOUNT } from '../../domain/budgets/amount.ts'
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import { type EventLog, LogGap, LogUnavailable } from '../../log/port.ts'
import type { BudgetStanding, OpenBudgets } from '../../state/budgets/budgets.ts'
import { Outcomes, Refold } from './budget-recount.ts'

export interface BudgetVerdict {
  readonly account: string
  /**
   * By the account: what instances have reported, and what this one has not reported yet. Without what was carried over
   * from another cut of windows.
   */
  readonly spent: Amount
  /** What the outcomes add up to. */
  readonly recomputed: Amount
  readonly carried: Amount
  readonly reserved: Amount
  readonly overrunNanoUsd: number
  readonly outcomes: number
  /** Records that were left to read when the time was over: the next call goes on there. */
  readonly unread: number
  /** All outcomes since this window began were read: the log still holds them, and nothing is left to read. */
  readonly complete: boolean
  /** The account, folded anew from its partition, is the one that is served. Null: not all of it was read. */
  readonly foldsAlike: boolean | null
  /** Null: undecided, since not all could be read, or since the budget is being spent from. */
  readonly matches: boolean | null
}

export interface VerificationDeps {
  readonly log: EventLog
  readonly budgets: OpenBudgets
  /** The most time that one call takes. */
  readonly limitMs?: number
  /** A mismatch is reported when nothing has moved for so long. */
  readonly stillMs?: number
}

/** Below the timeouts of proxies. */
const LIMIT_MS = 45_000
/**
 * Other instances report what they spent within seconds: the verifier looks again for so long, less where nothing has
 * moved for as long as a report takes.
 */
const SETTLES_MS = 12_000
const STILL_MS = 8_000
const LOOK_MS = 500
/** Bound of the accounts whose recount is continued by a later call. */
const MOST_UNFINISHED = 2

interface Recount {
  readonly account: string
  readonly outcomes: Outcomes
  readonly refold: Refold
}

/** Resolves to null where nothing is counted of a budget, or the log cannot be read now. */
export type VerifyBudget = (row: BudgetRow, signal: AbortSignal) => Promise<BudgetVerdict | null>

/** What one call does not read to the end in its time, the next call goes on with. */
export const budgetVerifier = (deps: VerificationDeps): VerifyBudget => {
  const unfinished = new Map<string, Recount>()
  const recountOf = (row: BudgetRow, { account, startMs }: BudgetStanding): Recount => {
    const begun = unfinished.get(account)
    // The call that reads owns the recount until it ends.
    unfinished.delete(account)
    if (begun !== undefined) return begun
    const { log, budgets } = deps
    return {
      account,
      outcomes: new Outcomes(log, account, Math.max(startMs, Date.parse(row.created_at))),
      refold: new Refold(log, budgets.leases.ledger, row.tenant_id, account),
    }
  }
  return async (row, signal) => {
    if (!(await deps.budgets.caughtUp(row.tenant_id, SETTLES_MS))) return null
    const until = AbortSignal.any([signal, AbortSignal.timeout(deps.limitMs ?? LIMIT_MS)])
    try {
      for (;;) {
        const standing = deps.budgets.standing(row)
        if (standing === null) return null
        const recount = recountOf(row, standing)
        const verdict = await verdictOn(row, recount, deps, until)
        if (verdict === 'ended') continue // its window: the next one is checked
        if (verdict !== null && verdict.matches === null) {
          unfinished.set(recount.account, recount)
          for (const oldest of unfinished.keys()) if (unfinished.size > MOST_UNFINISHED) unfinished.delete(oldest)
        }
        return verdict
      }
    } catch (error) {
      // What was to be read expired meanwhile, or the log is not reachable.
      if (error instanceof LogUnavailable || error instanceof LogGap) return null
      throw error
    }
  }
}

/** Compares again and again, until it matches, cannot match any more, or the time is over. */
const verdictOn = async (
  row: BudgetRow,
  { account, outcomes, refold }: Recount,
  { budgets, stillMs = STILL_MS }: VerificationDeps,
  until: AbortSignal,
): Promise<BudgetVerdict | null | 'ended'> => {
  let settlingSinceMs: number | null = null
  let foldsAlike: boolean | null = null
  let still = { spent: NO_AMOUNT, recomputed: NO_AMOUNT, sinceMs: performance.now() }
  for (;;) {
    const open = budgets.leases.opens.get(account)
    if (open !== undefined) budgets.leases.report(open)
    const unread = await outcomes.read(until)
    const recomputed = outcomes.sum
    const standing = budgets.standing(row)
    if (standing === null) return null
    if (standing.account !== account) return 'ended'
    const carried = budgets.leases.ledger.account(row.tenant_id, account)?.carried ?? NO_AMOUNT
    const spent = minus(standing.spent, carried)
    const { reserved, overrunNanoUsd } = standing
    foldsAlike = (await refold.isAlike(until)) ?? foldsAlike
    const complete = unread === 0 && outcomes.areKept
    const found = { account, spent, recomputed, carried, reserved, overrunNanoUsd, outcomes: outcomes.count }
    const verdict = (matches: boolean | null) => ({ ...found, unread, complete, foldsAlike, matches })
    if (unread === 0 && foldsAlike === true && isEqual(spent, recomputed)) return verdict(true)
    const nowMs = performance.now()
    settlingSinceMs ??= nowMs
    const areSame = isEqual(still.spent, spent) && isEqual(still.recomputed, recomputed)
    if (!areSame) still = { spent, recomputed, sinceMs: nowMs }
    const isStill = nowMs - still.sinceMs >= stillMs
    if (isStill || unread > 0 || until.aborted || nowMs - settlingSinceMs >= SETTLES_MS) {
      if (foldsAlike === false) return verdict(false)
      return verdict(isStill && complete && !isEqual(spent, recomputed) ? false : null)
    }
    await sleep(LOOK_MS, until)
  }
}
