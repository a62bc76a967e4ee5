// The facts of a model that an operator did not set: from the provider's own listing, else the catalogues of prices and
// capabilities, else what its kind claims. Copied into the decision at write, so that no later version of a catalogue
// changes them.
import { ModelFields, type PriceTier } from '../../domain/registry/model.ts'
import { Value } from '../../lib/schema/schema.ts'
import { ALL_CAPABILITIES, type Capability, type ListedModel } from '../../providers/port.ts'
import type { CatalogueFacts } from './capability-snapshot.ts'
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

/** What the catalogue has of a model; null: unknown. USD per million tokens. */
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

/**
 * The prices of the first source that has both an input and an output price: one from each source would be the price of
 * neither. Tiers go with them.
 */
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

/**
 * The facts of a model without those that belong to a price that is not used, since another is given: its tiers, and
 * the price of cached tokens.
 */
export const factsBeside = (
  given: Partial<Record<'input_cost_per_million' | 'output_cost_per_million', unknown>>,
  facts: Partial<ModelFacts> | null,
): Partial<ModelFacts> => {
  if (facts === null) return {}
  const isPriced = given.input_cost_per_million !== undefined || given.output_cost_per_million !== undefined
  return isPriced ? { ...facts, cached_input_cost_per_million: null, price_tiers: null } : facts
}

/**
 * A model has these, whatever its API: the catalogue may add them to what a kind claims. The rest are fields that the
 * API must accept as well.
 */
const OF_THE_MODEL: readonly Capability[] = ['tools', 'vision']

/**
 * What a kind claims, without what the catalogue denies, and with what the catalogue confirms. Where the catalogue has
 * no value, the claim stands.
 */
const corrected = (claimed: readonly string[], { says }: CatalogueFacts): string[] =>
  ALL_CAPABILITIES.filter((name) => {
    if (name === 'parallel_tool' && says.tools === false) return false
    const claims = claimed.includes(name)
    return OF_THE_MODEL.includes(name) ? (says[name] ?? claims) : claims && says[name] !== false
  })

const capabilitiesOf = (
  listed: ListedModel | null,
  known: CatalogueFacts | null,
  claimed: readonly string[],
): Pick<ModelFacts, 'capabilities' | 'capability_source'> => {
  if (listed?.capabilities != null) return { capabilities: [...listed.capabilities], capability_source: 'provider' }
  // A row without a yes or no decides nothing.
  if (known === null || Object.keys(known.says).length === 0)
    return { capabilities: [...claimed], capability_source: 'kind' }
  return { capabilities: corrected(claimed, known), capability_source: 'catalogue' }
}

/**
 * The larger value of the catalogues: one counts the prompt alone, the other's numbers are older. Too small a window
 * would refuse what the provider takes.
 */
const windowOf = (price: CataloguePrice, known: CatalogueFacts | null): number | null =>
  Math.max(price.contextWindow ?? 0, known?.maxInputTokens ?? 0) || null

/**
 * A number of tokens that a row may hold, else null: a listing with 0, or with more than any model takes, has no usable
 * value. One such row would keep all others out.
 */
const tokensOf = (count: number | null | undefined): number | null =>
  count != null && Value.Check(ModelFields.properties.context_window, count) ? count : null

/** The facts, each from the first source that has it: the provider's listing, the catalogues, the kind. Pure. */
export const modelFacts = (
  listed: ListedModel | null,
  price: CataloguePrice,
  kindCapabilities: readonly string[],
  known: CatalogueFacts | null = null,
): ModelFacts => ({
  context_window: tokensOf(listed?.contextWindow) ?? windowOf(price, known),
  max_output_tokens: tokensOf(listed?.maxOutputTokens) ?? known?.maxOutputTokens ?? null,
  ...pricesOf(listed, price),
  ...capabilitiesOf(listed, known, kindCapabilities),
})
