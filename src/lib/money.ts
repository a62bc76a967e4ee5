// Money is integer nano-USD inside (1 USD = 1_000_000_000), a JSON number of USD at the edge.

/** Nano-USD as USD. */
export const usdOf = (nanoUsd: number): number => nanoUsd / 1e9

/** USD as nano-USD, rounded to the nearest integer. */
export const nanoUsdOf = (usd: number): number => Math.round(usd * 1e9)

/** What `tokens` cost at a price per million, in nano-USD, rounded up: an estimate must never be below what is charged. */
export const costNanoUsd = (tokens: number, usdPerMillion: number): number =>
  Math.ceil(Math.round(tokens * usdPerMillion * 1e6) / 1e3)
