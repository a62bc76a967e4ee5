// What has been spent of a budget that changes, from the view of an omniscient observer. It knows requests and
// decisions, and nothing of accounts, leases and folds. However the budget is changed and its windows are cut, no more
// is reserved of it than it allows.
import type { BudgetPart } from '../../../src/domain/budgets/recorded-parts.ts'
import type { Asked } from '../requests.ts'
import type { Run } from '../run.ts'
import { CHANGING, holds, type Kind, type Terms, termsOf, type Widening } from '../scenario/widening.ts'
import { NOBODY } from '../scheduler.ts'
import { checkClosed } from './standings.ts'

/** Of one request. */
interface Held {
  /** Reserved, then spent, of what is limited. */
  readonly leased: number
  /** Only counted, since this moment. */
  readonly counted: number
  readonly sinceMs: number
}

interface Decided {
  readonly atMs: number
  readonly budget: string
  readonly terms: Terms
}

const budgetOf = (account: string): string => account.slice(0, account.indexOf('/'))
const isChanging = (budget: string): boolean => budget.startsWith('bud_c')

/**
 * After this time every instance knows a decision and has the leases that it requested before, in a run without faults.
 */
const KNOWN_MS = 3_000
const CLOSED_MS = 1_000

export class Spending {
  readonly kind: Kind
  readonly #calm: boolean
  readonly #decided: Decided[]
  /** Budget -> request -> what it holds. All windows of one budget overlap here. */
  readonly #held = new Map<string, Map<string, Held>>()
  /** The most that was leased soon behind the last decision. */
  #mostSince = 0
  /** The most that it ever allowed. */
  mostAllowed: number

  constructor(
    private readonly run: Run,
    { kind, calm }: Widening,
  ) {
    this.kind = kind
    this.#calm = calm
    const terms = termsOf(kind)
    this.#decided = [{ atMs: 0, budget: CHANGING.budget, terms }]
    this.mostAllowed = this.#limitOf(terms)
  }

  /** Whether it was never only counted. */
  get wasAlwaysHard(): boolean {
    return this.kind !== 'modes'
  }

  /** Whether each attempt of a request falls under the same budget. */
  get #isAlwaysMet(): boolean {
    return this.kind !== 'modes' && this.kind !== 'remade'
  }

  /** What of an amount is limited. */
  limited({ nano_usd, tokens }: { readonly nano_usd: number; readonly tokens: number }): number {
    return this.kind === 'tokens' ? tokens : nano_usd
  }

  /** All that requests hold of a budget, or have cost it. */
  totalOf(budget: string): number {
    let sum = 0
    for (const { leased, counted } of this.#held.get(budget)?.values() ?? []) sum += leased + counted
    return sum
  }

  decides(budget: string, terms: Terms): void {
    this.#decided.push({ atMs: this.run.scheduler.nowMs, budget, terms })
    this.mostAllowed = Math.max(this.mostAllowed, this.#limitOf(terms))
    this.#mostSince = this.totalOf(budget)
  }

  /**
   * The record is acknowledged: from now on the request may cost so much. `sinceMs`: when the reservation was
   * requested.
   */
  holds({ id }: Asked, parts: readonly BudgetPart[], sinceMs: number): void {
    for (const [budget, leased] of this.#sums(parts.filter((part) => part.leased))) {
      const before = this.#held.get(budget)?.get(id)?.leased ?? 0
      this.#put(budget, id, { leased, counted: 0, sinceMs })
      this.#check(budget, id)
      // A request may use what an earlier attempt of it has left over, whatever was decided since.
      if (this.#calm && leased > before) this.#checkNow(budget, id, sinceMs)
    }
  }

  /** Its outcome is about to be recorded. */
  settles({ id, begunMs, charges, parts, billed }: Asked): void {
    const reserved = this.#sums(parts.filter((part) => part.leased))
    const leased = this.#sums(charges.filter((charge) => charge.leased))
    const counted = this.#sums(charges.filter((charge) => !charge.leased))
    const sinceMs = this.run.scheduler.nowMs
    for (const budget of new Set([...reserved.keys(), ...leased.keys(), ...counted.keys()])) {
      const [all, bound] = [leased.get(budget) ?? 0, reserved.get(budget) ?? 0]
      const own = reserved.has(budget) ? Math.min(all, bound) : all
      this.#put(budget, id, { leased: own, counted: counted.get(budget) ?? 0, sinceMs })
      if (charges.length > 0) this.#check(budget, id)
      if (reserved.has(budget) && all < this.limited(billed) && this.#isAlwaysMet)
        this.run.violated(`${id} is charged ${all} of ${budget}, and was billed ${this.limited(billed)}`)
      if (this.#calm && all > own && begunMs > this.#decided.at(-1)!.atMs + KNOWN_MS) this.#overran(budget)
    }
  }

  /**
   * A provider billed more than was reserved. Soon every instance reports the account as closed, unless its terms are
   * set again.
   */
  #overran(budget: string): void {
    const { run } = this
    const decided = this.#decided.length
    run.scheduler.after(CLOSED_MS, NOBODY, () => {
      if (this.#decided.length === decided) checkClosed(run, budget)
    })
  }

  /** The process of the request died: the log will show its outcome. */
  forgets({ id }: Asked): void {
    for (const held of this.#held.values()) held.delete(id)
  }

  /** Leases are never more than the budget has ever allowed, in any run. */
  #check(budget: string, id: string): void {
    let sum = 0
    for (const { leased } of this.#held.get(budget)!.values()) sum += leased
    if (sum > this.mostAllowed + this.run.tolerated)
      this.run.violated(`${budget} is overspent: ${sum} of ${this.mostAllowed}, by ${id}`)
  }

  /** Nor more than it allows now, beside what was counted before it began to hold. */
  #checkNow(budget: string, id: string, sinceMs: number): void {
    const { terms, limit, heldFromMs, budget: decidedOf } = this.#now(sinceMs)
    if (!holds(terms) || budget !== decidedOf) return
    let sum = 0
    for (const { leased, counted, sinceMs: countedMs } of this.#held.get(budget)!.values())
      sum += leased + (countedMs < heldFromMs ? counted : 0)
    // A lowered limit takes back no lease: what requests leave of their leases may be spent by other requests of their
    // instance.
    const isLowered = heldFromMs < this.#decided.at(-1)!.atMs
    if (isLowered && sinceMs < this.#decided.at(-1)!.atMs + KNOWN_MS) this.#mostSince = Math.max(this.#mostSince, sum)
    if (sum > limit && !(isLowered && sum <= this.#mostSince))
      this.run.violated(`${budget} allows ${limit}, and ${id} makes it ${sum}`)
  }

  /** The most that may still be believed to be allowed, and since when it holds. */
  #now(sinceMs: number): Decided & { readonly limit: number; readonly heldFromMs: number } {
    let limit = 0
    let heldFromMs = 0
    for (const [i, { atMs, terms }] of this.#decided.entries()) {
      const next = this.#decided[i + 1]
      if (next === undefined || next.atMs > sinceMs - KNOWN_MS) limit = Math.max(limit, this.#limitOf(terms))
      const before = this.#decided[i - 1]
      if (before !== undefined && holds(terms) && !holds(before.terms) && atMs <= sinceMs) heldFromMs = atMs
    }
    return { ...this.#decided.at(-1)!, limit, heldFromMs }
  }

  #limitOf({ limitNanoUsd, limitTokens }: Terms): number {
    return (this.kind === 'tokens' ? limitTokens : limitNanoUsd) ?? Number.POSITIVE_INFINITY
  }

  #put(budget: string, id: string, held: Held): void {
    const all = this.#held.get(budget) ?? new Map<string, Held>()
    this.#held.set(budget, all)
    all.set(id, held)
  }

  /** By budget: a request may fall into two windows of it, or under two names of a holder. */
  #sums(parts: readonly BudgetPart[]): Map<string, number> {
    const sums = new Map<string, number>()
    for (const part of parts) {
      const budget = budgetOf(part.account)
      if (isChanging(budget)) sums.set(budget, (sums.get(budget) ?? 0) + this.limited(part))
    }
    return sums
  }
}
