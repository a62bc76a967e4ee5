// What one request holds of the budgets that it falls under: reserved before each attempt, charged by its settlement, once and all together.
// A reservation is let go of only behind a record that no longer names it: what a crash leaves open never adds up to more than the leases held.
import { type Amount, isNothing, type Limits, minus, NO_AMOUNT, plus, within } from '../domain/amount.ts'
import type { BudgetCharge, BudgetPart } from '../domain/budget-events.ts'
import type { Lease, LeaseCharge, LeaseSums } from '../domain/lease.ts'
import { type Bound, type BudgetRefusal, type Cost, leasedOf, mostOf, ofLeased, refusalOf } from './attempt-bounds.ts'
import { TAKEN, type Taken } from './budget-asks.ts'
import type { BudgetLeases } from './budget-leases.ts'
import type { BudgetLine, TenantLines } from './budget-lines.ts'
import type { OpenAccount } from './budget-open.ts'
import { isLeased, namedWith } from './request-accounts.ts'

/** One account, for all attempts of the request. */
interface Entry {
  readonly open: OpenAccount
  /** Its lease when it was reserved from first: the account may get another one. */
  readonly lease: Lease
  readonly leasesMoney: boolean
  readonly leasesTokens: boolean
  /** Reserved of the lease. */
  held: Amount
  /** By attempts that ended, of the lease and beside it. */
  spent: Amount
  counted: Amount
  /** Of what is counted, what is beyond its reservation. */
  overrun: Amount
  /** Of the attempt under way; null: it does not fall under this account, or there is none. */
  bound: Amount | null
}

/** `lost`: it could not be written, and its admission is open until the next start. */
export type OutcomeFate = 'recorded' | 'never_admitted' | 'lost'

interface Ending {
  readonly open: OpenAccount
  readonly lease: Lease
  readonly leasesMoney: boolean
  readonly leasesTokens: boolean
  /** Reserved, and not spent. */
  readonly rest: Amount
  /** Null: it charges nothing. */
  readonly total: LeaseSums | null
  readonly charge: LeaseCharge
}

const WINDOW_TRIES = 3

export class RequestBudgets {
  readonly #entries: Entry[] = []
  /** Of an outcome that is about to be recorded. */
  #ending: Ending[] = []
  #settled = false

  constructor(
    private readonly leases: BudgetLeases,
    private readonly tenantId: string,
    private readonly lines: TenantLines,
    /** Those that hold whoever answers. */
    private readonly whole: readonly BudgetLine[],
    private readonly atMs: number,
    /** The number of the spool's next record. */
    private readonly spoolEnd: () => number,
  ) {}

  /** Reserves the bound of an attempt of every account that it falls under, or of none: null, or why not. Waits only for leases that are used up. */
  reserve(providerId: string, model: string, bound: Bound): BudgetRefusal | null | Promise<BudgetRefusal | null> {
    const own = this.lines.ofCandidate(providerId, model)
    const lines = own.length === 0 ? this.whole : [...this.whole, ...own]
    return this.#reserve(lines, bound, 1, this.leases.ledger.trusted(this.atMs))
  }

  /** Reserves more for the attempt under way. What is granted once the request is settled goes straight back. */
  async extend(more: Bound): Promise<BudgetRefusal | null> {
    const active = this.#entries.filter(({ bound }) => bound !== null)
    const bounds = active.map((entry) => plus(entry.bound!, leasedOf(entry, more)))
    const taken = await this.#take(active, bounds)
    return taken.kind === 'taken' ? null : refusalOf(taken)
  }

  /** What is reserved for the attempt under way: the least of its accounts. Null: none of them limits money, or tokens. */
  bound(): Limits {
    let nano_usd: number | null = null
    let tokens: number | null = null
    for (const { leasesMoney, leasesTokens, bound } of this.#entries) {
      if (bound === null) continue
      if (leasesMoney) nano_usd = Math.min(nano_usd ?? bound.nano_usd, bound.nano_usd)
      if (leasesTokens) tokens = Math.min(tokens ?? bound.tokens, bound.tokens)
    }
    return { nano_usd, tokens }
  }

  /** What the request may come to with the attempt under way, as its record says it. Undefined: nothing. */
  parts(): BudgetPart[] | undefined {
    const parts: BudgetPart[] = []
    for (const { lease, leasesMoney, leasesTokens, spent, counted, bound } of this.#entries) {
      const { nano_usd, tokens } = plus(plus(spent, counted), bound ?? NO_AMOUNT)
      if (bound !== null || nano_usd > 0 || tokens > 0)
        parts.push({
          account: lease.account,
          holder: lease.holder,
          leased: leasesMoney || leasesTokens,
          nano_usd,
          tokens,
        })
    }
    return parts.length === 0 ? undefined : parts
  }

  /** The attempt stands in the spool with its `parts`: what is held beyond them is free again. */
  recorded(): void {
    for (const entry of this.#entries) {
      const { open, lease, held, spent, bound } = entry
      const needed = bound === null ? spent : plus(spent, bound)
      const rest = minus(held, needed)
      if (isNothing(rest)) continue
      entry.held = minus(held, rest)
      lease.release(rest)
      this.leases.freed(open)
    }
  }

  /** The attempt under way has ended; without a cost it was not made. */
  endAttempt(cost: Cost | null): void {
    for (const entry of this.#entries) {
      const { bound } = entry
      if (bound === null) continue
      entry.bound = null
      if (cost === null) continue
      const all = { nano_usd: cost.nanoUsd ?? 0, tokens: cost.tokens }
      const leased = ofLeased(entry, all)
      const spent = within(mostOf(entry, leased, bound, cost), bound)
      const overrun = cost.exact ? minus(leased, bound) : NO_AMOUNT
      entry.spent = plus(entry.spent, spent)
      entry.counted = plus(entry.counted, plus(minus(all, leased), overrun))
      entry.overrun = plus(entry.overrun, overrun)
      if (!isNothing(overrun)) this.leases.overran(entry.open)
    }
  }

  /** Charges everything, once. Call it right before the outcome is appended: what it answers stands in that record; then `outcomeWas`. */
  settle(): BudgetCharge[] {
    if (this.#settled) return []
    this.#settled = true
    const charges: BudgetCharge[] = []
    for (const { open, lease, leasesMoney, leasesTokens, held, spent, counted, overrun } of this.#entries) {
      lease.release(spent)
      const rest = minus(held, spent)
      const all = plus(spent, counted)
      const charge = { spent, counted, overrun }
      let total: LeaseSums | null = null
      if (!isNothing(all)) {
        total = lease.charge(charge)
        open.charged(this.spoolEnd())
        const told: BudgetCharge = {
          account: lease.account,
          holder: lease.holder,
          leased: leasesMoney || leasesTokens,
          nano_usd: all.nano_usd - overrun.nano_usd,
          tokens: all.tokens,
          total,
        }
        charges.push(overrun.nano_usd > 0 ? { ...told, overrun_nano_usd: overrun.nano_usd } : told)
      }
      this.#ending.push({ open, lease, leasesMoney, leasesTokens, rest, charge, total })
    }
    return charges
  }

  /**
   * What became of that outcome. Only now is the log told what it cost, and the rest of what was reserved is free: should a crash come first, all of
   * that is settled as orphaned.
   */
  outcomeWas(fate: OutcomeFate): void {
    const nowMs = this.leases.deps.monotonicMs()
    const ending = this.#ending
    this.#ending = []
    for (const { open, lease, leasesMoney, leasesTokens, rest, charge, total } of ending) {
      // A lost one is charged by the next start: until then nobody may close the holder as one that has told all.
      if (fate !== 'lost') open.users--
      if (total !== null) open.recorded()
      if (fate === 'lost') lease.takeBack(charge, nowMs)
      else lease.release(rest)
      if (total !== null && fate !== 'lost') lease.record(total, nowMs)
      // What was only counted when it was begun takes room now that others may be granted.
      const { line } = open
      const isLate = (line.leasesMoney && !leasesMoney) || (line.leasesTokens && !leasesTokens)
      if (!isNothing(charge.overrun) || isLate) this.leases.tell(open)
      this.leases.freed(open)
    }
  }

  #reserve(
    lines: readonly BudgetLine[],
    bound: Bound,
    tries: number,
    atMs: number,
  ): BudgetRefusal | null | Promise<BudgetRefusal | null> {
    const entries: Entry[] = []
    const bounds: Amount[] = []
    const opens: OpenAccount[] = []
    for (let i = 0; i < lines.length; i++) opens.push(this.leases.open(this.tenantId, lines[i]!, atMs))
    const named = namedWith(this.#entries, opens)
    if (named === null)
      return { reason: 'too_many', open: opens.findLast(({ line }) => isLeased(line)) ?? opens.at(-1)! }
    for (const entry of named.dropped) this.#drop(entry)
    if (named.opens !== opens) for (const open of opens) if (!named.opens.includes(open)) this.leases.leftOut(open)
    for (const open of named.opens) {
      const entry = this.#entryOf(open)
      if (entry.leasesMoney && bound.nanoUsd === null) return { reason: 'no_price', open: entry.open }
      entries.push(entry)
      bounds.push(leasedOf(entry, bound))
    }
    const taken = this.#take(entries, bounds)
    if (taken instanceof Promise) return this.#afterWaiting(taken, lines, bound, tries)
    return taken.kind === 'taken' ? null : refusalOf(taken)
  }

  async #afterWaiting(
    waiting: Promise<Taken>,
    lines: readonly BudgetLine[],
    bound: Bound,
    tries: number,
  ): Promise<BudgetRefusal | null> {
    const taken = await waiting
    if (taken.kind === 'taken') return null
    if (taken.kind !== 'refused' || tries >= WINDOW_TRIES) return refusalOf(taken)
    // Its window has ended, or is far away, by the log's clock, whatever ours says.
    const atMs = this.leases.ledger.otherwise(this.tenantId, taken.reason, taken.open)
    if (atMs === null) return refusalOf(taken)
    return this.#reserve(lines, bound, tries + 1, atMs)
  }

  /** Its records have no room for what attempts before have counted of it. */
  #drop(entry: Entry): void {
    this.#entries.splice(this.#entries.indexOf(entry), 1)
    entry.open.users--
    this.leases.leftOut(entry.open)
  }

  #entryOf(open: OpenAccount): Entry {
    for (const entry of this.#entries) if (entry.lease === open.lease) return entry
    open.users++
    const { leasesMoney, leasesTokens } = open.line
    const entry: Entry = {
      open,
      lease: open.lease,
      leasesMoney,
      leasesTokens,
      held: NO_AMOUNT,
      spent: NO_AMOUNT,
      counted: NO_AMOUNT,
      overrun: NO_AMOUNT,
      bound: null,
    }
    this.#entries.push(entry)
    return entry
  }

  /** Takes what these bounds need beyond what is held already. What is only counted needs no lease, and waits for none. */
  #take(entries: readonly Entry[], bounds: readonly Amount[]): Taken | Promise<Taken> {
    const opens: OpenAccount[] = []
    const amounts: Amount[] = []
    for (let i = 0; i < entries.length; i++) {
      const { open, leasesMoney, leasesTokens, spent, held } = entries[i]!
      if (!leasesMoney && !leasesTokens) continue
      opens.push(open)
      amounts.push(minus(plus(spent, bounds[i]!), held))
    }
    const taken = opens.length === 0 ? TAKEN : this.leases.take(opens, amounts)
    if (!(taken instanceof Promise)) return bound(taken, entries, bounds, amounts)
    return taken.then((later) => {
      if (!this.#settled) return bound(later, entries, bounds, amounts)
      if (later.kind === 'taken') this.#giveBack(opens, amounts)
      return later
    })
  }

  /** Granted to a request that had ended meanwhile: nobody would ever let go of it. */
  #giveBack(opens: readonly OpenAccount[], amounts: readonly Amount[]): void {
    for (let i = 0; i < opens.length; i++) {
      opens[i]!.lease.release(amounts[i]!)
      this.leases.freed(opens[i]!)
    }
  }
}

/** What was taken is what the attempt under way may cost. `amounts`: of those that take from leases, in their order. */
const bound = (taken: Taken, entries: readonly Entry[], bounds: readonly Amount[], amounts: readonly Amount[]) => {
  if (taken.kind !== 'taken') return taken
  let next = 0
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i]!
    entry.bound = bounds[i]!
    if (entry.leasesMoney || entry.leasesTokens) entry.held = plus(entry.held, amounts[next++]!)
  }
  return taken
}
