// Limits and caps in USD, as they are stored: whole nano-USD.
import { capNanoUsdOf, usdOf } from '../../lib/money.ts'
import { Rejection } from '../kernel/rejection.ts'

/**
 * In nano-USD, rounded down. Throws Rejection for an amount that would round to zero: a cap of zero means something
 * else than a very small cap.
 */
export const capNanoUsd = (usd: number, param: string): number => {
  const nanoUsd = capNanoUsdOf(usd)
  if (usd > 0 && nanoUsd === 0)
    throw new Rejection('invalid', `"${param}" must be 0 or at least 0.000000001: money is counted in nano-USD`, param)
  return nanoUsd
}

/** Rounded down to whole nano-USD: stored, shown and compared values are the same. Null stays null. */
export const capUsd = (usd: number | null, param: string): number | null =>
  usd === null ? null : usdOf(capNanoUsd(usd, param))
