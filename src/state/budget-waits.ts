// Requests whose lease is used up: they ask the log together, in their order, and wait for a bounded time.
import { type Account, type LeaseRefusal, type LeaseVerdict, roomOf } from '../domain/account.ts'
import { type Amount, fits, minus } from '../domain/amount.ts'
import { AskGroup, groupKey, TAKEN, type Taken, type Waiter } from './budget-asks.ts'
import type { BudgetLedger } from './budget-ledger.ts'
import { type OpenAccount, othersHold } from './budget-open.ts'

/** A request waits so long for a lease. */
const WAIT_MS = 2_000
/** And so long for what others give back, once there is not enough for it. */
const RETURNS_MS = 500
/** What was refused for a reason that passes is asked again after this. */
const AGAIN_MS = 25
const MOST_WAITING = 4_096
/** Nobody gives anything back that would help. */
const REFUSED_AT_ONCE: ReadonlySet<LeaseRefusal> = new Set(['overrun', 'forgotten', 'ended', 'early'])

export interface WaitsDeps {
  readonly ledger: BudgetLedger
  monotonicMs(): number
  holder(): string
  /** Takes all amounts now, or none. */
  tryTake(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): boolean
  /** A group has something to ask. */
  due(group: AskGroup): void
}

export class BudgetWaits {
  readonly #groups = new Map<string, AskGroup>()
  /** Requests under way, by number. */
  readonly #asked = new Map<number, AskGroup>()
  #waiting = 0
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
  }

  /** Waits for all amounts. Answers at once what is certain already. */
  wait(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): Taken | Promise<Taken> {
    const hopeless = this.#hopeless(opens, amounts, nowMs)
    if (hopeless !== null) return hopeless
    if (this.#waiting >= MOST_WAITING || this.#closed) return { kind: 'unreachable', open: opens[0]! }
    const { promise, resolve } = Promise.withResolvers<Taken>()
    const key = groupKey(opens)
    const group = this.#groups.get(key) ?? new AskGroup(key, opens)
    this.#groups.set(key, group)
    const timer = setTimeout(() => this.#giveUp(waiter, { kind: 'unreachable', open: opens[0]! }), WAIT_MS)
    const waiter: Waiter = { opens, amounts, resolve, timer, done: false, parked: false }
    group.waiters.push(waiter)
    for (const open of opens) open.waiting++
    this.#waiting++
    this.#ask(group)
    return promise
  }

  /** Serves whoever can be served now, in order, and asks for the next. */
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
      } else if (group.sequence === null && !group.due && (!waiter.parked || this.#hasRoom(waiter))) this.#ask(group)
    }
  }

  /** The log has answered a request of this process. */
  answered(sequence: number, verdict: LeaseVerdict): void {
    const group = this.#asked.get(sequence)
    if (group === undefined || verdict.kind === 'repeat') return
    this.#end(group)
    if (verdict.kind === 'granted') {
      this.look()
      return
    }
    const open = group.opens.find(({ account }) => account === verdict.account)!
    if (verdict.reason === 'spent') this.#spent(group, open)
    else if (REFUSED_AT_ONCE.has(verdict.reason)) this.#refuse(group, open, verdict.reason)
    else if (group.first() !== undefined) setTimeout(() => group.sequence === null && this.#ask(group), AGAIN_MS)
  }

  /** A request of this process could not be sent. */
  unreachable(group: AskGroup): void {
    this.#end(group)
    for (const waiter of [...group.waiters]) this.#resolve(waiter, { kind: 'unreachable', open: waiter.opens[0]! })
  }

  /** Nobody waits any more. */
  close(): void {
    this.#closed = true
    this.clear()
  }

  /** Whoever waits is sent away, and what was asked is not waited for. */
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
    for (const open of waiter.opens) open.waiting--
    waiter.resolve(taken)
  }

  /** It has waited long enough; those behind it have not. */
  #giveUp(waiter: Waiter, taken: Taken): void {
    if (waiter.done) return
    this.#resolve(waiter, taken)
    this.look()
  }

  #refuse(group: AskGroup, open: OpenAccount, reason: LeaseRefusal): void {
    for (const waiter of [...group.waiters]) this.#resolve(waiter, { kind: 'refused', reason, open })
  }

  /** There is not enough: the others see it and give back what they do not need; whoever is not served by then is refused. */
  #spent(group: AskGroup, open: OpenAccount): void {
    const nowMs = this.deps.monotonicMs()
    open.refusedAtMs = nowMs
    open.contend(nowMs)
    const { ledger, holder } = this.deps
    for (const waiter of group.waiters) {
      if (waiter.done || waiter.parked) continue
      if (this.#hasRoom(waiter)) break // by now there is: it asks again, and those after it
      if (!othersHold(ledger.accounts(open.tenantId), open.account, holder())) {
        this.#resolve(waiter, { kind: 'refused', reason: 'spent', open })
        continue
      }
      waiter.parked = true
      setTimeout(() => this.#giveUp(waiter, { kind: 'refused', reason: 'spent', open }), RETURNS_MS)
    }
    this.look()
  }

  #accountOf(open: OpenAccount): Account | undefined {
    return this.deps.ledger.account(open.tenantId, open.account)
  }

  /** Whether the fold would grant what it lacks. */
  #hasRoom({ opens, amounts }: Waiter): boolean {
    return opens.every((open, i) => {
      const account = this.#accountOf(open)
      return account === undefined || fits(minus(amounts[i]!, open.lease.free()), roomOf(account))
    })
  }

  /** What the fold says already: nobody would be granted this. */
  #hopeless(opens: readonly OpenAccount[], amounts: readonly Amount[], nowMs: number): Taken | null {
    const closed = closedOf(opens)
    if (closed !== null) return closed
    for (let i = 0; i < opens.length; i++) {
      const open = opens[i]!
      const account = this.#accountOf(open)
      if (account === undefined || account.height < open.line.row.height) continue
      if (fits(minus(amounts[i]!, open.lease.free()), roomOf(account))) continue
      const others = othersHold(this.deps.ledger.accounts(open.tenantId), open.account, this.deps.holder())
      if (!others || open.wasRefused(nowMs)) return { kind: 'refused', reason: 'spent', open }
    }
    return null
  }
}

/** An account among them is closed: whoever waits need not. */
const closedOf = (opens: readonly OpenAccount[]): Taken | null => {
  for (const open of opens) if (open.isClosed) return { kind: 'refused', reason: open.bar!, open }
  return null
}
