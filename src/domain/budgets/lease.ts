// What one process leases of an account: granted by the log, spent in memory. Sums since the process's start; what is
// spent never exceeds what was granted. The sums that every request changes are plain numbers, since an object for each
// sum is the largest cost here.
import { type Amount, isEqual, isNothing, NO_AMOUNT, plus, rest, sum } from './amount.ts'
import type { LeaseTally } from './budget-events.ts'

/** The charge of an outcome to an account. */
export interface LeaseCharge {
  /** From the reservation. */
  readonly spentNanoUsd: number
  readonly spentTokens: number
  /** Without a lease. */
  readonly countedNanoUsd: number
  readonly countedTokens: number
  /** The part of it that is beyond the reservation. */
  readonly overrunNanoUsd: number
  readonly overrunTokens: number
}

/** Sums of the charges of outcomes. */
export type LeaseSums = Pick<LeaseTally, 'spent' | 'counted' | 'overrun_nano_usd' | 'overrun_tokens'>

/** An overrun as an amount, from the fields of a record. */
export const overrunIn = ({ overrun_nano_usd, overrun_tokens = 0 }: Omit<LeaseSums, 'spent' | 'counted'>): Amount => ({
  nano_usd: overrun_nano_usd,
  tokens: overrun_tokens,
})

export const overrunSums = ({ nano_usd, tokens }: Amount): Omit<LeaseSums, 'spent' | 'counted'> =>
  tokens > 0 ? { overrun_nano_usd: nano_usd, overrun_tokens: tokens } : { overrun_nano_usd: nano_usd }

const NO_SUMS: LeaseSums = { spent: NO_AMOUNT, counted: NO_AMOUNT, overrun_nano_usd: 0 }

export class Lease {
  granted: Amount = NO_AMOUNT
  returned: Amount = NO_AMOUNT
  #spentNanoUsd = 0
  #spentTokens = 0
  #countedNanoUsd = 0
  #countedTokens = 0
  #overrunNanoUsd = 0
  #overrunTokens = 0
  #reservedNanoUsd = 0
  #reservedTokens = 0
  /**
   * The part of the spent, counted and overrun sums whose outcomes are recorded. Only this part is reported: an outcome
   * that a crash keeps from being recorded is settled as orphaned, at what was reserved.
   */
  recorded: LeaseSums = NO_SUMS
  /** Monotonic milliseconds: later it is not spent from, unless it is renewed. */
  usableUntilMs = 0
  /** Since when a charge is unreported (monotonic); null: all charges are reported. */
  unreportedSinceMs: number | null = null
  /** Time of the last reservation (monotonic), and the amount reserved since the last grant. */
  usedAtMs = 0
  drawnNanoUsd = 0
  drawnTokens = 0

  constructor(
    readonly account: string,
    /** The holder of these sums. */
    readonly holder: string,
  ) {}

  get spent(): Amount {
    return { nano_usd: this.#spentNanoUsd, tokens: this.#spentTokens }
  }

  get counted(): Amount {
    return { nano_usd: this.#countedNanoUsd, tokens: this.#countedTokens }
  }

  get overrun(): Amount {
    return { nano_usd: this.#overrunNanoUsd, tokens: this.#overrunTokens }
  }

  /** Reserved by requests under way. */
  get reserved(): Amount {
    return { nano_usd: this.#reservedNanoUsd, tokens: this.#reservedTokens }
  }

  /** Nothing is reserved. */
  get isIdle(): boolean {
    return this.#reservedNanoUsd === 0 && this.#reservedTokens === 0
  }

  /** The amount that can be reserved. */
  free(): Amount {
    return { nano_usd: this.freeNanoUsd, tokens: this.freeTokens }
  }

  get freeNanoUsd(): number {
    return Math.max(0, this.granted.nano_usd - this.returned.nano_usd - this.#spentNanoUsd - this.#reservedNanoUsd)
  }

  get freeTokens(): number {
    return Math.max(0, this.granted.tokens - this.returned.tokens - this.#spentTokens - this.#reservedTokens)
  }

  isUsable(nowMs: number): boolean {
    return nowMs < this.usableUntilMs
  }

  has(nanoUsd: number, tokens: number, nowMs: number): boolean {
    return nowMs < this.usableUntilMs && nanoUsd <= this.freeNanoUsd && tokens <= this.freeTokens
  }

  /** Reserves the whole amount, or nothing. */
  take(nanoUsd: number, tokens: number, nowMs: number): boolean {
    if (!this.has(nanoUsd, tokens, nowMs)) return false
    this.#reserve(nanoUsd, tokens)
    this.usedAtMs = nowMs
    this.drawnNanoUsd += nanoUsd
    this.drawnTokens += tokens
    return true
  }

  /** Releases a reservation, or a part of one. */
  release(nanoUsd: number, tokens: number): void {
    this.#reservedNanoUsd = rest(this.#reservedNanoUsd, nanoUsd)
    this.#reservedTokens = rest(this.#reservedTokens, tokens)
  }

  /**
   * Charges an outcome that is about to be recorded. Its reservation is released beforehand, in the same iteration of
   * the event loop. Returns the sums that include it.
   */
  charge(charge: LeaseCharge): LeaseSums {
    this.#spentNanoUsd = sum(this.#spentNanoUsd, charge.spentNanoUsd)
    this.#spentTokens = sum(this.#spentTokens, charge.spentTokens)
    this.#countedNanoUsd = sum(this.#countedNanoUsd, charge.countedNanoUsd)
    this.#countedTokens = sum(this.#countedTokens, charge.countedTokens)
    this.#overrunNanoUsd = sum(this.#overrunNanoUsd, charge.overrunNanoUsd)
    this.#overrunTokens = sum(this.#overrunTokens, charge.overrunTokens)
    return this.#sums()
  }

  /**
   * Takes back the charge of an outcome that could not be recorded: its cost is reserved again until it is settled as
   * orphaned. Only an overrun beyond the reservation stays and is reported, since no later record would contain it.
   */
  takeBack(charge: LeaseCharge, nowMs: number): void {
    this.#spentNanoUsd = rest(this.#spentNanoUsd, charge.spentNanoUsd)
    this.#spentTokens = rest(this.#spentTokens, charge.spentTokens)
    this.#countedNanoUsd = rest(this.#countedNanoUsd, charge.countedNanoUsd)
    this.#countedTokens = rest(this.#countedTokens, charge.countedTokens)
    this.#reserve(charge.spentNanoUsd, charge.spentTokens)
    const overrun = { nano_usd: charge.overrunNanoUsd, tokens: charge.overrunTokens }
    if (isNothing(overrun)) return
    this.recorded = { ...this.recorded, ...overrunSums(plus(overrunIn(this.recorded), overrun)) }
    this.unreportedSinceMs ??= nowMs
  }

  /** The outcome that is included in these sums is recorded, and all before it. */
  record(sums: LeaseSums, nowMs: number): void {
    this.recorded = sums
    this.unreportedSinceMs ??= nowMs
  }

  /** Continues from the sums of this holder in the log: an account that was released is needed again. */
  resume(reported: LeaseTally & { readonly granted: Amount }): void {
    const { granted, returned, spent, counted } = reported
    const overrun = overrunIn(reported)
    this.granted = granted
    this.returned = returned
    this.#spentNanoUsd = spent.nano_usd
    this.#spentTokens = spent.tokens
    this.#countedNanoUsd = counted.nano_usd
    this.#countedTokens = counted.tokens
    this.#overrunNanoUsd = overrun.nano_usd
    this.#overrunTokens = overrun.tokens
    this.recorded = this.#sums()
  }

  /** Whether the log contains all of these sums. */
  isReported(reported: Omit<LeaseTally, 'account'> | undefined): boolean {
    const { returned, spent, counted, overrun } = this
    if (reported === undefined) return [returned, spent, counted].every(isNothing)
    const areEqual =
      isEqual(reported.returned, returned) && isEqual(reported.spent, spent) && isEqual(reported.counted, counted)
    return areEqual && isEqual(overrunIn(reported), overrun)
  }

  #reserve(nanoUsd: number, tokens: number): void {
    this.#reservedNanoUsd = sum(this.#reservedNanoUsd, nanoUsd)
    this.#reservedTokens = sum(this.#reservedTokens, tokens)
  }

  #sums(): LeaseSums {
    const { spent, counted } = this
    // Runs once for each outcome: building the object by a spread is too slow.
    return this.#overrunTokens > 0
      ? { spent, counted, overrun_nano_usd: this.#overrunNanoUsd, overrun_tokens: this.#overrunTokens }
      : { spent, counted, overrun_nano_usd: this.#overrunNanoUsd }
  }

  /** Gives back an amount that is not needed: it can no longer be spent, and the next record reports it. */
  giveBack(amount: Amount, nowMs: number): void {
    this.returned = plus(this.returned, amount)
    this.unreportedSinceMs ??= nowMs
  }

  /** The sums that are reported to the log. */
  tally(): LeaseTally {
    return { account: this.account, returned: this.returned, ...this.recorded }
  }
}
