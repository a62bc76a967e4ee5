// What one process holds of an account: granted by the log, spent in memory. Sums since the process's start; what is spent never exceeds what was granted.
import { type Amount, isEqual, isNothing, minus, NO_AMOUNT, plus } from './amount.ts'
import type { LeaseTally } from './budget-events.ts'

/** What an outcome charges to an account. */
export interface LeaseCharge {
  /** Of what was reserved. */
  readonly spent: Amount
  /** Without a lease. */
  readonly counted: Amount
  /** Of that, what is beyond what was reserved. */
  readonly overrun: Amount
}

/** Sums of what outcomes have charged. */
export type LeaseSums = Pick<LeaseTally, 'spent' | 'counted' | 'overrun_nano_usd' | 'overrun_tokens'>

/** An overrun as records say it. */
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
  spent: Amount = NO_AMOUNT
  counted: Amount = NO_AMOUNT
  overrun: Amount = NO_AMOUNT
  /** Of these three, what stands in outcomes that are recorded. Only that is told: what a crash keeps from being recorded is settled as orphaned, at what was reserved. */
  recorded: LeaseSums = NO_SUMS
  /** Held by requests under way. */
  reserved: Amount = NO_AMOUNT
  /** Monotonic milliseconds: not spent from later, unless it is renewed. */
  usableUntilMs = 0
  /** Something was charged that was not told yet, and since when (monotonic); null: nothing. */
  untoldSinceMs: number | null = null
  /** When something was reserved last (monotonic), and how much since the last grant. */
  usedAtMs = 0
  drawnNanoUsd = 0
  drawnTokens = 0

  constructor(
    readonly account: string,
    /** Whose sums these are. */
    readonly holder: string,
  ) {}

  /** What can be reserved. */
  free(): Amount {
    return { nano_usd: this.freeNanoUsd, tokens: this.freeTokens }
  }

  get freeNanoUsd(): number {
    return Math.max(0, this.granted.nano_usd - this.returned.nano_usd - this.spent.nano_usd - this.reserved.nano_usd)
  }

  get freeTokens(): number {
    return Math.max(0, this.granted.tokens - this.returned.tokens - this.spent.tokens - this.reserved.tokens)
  }

  isUsable(nowMs: number): boolean {
    return nowMs < this.usableUntilMs
  }

  has(amount: Amount, nowMs: number): boolean {
    if (nowMs >= this.usableUntilMs) return false
    return amount.nano_usd <= this.freeNanoUsd && amount.tokens <= this.freeTokens
  }

  /** Reserves so much, or nothing. */
  take(amount: Amount, nowMs: number): boolean {
    if (!this.has(amount, nowMs)) return false
    this.reserved = plus(this.reserved, amount)
    this.usedAtMs = nowMs
    this.drawnNanoUsd += amount.nano_usd
    this.drawnTokens += amount.tokens
    return true
  }

  /** Lets go of a reservation, or of a part of one. */
  release(amount: Amount): void {
    this.reserved = minus(this.reserved, amount)
  }

  /** An outcome that is about to be recorded: what it cost counts. Its reservation is released beforehand, in the same turn. Answers the sums with it. */
  charge({ spent, counted, overrun }: LeaseCharge): LeaseSums {
    this.spent = plus(this.spent, spent)
    this.counted = plus(this.counted, counted)
    this.overrun = plus(this.overrun, overrun)
    return this.#sums()
  }

  /**
   * An outcome that could not be recorded: what it cost is reserved again, until it is settled as orphaned. That it went beyond what was reserved no record
   * would ever say: that alone is told.
   */
  takeBack({ spent, counted, overrun }: LeaseCharge, nowMs: number): void {
    this.spent = minus(this.spent, spent)
    this.counted = minus(this.counted, counted)
    this.reserved = plus(this.reserved, spent)
    if (isNothing(overrun)) return
    const all = plus(overrunIn(this.recorded), overrun)
    this.recorded = { ...this.recorded, ...overrunSums(all) }
    this.untoldSinceMs ??= nowMs
  }

  /** The outcome with which the sums were these is recorded, and all before it. */
  record(sums: LeaseSums, nowMs: number): void {
    this.recorded = sums
    this.untoldSinceMs ??= nowMs
  }

  /** Goes on where this holder stopped: an account that was let go of is needed again. */
  resume(told: LeaseTally & { readonly granted: Amount }): void {
    const { granted, returned, spent, counted } = told
    this.granted = granted
    this.returned = returned
    this.spent = spent
    this.counted = counted
    this.overrun = overrunIn(told)
    this.recorded = this.#sums()
  }

  /** Whether the log has been told all of it. */
  isTold(told: Omit<LeaseTally, 'account'> | undefined): boolean {
    const { returned, spent, counted, overrun } = this
    if (told === undefined) return [returned, spent, counted].every(isNothing)
    const areEqual = isEqual(told.returned, returned) && isEqual(told.spent, spent) && isEqual(told.counted, counted)
    return areEqual && isEqual(overrunIn(told), overrun)
  }

  #sums(): LeaseSums {
    const { spent, counted, overrun } = this
    // Once for each outcome: a spread costs more than all the rest of it.
    return overrun.tokens > 0
      ? { spent, counted, overrun_nano_usd: overrun.nano_usd, overrun_tokens: overrun.tokens }
      : { spent, counted, overrun_nano_usd: overrun.nano_usd }
  }

  /** Gives back what is not needed: from now on it is not spent, and the log is told. */
  giveBack(amount: Amount, nowMs: number): void {
    this.returned = plus(this.returned, amount)
    this.untoldSinceMs ??= nowMs
  }

  /** What the log is told. */
  tally(): LeaseTally {
    return { account: this.account, returned: this.returned, ...this.recorded }
  }
}
