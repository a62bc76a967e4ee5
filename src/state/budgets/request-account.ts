// One account of a request, over all of its attempts: what is reserved of its lease, what attempts have cost, what the
// attempt under way may cost. Plain numbers, and one object for each request and account: amounts as objects take a
// large share of a request's time.
import { rest, sum } from '../../domain/budgets/amount.ts'
import type { Lease, LeaseCharge, LeaseSums } from '../../domain/budgets/lease.ts'
import type { BudgetCharge, BudgetPart } from '../../domain/budgets/recorded-parts.ts'
import type { Bound, Cost } from './attempt-bounds.ts'
import type { Draw } from './lease-requests.ts'
import type { OpenAccount } from './open-account.ts'
import type { Charged } from './request-accounts.ts'

export class RequestAccount implements LeaseCharge, Draw, Charged {
  /** Its lease at the first reservation: the account may get another one. */
  readonly lease: Lease
  readonly leasesMoney: boolean
  readonly leasesTokens: boolean
  /** Reserved of the lease. */
  reservedNanoUsd = 0
  reservedTokens = 0
  /** By attempts that ended, of the lease and beside it. */
  spentNanoUsd = 0
  spentTokens = 0
  countedNanoUsd = 0
  countedTokens = 0
  /** The part of the counted amounts that is beyond the reservation. */
  overrunNanoUsd = 0
  overrunTokens = 0
  /** The attempt under way falls under the account, with this bound on what it leases. */
  isBound = false
  boundNanoUsd = 0
  boundTokens = 0
  /** The requested bound of an attempt, and the further reservation that it needs. */
  isRequested = false
  requestedNanoUsd = 0
  requestedTokens = 0
  drawNanoUsd = 0
  drawTokens = 0
  /**
   * For an outcome that is about to be recorded: the sums that include it (null: it charges nothing), and what was
   * reserved and not spent.
   */
  total: LeaseSums | null = null
  restNanoUsd = 0
  restTokens = 0

  constructor(readonly open: OpenAccount) {
    this.lease = open.lease
    this.leasesMoney = open.budget.leasesMoney
    this.leasesTokens = open.budget.leasesTokens
  }

  get isLeased(): boolean {
    return this.leasesMoney || this.leasesTokens
  }

  get isDrawing(): boolean {
    return this.isRequested && this.isLeased
  }

  get isCharged(): boolean {
    return this.spentNanoUsd > 0 || this.spentTokens > 0 || this.countedNanoUsd > 0 || this.countedTokens > 0
  }

  /** Requests the bound of a new attempt, or a higher bound of the one under way. */
  request({ nanoUsd, tokens }: Bound, isMore: boolean): void {
    const money = this.leasesMoney ? (nanoUsd ?? 0) : 0
    const leasedTokens = this.leasesTokens ? tokens : 0
    this.isRequested = true
    this.requestedNanoUsd = isMore ? sum(this.boundNanoUsd, money) : money
    this.requestedTokens = isMore ? sum(this.boundTokens, leasedTokens) : leasedTokens
    this.drawNanoUsd = rest(sum(this.spentNanoUsd, this.requestedNanoUsd), this.reservedNanoUsd)
    this.drawTokens = rest(sum(this.spentTokens, this.requestedTokens), this.reservedTokens)
  }

  /** The requested amount is reserved. */
  granted(): void {
    this.isRequested = false
    this.isBound = true
    this.boundNanoUsd = this.requestedNanoUsd
    this.boundTokens = this.requestedTokens
    if (!this.isLeased) return
    this.reservedNanoUsd = sum(this.reservedNanoUsd, this.drawNanoUsd)
    this.reservedTokens = sum(this.reservedTokens, this.drawTokens)
  }

  /** The most that the request may cost with the attempt under way, for its record; null: nothing. */
  part(): BudgetPart | null {
    const { lease, isLeased: leased } = this
    const nano_usd = sum(sum(this.spentNanoUsd, this.countedNanoUsd), this.isBound ? this.boundNanoUsd : 0)
    const tokens = sum(sum(this.spentTokens, this.countedTokens), this.isBound ? this.boundTokens : 0)
    if (!this.isBound && nano_usd === 0 && tokens === 0) return null
    return { account: lease.account, holder: lease.holder, leased, nano_usd, tokens }
  }

  /** Releases what is reserved beyond what the record contains; returns whether there was something. */
  trim(): boolean {
    const nanoUsd = rest(this.reservedNanoUsd, sum(this.spentNanoUsd, this.isBound ? this.boundNanoUsd : 0))
    const tokens = rest(this.reservedTokens, sum(this.spentTokens, this.isBound ? this.boundTokens : 0))
    if (nanoUsd === 0 && tokens === 0) return false
    this.reservedNanoUsd -= nanoUsd
    this.reservedTokens -= tokens
    this.lease.release(nanoUsd, tokens)
    return true
  }

  /**
   * The attempt under way has ended; without a cost it was not made. Returns whether it went beyond what was reserved.
   */
  end(cost: Cost | null): boolean {
    if (!this.isBound) return false
    this.isBound = false
    if (cost === null) return false
    const { exact, atMost, nanoUsd, tokens } = cost
    const money = nanoUsd ?? 0
    const leasedMoney = this.leasesMoney ? money : 0
    const leasedTokens = this.leasesTokens ? tokens : 0
    let mostNanoUsd = leasedMoney
    let mostTokens = leasedTokens
    if (atMost !== undefined) {
      if (this.leasesMoney) mostNanoUsd = Math.max(mostNanoUsd, atMost.nano_usd ?? this.boundNanoUsd)
      if (this.leasesTokens) mostTokens = Math.max(mostTokens, atMost.tokens ?? this.boundTokens)
    }
    const overNanoUsd = exact ? rest(leasedMoney, this.boundNanoUsd) : 0
    const overTokens = exact ? rest(leasedTokens, this.boundTokens) : 0
    this.spentNanoUsd = sum(this.spentNanoUsd, Math.min(mostNanoUsd, this.boundNanoUsd))
    this.spentTokens = sum(this.spentTokens, Math.min(mostTokens, this.boundTokens))
    this.countedNanoUsd = sum(this.countedNanoUsd, sum(rest(money, leasedMoney), overNanoUsd))
    this.countedTokens = sum(this.countedTokens, sum(rest(tokens, leasedTokens), overTokens))
    this.overrunNanoUsd = sum(this.overrunNanoUsd, overNanoUsd)
    this.overrunTokens = sum(this.overrunTokens, overTokens)
    return overNanoUsd > 0 || overTokens > 0
  }

  /** Charges its lease with the whole cost; returns the charge for the outcome, null: nothing. */
  charge(): BudgetCharge | null {
    const { lease, isLeased: leased, overrunNanoUsd } = this
    lease.release(this.spentNanoUsd, this.spentTokens)
    this.restNanoUsd = rest(this.reservedNanoUsd, this.spentNanoUsd)
    this.restTokens = rest(this.reservedTokens, this.spentTokens)
    if (!this.isCharged) return null
    const total = lease.charge(this)
    this.total = total
    const nano_usd = sum(this.spentNanoUsd, this.countedNanoUsd) - overrunNanoUsd
    const tokens = sum(this.spentTokens, this.countedTokens)
    const charge = { account: lease.account, holder: lease.holder, leased, nano_usd, tokens, total }
    return overrunNanoUsd > 0 ? { ...charge, overrun_nano_usd: overrunNanoUsd } : charge
  }

  /** An amount that was only counted when the attempt began is taken of a lease now. */
  get isLate(): boolean {
    const { budget } = this.open
    return (budget.leasesMoney && !this.leasesMoney) || (budget.leasesTokens && !this.leasesTokens)
  }
}
