// Tokens and money before and without the provider's word. Never a tokenizer: those can be made to take seconds.
import { costNanoUsd, sumNanoUsd } from '../lib/money.ts'
import type { CatalogueEntry } from '../state/port.ts'
import type { Intent } from './intent.ts'

/** Upper bound for one image or audio part. */
const MEDIA_TOKENS = 8_192
/** What a message counts besides its text: its role and its ends. */
const MESSAGE_TOKENS = 4
/** Output ceiling where neither the client nor the catalogue names one. */
const UNKNOWN_CEILING = 131_072

type Prices = Pick<CatalogueEntry, 'inputCostPerMillion' | 'outputCostPerMillion' | 'maxOutputTokens' | 'contextWindow'>
type Asked = Pick<Intent, 'textBytes' | 'messageCount' | 'promptBytes' | 'mediaParts' | 'maxTokens' | 'choices'>

/** About four bytes a token. */
export const estimateTokens = (bytes: number): number => Math.ceil(bytes / 4)

/** What the prompt is likely to count: for caps, routing, and outcomes without the provider's usage. */
export const promptTokensEstimate = ({ textBytes, messageCount, mediaParts }: Asked): number =>
  estimateTokens(textBytes) + messageCount * MESSAGE_TOKENS + mediaParts * (MEDIA_TOKENS / 8)

/** The most that one choice can produce: what the client allows, else the model's own bound. */
export const outputCeiling = ({ maxTokens }: Asked, { maxOutputTokens, contextWindow }: Prices): number => {
  const own = maxOutputTokens ?? contextWindow ?? UNKNOWN_CEILING
  return maxTokens === null ? own : maxTokens
}

/** What so many tokens cost at the row's prices. Nano-USD; null without a price. */
export const priceOf = (entry: Prices, promptTokens: number, completionTokens: number): number | null =>
  entry.inputCostPerMillion === null || entry.outputCostPerMillion === null
    ? null
    : sumNanoUsd(
        costNanoUsd(promptTokens, entry.inputCostPerMillion),
        costNanoUsd(completionTokens, entry.outputCostPerMillion),
      )

/** The upper bound of one attempt: every byte a token, media at their ceiling, output at its ceiling, every choice. Nano-USD; null without a price. */
export const reservedNanoUsd = (asked: Asked, entry: Prices): number | null =>
  priceOf(entry, asked.promptBytes + asked.mediaParts * MEDIA_TOKENS, outputCeiling(asked, entry) * asked.choices)

/** What the tokens cost at the row's prices. Cached prompt tokens at their own price where it is known. Nano-USD; null without a price. */
export const actualNanoUsd = (
  entry: Prices & Pick<CatalogueEntry, 'cachedInputCostPerMillion'>,
  promptTokens: number,
  completionTokens: number,
  cachedPromptTokens: number,
): number | null => {
  if (entry.inputCostPerMillion === null || entry.outputCostPerMillion === null) return null
  const cached = entry.cachedInputCostPerMillion === null ? 0 : Math.min(cachedPromptTokens, promptTokens)
  return sumNanoUsd(
    costNanoUsd(promptTokens - cached, entry.inputCostPerMillion),
    cached === 0 ? 0 : costNanoUsd(cached, entry.cachedInputCostPerMillion!),
    costNanoUsd(completionTokens, entry.outputCostPerMillion),
  )
}
