// Money is integer nano-USD inside (1 USD = 1_000_000_000), a JSON number of USD at the edge.

/** Nano-USD as USD. */
export const usdOf = (nanoUsd: number): number => nanoUsd / 1e9

/** USD as nano-USD, rounded to the nearest integer. */
export const nanoUsdOf = (usd: number): number => Math.round(usd * 1e9)

/** Relative error of a float after a few operations. */
const NOISE = 4 * Number.EPSILON

/** The whole number that this one equals up to float error, or null. */
const wholeNear = (value: number): number | null => {
  const near = Math.round(value)
  return Math.abs(value - near) <= Math.abs(value) * NOISE ? near : null
}

/** A limit in USD as nano-USD, fractions rounded down: an amount above the limit must never pass. */
export const capNanoUsdOf = (usd: number): number => wholeNear(usd * 1e9) ?? Math.floor(usd * 1e9)

/** Bounds a sum (nine million USD): beyond 2^53 - 1 integers are not exact. */
const cappedNanoUsd = (nanoUsd: number): number => Math.min(nanoUsd, Number.MAX_SAFE_INTEGER)

/**
 * What `tokens` cost at a price per million, in nano-USD. Each part of a bill is rounded up to a whole nano-USD: an
 * estimate must never be below the charge, nor an amount that is compared with a cap below its true value. At most 2^53
 * - 1.
 */
export const costNanoUsd = (tokens: number, usdPerMillion: number): number => {
  const thousandths = tokens * usdPerMillion * 1e6
  return cappedNanoUsd(Math.ceil((wholeNear(thousandths) ?? Math.ceil(thousandths)) / 1e3))
}

/** The sum of costs in nano-USD, never above 2^53 - 1. */
export const sumNanoUsd = (first: number, second: number, third = 0): number => cappedNanoUsd(first + second + third)
