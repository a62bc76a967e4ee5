// What is known of a model that an operator did not say: from the provider's own listing, else the price catalogue, else what its kind claims.
// Copied into the decision at write, so that nothing moves under a dependency's next version.
import type { ModelFields } from '../domain/model.ts'
import type { ListedModel } from '../providers/provider.ts'

/** The fields that can be filled. */
export type ModelFacts = Pick<
  ModelFields,
  | 'context_window'
  | 'max_output_tokens'
  | 'input_cost_per_million'
  | 'output_cost_per_million'
  | 'cached_input_cost_per_million'
  | 'capabilities'
  | 'capability_source'
>

/** What the catalogue says of a model; null: unknown. USD per million tokens. */
export interface CataloguePrice {
  readonly contextWindow: number | null
  readonly input: number | null
  readonly output: number | null
  readonly cachedInput: number | null
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

/** A price may have tiers by prompt size: the first is what nearly every request pays. */
const firstTier = (price: unknown): number | null => {
  if (typeof price === 'number') return price
  const base = price !== null && typeof price === 'object' && 'base' in price ? price.base : null
  return typeof base === 'number' ? base : null
}

/** Looks a model up in the offline price catalogue, as of a moment. Never calls out; all null when it is not known. */
export const cataloguePrice = async (
  provider: { readonly kind: string; readonly base_url: string | null },
  model: string,
  nowMs: number,
): Promise<CataloguePrice> => {
  const { calcPrice } = await import('@pydantic/genai-prices') // half a megabyte of tables: only whoever asks loads it
  const providerId = CATALOGUE_PROVIDERS[provider.kind]
  const where =
    providerId !== undefined
      ? { providerId }
      : provider.base_url === null
        ? null
        : { providerApiUrl: provider.base_url }
  if (where === null) return NO_PRICE
  const found = calcPrice({ input_tokens: 1, output_tokens: 1 }, model, { ...where, timestamp: new Date(nowMs) })
  if (found === null) return NO_PRICE
  const { model_price: price } = found
  return {
    contextWindow: found.model.context_window ?? null,
    input: firstTier(price.input_mtok),
    output: firstTier(price.output_mtok),
    cachedInput: firstTier(price.cache_read_mtok),
  }
}

/** The prices of the first source that names both what goes in and what comes out: one of each would be nobody's price. */
const pricesOf = (listed: ListedModel | null, price: CataloguePrice) => {
  const { inputCostPerMillion: input = null, outputCostPerMillion: output = null } = listed ?? {}
  const says = input !== null && output !== null
  return {
    input_cost_per_million: says ? input : price.input,
    output_cost_per_million: says ? output : price.output,
    cached_input_cost_per_million: says ? (listed?.cachedInputCostPerMillion ?? null) : price.cachedInput,
  }
}

/** The facts, each from the first source that has it: the provider's listing, the catalogue, the kind. Pure. */
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
