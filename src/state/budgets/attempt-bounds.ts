// Bound and cost of an attempt, as budgets receive them.
import type { LeaseRefusal } from '../../domain/budgets/account.ts'
import type { Limits } from '../../domain/budgets/amount.ts'
import type { Taken } from './lease-requests.ts'
import type { OpenAccount } from './open-account.ts'

/** The most that an attempt may cost; null: no price is known. */
export interface Bound {
  readonly nanoUsd: number | null
  readonly tokens: number
}

/** What an attempt cost. */
export interface Cost {
  readonly nanoUsd: number | null
  readonly tokens: number
  /**
   * The provider reported the cost, or counted the tokens: an amount above the reservation is booked as overrun. An
   * estimate never is.
   */
  readonly exact: boolean
  /**
   * The most that may have been billed when the provider reported nothing: what a lease is charged instead, up to its
   * reservation. Null: the whole reservation. Absent: the provider reported it.
   */
  readonly atMost?: Limits
}

/** Why an attempt may not be made. `too_many`: more budgets limit it than its records may name. */
export interface BudgetRefusal {
  readonly reason: LeaseRefusal | 'no_price' | 'too_many' | 'unreachable'
  readonly open: OpenAccount
}

/** The amounts that an account limits: they are reserved of its lease. */
export interface Leases {
  readonly leasesMoney: boolean
  readonly leasesTokens: boolean
}

/** Why the amounts were not reserved. */
export const refusalOf = (taken: Exclude<Taken, { kind: 'taken' }>): BudgetRefusal => ({
  reason: taken.kind === 'unreachable' ? 'unreachable' : taken.reason,
  open: taken.open,
})
