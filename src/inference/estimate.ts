// Tokens and money before and without the provider's word. Never a tokenizer: those can be made to take seconds.
import { costNanoUsd, sumNanoUsd } from '../lib/money.ts'
import { ownBound } from '../providers/own-words.ts'
import type { CatalogueEntry, PriceTier } from '../state/port.ts'
import type { Intent } from './intent.ts'
import { LARGEST_WINDOW } from './media-bounds.ts'

/** What an image or audio part, or a piece of a file, is likely to count. */
const MEDIA_TOKENS = 1_024
/** What a message counts besides its text: its role and its ends. */
const MESSAGE_TOKENS = 4
/** Output ceiling where neither the client nor the catalogue names one. */
const UNKNOWN_CEILING = 131_072

/** USD per million tokens. */
interface Rates {
  readonly inputCostPerMillion: number | null
  readonly outputCostPerMillion: number | null
  readonly cachedInputCostPerMillion: number | null
}
type Prices = Rates & Pick<CatalogueEntry, 'maxOutputTokens' | 'contextWindow' | 'priceTiers'>
type Candidate = Prices & Pick<CatalogueEntry, 'kind'>
const NO_TIERS: readonly PriceTier[] = []
type Asked = Pick<Intent, 'textBytes' | 'messageCount' | 'mediaParts' | 'maxTokens' | 'choices' | 'ownWords'>
type Reserving = Pick<Intent, 'promptBytes' | 'unseenTokens' | 'maxTokens' | 'choices' | 'ownWords'>

const TOKEN_BYTES = 4
/** About four bytes a token. */
export const estimateTokens = (bytes: number): number => Math.ceil(bytes / TOKEN_BYTES)

/** What the prompt is likely to count: for caps, routing, and outcomes without the provider's usage. */
export const promptTokensEstimate = ({ textBytes, messageCount, mediaParts }: Asked): number =>
  estimateTokens(textBytes) + messageCount * MESSAGE_TOKENS + mediaParts * MEDIA_TOKENS

/**
 * The most that all choices together can produce: what the client allows, else the model's own bound; and whatever it says in words that this kind of
 * upstream reads (docs/decisions/0026).
 */
export const outputBound = (
  { maxTokens, choices, ownWords }: Pick<Asked, 'maxTokens' | 'choices' | 'ownWords'>,
  { kind, maxOutputTokens, contextWindow }: Omit<Candidate, keyof Rates>,
  tokenBytes = TOKEN_BYTES,
): number => {
  const most = maxOutputTokens ?? contextWindow ?? UNKNOWN_CEILING
  const ceiling = maxTokens ?? most
  if (ownWords === null) return ceiling * choices
  const { limit, thinking, answers, textBytes } = ownBound(kind, ownWords, maxTokens !== null)
  const allowed = limit === null ? ceiling : Math.max(ceiling, limit === 0 ? most : limit)
  const thought = thinking === 0 ? most : (thinking ?? 0)
  return (allowed + thought) * Math.max(choices, answers) + Math.ceil(textBytes / tokenBytes)
}

/** What so many tokens cost at the row's prices, of the tier that a prompt of that length is in. Nano-USD; null without a price. */
export const priceOf = (entry: Prices, promptTokens: number, completionTokens: number): number | null => {
  const prices = tierFor(entry, promptTokens)
  return prices.inputCostPerMillion === null || prices.outputCostPerMillion === null
    ? null
    : sumNanoUsd(
        costNanoUsd(promptTokens, prices.inputCostPerMillion),
        costNanoUsd(completionTokens, prices.outputCostPerMillion),
      )
}

/** The most that a prompt may count: every byte a token, media by their table. A longer one than the model takes is refused. */
export const promptBound = (
  { promptBytes, unseenTokens }: Pick<Intent, 'promptBytes' | 'unseenTokens'>,
  { contextWindow }: Pick<CatalogueEntry, 'contextWindow'>,
): number => {
  const tokens = promptBytes + unseenTokens
  if (contextWindow !== null) return Math.min(tokens, contextWindow)
  return Number.isFinite(tokens) ? tokens : promptBytes + LARGEST_WINDOW
}

/** The upper bound of one attempt: the prompt at its bound, output at its ceiling, every choice. Nano-USD; null without a price. */
export const reservedNanoUsd = (asked: Reserving, entry: Candidate): number | null =>
  dearestNanoUsd(entry, promptBound(asked, entry), outputBound(asked, entry, 1))

/** The upper bound of the tokens of one attempt, likewise. */
export const reservedTokens = (asked: Reserving, entry: Candidate): number =>
  promptBound(asked, entry) + outputBound(asked, entry, 1)

/** What at most so many tokens may cost, at the dearest tier that such a prompt may turn out to be in. Nano-USD; null without a price. */
export const dearestNanoUsd = (entry: Prices, promptTokens: number, completionTokens: number): number | null => {
  if (entry.inputCostPerMillion === null || entry.outputCostPerMillion === null) return null
  let dearest = boundNanoUsd(entry, promptTokens, completionTokens)
  for (const tier of entry.priceTiers ?? NO_TIERS) {
    if (promptTokens > tier.abovePromptTokens)
      dearest = Math.max(dearest, boundNanoUsd(tier, promptTokens, completionTokens))
  }
  return dearest
}

/** Whatever part of the prompt turns out to be cached: each part of a settlement is rounded up by itself, hence the one more. */
const boundNanoUsd = (prices: Rates, promptTokens: number, completionTokens: number): number => {
  const cachedPrice = prices.cachedInputCostPerMillion ?? null
  const input = Math.max(prices.inputCostPerMillion!, cachedPrice ?? 0)
  const output = costNanoUsd(completionTokens, prices.outputCostPerMillion!)
  return sumNanoUsd(costNanoUsd(promptTokens, input), output, cachedPrice === null ? 0 : 1)
}

/**
 * What the tokens cost at the row's prices: those of the tier that the whole prompt is in, cached tokens included, for all of the request. Cached prompt tokens
 * at their own price where it is known. Nano-USD; null without a price.
 */
export const actualNanoUsd = (
  entry: Prices,
  promptTokens: number,
  completionTokens: number,
  cachedPromptTokens: number,
): number | null => {
  const prices = tierFor(entry, promptTokens)
  if (prices.inputCostPerMillion === null || prices.outputCostPerMillion === null) return null
  const cachedPrice = prices.cachedInputCostPerMillion ?? null
  const cached = cachedPrice === null ? 0 : Math.min(cachedPromptTokens, promptTokens)
  return sumNanoUsd(
    costNanoUsd(promptTokens - cached, prices.inputCostPerMillion),
    cached === 0 ? 0 : costNanoUsd(cached, cachedPrice!),
    costNanoUsd(completionTokens, prices.outputCostPerMillion),
  )
}

/** The highest tier that the prompt is above, else the row itself. Tiers are in rising order. */
const tierFor = (entry: Prices, promptTokens: number): Rates => {
  const tiers = entry.priceTiers
  if (tiers === undefined) return entry
  for (let i = tiers.length - 1; i >= 0; i--) if (promptTokens > tiers[i]!.abovePromptTokens) return tiers[i]!
  return entry
}
