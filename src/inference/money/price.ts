// Which price holds for a request: the tier of its prompt, and tokens with a price of their own.
import { costNanoUsd, sumNanoUsd } from '../../lib/money.ts'
import type { CatalogueEntry } from '../../state/port.ts'

/** USD per million tokens. */
export interface Rates {
  readonly inputCostPerMillion: number | null
  readonly outputCostPerMillion: number | null
  readonly cachedInputCostPerMillion: number | null
}
/** What is known of a model's prices; tiers are in rising order of prompt tokens. */
export type Prices = Rates & Pick<CatalogueEntry, 'maxOutputTokens' | 'contextWindow' | 'priceTiers'>

/**
 * The cost of so many tokens at the row's prices, in the tier of a prompt of that length. Nano-USD; null without a
 * price.
 */
export const priceOf = (entry: Prices, promptTokens: number, completionTokens: number): number | null => {
  const prices = tierFor(entry, promptTokens)
  return prices.inputCostPerMillion === null || prices.outputCostPerMillion === null
    ? null
    : sumNanoUsd(
        costNanoUsd(promptTokens, prices.inputCostPerMillion),
        costNanoUsd(completionTokens, prices.outputCostPerMillion),
      )
}

/** Tokens with a price of their own. */
export interface SpecialTokens {
  /** Prompt tokens written to a cache, each lot at a multiple of the price. Null: none. */
  readonly written: readonly (readonly [tokens: number, factor: number])[] | null
  /** Completion tokens of pictures, with their price in USD per million. Null: none. */
  readonly pictures: { readonly tokens: number; readonly price: number } | null
}
const NO_SPECIAL_TOKENS: SpecialTokens = { written: null, pictures: null }

/**
 * The cost of the tokens at the prices of the tier that the whole prompt, cached tokens included, is in. Cached prompt
 * tokens are charged at their own price where there is one, those written to a cache and those of pictures at theirs.
 * Nano-USD; null without a price.
 */
export const actualNanoUsd = (
  entry: Prices,
  promptTokens: number,
  completionTokens: number,
  cachedPromptTokens: number,
  { written, pictures }: SpecialTokens = NO_SPECIAL_TOKENS,
): number | null => {
  const prices = tierFor(entry, promptTokens)
  if (prices.inputCostPerMillion === null || prices.outputCostPerMillion === null) return null
  const cachedPrice = prices.cachedInputCostPerMillion ?? null
  const cached = cachedPrice === null ? 0 : Math.min(cachedPromptTokens, promptTokens)
  let plain = promptTokens - cached
  let writing = 0
  for (const [tokens, factor] of written ?? []) {
    const counted = Math.min(tokens, plain)
    plain -= counted
    writing = sumNanoUsd(writing, costNanoUsd(counted, prices.inputCostPerMillion * factor))
  }
  const input = sumNanoUsd(costNanoUsd(plain, prices.inputCostPerMillion), writing)
  const textNanoUsd = costNanoUsd(completionTokens - (pictures?.tokens ?? 0), prices.outputCostPerMillion)
  const pictureNanoUsd = pictures === null ? 0 : costNanoUsd(pictures.tokens, pictures.price)
  return sumNanoUsd(
    input,
    cached === 0 ? 0 : costNanoUsd(cached, cachedPrice!),
    sumNanoUsd(textNanoUsd, pictureNanoUsd),
  )
}

/** The highest tier whose bound the prompt exceeds, else the row itself. Tiers are in rising order. */
const tierFor = (entry: Prices, promptTokens: number): Rates => {
  const tiers = entry.priceTiers
  if (tiers === undefined) return entry
  for (let i = tiers.length - 1; i >= 0; i--) if (promptTokens > tiers[i]!.abovePromptTokens) return tiers[i]!
  return entry
}
