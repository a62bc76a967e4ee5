// What a vendor charges for the tokens of pictures that a model makes. Rows have one price of output, which is that of text: these are the prices that the vendors
// document (November 2026). Where a provider says what an answer costs, that is what is charged.

/** USD per million tokens. */
const GEMINI: readonly (readonly [model: RegExp, price: number])[] = [
  [/gemini-2\.5-flash-image/i, 30],
  [/gemini-3(?:\.\d+)?-pro-image/i, 120],
  [/gemini-3(?:\.\d+)?-flash-lite-image/i, 30],
  [/gemini-3(?:\.\d+)?-flash-image/i, 60],
]

/**
 * USD per million tokens of pictures; `outputPrice` is that of the row. It stands where the model makes none, where it is larger (an operator may have written
 * the price of pictures there), and where it is 0: what is free is free.
 */
export const picturePrice = (kind: string, upstreamModel: string, outputPrice: number): number => {
  if (kind !== 'gemini' || outputPrice === 0) return outputPrice
  for (const [model, price] of GEMINI) if (model.test(upstreamModel)) return Math.max(outputPrice, price)
  return outputPrice
}
