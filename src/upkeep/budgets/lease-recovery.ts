// Recovery of a spool whose process died: the outcomes hold what that process spent of its leases; the rest of them
// becomes free again.

import { type Amount, NO_AMOUNT } from '../../domain/budgets/amount.ts'
import { overrunIn } from '../../domain/budgets/lease.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { LocalSpool } from '../../log/spool/spool.ts'
import { BudgetWriter, type BudgetWriterDeps, type OpenBudgets } from '../../state/budgets/budgets.ts'
import { budgetOf, type ClosingDeps, closingEvents, isExact, tallyOf } from './closing-events.ts'
import { NOTHING_REPORTED, type ReportedOrphans, writeReportedOrphans } from './reported-orphans.ts'
import { type ByAccount, NO_SUMS, noteNeeded, type SpentByHolder, type Sums, spentIn } from './spool-spending.ts'

const RETRY_MS = 1_000
/** Longer than brokers take for what a process sent before it died. */
const LATE_MS = 15_000

export interface RecoveryDeps extends BudgetWriterDeps, ClosingDeps {
  newEpoch(): string
  readonly diagnostics: Diagnostics
}

/**
 * Closes the leases of every dead process of this spool. Call it once what they left open is settled, and the control
 * state is that of the log: an older state does not have every tenant that spends. Waits while the log is not
 * reachable; until it resolves to true, the spool must keep what `neededFrom` returns. False: this process stops before
 * the recovery is done. `isSettled` false: the cost of something that they left open could not be read. Then what is
 * known is reported, and their leases are held until the rest can be read, or they are retired.
 */
export const recoverLeases = async (
  spool: LocalSpool,
  deps: RecoveryDeps,
  signal: AbortSignal,
  isSettled = true,
): Promise<boolean> => {
  const { end } = spool
  const sums = await spentIn(spool, signal)
  const writer = new BudgetWriter(deps, deps.newEpoch())
  const isDead = () => othersOf(spool, deps.budgets)
  while (!signal.aborted) {
    try {
      const holders = await holdersOf(sums, deps, signal, isDead)
      if (holders === null) return false
      const spent = isSettled ? NOTHING_REPORTED.spent : reportedWithOrphans(holders, deps)
      if (spent.size > 0) writeReportedOrphans(spool, { upTo: end, spent })
      const reported = await reportHolders(spool, holders, writer, deps, isSettled)
      if (signal.aborted) return false
      // This process has spent too meanwhile, and may die before it has reported that.
      const { leases } = deps.budgets
      const isOwn = leases.holder.startsWith(`${spool.instance}.`)
      noteNeeded(spool, isOwn ? Math.min(end, leases.neededFrom()) : end)
      if (reported > 0)
        deps.diagnostics.info('leases_recovered', { spool: spool.number, closed: isSettled ? reported : 0 })
      return true
    } catch (error) {
      // Most often the brokers are not reachable; a report that is repeated changes nothing.
      deps.diagnostics.warn('leases_not_recovered', { spool: spool.number, error })
      await sleep(RETRY_MS, signal)
    }
  }
  return false
}

/**
 * Every process of this spool that is dead for certain. Call it while the spool is owned: the next owner writes under
 * the name of the same instance.
 */
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

/** Which holders are dead, evaluated once the recovery waits for nothing any more. */
export type FindDead = () => (holder: string) => boolean

/**
 * Of a spool that this process owns, all holders but this process are dead. Valid only at the moment of the call: this
 * process may go on under another name.
 */
export const othersOf = (
  { instance }: Pick<LocalSpool, 'instance'>,
  { leases }: OpenBudgets,
): ((holder: string) => boolean) => {
  // When it is retired while it lives, this process still reports itself what it ends under its former name.
  const living = new Set([leases.holder, ...[...leases.former].map(({ lease }) => lease.holder)])
  return (name) => !living.has(name) && name.startsWith(`${instance}.`)
}

/**
 * Closes the leases that reach the log late. A record that a dead process sent may arrive after `recoverLeases` has
 * closed its leases, for an account that did not have the process as a holder until then. `closeLate` waits `lateMs`,
 * searches the ledger for dead holders, and closes their leases. `findDead`: `othersOf` for a spool that this process
 * keeps, `deadOf` at the time of the release for a spool that it releases. Call it after `recoverLeases`, once the
 * requests that were left open are settled. False: this process stops before the recovery is done.
 */
export const closeLate = async (
  spool: Pick<LocalSpool, 'instance' | 'number'>,
  findDead: FindDead,
  deps: RecoveryDeps,
  signal: AbortSignal,
  lateMs = LATE_MS,
): Promise<boolean> => {
  const writer = new BudgetWriter(deps, deps.newEpoch())
  await sleep(lateMs, signal)
  while (!signal.aborted) {
    try {
      const holders = await holdersOf(new Map(), deps, signal, findDead)
      if (holders === null) return false
      const closed = await reportHolders(spool, holders, writer, deps, true)
      deps.diagnostics[closed > 0 ? 'info' : 'debug']('late_leases_closed', { spool: spool.number, closed })
      return true
    } catch (error) {
      if (signal.aborted) return false
      deps.diagnostics.warn('leases_not_recovered', { spool: spool.number, error })
      await sleep(RETRY_MS, signal)
    }
  }
  return false
}

/** Dead holders and their spending, by tenant. */
type Holders = ReadonlyMap<string, SpentByHolder>

/**
 * The reported spending of holders that have orphans and stay open. A recovery that is interrupted runs again, and must
 * not add the orphans once more to what the log has of the holders by then. From this record on the orphans are part of
 * what the holders have spent.
 */
const reportedWithOrphans = (byTenant: Holders, { budgets }: RecoveryDeps): ReportedOrphans['spent'] => {
  const spent = new Map<string, Map<string, Amount>>()
  for (const [tenantId, holders] of byTenant)
    for (const [holder, accounts] of holders)
      for (const [account, sums] of accounts) {
        if (!sums.hasOrphans) continue
        const before = budgets.leases.ledger.account(tenantId, account)?.holders.get(holder)
        sums.spent = tallyOf(account, sums, before).spent
        sums.orphaned = NO_AMOUNT
        spent.set(holder, (spent.get(holder) ?? new Map<string, Amount>()).set(account, sums.spent))
      }
  return spent
}

/** Returns how many holders were reported to the log. */
const reportHolders = async (
  { instance }: Pick<LocalSpool, 'instance'>,
  byTenant: Holders,
  writer: BudgetWriter,
  deps: RecoveryDeps,
  isSettled: boolean,
): Promise<number> => {
  let reported = 0
  for (const [tenantId, holders] of byTenant)
    for (const [holder, accounts] of holders) {
      const events = closingEvents(tenantId, { holder, instance }, accounts, deps, isSettled)
      if (events.length === 0) continue
      await writer.append(tenantId, events, deps.budgets.leases.ledger)
      reported++
    }
  return reported
}

/**
 * The dead processes of this spool, by tenant: with what its outcomes charge them, and also those that the log has and
 * the spool does not. All charges of the outcomes are included, whatever has become of the budget. Null: stopped before
 * all accounts were read.
 */
const holdersOf = async (
  sums: SpentByHolder,
  { budgets, budgetRow }: RecoveryDeps,
  signal: AbortSignal,
  findDead: FindDead,
): Promise<Holders | null> => {
  const { ledger } = budgets.leases
  const tenantOf = (account: string, { tenantId }: Sums) => tenantId ?? budgetRow(budgetOf(account))?.tenant_id
  const charged = [...sums.values()].flatMap((accounts) =>
    [...accounts].map(([account, each]) => tenantOf(account, each)),
  )
  const followed = new Set(charged.filter((id) => id !== undefined))
  const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  // Also what is left of tenants that have no budget any more.
  const all = [ledger.followAll(), ...[...followed].map((tenantId) => ledger.follow(tenantId))]
  await Promise.race([Promise.all(all), ended])
  // A ledger that is closed meanwhile has nothing, and a holder must not be closed with less than it reported.
  if (signal.aborted || ledger.isClosed) return null
  // No wait from here on: this process may be retired while it lives, and go on under another name.
  const isDead = findDead()
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
        put(tenantId, each.holder, account, own ?? { ...NO_SUMS, ...each, ...FROM_LOG, overrun: overrunIn(each) })
        if (own !== undefined) unplaced.delete(own)
      }
  // A charge that is passed over now would never be reported: the mark has to stay before it.
  if (unplaced.size > 0) throw new Error(`nothing says whose ${unplaced.size} charges of the spool are`)
  return byTenant
}

/** The fields of a holder that comes from the log alone. */
const FROM_LOG = { tenantId: undefined, orphaned: NO_AMOUNT, leased: true } as const
