// A spool of a process that died has come back: what that process spent of its leases stands in the outcomes, and the rest of them is free again.

import { type Amount, most, NO_AMOUNT, plus } from '../domain/amount.ts'
import type { BudgetRow } from '../domain/budget.ts'
import type { BudgetCharge, BudgetEvent } from '../domain/budget-events.ts'
import type { Holder } from '../domain/holder.ts'
import { overrunIn, overrunSums } from '../domain/lease.ts'
import type { Diagnostics } from '../lib/diagnostics.ts'
import { pause } from '../lib/pause.ts'
import { LogReplaced } from '../log/port.ts'
import { SegmentCursor } from '../log/segment-cursor.ts'
import type { LocalSpool } from '../log/spool.ts'
import { readWatermark, writeWatermark } from '../log/spool-directory.ts'
import type { BudgetLedger } from '../state/budget-ledger.ts'
import { BudgetScribe, type ScribeDeps } from '../state/budget-scribe.ts'
import type { OpenBudgets } from '../state/budgets.ts'

/** Under this name a spool keeps from which record on its outcomes are needed. */
const CONSUMER = 'budgets'
const BATCH_RECORDS = 512
const RETRY_MS = 1_000
const MOST_ACCOUNTS = 32

/** Of one holder in one account. */
interface Sums {
  spent: Amount
  counted: Amount
  overrun: Amount
  /** Settled for it after its death. */
  orphaned: Amount
}
type ByAccount = Map<string, Sums>
export type SpentByHolder = Map<string, ByAccount>

/** From which record on the outcomes of a spool are needed. */
export const neededFrom = (spool: Pick<LocalSpool, 'directory' | 'files'>): number =>
  readWatermark(spool.directory, CONSUMER, 'spool', spool.files)

/** Nothing before this record is needed any more. */
export const noteNeeded = (spool: Pick<LocalSpool, 'directory' | 'files'>, record: number): void =>
  writeWatermark(spool.directory, CONSUMER, 'spool', record, spool.files)

/** What the outcomes of a spool charge to leases, from the record that is still needed. Reads in pieces: the process serves meanwhile. */
export const spentIn = async (
  spool: Pick<LocalSpool, 'directory' | 'files' | 'end'>,
  signal: AbortSignal,
): Promise<SpentByHolder> => {
  const sums: SpentByHolder = new Map()
  const { directory, files, end } = spool
  if (files.size(directory) === null) return sums
  const cursor = new SegmentCursor({ directory, files })
  try {
    if (!seek(cursor, neededFrom(spool))) return sums
    for (;;) {
      const records = cursor.next(BATCH_RECORDS)
      for (const { type, data } of records)
        if (type === 'request.settled' && data.includes('"budget":[')) add(sums, data)
      const last = records.at(-1)
      if (signal.aborted || (last !== undefined && last.record + 1 >= end) || (records.length === 0 && cursor.atEnd))
        break
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
    return sums
  } finally {
    cursor.close()
  }
}

/** What was needed may be gone where an earlier build has deleted it: then all that is there. */
const seek = (cursor: SegmentCursor, record: number): boolean => {
  try {
    return cursor.seek({ record })
  } catch (error) {
    if (error instanceof LogReplaced) return cursor.seek({ record: 0 })
    throw error
  }
}

const add = (sums: SpentByHolder, data: string): void => {
  const { budget } = JSON.parse(data) as { budget?: readonly BudgetCharge[] }
  for (const charge of budget ?? []) {
    const accounts = sums.get(charge.holder) ?? new Map<string, Sums>()
    sums.set(charge.holder, accounts)
    const before = accounts.get(charge.account) ?? {
      spent: NO_AMOUNT,
      counted: NO_AMOUNT,
      overrun: NO_AMOUNT,
      orphaned: NO_AMOUNT,
    }
    const { total } = charge
    if (total === undefined) before.orphaned = plus(before.orphaned, charge)
    else {
      before.spent = most(before.spent, total.spent)
      before.counted = most(before.counted, total.counted)
      before.overrun = most(before.overrun, overrunIn(total))
    }
    accounts.set(charge.account, before)
  }
}

export interface RecoveryDeps extends ScribeDeps {
  readonly budgets: OpenBudgets
  budgetRow(id: string): BudgetRow | undefined
  /** Whoever has a budget, in use or not. */
  tenants(): Iterable<string>
  newEpoch(): string
  readonly diagnostics: Diagnostics
}

/**
 * Closes the leases of every dead process of this spool. Call it once what they left open is settled. Waits while the log is away; until it resolves to
 * true, the spool must keep what `neededFrom` says. False: this process stops before it could.
 */
export const recoverLeases = async (spool: LocalSpool, deps: RecoveryDeps, signal: AbortSignal): Promise<boolean> => {
  const { end } = spool
  const sums = await spentIn(spool, signal)
  const scribe = new BudgetScribe(deps, deps.newEpoch())
  while (!signal.aborted) {
    try {
      const closed = await closeHolders(spool, sums, scribe, deps, signal)
      if (closed === null || signal.aborted) return false
      // This process has spent too meanwhile, and may die before it has told of it.
      const { leases } = deps.budgets
      const isOwn = leases.holder.startsWith(`${spool.instance}.`)
      noteNeeded(spool, isOwn ? Math.min(end, leases.neededFrom()) : end)
      if (closed > 0) deps.diagnostics.info('leases_recovered', { spool: spool.number, closed })
      return true
    } catch (error) {
      // Brokers that are away, most often; what it says twice changes nothing.
      deps.diagnostics.warn('leases_not_recovered', { spool: spool.number, error })
      await pause(RETRY_MS, signal)
    }
  }
  return false
}

/** Null: stopped before all accounts were known. */
const closeHolders = async (
  spool: LocalSpool,
  sums: SpentByHolder,
  scribe: BudgetScribe,
  deps: RecoveryDeps,
  signal: AbortSignal,
): Promise<number | null> => {
  const { budgets, budgetRow } = deps
  const { ledger, holder: own } = budgets.leases
  const byTenant = new Map<string, Map<string, ByAccount>>()
  const put = (tenantId: string, holder: string, account: string, more: Sums) => {
    if (holder === own || !holder.startsWith(`${spool.instance}.`)) return
    const holders = byTenant.get(tenantId) ?? new Map<string, ByAccount>()
    byTenant.set(tenantId, holders)
    const accounts = holders.get(holder) ?? new Map<string, Sums>()
    holders.set(holder, accounts)
    accounts.set(account, more)
  }
  for (const [holder, accounts] of sums)
    for (const [account, each] of accounts) {
      const row = budgetRow(budgetOf(account))
      if (row !== undefined) put(row.tenant_id, holder, account, each)
    }
  const tenants = new Set([...byTenant.keys(), ...deps.tenants()])
  for (const tenantId of tenants) {
    const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    await Promise.race([ledger.follow(tenantId), ended])
    const known = ledger.accounts(tenantId)
    // A ledger that is closed meanwhile knows nothing, and what was told before must not be closed with less.
    if (signal.aborted || known === null) return null
    for (const { account, holders } of known.all())
      for (const each of holders.values())
        if (!isExact(each) && byTenant.get(tenantId)?.get(each.holder)?.has(account) !== true)
          put(tenantId, each.holder, account, { ...each, overrun: overrunIn(each), orphaned: NO_AMOUNT })
  }
  let closed = 0
  for (const [tenantId, holders] of byTenant)
    for (const [holder, accounts] of holders) {
      await scribe.append(tenantId, closings(tenantId, holder, accounts, deps, spool.instance), ledger)
      closed++
    }
  return closed
}

const closings = (
  tenantId: string,
  holder: string,
  accounts: ByAccount,
  { budgets, budgetRow }: RecoveryDeps,
  instance: string,
): BudgetEvent[] => {
  const events: BudgetEvent[] = []
  const all = [...accounts].map(([account, sums]) => {
    const known = budgets.leases.ledger.account(tenantId, account)
    const row = known === undefined ? budgetRow(budgetOf(account)) : undefined
    if (row !== undefined)
      events.push({ type: 'account.opened', data: openedAgain(account, row, budgets.leases.ledger) })
    return { account, ...told(sums, known?.holders.get(holder)) }
  })
  for (let from = 0; from < all.length; from += MOST_ACCOUNTS)
    events.push({ type: 'lease.closed', data: { holder, instance, accounts: all.slice(from, from + MOST_ACCOUNTS) } })
  return events
}

const budgetOf = (account: string): string => account.slice(0, account.indexOf('/'))

/** The larger of what it told and what its outcomes say, and what was settled for it since. What closed it before, unless it was a retirement, knew that too. */
const told = (sums: Sums, before: Holder | undefined) => ({
  spent: plus(most(sums.spent, before === undefined || isExact(before) ? NO_AMOUNT : before.spent), sums.orphaned),
  counted: most(sums.counted, before?.counted ?? NO_AMOUNT),
  ...overrunSums(most(sums.overrun, before === undefined ? NO_AMOUNT : overrunIn(before))),
})

/** Closed with all that it ever spent. */
const isExact = ({ closed, orphaned }: Holder): boolean => closed && orphaned === undefined

/** It was never told of: the process died before it could be. */
const openedAgain = (account: string, row: BudgetRow, ledger: BudgetLedger) => {
  const [startMs = '', endMs = ''] = account.slice(account.indexOf('/') + 1).split('-')
  const { id: budget_id, height, limit_nano_usd, limit_tokens, enforcement } = row
  return {
    account,
    budget_id,
    window_start_ms: Number(startMs),
    window_end_ms: endMs === '' ? null : Number(endMs),
    height,
    limit_nano_usd,
    limit_tokens,
    enforcement,
    ...(ledger.forgets(row.tenant_id, row, Number(startMs)) ? { forgotten: true } : {}),
  }
}
