// The contents of one append to `gateway.budgets.v1`: accounts that are new or have other limits, what was spent and
// given back, lease requests. In that order.
import { roomOf } from '../../domain/budgets/account.ts'
import { type Amount, isNothing, minus, NO_AMOUNT, plus } from '../../domain/budgets/amount.ts'
import {
  type BudgetEvent,
  type LeaseTally,
  MOST_ACCOUNTS,
  type RequestedLease,
} from '../../domain/budgets/budget-events.ts'
import type { NewRecord } from '../../log/port.ts'
import { LeaseRequestGroup } from './lease-requests.ts'
import type { BudgetLedger } from './ledger.ts'
import { LEASE_MS, type OpenAccount, termsOf } from './open-account.ts'
import { BudgetWriter, type BudgetWriterDeps } from './writer.ts'

/** Below what any log takes at once (256 records, 448 KiB). */
const MOST_RECORDS = 200
const MOST_BYTES = 192 * 1024

export interface Batch {
  readonly records: NewRecord[]
  /** Accounts of this process's holder that the batch names: the batch renews their leases. */
  readonly named: Set<OpenAccount>
  readonly reported: Set<OpenAccount>
  /** The accounts of this batch that get no further record. */
  readonly closed: Set<OpenAccount>
  readonly requested: LeaseRequestGroup[]
}

export interface Sources {
  readonly opens: Iterable<OpenAccount>
  readonly former: Iterable<OpenAccount>
  readonly groups: Iterable<LeaseRequestGroup>
  requested(group: LeaseRequestGroup): void
}

interface BatchWriterDeps extends BudgetWriterDeps {
  readonly epoch: string
  monotonicMs(): number
}

export class BatchWriter {
  readonly #writer: BudgetWriter
  /** Grows for the life of the process. */
  #sequence = 0

  constructor(
    private readonly deps: BatchWriterDeps,
    private readonly ledger: BudgetLedger,
  ) {
    this.#writer = new BudgetWriter(deps, deps.epoch)
  }

  /** The next batch for a partition; null: there is nothing to write. */
  next(partition: number, { opens, former, groups, requested }: Sources): Batch | null {
    const nowMs = this.deps.monotonicMs()
    const batch: Batch & { bytes: number } = {
      ...{ records: [], named: new Set(), reported: new Set(), closed: new Set(), requested: [], bytes: 0 },
    }
    // The existing records of the partition have to be read first: they show whether an account is new.
    if (!this.ledger.isCaughtUp(partition)) return null
    const here = (open: OpenAccount): boolean => this.ledger.partitionOf(open.tenantId) === partition
    const own = [...opens].filter(here)
    this.#report(
      batch,
      own.filter((open) => isToReport(open, nowMs)),
      'lease.settled',
    )
    const ended = [...former].filter(here).filter(({ lease }) => lease.unreportedSinceMs !== null)
    this.#report(
      batch,
      ended.filter(({ isIdle }) => isIdle),
      'lease.closed',
    )
    this.#report(
      batch,
      ended.filter(({ isIdle }) => !isIdle),
      'lease.settled',
    )
    for (const group of groups) {
      if (!group.due || group.sequence !== null || !here(group.opens[0]!)) continue
      if (isFull(batch)) break
      group.due = false
      if (group.first() !== undefined) this.#request(batch, group, nowMs, requested)
    }
    for (const open of own) {
      if (!open.wantsMore || open.requesting || isFull(batch)) continue
      open.wantsMore = false
      this.#request(batch, new LeaseRequestGroup(`ahead ${open.account}`, [open]), nowMs, requested)
    }
    for (const open of batch.named) open.sentAtMs ??= nowMs
    return batch.records.length === 0 ? null : batch
  }

  /** The batch was not written. */
  takeBack({ reported, requested }: Batch): void {
    const nowMs = this.deps.monotonicMs()
    for (const open of reported) {
      open.lease.unreportedSinceMs ??= nowMs
      open.takeBackMark()
    }
    for (const group of requested) for (const open of group.opens) open.requesting = false
  }

  #add(batch: Batch & { bytes: number }, tenantId: string, event: BudgetEvent): void {
    const record = this.#writer.record(tenantId, event)
    batch.records.push(record)
    batch.bytes += record.value!.length
  }

  #report(
    batch: Batch & { bytes: number },
    opens: readonly OpenAccount[],
    type: 'lease.settled' | 'lease.closed',
  ): void {
    const byWho = Map.groupBy(opens, ({ tenantId, lease }) => `${tenantId} ${lease.holder}`)
    for (const all of byWho.values()) {
      for (let from = 0; from < all.length && !isFull(batch); from += MOST_ACCOUNTS) {
        const some = all.slice(from, from + MOST_ACCOUNTS)
        const { tenantId, lease } = some[0]!
        const accounts: LeaseTally[] = []
        for (const open of some) {
          this.#introduce(batch, open)
          accounts.push(open.lease.tally())
          open.lease.unreportedSinceMs = null
          open.reporting()
          batch.reported.add(open)
          if (type === 'lease.closed') batch.closed.add(open)
          else batch.named.add(open)
        }
        const who = { holder: lease.holder, instance: this.deps.instance }
        if (type === 'lease.settled') this.#add(batch, tenantId, { type, data: { ...who, accounts } })
        else {
          const sums = accounts.map(({ returned: _, ...rest }) => rest)
          this.#add(batch, tenantId, { type, data: { ...who, accounts: sums } })
        }
      }
    }
  }

  /** Writes the account and its limits, if they are new to the partition, before the first record about it. */
  #introduce(batch: Batch & { bytes: number }, open: OpenAccount): void {
    const { tenantId, account: id, budget } = open
    const account = this.ledger.account(tenantId, id)
    if (account === undefined) {
      const forgotten = budget.isHard && this.ledger.mayHaveExpired(tenantId, budget.row, open.startMs)
      const data = { ...open.opened(), ...(forgotten ? { forgotten } : {}) }
      this.#add(batch, tenantId, { type: 'account.opened', data })
    } else if (account.height < budget.row.height) {
      const data = { account: id, ...termsOf(budget.row, budget.hasLimitsHeight()) }
      this.#add(batch, tenantId, { type: 'account.limited', data })
    }
  }

  #request(
    batch: Batch & { bytes: number },
    group: LeaseRequestGroup,
    nowMs: number,
    requested: (group: LeaseRequestGroup) => void,
  ): void {
    const accounts = group.opens.map((open, i) => this.#requestOf(open, group, i, nowMs))
    if (group.first() === undefined && accounts.every(({ want }) => isNothing(want))) return
    for (const open of group.opens) {
      this.#introduce(batch, open)
      open.requesting = true
      open.wantsMore = false
      batch.named.add(open)
    }
    group.sequence = ++this.#sequence
    const { holder } = group.opens[0]!.lease
    const data = { holder, instance: this.deps.instance, sequence: group.sequence, accounts }
    this.#add(batch, group.tenantId, { type: 'lease.requested', data })
    batch.requested.push(group)
    requested(group)
  }

  #requestOf(open: OpenAccount, group: LeaseRequestGroup, place: number, nowMs: number): RequestedLease {
    const account = this.ledger.account(open.tenantId, open.account)
    const free = open.lease.free()
    let wanted: Amount = NO_AMOUNT
    for (const { done, amounts } of group.waiters) if (!done) wanted = plus(wanted, amounts[place]!)
    const first = group.first()?.amounts[place] ?? NO_AMOUNT
    const need = minus(first, free)
    const room = account === undefined ? null : roomOf(account)
    const want = plus(minus(wanted, free), open.ahead(nowMs, account, room))
    return { account: open.account, height: open.budget.row.height, need, want }
  }
}

const isFull = ({ records, bytes }: { records: readonly unknown[]; bytes: number }): boolean =>
  records.length >= MOST_RECORDS - 2 * MOST_ACCOUNTS || bytes >= MOST_BYTES - 48 * 1024

/** Whether an account has an unreported charge, or a lease that would expire. */
const isToReport = ({ lease, budget, account: _ }: OpenAccount, nowMs: number): boolean => {
  if (lease.unreportedSinceMs !== null) return true
  if (!budget.isHard || nowMs < lease.usableUntilMs - LEASE_MS / 2) return false
  const { nano_usd, tokens } = minus(minus(lease.granted, lease.returned), lease.spent)
  return nano_usd > 0 || tokens > 0
}
