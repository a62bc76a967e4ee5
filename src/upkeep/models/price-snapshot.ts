// The price catalogue: a dated copy of `@pydantic/genai-prices` (MIT, licence beside it), so that no dependency's next
// version changes a price. `infra/prices.ts` writes it again.
import { ownFile } from '../../lib/own-files.ts'

export type Match =
  | { readonly equals: string }
  | { readonly starts_with: string }
  | { readonly ends_with: string }
  | { readonly contains: string }
  | { readonly regex: string }
  | { readonly or: readonly Match[] }
  | { readonly and: readonly Match[] }

/** USD per million tokens; null: unknown. */
export interface Rates {
  readonly input: number | null
  readonly output: number | null
  readonly cached: number | null
}

export interface Prices extends Rates {
  /** The prices of a whole request once its prompt is longer than `above` tokens, in rising order. */
  readonly tiers?: readonly ({ readonly above: number } & Rates)[]
}

export interface PricedModel {
  readonly id: string
  readonly match: Match
  /** Tokens. */
  readonly context?: number
  /** Oldest first; `from`: not before that day. */
  readonly prices: readonly ({ readonly from?: string } & Prices)[]
}

export interface PricedProvider {
  readonly id: string
  /** Regular expression that its addresses begin with. */
  readonly api_pattern: string
  /** Providers whose models it serves at their price where it has none of its own. */
  readonly fallbacks?: readonly string[]
  readonly models: readonly PricedModel[]
}

export interface PriceSnapshot {
  readonly source: string
  readonly version: string
  readonly licence: string
  /** The day as of which it was written. */
  readonly taken: string
  readonly providers: readonly PricedProvider[]
}

// Per process, since the file belongs to the program and never changes while it runs.
let loaded: Promise<PriceSnapshot> | null = null

/** Half a megabyte: read at the first use. */
export const priceSnapshot = (): Promise<PriceSnapshot> => {
  loaded ??= Bun.file(ownFile('src/upkeep/models/prices/snapshot.json')).json() as Promise<PriceSnapshot>
  return loaded
}

/** The prices of a model at a provider, as of a moment; null: it is not in the snapshot. */
export const snapshotPrices = (
  { providers }: PriceSnapshot,
  where: { readonly providerId: string } | { readonly baseUrl: string },
  model: string,
  nowMs: number,
): (Prices & { readonly context: number | null }) | null => {
  const provider = providers.find((each) =>
    'providerId' in where ? each.id === where.providerId : new RegExp(`^(?:${each.api_pattern})`).test(where.baseUrl),
  )
  if (provider === undefined) return null
  const found = modelOf(provider, model, providers) ?? modelOf(provider, withDashes(model), providers)
  if (found === null) return null
  const day = new Date(nowMs).toISOString().slice(0, 10)
  const prices = found.prices.findLast(({ from }) => from === undefined || from <= day) ?? found.prices[0]!
  return { ...prices, context: found.context ?? null }
}

const modelOf = (provider: PricedProvider, name: string, providers: readonly PricedProvider[]): PricedModel | null => {
  const own = provider.models.find(({ match }) => matches(match, name))
  if (own !== undefined) return own
  for (const id of provider.fallbacks ?? []) {
    const other = providers.find((each) => each.id === id)
    const found = other?.models.find(({ match }) => matches(match, name))
    if (found !== undefined) return found
  }
  return null
}

const matches = (match: Match, name: string): boolean => {
  const word = name.toLowerCase()
  if ('or' in match) return match.or.some((each) => matches(each, name))
  if ('and' in match) return match.and.every((each) => matches(each, name))
  if ('equals' in match) return word === match.equals.toLowerCase()
  if ('starts_with' in match) return word.startsWith(match.starts_with.toLowerCase())
  if ('ends_with' in match) return word.endsWith(match.ends_with.toLowerCase())
  if ('contains' in match) return word.includes(match.contains.toLowerCase())
  return new RegExp(match.regex).test(name)
}

/** Names end in a date with dashes or without: `-20250929` is `-2025-09-29`. */
const withDashes = (name: string): string =>
  name.replace(/-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=[-:]|$)/g, '-$1-$2-$3')
