// Budgets for requests and reads: the budgets of a request, and the standing of a budget.
import { accountId, carriedInto, committed, overrunOf, spentOf } from '../../domain/budgets/account.ts'
import { closedUpTo, opensAt } from '../../domain/budgets/account-closing.ts'
import { type Amount, minus, NO_AMOUNT, plus } from '../../domain/budgets/amount.ts'
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import type { LiveState } from '../port.ts'
import { type ApplicableBudget, type ApplicableBudgets, openApplicableBudgets } from './applicable.ts'
import { startBudgetChores } from './chores.ts'
import { type BudgetFigures, budgetFigures } from './figures.ts'
import { BudgetLeases, type LeasesDeps } from './leases.ts'
import type { BudgetLedger } from './ledger.ts'
import { RequestBudgets } from './request-budgets.ts'

export type { Bound, BudgetRefusal, Cost } from './attempt-bounds.ts'
export type { BudgetFigure, BudgetFigures } from './figures.ts'
export { BudgetLedger } from './ledger.ts'
export { LEASE_MS, termsOf } from './open-account.ts'
export { RequestBudgets } from './request-budgets.ts'
export { BudgetWriter, type BudgetWriterDeps, statementOf } from './writer.ts'

// Which instances have a balance of budgets, by the accounts that this process reads.

/** One instance, over all accounts. */
export interface HoldingInstance {
  readonly id: string
  /** The part of its leases that, by the log, is neither spent nor given back. */
  readonly held: Amount
  /** Accounts in which it is not closed. */
  readonly accounts: number
  /** Log time of its last record about a budget. */
  readonly lastAtMs: number
}

/** Those that are not closed in some account, of all tenants or of one. */
export const holdingInstances = (ledger: BudgetLedger): HoldingInstance[] => {
  const found = new Map<string, { held: Amount; accounts: number; lastAtMs: number }>()
  for (const tenantId of ledger.tenants())
    for (const { holders } of ledger.accounts(tenantId)?.all() ?? [])
      for (const { instance, granted, returned, spent, at_ms, closed } of holders.values()) {
        if (closed) continue
        const sum = found.get(instance) ?? { held: NO_AMOUNT, accounts: 0, lastAtMs: 0 }
        found.set(instance, sum)
        sum.held = plus(sum.held, minus(minus(granted, returned), spent))
        sum.accounts++
        sum.lastAtMs = Math.max(sum.lastAtMs, at_ms)
      }
  return [...found].map(([id, sum]) => ({ id, ...sum })).sort((a, b) => b.lastAtMs - a.lastAtMs)
}

/** Amounts of a budget in its present window. */
export interface BudgetStanding {
  readonly account: string
  readonly startMs: number
  readonly endMs: number | null
  /** By settled outcomes: what the log contains, and what this instance has not reported yet. */
  readonly spent: Amount
  /** Held by leases, for requests under way or ahead of need. */
  readonly reserved: Amount
  readonly overrunNanoUsd: number
  /** Closed until its limits are changed: a provider billed beyond what was reserved. */
  readonly closed: boolean
}

/**
 * When limits begin to hold for amounts that were only counted, all instances report at once what they have counted;
 * the first leases are requested after this time.
 */
const REPORTED_WITHIN_MS = 500

export interface Budgets {
  /** Null: the key falls under no budget. `slug`: of the endpoint scope. */
  of(tenantId: string, keyId: string, slug: string | null, atMs: number): RequestBudgets | null
  /** Null until the account is read from the log. */
  standing(row: BudgetRow): BudgetStanding | null
  /** All together, with so many by name at the most. */
  figures(most: number): BudgetFigures
  /** Instances that have a balance of a budget. */
  instances(): HoldingInstance[]
  /** Resolves once the log is read as far as it went, or after the time given. */
  caughtUp(tenantId: string, waitMs: number): Promise<boolean>
}

/** For an installation without budgets. */
export const NO_BUDGETS: Budgets = {
  of: () => null,
  standing: () => null,
  figures: () => ({ nearest: [], inUse: 0, closed: 0, leases: 0, waiting: 0, downMs: 0 }),
  instances: () => [],
  caughtUp: () => Promise.resolve(true),
}

export interface BudgetsDeps extends Omit<LeasesDeps, 'onFolded'> {
  readonly live: Pick<LiveState, 'control' | 'subscribe'>
  /** The number of the spool's next record. */
  spoolEnd(): number
  /**
   * Called once a second, and after the last report, with the first record of the spool that is needed to recover what
   * was spent.
   */
  onNeeded?(record: number): void
}

export interface OpenBudgets extends Budgets {
  readonly leases: BudgetLeases
  readonly applicable: ApplicableBudgets
  /** Writes the remaining reports, within this time. */
  close(limitMs: number): Promise<void>
}

/** Opens the accounts of the budgets in use, and of later ones. Reads and writes nothing where there are none. */
export const openBudgets = (deps: BudgetsDeps): OpenBudgets => {
  const leases = new BudgetLeases(deps)
  const changed = (tenantId: string, budget: ApplicableBudget, before: BudgetRow | null): void => {
    void leases.ledger.follow(tenantId)
    const nowMs = deps.monotonicMs()
    if (before !== null && budget.leasesMoreThan(before)) budget.requestsFromMs = nowMs + REPORTED_WITHIN_MS
    // Limits may be lower now, or hold for amounts that were only counted: leases ahead of need are given back, and
    // counted amounts are reported, at once.
    for (const open of [...leases.opens.values(), ...leases.former]) {
      if (open.budget.row.id !== budget.row.id) continue
      open.budget = budget
      if (!leases.former.has(open)) leases.giveBack(open, nowMs)
      if (open.lease.unreportedSinceMs !== null) leases.report(open)
    }
  }
  const applicable = openApplicableBudgets(deps.live, changed)
  const stopChores = startBudgetChores({ ...deps, leases, applicable: applicable })
  return {
    leases,
    applicable,
    of(tenantId, keyId, slug, atMs) {
      const own = applicable.of(tenantId)
      if (own === null) return null
      const whole = own.ofRequest(keyId, slug)
      if (whole.length === 0 && !own.ofCandidates) return null
      return new RequestBudgets(leases, own, whole, atMs, deps.spoolEnd)
    },
    standing: (row) => standingOf(leases, applicable, row),
    figures: (most) => budgetFigures(leases, applicable, (row) => standingOf(leases, applicable, row), most),
    instances: () => holdingInstances(leases.ledger),
    async caughtUp(tenantId, waitMs) {
      let timer: ReturnType<typeof setTimeout> | undefined
      const late = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), waitMs)
      })
      const read = leases.ledger.follow(tenantId).then(() => leases.ledger.accounts(tenantId) !== null)
      const answer = await Promise.race([read, late])
      clearTimeout(timer)
      return answer
    },
    async close(limitMs) {
      stopChores()
      await leases.close(limitMs)
      deps.onNeeded?.(Math.min(deps.spoolEnd(), leases.neededFrom()))
    },
  }
}

const standingOf = (leases: BudgetLeases, applicable: ApplicableBudgets, row: BudgetRow): BudgetStanding | null => {
  const { ledger, opens } = leases
  const budget = applicable.of(row.tenant_id)?.all.get(row.id)
  const accounts = ledger.accounts(row.tenant_id)
  if (budget === undefined || accounts === null) return null
  const { startMs, endMs } = budget.windowOf(ledger.nowMs(row.tenant_id))
  const id = accountId(row.id, startMs, endMs)
  const account = accounts.get(id)
  const lease = opens.get(id)?.lease
  const reported = lease === undefined ? undefined : account?.holders.get(lease.holder)
  const ours = lease === undefined ? NO_AMOUNT : plus(lease.spent, lease.counted)
  const unreported = minus(ours, reported === undefined ? NO_AMOUNT : plus(reported.spent, reported.counted))
  const window = { account: id, budget_id: row.id, window_start_ms: startMs, window_end_ms: endMs }
  // No holder has spent from this window yet: the amounts of overlapping windows count in it nevertheless.
  const settled = account === undefined ? carriedInto(accounts, window) : spentOf(account)
  const spent = plus(settled, unreported)
  const taken = account === undefined ? settled : committed(account)
  return {
    account: id,
    startMs,
    endMs,
    spent,
    reserved: minus(taken, spent),
    overrunNanoUsd: account === undefined ? 0 : overrunOf(account),
    // By the log: an overrun that only this process has observed would close it again after its limits were set.
    closed: account !== undefined && opensAt(row, applicable.hasLimitsHeight()) <= closedUpTo(account),
  }
}
