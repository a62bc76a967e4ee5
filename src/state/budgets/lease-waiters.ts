// Requests whose lease is used up: they request leases together, in their order, and wait for a bounded time.
import { type Account, type LeaseRefusal, type LeaseVerdict, roomOf } from '../../domain/budgets/account.ts'
import { type Amount, fits, minus, NO_AMOUNT } from '../../domain/budgets/amount.ts'
import { AskGroup, groupKey, TAKEN, type Taken, type Waiter } from './lease-requests.ts'
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
const RETURNS_ANSWERS = 3
/** Decay of the observed response time: the weight of a slow response after each further one. */
const FADES = 0.75
/** A refusal with a temporary reason is followed by a new lease request after this time. */
const AGAIN_MS = 25
const MOST_WAITING = 4_096
/**
 * Bound of the requests that wait for one account's returns: a budget with hardly anything left must not take all
 * places.
 */
const MOST_PARKED = 256
/** Reasons for which no return of another holder can help. */
const REFUSED_AT_ONCE: ReadonlySet<LeaseRefusal> = new Set(['overrun', 'forgotten', 'ended', 'early'])

export interface WaitsDeps {
  readonly ledger: BudgetLedger
  monotonicMs(): number
  holder(): string
  /** Takes all amounts now, or none. */
  tryTake(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): boolean
  /** A group has a lease request to send. */
  due(group: AskGroup): void
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

export class BudgetWaits {
  readonly #groups = new Map<string, AskGroup>()
  /** Lease requests under way, by number. */
  readonly #asked = new Map<number, AskGroup>()
  #waiting = 0
  /** The decayed maximum of response times: from sending a lease request until its verdict was read. */
  #answerMs = 0
  #closed = false

  constructor(private readonly deps: WaitsDeps) {}

  get groups(): Iterable<AskGroup> {
    return this.#groups.values()
  }

  get waiting(): number {
    return this.#waiting
  }

  asked(group: AskGroup): void {
    this.#asked.set(group.sequence!, group)
    group.askedAtMs = this.deps.monotonicMs()
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
    const group = this.#groups.get(key) ?? new AskGroup(key, opens)
    this.#groups.set(key, group)
    const timer = setTimeout(() => this.#late(waiter, group), WAIT_MS)
    const waiter: Waiter = { opens, amounts, resolve, timer, done: false, parked: null }
    group.waiters.push(waiter)
    for (const open of opens) open.waiting++
    this.#waiting++
    if (outlook === null) this.#ask(group)
    else this.#park(group, waiter, outlook.open, nowMs)
    return promise
  }

  /** Serves the requests that can be served now, in order, and sends the lease request of the next one. */
  look(): void {
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
        this.#ask(group)
    }
  }

  /** The log has a verdict on a lease request of this process. */
  answered(sequence: number, verdict: LeaseVerdict): void {
    const group = this.#asked.get(sequence)
    if (group === undefined || verdict.kind === 'repeat') return
    this.#end(group)
    this.#answerMs = Math.max(this.deps.monotonicMs() - group.askedAtMs, FADES * this.#answerMs)
    if (verdict.kind === 'granted') {
      this.look()
      this.#refuseParked(group)
      return
    }
    const open = group.opens.find(({ account }) => account === verdict.account)!
    if (verdict.reason === 'spent') this.#spent(group, open)
    else if (REFUSED_AT_ONCE.has(verdict.reason)) this.#refuse(group, open, verdict.reason)
    else if (group.first() !== undefined) setTimeout(() => group.sequence === null && this.#ask(group), AGAIN_MS)
  }

  /** A lease request of this process could not be sent. */
  unreachable(group: AskGroup): void {
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
    this.#asked.clear()
    for (const group of groups) {
      group.sequence = null
      for (const open of group.opens) open.asking = false
      for (const waiter of [...group.waiters]) this.#resolve(waiter, { kind: 'unreachable', open: waiter.opens[0]! })
    }
  }

  #end(group: AskGroup): void {
    this.#asked.delete(group.sequence!)
    group.sequence = null
    for (const open of group.opens) open.asking = false
  }

  #ask(group: AskGroup): void {
    if (group.first() === undefined || group.held) return
    const fromMs = Math.max(...group.opens.map(({ line }) => line.asksFromMs))
    const nowMs = this.deps.monotonicMs()
    if (nowMs < fromMs) {
      group.held = true
      setTimeout(() => {
        group.held = false
        if (group.sequence === null) this.#ask(group)
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
  #late(waiter: Waiter, group: AskGroup): void {
    const giveUp = (): void => this.#giveUp(waiter, { kind: 'unreachable', open: waiter.opens[0]! })
    // No record is written to a partition before it is read.
    const isNext = group.due && this.deps.ledger.accounts(group.tenantId) !== null
    const isHeard = (group.sequence !== null || isNext || waiter.parked !== null) && !this.deps.isLogDown()
    if (isHeard && !waiter.done) waiter.timer = setTimeout(giveUp, LATE_MS - WAIT_MS)
    else giveUp()
  }

  /** Parks a request until other holders have had the time to give back; then it is refused. */
  #park(group: AskGroup, waiter: Waiter, open: OpenAccount, nowMs: number): void {
    waiter.parked = { open, untilMs: open.returnsUntilMs }
    for (const each of waiter.opens) each.parked++
    setTimeout(() => this.#refuseParked(group), Math.ceil(open.returnsUntilMs - nowMs) + 1)
  }

  /** Refuses those whose time is over, but not while a lease request is under way. */
  #refuseParked(group: AskGroup): void {
    if (group.isAsking) return
    const nowMs = this.deps.monotonicMs()
    let isAny = false
    for (const waiter of [...group.waiters]) {
      if (waiter.done || waiter.parked === null || nowMs < waiter.parked.untilMs) continue
      isAny = true
      this.#resolve(waiter, { kind: 'refused', reason: 'spent', open: waiter.parked.open })
    }
    if (isAny) this.look()
  }

  /** Ends one wait; those behind it continue. */
  #giveUp(waiter: Waiter, taken: Taken): void {
    if (waiter.done) return
    this.#resolve(waiter, taken)
    this.look()
  }

  #refuse(group: AskGroup, open: OpenAccount, reason: LeaseRefusal): void {
    for (const waiter of [...group.waiters]) this.#resolve(waiter, { kind: 'refused', reason, open })
  }

  /**
   * There is not enough: other holders read the refusal and give back what they do not need; a request that is not
   * served by then is refused.
   */
  #spent(group: AskGroup, open: OpenAccount): void {
    const nowMs = this.deps.monotonicMs()
    open.returnsUntilMs = nowMs + Math.max(RETURNS_MS, RETURNS_ANSWERS * this.#answerMs)
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
    this.look()
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
      if (account === undefined || account.height < open.line.row.height) continue
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
  const seen = account.holders.get(lease.holder)?.returned ?? NO_AMOUNT
  return fits(minus(minus(amount, lease.free()), minus(lease.returned, seen)), roomOf(account))
}

/** The refusal of a closed account among them; null: none is closed. */
const closedOf = (opens: readonly OpenAccount[]): Exclude<Taken, { kind: 'taken' }> | null => {
  for (const open of opens) if (open.isClosed) return { kind: 'refused', reason: open.bar!, open }
  return null
}
