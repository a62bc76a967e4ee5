// What is known of a model that an operator did not say: from the provider's own listing, else the price catalogue, else what its kind claims.
// Copied into the decision at write, so that nothing moves under a dependency's next version.
import type { ModelFields, PriceTier } from '../domain/model.ts'
import type { ListedModel } from '../providers/provider.ts'
import { type Prices, priceSnapshot, snapshotPrices } from './price-snapshot.ts'

/** The fields that can be filled. */
export type ModelFacts = Pick<
  ModelFields,
  | 'context_window'
  | 'max_output_tokens'
  | 'input_cost_per_million'
  | 'output_cost_per_million'
  | 'cached_input_cost_per_million'
  | 'price_tiers'
  | 'capabilities'
  | 'capability_source'
>

/** What the catalogue says of a model; null: unknown. USD per million tokens. */
export interface CataloguePrice {
  readonly contextWindow: number | null
  readonly input: number | null
  readonly output: number | null
  readonly cachedInput: number | null
  /** Prices of long prompts, in rising order; absent: none. */
  readonly tiers?: readonly PriceTier[]
}

const NO_PRICE: CataloguePrice = { contextWindow: null, input: null, output: null, cachedInput: null }

/** Our kind -> the catalogue's provider. Kinds that are not here are found by the address of the provider. */
const CATALOGUE_PROVIDERS: Readonly<Record<string, string>> = {
  openai: 'openai',
  azure_openai: 'azure',
  anthropic: 'anthropic',
  gemini: 'google',
  bedrock: 'aws',
  cohere: 'cohere',
  mistral: 'mistral',
  openrouter: 'openrouter',
  groq: 'groq',
  together: 'together',
  fireworks: 'fireworks',
  deepseek: 'deepseek',
  xai: 'x-ai',
  perplexity: 'perplexity',
  cerebras: 'cerebras',
}

/** Looks a model up in the price snapshot, as of a moment. Never calls out; all null when it is not known. */
export const cataloguePrice = async (
  provider: { readonly kind: string; readonly base_url: string | null },
  model: string,
  nowMs: number,
): Promise<CataloguePrice> => {
  const providerId = CATALOGUE_PROVIDERS[provider.kind]
  if (providerId === undefined && provider.base_url === null) return NO_PRICE
  const where = providerId === undefined ? { baseUrl: provider.base_url! } : { providerId }
  const found = snapshotPrices(await priceSnapshot(), where, model, nowMs)
  if (found === null) return NO_PRICE
  const { context, input, output, cached } = found
  const tiers = tiersOf(found)
  return { contextWindow: context, input, output, cachedInput: cached, ...(tiers.length === 0 ? {} : { tiers }) }
}

/** A tier without a price for input or output cannot be charged, and none above it is. */
const tiersOf = ({ tiers = [] }: Prices): PriceTier[] => {
  const kept: PriceTier[] = []
  for (const { above, input, output, cached } of tiers) {
    if (input === null || output === null) break
    kept.push({
      above_prompt_tokens: above,
      input_cost_per_million: input,
      output_cost_per_million: output,
      cached_input_cost_per_million: cached,
    })
  }
  return kept
}

/** The prices of the first source that names both what goes in and what comes out: one of each would be nobody's price. Tiers go with them. */
const pricesOf = (listed: ListedModel | null, price: CataloguePrice) => {
  const { inputCostPerMillion: input = null, outputCostPerMillion: output = null } = listed ?? {}
  const says = input !== null && output !== null
  return {
    input_cost_per_million: says ? input : price.input,
    output_cost_per_million: says ? output : price.output,
    cached_input_cost_per_million: says ? (listed?.cachedInputCostPerMillion ?? null) : price.cachedInput,
    ...(says || price.tiers === undefined ? {} : { price_tiers: [...price.tiers] }),
  }
}

/** The facts, each from the first source that has it: the provider's listing, the snapshot, the kind. Pure. */
export const modelFacts = (
  listed: ListedModel | null,
  price: CataloguePrice,
  kindCapabilities: readonly string[],
): ModelFacts => ({
  context_window: listed?.contextWindow ?? price.contextWindow,
  max_output_tokens: listed?.maxOutputTokens ?? null,
  ...pricesOf(listed, price),
  capabilities: [...(listed?.capabilities ?? kindCapabilities)],
  capability_source: listed?.capabilities == null ? 'kind' : 'provider',
})
