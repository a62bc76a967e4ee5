// The leases of this process: reserved from in memory, granted by the log, reported to it, given back when other
// holders need them. Only this class writes records of a holder.
import { type Account, accountId } from '../../domain/budgets/account.ts'
import { type Amount, isNothing } from '../../domain/budgets/amount.ts'
import type { BudgetEvent } from '../../domain/budgets/budget-events.ts'
import type { Holder } from '../../domain/budgets/holder.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { EventLog } from '../../log/port.ts'
import type { ApplicableBudget } from './applicable.ts'
import { type Batch, BatchWriter } from './batch.ts'
import { canDraw, type Draw, drawn, TAKEN, type Taken } from './lease-requests.ts'
import { LeaseWaiters } from './lease-waiters.ts'
import { BudgetLedger, type FoldedRecord } from './ledger.ts'
import { LEASE_MS, OpenAccount } from './open-account.ts'
import { BudgetSender } from './sender.ts'

export interface LeasesDeps {
  readonly log: EventLog
  readonly instance: string
  readonly epoch: string
  /** As the chain records it. */
  partitions(): number
  nowMs(): number
  monotonicMs(): number
  readonly diagnostics: Diagnostics
  newEpoch(): string
}

/** Bound of the diagnostics about left-out budgets, for the life of the process. */
const MOST_LEFT_OUT = 256

const isOwn = ({ type, data }: BudgetEvent, holder: string): boolean =>
  (type === 'lease.requested' || type === 'lease.settled') && data.holder === holder

export class BudgetLeases {
  readonly ledger: BudgetLedger
  /** Open accounts by name. */
  readonly opens = new Map<string, OpenAccount>()
  /** Accounts of a holder that was retired while it was live: still reported, never spent from. */
  readonly former = new Set<OpenAccount>()
  readonly #waiters: LeaseWaiters
  readonly #writer: BatchWriter
  readonly #sender: BudgetSender
  /** Budgets with a diagnostic that they were left out. */
  readonly #leftOut = new Set<string>()
  #closing = false
  holder: string

  constructor(readonly deps: LeasesDeps) {
    this.holder = `${deps.instance}.${deps.epoch}`
    this.ledger = new BudgetLedger({ ...deps, onFolded: (record) => this.#folded(record) })
    this.#writer = new BatchWriter(deps, this.ledger)
    this.#waiters = new LeaseWaiters({
      ledger: this.ledger,
      monotonicMs: deps.monotonicMs,
      holder: () => this.holder,
      tryTake: (opens, amounts, nowMs) => this.#tryTake(opens, amounts, nowMs),
      due: ({ tenantId }) => this.#sender.run(this.ledger.partitionOf(tenantId)),
      isLogDown: () => this.#sender.downSinceMs !== null,
      unneeded: (open, nowMs) => this.#giveBackContended(open, nowMs),
    })
    this.#sender = new BudgetSender({
      log: deps.log,
      diagnostics: deps.diagnostics,
      monotonicMs: deps.monotonicMs,
      next: (partition) => this.#next(partition),
      written: (batch) => {
        for (const open of batch.reported) open.reported()
        // A request may have begun to draw from it meanwhile: its charge is reported once it is done.
        for (const open of batch.closed) if (open.isIdle && open.neededFrom === null) this.former.delete(open)
      },
      failed: (batch) => {
        for (const open of batch.named) open.sentAtMs = null
        this.#writer.takeBack(batch)
        for (const group of batch.requested) this.#waiters.unreachable(group)
      },
    })
  }

  /** Since when the log does not take reports (monotonic); null: it does. */
  get downSinceMs(): number | null {
    return this.#sender.downSinceMs
  }

  /** Requests that wait for a lease. */
  get waiting(): number {
    return this.#waiters.waiting
  }

  /** The account of a budget's window at this time, which is opened here on first use. */
  open(tenantId: string, budget: ApplicableBudget, nowMs: number): OpenAccount {
    if (!budget.moveTo(nowMs) && budget.account !== null) return budget.account
    budget.account = this.openWindow(tenantId, budget, budget.startMs, budget.endMs)
    return budget.account
  }

  openWindow(tenantId: string, budget: ApplicableBudget, startMs: number, endMs: number | null): OpenAccount {
    const id = accountId(budget.row.id, startMs, endMs)
    const present = this.opens.get(id) ?? this.#closedOf(id)
    if (present !== undefined) {
      present.budget = budget
      return present
    }
    const opened = new OpenAccount({ tenantId, budget, account: id, startMs, endMs, holder: this.holder })
    const account = this.ledger.account(tenantId, id)
    opened.followFold(account)
    const own = account?.holders.get(this.holder)
    if (own !== undefined) opened.lease.resume({ ...own, account: id })
    this.opens.set(id, opened)
    void this.ledger.follow(tenantId).then(() => this.report(opened))
    return opened
  }

  /**
   * An account that is closed because the process stops: requests under way continue with its sums, since a second
   * lease of the same holder would report other sums.
   */
  #closedOf(id: string): OpenAccount | undefined {
    if (!this.#closing) return undefined
    for (const open of this.former) if (open.account === id && open.lease.holder === this.holder) return open
    return undefined
  }

  /**
   * Reserves all that is drawn or nothing. Waits, for a bounded time, only when a lease does not hold enough, or when
   * earlier requests wait for it.
   */
  take(draws: readonly Draw[]): Taken | Promise<Taken> {
    const nowMs = this.deps.monotonicMs()
    if (!canDraw(draws, nowMs)) return this.#waiters.wait(...drawn(draws), nowMs)
    for (let i = 0; i < draws.length; i++) {
      const { open, isDrawing, drawNanoUsd, drawTokens } = draws[i]!
      if (isDrawing) this.#draw(open, drawNanoUsd, drawTokens, nowMs)
    }
    return TAKEN
  }

  /** Writes what is new of an account to the log. */
  report({ tenantId }: OpenAccount): void {
    this.#sender.run(this.ledger.partitionOf(tenantId))
  }

  /** An amount was released: waiting requests are served again, and an amount that other holders need is given back. */
  freed(open: OpenAccount): void {
    if (this.former.has(open)) {
      open.lease.unreportedSinceMs ??= this.deps.monotonicMs()
      if (open.isIdle) this.report(open)
    } else if (open.isStopped) this.#void(open)
    else {
      if (open.waiting > 0) this.#waiters.serve()
      if (open.contendedUntilMs > 0) this.#giveBackContended(open, this.deps.monotonicMs())
    }
  }

  /** Gives back the free amount of a contended account. */
  #giveBackContended(open: OpenAccount, nowMs: number): void {
    if (!this.former.has(open) && open.isContended(nowMs)) this.giveBack(open, nowMs)
  }

  /**
   * The records of a request had no room for this account: the budget is only counted, and does not count this request.
   * One diagnostic for each budget.
   */
  leftOut({ budget: { row }, account }: OpenAccount): void {
    if (this.#leftOut.has(row.id) || this.#leftOut.size >= MOST_LEFT_OUT) return
    this.#leftOut.add(row.id)
    this.deps.diagnostics.warn('budget_left_out', { budget: row.id, account })
  }

  /**
   * An attempt has cost more than it had reserved. From now on this process takes nothing of the account; other holders
   * read the overrun in the log.
   */
  overran(open: OpenAccount): void {
    const account = this.ledger.account(open.tenantId, open.account)
    for (const each of new Set([open, this.opens.get(open.account) ?? open])) {
      each.overran(account)
      this.#void(each)
    }
    this.#waiters.serve()
  }

  /** Only reserved amounts may still be spent: the rest goes back, even while requests wait for it. */
  #void(open: OpenAccount): void {
    const free = open.lease.free()
    if (isNothing(free)) return
    open.lease.giveBack(free, this.deps.monotonicMs())
    this.report(open)
  }

  giveBack(open: OpenAccount, nowMs: number): void {
    const free = open.lease.free()
    if (isNothing(free) || open.isNeeded) return
    open.lease.giveBack(free, nowMs)
    this.report(open)
  }

  /**
   * Ends the waits and closes the leases without requests under way, within this time. Amounts that are not reported in
   * time are in the spool.
   */
  async close(limitMs: number): Promise<void> {
    this.#waiters.close()
    this.#closing = true
    const nowMs = this.deps.monotonicMs()
    for (const open of this.opens.values()) {
      this.former.add(open)
      open.lease.giveBack(open.lease.free(), nowMs)
    }
    this.opens.clear()
    for (const open of this.former) this.report(open)
    await this.#sender.close(limitMs)
    await this.ledger.close()
  }

  /** `take` for a request that has waited. */
  #tryTake(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): boolean {
    for (let i = 0; i < opens.length; i++)
      if (!opens[i]!.has(amounts[i]!.nano_usd, amounts[i]!.tokens, nowMs)) return false
    for (let i = 0; i < opens.length; i++) this.#draw(opens[i]!, amounts[i]!.nano_usd, amounts[i]!.tokens, nowMs)
    return true
  }

  #draw(open: OpenAccount, nanoUsd: number, tokens: number, nowMs: number): void {
    open.draw(nanoUsd, tokens, nowMs)
    if (open.requesting || open.wantsMore || !open.isLow() || open.isContended(nowMs)) return
    open.wantsMore = true
    this.report(open)
  }

  /**
   * The first record of the spool that is needed to recover what was spent if this process dies; Infinity: all of it is
   * reported.
   */
  neededFrom(): number {
    let needed = Number.POSITIVE_INFINITY
    for (const open of this.opens.values()) needed = Math.min(needed, open.neededFrom ?? needed)
    for (const open of this.former) needed = Math.min(needed, open.neededFrom ?? needed)
    return needed
  }

  #next(partition: number): Batch | null {
    return this.#writer.next(partition, {
      opens: this.opens.values(),
      former: this.former,
      groups: this.#waiters.groups,
      requested: (group) => this.#waiters.sent(group),
    })
  }

  #folded({ event, changed, verdict }: FoldedRecord): void {
    const nowMs = this.deps.monotonicMs()
    let closed = false
    for (const account of changed) {
      const open = this.opens.get(account.account)
      if (open === undefined) continue
      open.followFold(account)
      const own = account.holders.get(this.holder)
      if (own !== undefined && open.lease.holder === this.holder) {
        closed ||= own.closed
        this.#granted(open, own, isOwn(event, this.holder), nowMs)
      }
      if (open.isStopped) this.#void(open)
    }
    if (closed && !this.#closing) this.#renew()
    if (event.type === 'lease.requested' && verdict !== null && verdict.kind !== 'repeat') {
      if (event.data.holder === this.holder) this.#waiters.decided(event.data.sequence, verdict)
      else if (verdict.kind === 'refused' && verdict.reason === 'spent') this.#contended(event.data.accounts, nowMs)
    }
    if (changed.length > 0) this.#waiters.serve()
    if (verdict?.kind === 'granted') this.#unneeded(changed, nowMs)
  }

  /**
   * Gives back free amounts where other holders are short of them, or where they were granted by earlier terms: the
   * limits may be lower now.
   */
  #unneeded(changed: readonly Account[], nowMs: number): void {
    for (const { account, height } of changed) {
      const open = this.opens.get(account)
      if (open === undefined) continue
      if (height < open.budget.row.height || open.isContended(nowMs)) this.giveBack(open, nowMs)
    }
  }

  /**
   * `isNews`: the record is this process's own. A record of the holder in the log proves that it was not retired
   * before; the lease is valid from when the record was sent.
   */
  #granted(open: OpenAccount, { granted, closed }: Holder, isNews: boolean, nowMs: number): void {
    open.granted(granted, nowMs)
    if (open.sentAtMs === null || closed || !isNews) return
    open.lease.usableUntilMs = open.sentAtMs + LEASE_MS
    open.sentAtMs = null
  }

  /** Another holder is short of an account from which this process may lease. */
  #contended(requested: readonly { readonly account: string }[], nowMs: number): void {
    for (const { account } of requested) {
      const open = this.opens.get(account)
      if (open === undefined) continue
      open.contend(nowMs)
      this.giveBack(open, nowMs)
    }
  }

  /**
   * This instance was retired while it was live (it was silent for very long): it continues under another holder name.
   * Leases of the former name are not spent from, and what was spent of them is reported.
   */
  #renew(): void {
    const nowMs = this.deps.monotonicMs()
    this.holder = `${this.deps.instance}.${this.deps.newEpoch()}`
    for (const [id, open] of this.opens) {
      open.lease.usableUntilMs = 0
      open.lease.unreportedSinceMs ??= nowMs
      open.budget.account = null
      this.former.add(open)
      const { tenantId, budget, startMs, endMs } = open
      const next = new OpenAccount({ tenantId, budget: budget, account: id, startMs, endMs, holder: this.holder })
      next.continueFrom(open, this.ledger.account(open.tenantId, id))
      this.opens.set(id, next)
    }
    // Waiting requests would request leases under the former name.
    this.#waiters.clear()
    for (const open of this.former) this.report(open)
    this.deps.diagnostics.warn('budget_holder_retired', { holder: this.holder })
  }
}
