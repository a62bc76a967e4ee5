// Requests whose lease is used up: they request leases together, in their order, and wait for a bounded time.
import { type Account, type LeaseRefusal, type LeaseVerdict, roomOf } from '../../domain/budgets/account.ts'
import { type Amount, fits, minus, NO_AMOUNT } from '../../domain/budgets/amount.ts'
import { groupKey, LeaseRequestGroup, TAKEN, type Taken, type Waiter } from './lease-requests.ts'
import type { BudgetLedger } from './ledger.ts'
import { type OpenAccount, othersHold } from './open-account.ts'

/** The time that a request waits for a lease. */
const WAIT_MS = 2_000
/** The longest wait in all, where the log takes records but is slow. */
const LATE_MS = 6_000
/** Once there is not enough for it, a request waits at least so long for other holders to give back. */
const RETURNS_MS = 500
/**
 * The same wait in response times of the log, whichever is longer: other holders have to read the refusal and to write
 * what they give back, and this process has to read it.
 */
const RETURNS_RESPONSES = 3
/** Decay of the observed response time: the weight of a slow response after each further one. */
const DECAY = 0.75
/** A refusal with a temporary reason is followed by a new lease request after this time. */
const RETRY_MS = 25
const MOST_WAITING = 4_096
/**
 * Bound of the requests that wait for one account's returns: a budget with hardly anything left must not take all
 * places.
 */
const MOST_PARKED = 256
/** Reasons for which no return of another holder can help. */
const REFUSED_AT_ONCE: ReadonlySet<LeaseRefusal> = new Set(['overrun', 'forgotten', 'ended', 'early'])

export interface LeaseWaitersDeps {
  readonly ledger: BudgetLedger
  monotonicMs(): number
  holder(): string
  /** Takes all amounts now, or none. */
  tryTake(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): boolean
  /** A group has a lease request to send. */
  due(group: LeaseRequestGroup): void
  /** The log does not take records. */
  isLogDown(): boolean
  /** The free amount of the account serves no waiting request. */
  unneeded(open: OpenAccount, nowMs: number): void
}

/**
 * The result that is certain before a lease request is sent. `returns`: the log has refused already, and other holders
 * may give something back until then.
 */
type Outlook = Exclude<Taken, { kind: 'taken' }> | { readonly kind: 'returns'; readonly open: OpenAccount }

export class LeaseWaiters {
  readonly #groups = new Map<string, LeaseRequestGroup>()
  /** Lease requests under way, by number. */
  readonly #sent = new Map<number, LeaseRequestGroup>()
  #waiting = 0
  /** The decayed maximum of response times: from sending a lease request until its verdict was read. */
  #responseMs = 0
  #closed = false

  constructor(private readonly deps: LeaseWaitersDeps) {}

  get groups(): Iterable<LeaseRequestGroup> {
    return this.#groups.values()
  }

  get waiting(): number {
    return this.#waiting
  }

  sent(group: LeaseRequestGroup): void {
    this.#sent.set(group.sequence!, group)
    group.sentAtMs = this.deps.monotonicMs()
  }

  /** Waits for all amounts. Returns at once when the result is certain. */
  wait(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): Taken | Promise<Taken> {
    const outlook = this.#outlook(opens, amounts, nowMs)
    if (outlook !== null && outlook.kind !== 'returns') return outlook
    if (outlook !== null && outlook.open.parked >= MOST_PARKED)
      return { kind: 'refused', reason: 'spent', open: outlook.open }
    if (this.#waiting >= MOST_WAITING || this.#closed) return { kind: 'unreachable', open: opens[0]! }
    const { promise, resolve } = Promise.withResolvers<Taken>()
    const key = groupKey(opens)
    const group = this.#groups.get(key) ?? new LeaseRequestGroup(key, opens)
    this.#groups.set(key, group)
    const timer = setTimeout(() => this.#late(waiter, group), WAIT_MS)
    const waiter: Waiter = { opens, amounts, resolve, timer, done: false, parked: null }
    group.waiters.push(waiter)
    for (const open of opens) open.waiting++
    this.#waiting++
    if (outlook === null) this.#request(group)
    else this.#park(group, waiter, outlook.open, nowMs)
    return promise
  }

  /** Serves the requests that can be served now, in order, and sends the lease request of the next one. */
  serve(): void {
    if (this.#waiting === 0) return
    const nowMs = this.deps.monotonicMs()
    for (const group of [...this.#groups.values()]) {
      const closed = closedOf(group.opens)
      if (closed !== null) for (const waiter of [...group.waiters]) this.#resolve(waiter, closed)
      let waiter = group.first()
      while (waiter !== undefined && this.deps.tryTake(waiter.opens, waiter.amounts, nowMs)) {
        this.#resolve(waiter, TAKEN)
        waiter = group.first()
      }
      if (waiter === undefined) {
        if (group.sequence === null) this.#groups.delete(group.key)
      } else if (group.sequence === null && !group.due && (waiter.parked === null || this.#hasRoom(waiter)))
        this.#request(group)
    }
  }

  /** The log has a verdict on a lease request of this process. */
  decided(sequence: number, verdict: LeaseVerdict): void {
    const group = this.#sent.get(sequence)
    if (group === undefined || verdict.kind === 'repeat') return
    this.#end(group)
    this.#responseMs = Math.max(this.deps.monotonicMs() - group.sentAtMs, DECAY * this.#responseMs)
    if (verdict.kind === 'granted') {
      this.serve()
      this.#refuseParked(group)
      return
    }
    const open = group.opens.find(({ account }) => account === verdict.account)!
    if (verdict.reason === 'spent') this.#spent(group, open)
    else if (REFUSED_AT_ONCE.has(verdict.reason)) this.#refuse(group, open, verdict.reason)
    else if (group.first() !== undefined) setTimeout(() => group.sequence === null && this.#request(group), RETRY_MS)
  }

  /** A lease request of this process could not be sent. */
  unreachable(group: LeaseRequestGroup): void {
    this.#end(group)
    for (const waiter of [...group.waiters]) this.#resolve(waiter, { kind: 'unreachable', open: waiter.opens[0]! })
  }

  /** Ends all waits; later ones are refused. */
  close(): void {
    this.#closed = true
    this.clear()
  }

  /** Ends all waits as unreachable, and ignores the verdicts of lease requests under way. */
  clear(): void {
    const groups = [...this.#groups.values()]
    this.#groups.clear()
    this.#sent.clear()
    for (const group of groups) {
      group.sequence = null
      for (const open of group.opens) open.requesting = false
      for (const waiter of [...group.waiters]) this.#resolve(waiter, { kind: 'unreachable', open: waiter.opens[0]! })
    }
  }

  #end(group: LeaseRequestGroup): void {
    this.#sent.delete(group.sequence!)
    group.sequence = null
    for (const open of group.opens) open.requesting = false
  }

  #request(group: LeaseRequestGroup): void {
    if (group.first() === undefined || group.delayed) return
    const fromMs = Math.max(...group.opens.map(({ budget }) => budget.requestsFromMs))
    const nowMs = this.deps.monotonicMs()
    if (nowMs < fromMs) {
      group.delayed = true
      setTimeout(() => {
        group.delayed = false
        if (group.sequence === null) this.#request(group)
      }, fromMs - nowMs)
      return
    }
    group.due = true
    this.deps.due(group)
  }

  #resolve(waiter: Waiter, taken: Taken): void {
    if (waiter.done) return
    waiter.done = true
    clearTimeout(waiter.timer)
    this.#waiting--
    for (const open of waiter.opens) {
      open.waiting--
      if (waiter.parked !== null) open.parked--
    }
    waiter.resolve(taken)
    if (taken.kind === 'taken') return
    const nowMs = this.deps.monotonicMs()
    for (const open of waiter.opens) this.deps.unneeded(open, nowMs)
  }

  /**
   * The log has not responded in the usual time: a request waits on when it was sent, is parked, or is next in line
   * while the log takes records.
   */
  #late(waiter: Waiter, group: LeaseRequestGroup): void {
    const giveUp = (): void => this.#giveUp(waiter, { kind: 'unreachable', open: waiter.opens[0]! })
    // No record is written to a partition before it is read.
    const isNext = group.due && this.deps.ledger.accounts(group.tenantId) !== null
    const mayStillBeServed = (group.sequence !== null || isNext || waiter.parked !== null) && !this.deps.isLogDown()
    if (mayStillBeServed && !waiter.done) waiter.timer = setTimeout(giveUp, LATE_MS - WAIT_MS)
    else giveUp()
  }

  /** Parks a request until other holders have had the time to give back; then it is refused. */
  #park(group: LeaseRequestGroup, waiter: Waiter, open: OpenAccount, nowMs: number): void {
    waiter.parked = { open, untilMs: open.returnsUntilMs }
    for (const each of waiter.opens) each.parked++
    setTimeout(() => this.#refuseParked(group), Math.ceil(open.returnsUntilMs - nowMs) + 1)
  }

  /** Refuses those whose time is over, but not while a lease request is under way. */
  #refuseParked(group: LeaseRequestGroup): void {
    if (group.isRequesting) return
    const nowMs = this.deps.monotonicMs()
    let isAny = false
    for (const waiter of [...group.waiters]) {
      if (waiter.done || waiter.parked === null || nowMs < waiter.parked.untilMs) continue
      isAny = true
      this.#resolve(waiter, { kind: 'refused', reason: 'spent', open: waiter.parked.open })
    }
    if (isAny) this.serve()
  }

  /** Ends one wait; those behind it continue. */
  #giveUp(waiter: Waiter, taken: Taken): void {
    if (waiter.done) return
    this.#resolve(waiter, taken)
    this.serve()
  }

  #refuse(group: LeaseRequestGroup, open: OpenAccount, reason: LeaseRefusal): void {
    for (const waiter of [...group.waiters]) this.#resolve(waiter, { kind: 'refused', reason, open })
  }

  /**
   * There is not enough: other holders read the refusal and give back what they do not need; a request that is not
   * served by then is refused.
   */
  #spent(group: LeaseRequestGroup, open: OpenAccount): void {
    const nowMs = this.deps.monotonicMs()
    open.returnsUntilMs = nowMs + Math.max(RETURNS_MS, RETURNS_RESPONSES * this.#responseMs)
    open.contend(nowMs)
    const { ledger, holder } = this.deps
    for (const waiter of group.waiters) {
      if (waiter.done || waiter.parked !== null) continue
      if (this.#hasRoom(waiter)) break // there is enough by now: it and those after it get a new lease request
      if (!othersHold(ledger.accounts(open.tenantId), open.account, holder())) {
        this.#resolve(waiter, { kind: 'refused', reason: 'spent', open })
        continue
      }
      this.#park(group, waiter, open, nowMs)
    }
    this.serve()
    this.#refuseParked(group)
    for (const each of group.opens) this.deps.unneeded(each, nowMs)
  }

  #accountOf(open: OpenAccount): Account | undefined {
    return this.deps.ledger.account(open.tenantId, open.account)
  }

  /** Whether the fold would grant the missing amounts. */
  #hasRoom({ opens, amounts }: Waiter): boolean {
    return opens.every((open, i) => {
      const account = this.#accountOf(open)
      return account === undefined || isRoomFor(amounts[i]!, open, account)
    })
  }

  /** The result by the fold: a refusal that is certain. Null: a lease request is needed. */
  #outlook(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): Outlook | null {
    const closed = closedOf(opens)
    if (closed !== null) return closed
    for (let i = 0; i < opens.length; i++) {
      const open = opens[i]!
      const account = this.#accountOf(open)
      if (account === undefined || account.height < open.budget.row.height) continue
      if (isRoomFor(amounts[i]!, open, account)) continue
      const others = othersHold(this.deps.ledger.accounts(open.tenantId), open.account, this.deps.holder())
      if (!others || open.wasRefused(nowMs)) return { kind: 'refused', reason: 'spent', open }
      if (nowMs < open.returnsUntilMs) return { kind: 'returns', open }
    }
    return null
  }
}

/**
 * The amount beyond what is free here must fit into the account. Returns of this process that are not folded yet
 * precede any new lease request in the log, so they count as free.
 */
const isRoomFor = (amount: Amount, { lease }: OpenAccount, account: Account): boolean => {
  const returned = account.holders.get(lease.holder)?.returned ?? NO_AMOUNT
  return fits(minus(minus(amount, lease.free()), minus(lease.returned, returned)), roomOf(account))
}

/** The refusal of a closed account among them; null: none is closed. */
const closedOf = (opens: readonly OpenAccount[]): Exclude<Taken, { kind: 'taken' }> | null => {
  for (const open of opens) if (open.isClosed) return { kind: 'refused', reason: open.closing!, open }
  return null
}
