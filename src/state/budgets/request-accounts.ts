// The accounts that the records of a request name, over all of its attempts, so that the records stay within their
// bound.
import { MOST_ACCOUNTS } from '../../domain/budgets/budget-events.ts'
import type { Lease } from '../../domain/budgets/lease.ts'
import type { Leases } from './attempt-bounds.ts'
import type { OpenAccount } from './open-account.ts'

/** An account of which earlier attempts have reserved. */
export interface Charged extends Leases {
  readonly open: OpenAccount
  readonly lease: Lease
  /** It has a charge already. */
  readonly isCharged: boolean
}

export interface Named<Entry> {
  /** Accounts that limit the attempt. */
  readonly opens: OpenAccount[]
  /** Accounts that are no longer counted, to make room. */
  readonly dropped: readonly Entry[]
}

/** Whether a lease limits it: without it the request may not continue. */
export const isLeased = ({ leasesMoney, leasesTokens }: Leases): boolean => leasesMoney || leasesTokens

/** Whether the records have room for so many more, of any kind. */
export const hasRoomFor = (entries: readonly unknown[], more: number): boolean => entries.length + more <= MOST_ACCOUNTS

/**
 * The accounts that the records name once the next attempt begins: those of it, and those that earlier attempts have
 * charged; windows may have ended between them, so that a budget has two. Where they are too many, counted budgets are
 * left out first. Null: the leased ones alone are too many.
 */
export const namedWith = <Entry extends Charged>(
  entries: readonly Entry[],
  opens: readonly OpenAccount[],
): Named<Entry> | null => {
  const charged = entries.filter(({ isCharged }) => isCharged)
  const named = new Set<Lease>()
  for (const entry of charged) if (isLeased(entry)) named.add(entry.lease)
  for (const { budget, lease } of opens) if (isLeased(budget)) named.add(lease)
  if (named.size > MOST_ACCOUNTS) return null
  const fits = (lease: Lease): boolean => {
    if (!named.has(lease) && named.size === MOST_ACCOUNTS) return false
    named.add(lease)
    return true
  }
  const dropped = charged.filter(({ lease }) => !fits(lease))
  return { opens: opens.filter(({ lease }) => fits(lease)), dropped }
}
