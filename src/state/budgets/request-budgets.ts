// What one request reserves of its budgets: reserved before each attempt, charged by its settlement, once and all
// together. A reservation is released only behind a record that no longer names it: what a crash leaves open never adds
// up to more than the leases held.
import type { Limits } from '../../domain/budgets/amount.ts'
import type { BudgetCharge, BudgetPart } from '../../domain/budgets/recorded-parts.ts'
import type { ApplicableBudget, TenantBudgets } from './applicable.ts'
import { type Bound, type BudgetRefusal, type Cost, refusalOf } from './attempt-bounds.ts'
import { TAKEN, type Taken } from './lease-requests.ts'
import type { BudgetLeases } from './leases.ts'
import type { OpenAccount } from './open-account.ts'
import { RequestAccount } from './request-account.ts'
import { hasRoomFor, isLeased, namedWith } from './request-accounts.ts'

/** `lost`: it could not be written, and its admission is open until the next start. */
export type OutcomeFate = 'recorded' | 'never_admitted' | 'lost'

const WINDOW_TRIES = 3

export class RequestBudgets {
  readonly #entries: RequestAccount[] = []
  /**
   * The accounts of a reservation, in the order of the budgets: requests for the same accounts wait in one queue, and
   * get the same refusal.
   */
  #requested: readonly RequestAccount[] = this.#entries
  #settled = false
  /** An outcome is about to be recorded. */
  #isEnding = false

  constructor(
    private readonly leases: BudgetLeases,
    private readonly budgets: TenantBudgets,
    /** Those that apply with every candidate. */
    private readonly whole: readonly ApplicableBudget[],
    private readonly atMs: number,
    /** The number of the spool's next record. */
    private readonly spoolEnd: () => number,
  ) {}

  /**
   * Reserves the bound of an attempt in every account that it falls under, or in none. Returns null, or the refusal.
   * Waits only for leases that are used up.
   */
  reserve(providerId: string, model: string, bound: Bound): BudgetRefusal | null | Promise<BudgetRefusal | null> {
    const own = this.budgets.ofCandidate(providerId, model)
    const budgets = own.length === 0 ? this.whole : [...this.whole, ...own]
    return this.#reserve(budgets, bound, 1, this.leases.ledger.trusted(this.atMs))
  }

  /** Reserves more for the attempt under way. An amount that is granted after the settlement is released at once. */
  async extend(more: Bound): Promise<BudgetRefusal | null> {
    this.#requested = this.#entries
    for (const entry of this.#entries) {
      entry.isRequested = false
      if (entry.isBound) entry.request(more, true)
    }
    const taken = await this.#take()
    return taken.kind === 'taken' ? null : refusalOf(taken)
  }

  /**
   * The reservation of the attempt under way: the least of its accounts. Null: none of them limits money, or tokens.
   */
  bound(): Limits {
    let nano_usd: number | null = null
    let tokens: number | null = null
    for (const { isBound, leasesMoney, leasesTokens, boundNanoUsd, boundTokens } of this.#entries) {
      if (!isBound) continue
      if (leasesMoney) nano_usd = Math.min(nano_usd ?? boundNanoUsd, boundNanoUsd)
      if (leasesTokens) tokens = Math.min(tokens ?? boundTokens, boundTokens)
    }
    return { nano_usd, tokens }
  }

  /** The most that the request may cost with the attempt under way, for its record. Undefined: nothing. */
  parts(): BudgetPart[] | undefined {
    const parts: BudgetPart[] = []
    for (const entry of this.#entries) {
      const part = entry.part()
      if (part !== null) parts.push(part)
    }
    return parts.length === 0 ? undefined : parts
  }

  /** The attempt is recorded in the spool with its `parts`: reservations beyond them are free again. */
  recorded(): void {
    for (const entry of this.#entries) if (entry.trim()) this.leases.freed(entry.open)
  }

  /** The attempt under way has ended; without a cost it was not made. */
  endAttempt(cost: Cost | null): void {
    for (const entry of this.#entries) if (entry.end(cost)) this.leases.overran(entry.open)
  }

  /**
   * Charges everything, once. Call it right before the outcome is appended: the record contains the returned charges;
   * then call `outcomeWas`.
   */
  settle(): BudgetCharge[] {
    const charges: BudgetCharge[] = []
    if (this.#settled) return charges
    this.#settled = true
    this.#isEnding = true
    for (const entry of this.#entries) {
      const charge = entry.charge()
      if (charge === null) continue
      entry.open.charged(this.spoolEnd())
      charges.push(charge)
    }
    return charges
  }

  /**
   * The result of appending that outcome. Only now is its cost reported, and the rest of the reservation free: after a
   * crash before this, the whole reservation is settled as orphaned.
   */
  outcomeWas(fate: OutcomeFate): void {
    if (!this.#isEnding) return
    this.#isEnding = false
    const nowMs = this.leases.deps.monotonicMs()
    for (const entry of this.#entries) {
      const { open, lease, total } = entry
      // The next start charges a lost outcome: until then the holder must not be closed as completely reported.
      if (fate !== 'lost') open.users--
      if (total !== null) open.recorded()
      if (fate === 'lost') lease.takeBack(entry, nowMs)
      else lease.release(entry.restNanoUsd, entry.restTokens)
      if (total !== null && fate !== 'lost') lease.record(total, nowMs)
      // An amount that was only counted when it began takes room now that other holders may be granted.
      if (entry.overrunNanoUsd > 0 || entry.overrunTokens > 0 || entry.isLate) this.leases.report(open)
      this.leases.freed(open)
    }
  }

  #reserve(
    budgets: readonly ApplicableBudget[],
    bound: Bound,
    tries: number,
    atMs: number,
  ): BudgetRefusal | null | Promise<BudgetRefusal | null> {
    const opens = hasRoomFor(this.#entries, budgets.length) ? null : this.#named(budgets, atMs)
    if (opens !== null && !Array.isArray(opens)) return opens
    for (const entry of this.#entries) entry.isRequested = false
    const count = opens?.length ?? budgets.length
    // Accounts of the first attempt have that order already.
    const requested = this.#entries.length === 0 ? this.#entries : []
    this.#requested = requested
    for (let i = 0; i < count; i++) {
      const open = opens?.[i] ?? this.leases.open(this.budgets.tenantId, budgets[i]!, atMs)
      const entry = this.#entryOf(open)
      if (entry.leasesMoney && bound.nanoUsd === null) return { reason: 'no_price', open }
      entry.request(bound, false)
      if (requested !== this.#entries) requested.push(entry)
    }
    const taken = this.#take()
    if (taken instanceof Promise) return this.#afterWaiting(taken, budgets, bound, tries)
    return taken.kind === 'taken' ? null : refusalOf(taken)
  }

  /** The accounts that limit the attempt, where its records have no room for all of them; or the refusal. */
  #named(budgets: readonly ApplicableBudget[], atMs: number): OpenAccount[] | BudgetRefusal {
    const opens = budgets.map((budget) => this.leases.open(this.budgets.tenantId, budget, atMs))
    const named = namedWith(this.#entries, opens)
    if (named === null)
      return { reason: 'too_many', open: opens.findLast(({ budget }) => isLeased(budget)) ?? opens.at(-1)! }
    for (const entry of named.dropped) this.#drop(entry)
    for (const open of opens) if (!named.opens.includes(open)) this.leases.leftOut(open)
    return named.opens
  }

  async #afterWaiting(
    waiting: Promise<Taken>,
    budgets: readonly ApplicableBudget[],
    bound: Bound,
    tries: number,
  ): Promise<BudgetRefusal | null> {
    const taken = await waiting
    if (taken.kind === 'taken') return null
    if (taken.kind !== 'refused' || this.#settled || tries >= WINDOW_TRIES) return refusalOf(taken)
    // By log time its window has ended, or begins much later.
    const atMs = this.leases.ledger.retryMoment(this.budgets.tenantId, taken.reason, taken.open)
    if (atMs === null) return refusalOf(taken)
    return this.#reserve(budgets, bound, tries + 1, atMs)
  }

  /** Drops an account for which the records have no room, with what earlier attempts have counted of it. */
  #drop(entry: RequestAccount): void {
    this.#entries.splice(this.#entries.indexOf(entry), 1)
    entry.open.users--
    this.leases.leftOut(entry.open)
  }

  #entryOf(open: OpenAccount): RequestAccount {
    for (const entry of this.#entries) if (entry.lease === open.lease) return entry
    open.users++
    const entry = new RequestAccount(open)
    this.#entries.push(entry)
    return entry
  }

  /**
   * Takes the requested amounts beyond those that are reserved already. A counted budget needs no lease, and waits for
   * none.
   */
  #take(): Taken | Promise<Taken> {
    const entries = this.#requested
    const taken = entries.some(isDrawing) ? this.leases.take(entries) : TAKEN
    if (taken instanceof Promise) return this.#taken(taken)
    if (taken.kind === 'taken') for (const entry of entries) if (entry.isRequested) entry.granted()
    return taken
  }

  async #taken(waiting: Promise<Taken>): Promise<Taken> {
    const taken = await waiting
    if (taken.kind !== 'taken') return taken
    for (const entry of this.#requested) {
      if (!entry.isRequested) continue
      if (!this.#settled) entry.granted()
      else if (entry.isLeased) {
        // The request ended meanwhile: the amount would never be released.
        entry.isRequested = false
        entry.open.lease.release(entry.drawNanoUsd, entry.drawTokens)
        this.leases.freed(entry.open)
      }
    }
    return taken
  }
}

const isDrawing = (entry: RequestAccount): boolean => entry.isDrawing
