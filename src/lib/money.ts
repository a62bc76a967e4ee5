// Money is integer nano-USD inside (1 USD = 1_000_000_000), a JSON number of USD at the edge.

/** Nano-USD as USD. */
export const usdOf = (nanoUsd: number): number => nanoUsd / 1e9

/** USD as nano-USD, rounded to the nearest integer. */
export const nanoUsdOf = (usd: number): number => Math.round(usd * 1e9)

/** No sum of money is larger (nine million USD): beyond it integers are not exact, and no table holds them. */
const cappedNanoUsd = (nanoUsd: number): number => Math.min(nanoUsd, Number.MAX_SAFE_INTEGER)

/**
 * What `tokens` cost at a price per million, in nano-USD. A fraction of a nano-USD is rounded up, each part of a bill by itself: an estimate must never be below
 * what is charged. Exact for prices of up to six decimals below 2,000 USD; never above 2^53 - 1.
 */
export const costNanoUsd = (tokens: number, usdPerMillion: number): number =>
  cappedNanoUsd(Math.ceil(Math.round(tokens * usdPerMillion * 1e6) / 1e3))

/** The sum of costs in nano-USD, never above 2^53 - 1. */
export const sumNanoUsd = (first: number, second: number, third = 0): number => cappedNanoUsd(first + second + third)
