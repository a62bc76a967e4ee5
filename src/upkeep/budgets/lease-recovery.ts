// A spool of a process that died has come back: what that process spent of its leases stands in the outcomes, and the rest of them is free again.

import { type Amount, NO_AMOUNT } from '../../domain/budgets/amount.ts'
import { overrunIn } from '../../domain/budgets/lease.ts'
import { pause } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { LocalSpool } from '../../log/spool/spool.ts'
import { BudgetScribe, type OpenBudgets, type ScribeDeps } from '../../state/budgets/budgets.ts'
import { budgetOf, isExact, type TellingDeps, tellings, told } from './closing-events.ts'
import { NOTHING_SAID, type OrphansSaid, writeOrphansSaid } from './reported-orphans.ts'
import { type ByAccount, NO_SUMS, noteNeeded, type SpentByHolder, type Sums, spentIn } from './spool-spending.ts'

const RETRY_MS = 1_000
/** Longer than brokers take for what a process sent before it died. */
const LATE_MS = 15_000

export interface RecoveryDeps extends ScribeDeps, TellingDeps {
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
  const isDead = () => othersOf(spool, deps.budgets)
  while (!signal.aborted) {
    try {
      const holders = await holdersOf(sums, deps, signal, isDead)
      if (holders === null) return false
      const spent = isSettled ? NOTHING_SAID.spent : withOrphans(holders, deps)
      if (spent.size > 0) writeOrphansSaid(spool, { upTo: end, spent })
      const told = await tellHolders(spool, holders, scribe, deps, isSettled)
      if (signal.aborted) return false
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
  { budgets }: Pick<RecoveryDeps, 'budgets'>,
): ReadonlySet<string> => {
  const isDead = othersOf(spool, budgets)
  const dead = new Set([...writers].filter(isDead))
  const { ledger } = budgets.leases
  for (const tenantId of ledger.tenants())
    for (const { holders } of ledger.accounts(tenantId)?.all() ?? [])
      for (const holder of holders.keys()) if (isDead(holder)) dead.add(holder)
  return dead
}

/** Who is dead, asked once nothing is waited for any more. */
export type WhoIsDead = () => (holder: string) => boolean

/** Of a spool that is held, everybody but this process is dead. Holds only for the moment: this process may go on under another name. */
export const othersOf = (
  { instance }: Pick<LocalSpool, 'instance'>,
  { leases }: OpenBudgets,
): ((holder: string) => boolean) => {
  // Retired while it lived, this process still says itself what it ends under its former name.
  const living = new Set([leases.holder, ...[...leases.former].map(({ lease }) => lease.holder)])
  return (name) => !living.has(name) && name.startsWith(`${instance}.`)
}

/**
 * What a dead process had under way to the log may come once its leases are closed: one of an account that did not know it yet, or of a process that nobody
 * had heard of. Looks once more, later, and closes that too. `whoIsDead`: of a spool that is still held `othersOf` it; of one that may be another process's by
 * then those who were dead when it was given up, by name. Call it after `recoverLeases`, where what was left open is settled. False: this process stops before
 * it could.
 */
export const closeLate = async (
  spool: Pick<LocalSpool, 'instance' | 'number'>,
  whoIsDead: WhoIsDead,
  deps: RecoveryDeps,
  signal: AbortSignal,
  lateMs = LATE_MS,
): Promise<boolean> => {
  const scribe = new BudgetScribe(deps, deps.newEpoch())
  await pause(lateMs, signal)
  while (!signal.aborted) {
    try {
      const holders = await holdersOf(new Map(), deps, signal, whoIsDead)
      if (holders === null) return false
      const closed = await tellHolders(spool, holders, scribe, deps, true)
      deps.diagnostics[closed > 0 ? 'info' : 'debug']('late_leases_closed', { spool: spool.number, closed })
      return true
    } catch (error) {
      if (signal.aborted) return false
      deps.diagnostics.warn('leases_not_recovered', { spool: spool.number, error })
      await pause(RETRY_MS, signal)
    }
  }
  return false
}

/** By tenant. */
type Holders = ReadonlyMap<string, SpentByHolder>

/**
 * What is said of holders for whom something was settled and who stay open: a recovery that is ended in the middle is made again, and must not add that once
 * more to what the log has of them by then. From here on it is part of what they have spent.
 */
const withOrphans = (byTenant: Holders, { budgets }: RecoveryDeps): OrphansSaid['spent'] => {
  const spent = new Map<string, Map<string, Amount>>()
  for (const [tenantId, holders] of byTenant)
    for (const [holder, accounts] of holders)
      for (const [account, sums] of accounts) {
        if (!sums.hasOrphans) continue
        const before = budgets.leases.ledger.account(tenantId, account)?.holders.get(holder)
        sums.spent = told(account, sums, before).spent
        sums.orphaned = NO_AMOUNT
        spent.set(holder, (spent.get(holder) ?? new Map<string, Amount>()).set(account, sums.spent))
      }
  return spent
}

/** Answers of how many holders the log was told. */
const tellHolders = async (
  { instance }: Pick<LocalSpool, 'instance'>,
  byTenant: Holders,
  scribe: BudgetScribe,
  deps: RecoveryDeps,
  isSettled: boolean,
): Promise<number> => {
  let told = 0
  for (const [tenantId, holders] of byTenant)
    for (const [holder, accounts] of holders) {
      const events = tellings(tenantId, { holder, instance }, accounts, deps, isSettled)
      if (events.length === 0) continue
      await scribe.append(tenantId, events, deps.budgets.leases.ledger)
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
  { budgets, budgetRow }: RecoveryDeps,
  signal: AbortSignal,
  whoIsDead: WhoIsDead,
): Promise<Holders | null> => {
  const { ledger } = budgets.leases
  const tenantOf = (account: string, { tenantId }: Sums) => tenantId ?? budgetRow(budgetOf(account))?.tenant_id
  const charged = [...sums.values()].flatMap((accounts) =>
    [...accounts].map(([account, each]) => tenantOf(account, each)),
  )
  const followed = new Set(charged.filter((id) => id !== undefined))
  const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  // Also what is left of tenants who have no budget any more.
  const all = [ledger.followAll(), ...[...followed].map((tenantId) => ledger.follow(tenantId))]
  await Promise.race([Promise.all(all), ended])
  // A ledger that is closed meanwhile knows nothing, and what was told before must not be closed with less.
  if (signal.aborted || ledger.isClosed) return null
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
  for (const tenantId of ledger.tenants())
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
