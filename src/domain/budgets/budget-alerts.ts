// Thresholds of a budget: which of them are reached, and which alerts may be repeated. Pure.
import type { Account } from './account.ts'
import type { Amount } from './amount.ts'
import type { AccountAlerted, AccountLimited } from './budget-events.ts'

type Limited = Pick<Account, 'limit_nano_usd' | 'limit_tokens'>

/** The soft limit as a threshold. */
const SOFT = 0

/** What was spent as a share of the limit, of money or of tokens, whichever is more. */
const shareOf = ({ limit_nano_usd, limit_tokens }: Limited, { nano_usd, tokens }: Amount): number => {
  const share = (limit: number | null, spent: number): number => (limit === null || limit === 0 ? 0 : spent / limit)
  return Math.max(share(limit_nano_usd, nano_usd), share(limit_tokens, tokens))
}

/** Thresholds that are reached and have no alert yet; 0: the soft limit. A list that goes beyond 10 is in percent. */
export const reached = (
  account: Limited & Pick<Account, 'alerted'>,
  spent: Amount,
  thresholds: readonly number[],
  softNanoUsd: number | null,
): number[] => {
  const scale = (thresholds.at(-1) ?? 0) > 10 ? 100 : 1
  const share = shareOf(account, spent)
  const found = thresholds.map((threshold) => threshold / scale).filter((threshold) => share >= threshold)
  if (softNanoUsd !== null && spent.nano_usd >= softNanoUsd) found.push(SOFT)
  return found.filter((threshold) => !account.alerted.includes(threshold))
}

/**
 * Of the thresholds with an alert, those that these terms still reach. A threshold that is no longer reached gets a new
 * alert when it is reached again.
 */
export const stillAlerted = (terms: AccountLimited, spent: Amount, alerted: readonly number[]): readonly number[] => {
  const share = shareOf(terms, spent)
  const { soft_limit_nano_usd: soft } = terms
  const isOverSoft = soft === undefined || (soft !== null && spent.nano_usd >= soft)
  return alerted.filter((threshold) => (threshold === SOFT ? isOverSoft : share >= threshold))
}

/** Whether this alert is new for the present limits. A late alert about former limits is not. */
export const isNewAlert = (account: Limited & Pick<Account, 'alerted'>, alert: AccountAlerted): boolean =>
  !account.alerted.includes(alert.threshold) &&
  alert.limit_nano_usd === account.limit_nano_usd &&
  alert.limit_tokens === account.limit_tokens
