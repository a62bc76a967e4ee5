// What a budget may say, whatever there is.
import { isTimeZone } from '../../lib/time/time-zone.ts'
import { Rejection } from '../kernel/rejection.ts'
import type { BudgetFields } from './budget.ts'
import { isWindow } from './budget-window.ts'

const LIMITS = ['limit_usd', 'limit_tokens', 'hard_cap_usd'] as const
/** It says `enabled` false and no limit: all that it leaves out stays as the budget that it ends has it. */
export const onlyEnds = (said: Partial<BudgetFields>): boolean =>
  said.enabled === false && LIMITS.every((name) => said[name] === undefined)

const refuse = (message: string, param: string): never => {
  throw new Rejection('invalid', message, param)
}

/** Throws 400 for what no budget may say. */
export const requireSound = (window: string, { alert_thresholds, timezone }: BudgetFields): void => {
  if (!isWindow(window)) refuse('"window" must be hour, day, week, month, lifetime, or from 1h to 8784h', 'window')
  if (!isTimeZone(timezone))
    refuse(`"${timezone}" is not the IANA name of a time zone, such as Europe/Berlin`, 'timezone')
  if (alert_thresholds.some((threshold, i) => i > 0 && threshold <= alert_thresholds[i - 1]!))
    refuse('"alert_thresholds" must ascend', 'alert_thresholds')
}

/** Throws 400 for limits that no budget may have. */
export const requireSoundLimits = (fields: BudgetFields): void => {
  const { limit_usd, limit_tokens, hard_cap_usd, soft_limit_usd, alert_thresholds } = fields
  if (limit_usd === null && limit_tokens === null && hard_cap_usd === null)
    refuse('a budget needs at least one of "limit_usd", "limit_tokens" and "hard_cap_usd"', 'limit_usd')
  if (soft_limit_usd !== null && limit_usd !== null && soft_limit_usd > limit_usd)
    refuse('"soft_limit_usd" must not be above "limit_usd"', 'soft_limit_usd')
  if (alert_thresholds.length > 0 && limit_usd === null && limit_tokens === null)
    refuse('"alert_thresholds" are shares of a limit: set "limit_usd" or "limit_tokens"', 'alert_thresholds')
}
