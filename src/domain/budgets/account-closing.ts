// When an account takes no further leases whatever is left of it, and when it opens again. Pure.
import type { Account } from './account.ts'
import type { Amount } from './amount.ts'
import { stillAlerted } from './budget-alerts.ts'
import type { AccountLimited } from './budget-events.ts'

/** Why an account is closed until its limits are set again. */
export type Closing = 'overrun' | 'forgotten'

/** Identifies a copy of a budget's terms. */
export interface Heights {
  readonly height: number
  readonly limits_height?: number
}

/**
 * The height of the decision that set the limits last. Records of earlier builds lack it; there every decision counts
 * as one that set them.
 */
export const limitsHeightOf = ({ height, limits_height }: Heights): number => limits_height ?? height

/**
 * The height that reopens an account that was closed below it. `isSaid`: copies of the terms carry `limits_height`;
 * while they do not, every decision reopens the account.
 */
export const opensAt = (heights: Heights, hasLimitsHeight: boolean): number =>
  hasLimitsHeight ? limitsHeightOf(heights) : heights.height

/** Why an account is closed until its limits are set again; null: it is not. */
export const closedFor = ({
  overrun_height,
  height,
  forgotten,
}: Pick<Account, 'overrun_height' | 'height' | 'forgotten'>): Closing | null =>
  overrun_height !== height ? null : forgotten === true ? 'forgotten' : 'overrun'

/** The height up to which an account is closed; -1: it is not. Limits that are set above it open it. */
export const closedUpTo = (account: Account): number => (closedFor(account) === null ? -1 : account.height)

/** The account with a newer copy of its budget's terms. A closed one stays closed where no limits were set since. */
export const withTerms = (account: Account, terms: AccountLimited, spent: Amount): Account => {
  const limits_height = limitsHeightOf(terms)
  const stays = limits_height <= closedUpTo(account)
  const overrun_height = stays ? terms.height : account.overrun_height
  const alerted = stillAlerted(terms, spent, account.alerted)
  return { ...account, ...terms, limits_height, overrun_height, alerted }
}
