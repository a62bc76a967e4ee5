// Tokens and money before, or without, the provider's report. Never a tokenizer: some inputs make those take seconds.
import { costNanoUsd, sumNanoUsd } from '../../lib/money.ts'
import { dearestFactor, picturePrice } from '../../providers/shared/billing.ts'
import { vendorBound } from '../../providers/shared/vendor-fields.ts'
import type { CatalogueEntry, PriceTier } from '../../state/port.ts'
import type { Intent } from '../intent/intent.ts'
import { LARGEST_WINDOW } from '../intent/media-bounds.ts'
import { isUnsizedAt } from '../intent/outside-bounds.ts'
import type { Prices, Rates } from './price.ts'

/** Estimated tokens of an image or audio part, or of a piece of a file. */
const MEDIA_TOKENS = 1_024
/** Estimated tokens of a message besides its text: its role and its delimiters. */
const MESSAGE_TOKENS = 4
/** Output ceiling where neither the client nor the catalogue names one. */
const UNKNOWN_CEILING = 131_072

type Candidate = Prices & Pick<CatalogueEntry, 'kind' | 'upstreamModel'>
const NO_TIERS: readonly PriceTier[] = []
type RequestSize = Pick<Intent, 'textBytes' | 'messageCount' | 'mediaParts' | 'maxTokens' | 'choices' | 'vendorFields'>
type Prompt = Pick<Intent, 'promptBytes' | 'unseenTokens' | 'outside'>
type Reserving = Prompt & Pick<Intent, 'maxTokens' | 'choices' | 'vendorFields' | 'raw'>

const TOKEN_BYTES = 4
/** About four bytes a token. */
export const estimateTokens = (bytes: number): number => Math.ceil(bytes / TOKEN_BYTES)

/** The estimated tokens of the prompt: for caps, routing, and outcomes without the provider's usage. */
export const promptTokensEstimate = ({ textBytes, messageCount, mediaParts }: RequestSize): number =>
  estimateTokens(textBytes) + messageCount * MESSAGE_TOKENS + mediaParts * MEDIA_TOKENS

/**
 * The most tokens of all choices together: the ceiling of the client, else of the model, and what vendor fields add
 * that this kind of upstream reads (docs/decisions/0026).
 */
export const outputBound = (
  { maxTokens, choices, vendorFields }: Pick<RequestSize, 'maxTokens' | 'choices' | 'vendorFields'>,
  { kind, maxOutputTokens, contextWindow }: Pick<Candidate, 'kind' | 'maxOutputTokens' | 'contextWindow'>,
  tokenBytes = TOKEN_BYTES,
): number => {
  const most = maxOutputTokens ?? contextWindow ?? UNKNOWN_CEILING
  const ceiling = maxTokens ?? most
  if (vendorFields === null) return ceiling * choices
  const { limit, thinking, answers, textBytes } = vendorBound(kind, vendorFields, maxTokens !== null)
  const allowed = limit === null ? ceiling : Math.max(ceiling, limit === 0 ? most : limit)
  const thought = thinking === 0 ? most : (thinking ?? 0)
  return (allowed + thought) * Math.max(choices, answers) + Math.ceil(textBytes / tokenBytes)
}

/**
 * The most tokens that a prompt may count: every byte a token, media by their table, content elsewhere as much as the
 * model takes. The provider refuses a longer prompt.
 */
export const promptBound = (
  { promptBytes, unseenTokens, outside }: Prompt,
  { kind, upstreamModel, contextWindow }: Pick<CatalogueEntry, 'kind' | 'upstreamModel' | 'contextWindow'>,
): number => {
  const tokens = isUnsizedAt(outside, kind, upstreamModel) ? Number.POSITIVE_INFINITY : promptBytes + unseenTokens
  if (contextWindow !== null) return Math.min(tokens, contextWindow)
  return Number.isFinite(tokens) ? tokens : promptBytes + LARGEST_WINDOW
}

/**
 * The upper bound of one attempt: the prompt at its bound, output at its ceiling, every choice. Nano-USD; null without
 * a price.
 */
export const reservedNanoUsd = (request: Reserving, entry: Candidate): number | null =>
  highestNanoUsd(entry, promptBound(request, entry), outputBound(request, entry, 1), request.raw)

/** The upper bound of the tokens of one attempt, with the same bounds. */
export const reservedTokens = (request: Reserving, entry: Candidate): number =>
  promptBound(request, entry) + outputBound(request, entry, 1)

/**
 * The highest cost of so many tokens: at the most expensive tier that such a prompt may be in, and all of it written to
 * the vendor's cache where the body (`raw`) requests that. Nano-USD; null without a price.
 */
export const highestNanoUsd = (
  entry: Candidate,
  promptTokens: number,
  completionTokens: number,
  raw: string,
): number | null => {
  if (entry.inputCostPerMillion === null || entry.outputCostPerMillion === null) return null
  const factor = dearestFactor(raw, entry.kind, entry.upstreamModel)
  let highest = boundNanoUsd(entry, entry, promptTokens, completionTokens, factor)
  for (const tier of entry.priceTiers ?? NO_TIERS) {
    if (promptTokens > tier.abovePromptTokens)
      highest = Math.max(highest, boundNanoUsd(entry, tier, promptTokens, completionTokens, factor))
  }
  return highest
}

/** Parts of a prompt that is written to a cache, by how long the cache stores them. */
const WRITTEN_PARTS = 3

/**
 * The bound holds for any part of the prompt that turns out cached or written to a cache, and of the answer that turns
 * out to be pictures. A settlement rounds each part up, hence one more for each.
 */
const boundNanoUsd = (
  { kind, upstreamModel }: Pick<Candidate, 'kind' | 'upstreamModel'>,
  prices: Rates,
  promptTokens: number,
  completionTokens: number,
  factor: number,
): number => {
  const cachedPrice = prices.cachedInputCostPerMillion ?? null
  const input = Math.max(prices.inputCostPerMillion! * factor, cachedPrice ?? 0)
  const outputPrice = prices.outputCostPerMillion!
  const pictures = picturePrice(kind, upstreamModel, outputPrice)
  const parts = (cachedPrice === null ? 0 : 1) + (factor > 1 ? WRITTEN_PARTS : 0) + (pictures > outputPrice ? 1 : 0)
  return sumNanoUsd(costNanoUsd(promptTokens, input), costNanoUsd(completionTokens, pictures), parts)
}
