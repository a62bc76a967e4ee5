// What one process holds of an account: granted by the log, spent in memory. Sums since the process's start; what is spent never exceeds what was granted.
import { type Amount, minus, NO_AMOUNT, plus } from './amount.ts'
import type { LeaseTally } from './budget-events.ts'

/** What an outcome charges to an account. */
export interface LeaseCharge {
  /** Of what was reserved. */
  readonly spent: Amount
  /** Without a lease. */
  readonly counted: Amount
  readonly overrun_nano_usd: number
}

export class Lease {
  granted: Amount = NO_AMOUNT
  returned: Amount = NO_AMOUNT
  spent: Amount = NO_AMOUNT
  counted: Amount = NO_AMOUNT
  overrunNanoUsd = 0
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
    return minus(minus(this.granted, this.returned), plus(this.spent, this.reserved))
  }

  isUsable(nowMs: number): boolean {
    return nowMs < this.usableUntilMs
  }

  has(amount: Amount, nowMs: number): boolean {
    if (nowMs >= this.usableUntilMs) return false
    const { nano_usd, tokens } = this.free()
    return amount.nano_usd <= nano_usd && amount.tokens <= tokens
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

  /** An outcome: what it cost counts. Its reservation is released beforehand, in the same turn. */
  charge({ spent, counted, overrun_nano_usd }: LeaseCharge, nowMs: number): void {
    this.spent = plus(this.spent, spent)
    this.counted = plus(this.counted, counted)
    this.overrunNanoUsd += overrun_nano_usd
    this.untoldSinceMs ??= nowMs
  }

  /** Gives back what is not needed: from now on it is not spent, and the log is told. */
  giveBack(amount: Amount, nowMs: number): void {
    this.returned = plus(this.returned, amount)
    this.untoldSinceMs ??= nowMs
  }

  /** What the log is told. */
  tally(): LeaseTally {
    const { account, returned, spent, counted, overrunNanoUsd } = this
    return { account, returned, spent, counted, overrun_nano_usd: overrunNanoUsd }
  }
}
