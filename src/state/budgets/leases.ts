// The leases of this process: reserved from in memory, granted by the log, told to it, given back when others need them. Only this writes what a holder says.
import { type Account, accountId } from '../../domain/budgets/account.ts'
import { type Amount, isNothing } from '../../domain/budgets/amount.ts'
import type { BudgetEvent } from '../../domain/budgets/budget-events.ts'
import type { Holder } from '../../domain/budgets/holder.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { EventLog } from '../../log/port.ts'
import type { BudgetLine } from './applicable.ts'
import { type Batch, BatchWriter } from './batch.ts'
import { canDraw, type Draw, drawn, TAKEN, type Taken } from './lease-requests.ts'
import { BudgetWaits } from './lease-waiters.ts'
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

/** So many are said to be left out of records, for the life of the process. */
const MOST_LEFT_OUT = 256

const isOwn = ({ type, data }: BudgetEvent, holder: string): boolean =>
  (type === 'lease.requested' || type === 'lease.settled') && data.holder === holder

export class BudgetLeases {
  readonly ledger: BudgetLedger
  /** By account. */
  readonly opens = new Map<string, OpenAccount>()
  /** Of a holder that was retired while it lived: still told, never spent from. */
  readonly former = new Set<OpenAccount>()
  readonly #waits: BudgetWaits
  readonly #writer: BatchWriter
  readonly #sender: BudgetSender
  /** Budgets that were said to be left out. */
  readonly #leftOut = new Set<string>()
  #closing = false
  holder: string

  constructor(readonly deps: LeasesDeps) {
    this.holder = `${deps.instance}.${deps.epoch}`
    this.ledger = new BudgetLedger({ ...deps, onFolded: (record) => this.#folded(record) })
    this.#writer = new BatchWriter(deps, this.ledger)
    this.#waits = new BudgetWaits({
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
        for (const open of batch.told) open.announcedNow()
        // A request may have begun to take of it meanwhile: what it charges is told once it is done.
        for (const open of batch.closed) if (open.isIdle && open.neededFrom === null) this.former.delete(open)
      },
      failed: (batch) => {
        for (const open of batch.named) open.sentAtMs = null
        this.#writer.takeBack(batch)
        for (const group of batch.asked) this.#waits.unreachable(group)
      },
    })
  }

  /** Since when the log does not take what is told (monotonic); null: it does. */
  get downSinceMs(): number | null {
    return this.#sender.downSinceMs
  }

  /** Requests that wait for a lease. */
  get waiting(): number {
    return this.#waits.waiting
  }

  /** The account of a budget's window at this time, opened here when it is not yet. */
  open(tenantId: string, line: BudgetLine, nowMs: number): OpenAccount {
    if (!line.moveTo(nowMs) && line.account !== null) return line.account
    line.account = this.openWindow(tenantId, line, line.startMs, line.endMs)
    return line.account
  }

  openWindow(tenantId: string, line: BudgetLine, startMs: number, endMs: number | null): OpenAccount {
    const id = accountId(line.row.id, startMs, endMs)
    const known = this.opens.get(id) ?? this.#closedOf(id)
    if (known !== undefined) {
      known.line = line
      return known
    }
    const opened = new OpenAccount(tenantId, line, id, startMs, endMs, this.holder)
    const account = this.ledger.account(tenantId, id)
    opened.seen(account)
    const own = account?.holders.get(this.holder)
    if (own !== undefined) opened.lease.resume({ ...own, account: id })
    this.opens.set(id, opened)
    void this.ledger.follow(tenantId).then(() => this.tell(opened))
    return opened
  }

  /** Of what is closed because the process stops: requests under way go on with its sums, or those would be told twice, and otherwise. */
  #closedOf(id: string): OpenAccount | undefined {
    if (!this.#closing) return undefined
    for (const open of this.former) if (open.account === id && open.lease.holder === this.holder) return open
    return undefined
  }

  /** Reserves all that is drawn or nothing. Waits, for a bounded time, only when a lease does not hold enough, or others wait for it. */
  take(draws: readonly Draw[]): Taken | Promise<Taken> {
    const nowMs = this.deps.monotonicMs()
    if (!canDraw(draws, nowMs)) return this.#waits.wait(...drawn(draws), nowMs)
    for (let i = 0; i < draws.length; i++) {
      const { open, isDrawing, drawNanoUsd, drawTokens } = draws[i]!
      if (isDrawing) this.#draw(open, drawNanoUsd, drawTokens, nowMs)
    }
    return TAKEN
  }

  /** The log is to be told what is new of an account. */
  tell({ tenantId }: OpenAccount): void {
    this.#sender.run(this.ledger.partitionOf(tenantId))
  }

  /** Something was let go of: whoever waits looks again, and what others need is given back. */
  freed(open: OpenAccount): void {
    if (this.former.has(open)) {
      open.lease.untoldSinceMs ??= this.deps.monotonicMs()
      if (open.isIdle) this.tell(open)
    } else if (open.isStopped) this.#void(open)
    else {
      if (open.waiting > 0) this.#waits.look()
      if (open.contendedUntilMs > 0) this.#giveBackContended(open, this.deps.monotonicMs())
    }
  }

  /** Nobody here needs what is free of it, and others may. */
  #giveBackContended(open: OpenAccount, nowMs: number): void {
    if (!this.former.has(open) && open.isContended(nowMs)) this.giveBack(open, nowMs)
  }

  /** A request's records had no room for it: it only counts, and does not count this. Said once of each budget. */
  leftOut({ line: { row }, account }: OpenAccount): void {
    if (this.#leftOut.has(row.id) || this.#leftOut.size >= MOST_LEFT_OUT) return
    this.#leftOut.add(row.id)
    this.deps.diagnostics.warn('budget_left_out', { budget: row.id, account })
  }

  /** An attempt has cost more than it had reserved. From now on nothing is taken of the account here; the others hear of it by the log. */
  overran(open: OpenAccount): void {
    const account = this.ledger.account(open.tenantId, open.account)
    for (const each of new Set([open, this.opens.get(open.account) ?? open])) {
      each.overran(account)
      this.#void(each)
    }
    this.#waits.look()
  }

  /** Nothing of it may be spent any more but what is reserved: the rest goes back whoever waits for it. */
  #void(open: OpenAccount): void {
    const free = open.lease.free()
    if (isNothing(free)) return
    open.lease.giveBack(free, this.deps.monotonicMs())
    this.tell(open)
  }

  giveBack(open: OpenAccount, nowMs: number): void {
    const free = open.lease.free()
    if (isNothing(free) || open.isNeeded) return
    open.lease.giveBack(free, nowMs)
    this.tell(open)
  }

  /** Ends what waits and closes the leases, as far as nothing is under way; for so long at most. What is told too late stands in the spool. */
  async close(limitMs: number): Promise<void> {
    this.#waits.close()
    this.#closing = true
    const nowMs = this.deps.monotonicMs()
    for (const open of this.opens.values()) {
      this.former.add(open)
      open.lease.giveBack(open.lease.free(), nowMs)
    }
    this.opens.clear()
    for (const open of this.former) this.tell(open)
    await this.#sender.close(limitMs)
    await this.ledger.close()
  }

  /** The same for whoever has waited. */
  #tryTake(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): boolean {
    for (let i = 0; i < opens.length; i++)
      if (!opens[i]!.has(amounts[i]!.nano_usd, amounts[i]!.tokens, nowMs)) return false
    for (let i = 0; i < opens.length; i++) this.#draw(opens[i]!, amounts[i]!.nano_usd, amounts[i]!.tokens, nowMs)
    return true
  }

  #draw(open: OpenAccount, nanoUsd: number, tokens: number, nowMs: number): void {
    open.draw(nanoUsd, tokens, nowMs)
    if (open.asking || open.wantsMore || !open.isLow() || open.isContended(nowMs)) return
    open.wantsMore = true
    this.tell(open)
  }

  /** The first record of the spool that is needed to know what was spent, should this process die; Infinity: all of it is told. */
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
      groups: this.#waits.groups,
      asked: (group) => this.#waits.asked(group),
    })
  }

  #folded({ event, changed, verdict }: FoldedRecord): void {
    const nowMs = this.deps.monotonicMs()
    let closed = false
    for (const account of changed) {
      const open = this.opens.get(account.account)
      if (open === undefined) continue
      open.seen(account)
      const own = account.holders.get(this.holder)
      if (own !== undefined && open.lease.holder === this.holder) {
        closed ||= own.closed
        this.#granted(open, own, isOwn(event, this.holder), nowMs)
      }
      if (open.isStopped) this.#void(open)
    }
    if (closed && !this.#closing) this.#renew()
    if (event.type === 'lease.requested' && verdict !== null && verdict.kind !== 'repeat') {
      if (event.data.holder === this.holder) this.#waits.answered(event.data.sequence, verdict)
      else if (verdict.kind === 'refused' && verdict.reason === 'spent') this.#contended(event.data.accounts, nowMs)
    }
    if (changed.length > 0) this.#waits.look()
    if (verdict?.kind === 'granted') this.#unneeded(changed, nowMs)
  }

  /** What nobody waits for any more goes back, where others are short of it, or where it was granted by terms that were changed meanwhile: there may be less now. */
  #unneeded(changed: readonly Account[], nowMs: number): void {
    for (const { account, height } of changed) {
      const open = this.opens.get(account)
      if (open === undefined) continue
      if (height < open.line.row.height || open.isContended(nowMs)) this.giveBack(open, nowMs)
    }
  }

  /** `isNews`: its own record. Seen in the log, so that it cannot have been retired before: from when it was sent on it is good for its time. */
  #granted(open: OpenAccount, { granted, closed }: Holder, isNews: boolean, nowMs: number): void {
    open.granted(granted, nowMs)
    if (open.sentAtMs === null || closed || !isNews) return
    open.lease.usableUntilMs = open.sentAtMs + LEASE_MS
    open.sentAtMs = null
  }

  /** Somebody else is short of what this process may hold. */
  #contended(asks: readonly { readonly account: string }[], nowMs: number): void {
    for (const { account } of asks) {
      const open = this.opens.get(account)
      if (open === undefined) continue
      open.contend(nowMs)
      this.giveBack(open, nowMs)
    }
  }

  /** This instance was retired while it lived (it was silent for very long): it goes on under another name; what it holds it may not spend, and says what it spent. */
  #renew(): void {
    const nowMs = this.deps.monotonicMs()
    this.holder = `${this.deps.instance}.${this.deps.newEpoch()}`
    for (const [id, open] of this.opens) {
      open.lease.usableUntilMs = 0
      open.lease.untoldSinceMs ??= nowMs
      open.line.account = null
      this.former.add(open)
      const next = new OpenAccount(open.tenantId, open.line, id, open.startMs, open.endMs, this.holder)
      next.goesOnFrom(open, this.ledger.account(open.tenantId, id))
      this.opens.set(id, next)
    }
    // Those who wait would ask in the old name.
    this.#waits.clear()
    for (const open of this.former) this.tell(open)
    this.deps.diagnostics.warn('budget_holder_retired', { holder: this.holder })
  }
}
