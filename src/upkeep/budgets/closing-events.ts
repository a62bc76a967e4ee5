// What is reported to the log about a dead holder, from what the log has of it and from the outcomes. Reads and writes
// nothing.

import { type Account, RETAINED_MS } from '../../domain/budgets/account.ts'
import { isNothing, minus, most, NO_AMOUNT, plus } from '../../domain/budgets/amount.ts'
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import type { AccountOpened, BudgetEvent, LeaseClosed, LeaseTally } from '../../domain/budgets/budget-events.ts'
import { type Holder, MOST_HOLDERS } from '../../domain/budgets/holder.ts'
import { overrunIn, overrunSums } from '../../domain/budgets/lease.ts'
import { type OpenBudgets, termsOf } from '../../state/budgets/budgets.ts'
import type { ByAccount, Sums } from './spool-spending.ts'

/** Accounts in one record here: well below the most that one may name. */
const ACCOUNTS_A_RECORD = 32
/**
 * No holder is taken for forgotten sooner: half of the time for which accounts remember closed holders, since clocks
 * differ.
 */
const FORGOTTEN_MS = RETAINED_MS / 2
/** Unless there are many of them. */
const MANY_HOLDERS = MOST_HOLDERS / 2

export interface ClosingDeps {
  readonly budgets: OpenBudgets
  budgetRow(id: string): BudgetRow | undefined
}

type HolderName = Pick<LeaseClosed, 'holder' | 'instance'>

/** The events that bring the log's state of a holder up to date; none when it is. */
export const closingEvents = (
  tenantId: string,
  name: HolderName,
  accounts: ByAccount,
  { budgets, budgetRow }: ClosingDeps,
  isSettled: boolean,
): BudgetEvent[] => {
  const { ledger } = budgets.leases
  const events: BudgetEvent[] = []
  const all: LeaseTally[] = []
  for (const [account, sums] of accounts) {
    const known = ledger.account(tenantId, account)
    const before = known?.holders.get(name.holder)
    const tally = tallyOf(account, sums, before)
    if (
      before === undefined
        ? isForgotten(known, sums, ledger.place(tenantId).logAtMs)
        : !isNews(tally, before, isSettled)
    )
      continue
    if (known === undefined) {
      const data = openedAgain(tenantId, account, budgetRow(budgetOf(account)), budgets)
      events.push({ type: 'account.opened', data })
    }
    all.push(tally)
  }
  for (let from = 0; from < all.length; from += ACCOUNTS_A_RECORD) {
    const some = all.slice(from, from + ACCOUNTS_A_RECORD)
    if (isSettled) {
      const sums = some.map(({ returned: _, ...rest }) => rest)
      events.push({ type: 'lease.closed', data: { ...name, accounts: sums } })
    } else events.push({ type: 'lease.settled', data: { ...name, accounts: some } })
  }
  return events
}

/** Id of the budget in the name of an account. */
export const budgetOf = (account: string): string => account.slice(0, account.indexOf('/'))

/**
 * The larger of what the holder reported and what its outcomes charge, and what was settled for it since. An event that
 * closed it before, unless it was a retirement, included that.
 */
export const tallyOf = (account: string, sums: Sums, before: Holder | undefined): LeaseTally => ({
  account,
  returned: before?.returned ?? NO_AMOUNT,
  spent: plus(most(sums.spent, before === undefined || isExact(before) ? NO_AMOUNT : before.spent), sums.orphaned),
  counted: most(sums.counted, before?.counted ?? NO_AMOUNT),
  ...overrunSums(most(sums.overrun, before === undefined ? NO_AMOUNT : overrunIn(before))),
})

/** Closed with all that it ever spent. */
export const isExact = ({ closed, orphaned }: Holder): boolean => closed && orphaned === undefined

/** Whether the tally changes what the log has of a holder. */
const isNews = (tally: LeaseTally, before: Holder, closes: boolean): boolean =>
  (closes && !isExact(before)) ||
  !isNothing(minus(tally.spent, before.spent)) ||
  !isNothing(minus(tally.counted, before.counted)) ||
  !isNothing(minus(overrunIn(tally), overrunIn(before)))

/**
 * A holder that spent from a lease was granted it in this account. That the account does not list it means that it was
 * closed, with all that it spent, so long ago that its name is forgotten: a second report would count twice. Not so
 * where the account's own past may have expired from the log, nor where the holder has spent too lately for that: then
 * the log has lost what it once held.
 */
const isForgotten = (account: Account | undefined, { leased, newestMs }: Sums, logAtMs: number): boolean =>
  account !== undefined &&
  account.forgotten !== true &&
  leased &&
  (newestMs <= logAtMs - FORGOTTEN_MS || account.holders.size > MANY_HOLDERS)

/**
 * The log does not have the holder: the process died before it reported. The terms of a deleted budget are unknown;
 * should it come back, it brings them.
 */
const openedAgain = (
  tenantId: string,
  account: string,
  row: BudgetRow | undefined,
  { leases: { ledger }, applicable }: OpenBudgets,
): AccountOpened => {
  const budget_id = budgetOf(account)
  const [startMs = '', endMs = ''] = account.slice(budget_id.length + 1).split('-')
  const isLost = row !== undefined && ledger.mayHaveExpired(tenantId, row, Number(startMs))
  return {
    account,
    budget_id,
    window_start_ms: Number(startMs),
    window_end_ms: endMs === '' ? null : Number(endMs),
    ...(row === undefined ? NO_TERMS : termsOf(row, applicable.hasLimitsHeight())),
    ...(isLost ? { forgotten: true } : {}),
  }
}

/** Below the height of every decision. */
const NO_TERMS = { height: 0, limit_nano_usd: null, limit_tokens: null, enforcement: 'soft' } as const
