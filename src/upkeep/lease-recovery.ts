// A spool of a process that died has come back: what that process spent of its leases stands in the outcomes, and the rest of them is free again.

import { type Account, REMEMBERED_MS } from '../domain/account.ts'
import { isNothing, minus, most, NO_AMOUNT, plus } from '../domain/amount.ts'
import type { BudgetRow } from '../domain/budget.ts'
import type { AccountOpened, BudgetEvent, LeaseClosed, LeaseTally } from '../domain/budget-events.ts'
import { type Holder, MOST_HOLDERS } from '../domain/holder.ts'
import { overrunIn, overrunSums } from '../domain/lease.ts'
import type { Diagnostics } from '../lib/diagnostics.ts'
import { pause } from '../lib/pause.ts'
import type { LocalSpool } from '../log/spool.ts'
import { termsOf } from '../state/budget-open.ts'
import { BudgetScribe, type ScribeDeps } from '../state/budget-scribe.ts'
import type { OpenBudgets } from '../state/budgets.ts'
import { type ByAccount, NO_SUMS, noteNeeded, type SpentByHolder, type Sums, spentIn } from './spool-spending.ts'

const RETRY_MS = 1_000
/** Accounts that one record names here: well below the most that one may. */
const ACCOUNTS_A_RECORD = 32
/** Longer than brokers take for what a process sent before it died. */
const LATE_MS = 15_000
/** Nobody is forgotten sooner: half of what accounts remember closed holders for, since clocks differ. */
const FORGOTTEN_MS = REMEMBERED_MS / 2
/** Unless there are many of them. */
const MANY_HOLDERS = MOST_HOLDERS / 2

export interface RecoveryDeps extends ScribeDeps {
  readonly budgets: OpenBudgets
  budgetRow(id: string): BudgetRow | undefined
  /** Whoever has a budget, in use or not. */
  tenants(): Iterable<string>
  newEpoch(): string
  readonly diagnostics: Diagnostics
}

/**
 * Closes the leases of every dead process of this spool. Call it once what they left open is settled, and the control state is that of the log: an old one
 * does not know every tenant that spends. Waits while the log is away; until it resolves to true, the spool must keep what `neededFrom` says. False: this
 * process stops before it could. `isSettled` false: of something that they left open nobody could read what it cost. Then what is known is told, and their
 * leases are held until it can be read, or they are retired.
 */
export const recoverLeases = async (
  spool: LocalSpool,
  deps: RecoveryDeps,
  signal: AbortSignal,
  isSettled = true,
): Promise<boolean> => {
  const { end } = spool
  const sums = await spentIn(spool, signal)
  const scribe = new BudgetScribe(deps, deps.newEpoch())
  while (!signal.aborted) {
    try {
      const isDead = () => othersOf(spool, deps.budgets)
      const told = await tellHolders(spool, sums, scribe, deps, signal, isSettled, isDead)
      if (told === null || signal.aborted) return false
      // This process has spent too meanwhile, and may die before it has told of it.
      const { leases } = deps.budgets
      const isOwn = leases.holder.startsWith(`${spool.instance}.`)
      noteNeeded(spool, isOwn ? Math.min(end, leases.neededFrom()) : end)
      if (told > 0) deps.diagnostics.info('leases_recovered', { spool: spool.number, closed: isSettled ? told : 0 })
      return true
    } catch (error) {
      // Brokers that are away, most often; what it says twice changes nothing.
      deps.diagnostics.warn('leases_not_recovered', { spool: spool.number, error })
      await pause(RETRY_MS, signal)
    }
  }
  return false
}

/** Every process of this spool that is dead for certain. Call it while the spool is held: whoever takes it next speaks in the name of the same instance. */
export const deadOf = (
  spool: Pick<LocalSpool, 'instance'>,
  writers: ReadonlySet<string>,
  { budgets, tenants }: Pick<RecoveryDeps, 'budgets' | 'tenants'>,
): ReadonlySet<string> => {
  const isDead = othersOf(spool, budgets)
  const dead = new Set([...writers].filter(isDead))
  for (const tenantId of tenants())
    for (const { holders } of budgets.leases.ledger.accounts(tenantId)?.all() ?? [])
      for (const holder of holders.keys()) if (isDead(holder)) dead.add(holder)
  return dead
}

/** Of a spool that is held, everybody but this process is dead. Holds only for the moment: this process may go on under another name. */
const othersOf = ({ instance }: Pick<LocalSpool, 'instance'>, { leases }: OpenBudgets): ((name: string) => boolean) => {
  // Retired while it lived, this process still says itself what it ends under its former name.
  const living = new Set([leases.holder, ...[...leases.former].map(({ lease }) => lease.holder)])
  return (name) => !living.has(name) && name.startsWith(`${instance}.`)
}

/**
 * What a dead process had under way to the log may come once its leases are closed: one of an account that did not know it yet. Looks once more, later, and
 * closes that too. Only of `dead`, who are known by name: the spool may be another process's by now. Call it after `recoverLeases`, where what was left open
 * is settled.
 */
export const closeLate = async (
  spool: Pick<LocalSpool, 'instance' | 'number'>,
  dead: ReadonlySet<string>,
  deps: RecoveryDeps,
  signal: AbortSignal,
  lateMs = LATE_MS,
): Promise<void> => {
  const scribe = new BudgetScribe(deps, deps.newEpoch())
  await pause(lateMs, signal)
  while (!signal.aborted) {
    try {
      await tellHolders(spool, new Map(), scribe, deps, signal, true, () => (name) => dead.has(name))
      return
    } catch (error) {
      if (signal.aborted) return
      deps.diagnostics.warn('leases_not_recovered', { spool: spool.number, error })
      await pause(RETRY_MS, signal)
    }
  }
}

/** Asked once nothing is waited for any more. */
type WhoIsDead = () => (holder: string) => boolean

/** Answers of how many holders the log was told. Null: stopped before all accounts were known. */
const tellHolders = async (
  spool: Pick<LocalSpool, 'instance'>,
  sums: SpentByHolder,
  scribe: BudgetScribe,
  deps: RecoveryDeps,
  signal: AbortSignal,
  isSettled: boolean,
  whoIsDead: WhoIsDead,
): Promise<number | null> => {
  const { ledger } = deps.budgets.leases
  const byTenant = await holdersOf(sums, deps, signal, whoIsDead)
  if (byTenant === null) return null
  let told = 0
  for (const [tenantId, holders] of byTenant)
    for (const [holder, accounts] of holders) {
      const who = { holder, instance: spool.instance }
      const events = tellings(tenantId, who, accounts, deps, isSettled)
      if (events.length === 0) continue
      await scribe.append(tenantId, events, ledger)
      told++
    }
  return told
}

/**
 * By tenant, the dead processes of this spool: what its outcomes charge them, and those of whom the log knows and the spool nothing. All of what the outcomes
 * charge is in it, whatever has become of the budget. Null: stopped before all accounts were known.
 */
const holdersOf = async (
  sums: SpentByHolder,
  { budgets, budgetRow, tenants }: RecoveryDeps,
  signal: AbortSignal,
  whoIsDead: WhoIsDead,
): Promise<Map<string, SpentByHolder> | null> => {
  const { ledger } = budgets.leases
  const tenantOf = (account: string, { tenantId }: Sums) => tenantId ?? budgetRow(budgetOf(account))?.tenant_id
  const charged = [...sums.values()].flatMap((accounts) =>
    [...accounts].map(([account, each]) => tenantOf(account, each)),
  )
  const followed = new Set([...charged.filter((id) => id !== undefined), ...tenants()])
  for (const tenantId of followed) {
    const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    await Promise.race([ledger.follow(tenantId), ended])
    // A ledger that is closed meanwhile knows nothing, and what was told before must not be closed with less.
    if (signal.aborted || ledger.accounts(tenantId) === null) return null
  }
  // Nothing is waited for from here on: this process may be retired while it lives, and go on under another name.
  const isDead = whoIsDead()
  const byTenant = new Map<string, SpentByHolder>()
  const put = (tenantId: string, holder: string, account: string, more: Sums) => {
    const holders = byTenant.get(tenantId) ?? new Map<string, ByAccount>()
    byTenant.set(tenantId, holders)
    const accounts = holders.get(holder) ?? new Map<string, Sums>()
    holders.set(holder, accounts)
    accounts.set(account, more)
  }
  const unplaced = new Set<Sums>()
  for (const [holder, accounts] of sums)
    for (const [account, each] of accounts) {
      if (!isDead(holder)) continue
      const tenantId = tenantOf(account, each)
      if (tenantId === undefined) unplaced.add(each)
      else put(tenantId, holder, account, each)
    }
  for (const tenantId of followed)
    for (const { account, holders } of ledger.accounts(tenantId)?.all() ?? [])
      for (const each of holders.values()) {
        if (!isDead(each.holder) || isExact(each)) continue
        const own = sums.get(each.holder)?.get(account)
        put(tenantId, each.holder, account, own ?? { ...NO_SUMS, ...each, ...KNOWN, overrun: overrunIn(each) })
        if (own !== undefined) unplaced.delete(own)
      }
  // What is passed over now would never be told: the mark has to stay before it.
  if (unplaced.size > 0) throw new Error(`nothing says whose ${unplaced.size} charges of the spool are`)
  return byTenant
}

/** Of a holder as the log has it. */
const KNOWN = { tenantId: undefined, orphaned: NO_AMOUNT, leased: true } as const

type Who = Pick<LeaseClosed, 'holder' | 'instance'>

/** What the log does not know of a holder yet; none: nothing. */
const tellings = (
  tenantId: string,
  who: Who,
  accounts: ByAccount,
  { budgets, budgetRow }: RecoveryDeps,
  isSettled: boolean,
): BudgetEvent[] => {
  const { ledger } = budgets.leases
  const events: BudgetEvent[] = []
  const all: LeaseTally[] = []
  for (const [account, sums] of accounts) {
    const known = ledger.account(tenantId, account)
    const before = known?.holders.get(who.holder)
    const tally = told(account, sums, before)
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
      events.push({ type: 'lease.closed', data: { ...who, accounts: sums } })
    } else events.push({ type: 'lease.settled', data: { ...who, accounts: some } })
  }
  return events
}

const budgetOf = (account: string): string => account.slice(0, account.indexOf('/'))

/** The larger of what it told and what its outcomes say, and what was settled for it since. What closed it before, unless it was a retirement, knew that too. */
const told = (account: string, sums: Sums, before: Holder | undefined): LeaseTally => ({
  account,
  returned: before?.returned ?? NO_AMOUNT,
  spent: plus(most(sums.spent, before === undefined || isExact(before) ? NO_AMOUNT : before.spent), sums.orphaned),
  counted: most(sums.counted, before?.counted ?? NO_AMOUNT),
  ...overrunSums(most(sums.overrun, before === undefined ? NO_AMOUNT : overrunIn(before))),
})

/** Closed with all that it ever spent. */
const isExact = ({ closed, orphaned }: Holder): boolean => closed && orphaned === undefined

/** Whether it changes what the log knows of a holder. */
const isNews = (tally: LeaseTally, before: Holder, closes: boolean): boolean =>
  (closes && !isExact(before)) ||
  !isNothing(minus(tally.spent, before.spent)) ||
  !isNothing(minus(tally.counted, before.counted)) ||
  !isNothing(minus(overrunIn(tally), overrunIn(before)))

/**
 * Whoever spent from a lease was granted it in this account. That the account does not know him says that he was closed, with all that he spent, so long ago
 * that his name is forgotten: told again it would count twice. Not so where the account's own past may have expired from the log, nor where he has spent too
 * lately for that: then the log has lost what it once held.
 */
const isForgotten = (account: Account | undefined, { leased, newestMs }: Sums, logAtMs: number): boolean =>
  account !== undefined &&
  account.forgotten !== true &&
  leased &&
  (newestMs <= logAtMs - FORGOTTEN_MS || account.holders.size > MANY_HOLDERS)

/** The log does not know it: the process died before it could tell. Of a budget that is gone nobody can say the terms; should it come back, it brings them. */
const openedAgain = (
  tenantId: string,
  account: string,
  row: BudgetRow | undefined,
  { leases: { ledger }, lines }: OpenBudgets,
): AccountOpened => {
  const budget_id = budgetOf(account)
  const [startMs = '', endMs = ''] = account.slice(budget_id.length + 1).split('-')
  const isLost = row !== undefined && ledger.forgets(tenantId, row, Number(startMs))
  return {
    account,
    budget_id,
    window_start_ms: Number(startMs),
    window_end_ms: endMs === '' ? null : Number(endMs),
    ...(row === undefined ? NO_TERMS : termsOf(row, lines.saysLimitsHeight())),
    ...(isLost ? { forgotten: true } : {}),
  }
}

/** Below the height of every decision. */
const NO_TERMS = { height: 0, limit_nano_usd: null, limit_tokens: null, enforcement: 'soft' } as const
