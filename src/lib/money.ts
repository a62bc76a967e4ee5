// Money is integer nano-USD inside (1 USD = 1_000_000_000), a JSON number of USD at the edge.

/** Nano-USD as USD. */
export const usdOf = (nanoUsd: number): number => nanoUsd / 1e9

/** USD as nano-USD, rounded to the nearest integer. */
export const nanoUsdOf = (usd: number): number => Math.round(usd * 1e9)

/** What a float may be off by after a few operations, as a share of it. */
const NOISE = 4 * Number.EPSILON

/** The whole number that this one is but for the noise of floats, or null. */
const wholeNear = (value: number): number | null => {
  const near = Math.round(value)
  return Math.abs(value - near) <= Math.abs(value) * NOISE ? near : null
}

/** A limit in USD as nano-USD, a fraction of one rounded down: what is above the limit must never be let through. */
export const capNanoUsdOf = (usd: number): number => wholeNear(usd * 1e9) ?? Math.floor(usd * 1e9)

/** No sum of money is larger (nine million USD): beyond it integers are not exact, and no table holds them. */
const cappedNanoUsd = (nanoUsd: number): number => Math.min(nanoUsd, Number.MAX_SAFE_INTEGER)

/**
 * What `tokens` cost at a price per million, in nano-USD. A fraction of a nano-USD, however small, is rounded up, each part of a bill by itself: an estimate must
 * never be below what is charged, nor what is compared with a cap below what it is. Never above 2^53 - 1.
 */
export const costNanoUsd = (tokens: number, usdPerMillion: number): number => {
  const thousandths = tokens * usdPerMillion * 1e6
  return cappedNanoUsd(Math.ceil((wholeNear(thousandths) ?? Math.ceil(thousandths)) / 1e3))
}

/** The sum of costs in nano-USD, never above 2^53 - 1. */
export const sumNanoUsd = (first: number, second: number, third = 0): number => cappedNanoUsd(first + second + third)
