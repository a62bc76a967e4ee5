// `bun infra/prices.ts [YYYY-MM-DD]`: writes the price snapshot again from the installed `@pydantic/genai-prices`.
// No network: update the package first.
// Its data is MIT-licensed; the licence is copied beside the snapshot.
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { findProvider, type ModelInfo, type ModelPrice, type Provider } from '@pydantic/genai-prices'
import type { PricedModel, PriceSnapshot, Prices } from '../src/upkeep/models/price-snapshot.ts'

const FOLDER = join(import.meta.dir, '../src/upkeep/models/prices')
const PACKAGE = '@pydantic/genai-prices'

const root = join(dirname(Bun.resolveSync(PACKAGE, import.meta.dir)), '..')

/** A price at a prompt length: that of the last tier below it, else the base. Null: none. */
const at = (price: ModelPrice[string], above: number): number | null => {
  if (price === undefined) return null
  if (typeof price === 'number') return price
  const below = price.tiers.filter(({ start }) => start <= above).sort((a, b) => a.start - b.start)
  return below.at(-1)?.price ?? price.base
}

const pricesOf = (price: ModelPrice): Prices => {
  const named = [price.input_mtok, price.output_mtok, price.cache_read_mtok] as const
  const starts = new Set(
    named.flatMap((each) => (typeof each === 'object' ? each.tiers.map(({ start }) => start) : [])),
  )
  const rates = (above: number) => ({
    input: at(named[0], above),
    output: at(named[1], above),
    cached: at(named[2], above),
  })
  const tiers = [...starts]
    .filter((start) => start > 0)
    .sort((a, b) => a - b)
    .map((above) => ({ above, ...rates(above) }))
  return { ...rates(0), ...(tiers.length === 0 ? {} : { tiers }) }
}

/**
 * The price in force on a day, and later ones. Where the hour of the day decides, the highest: a copied price cannot
 * follow the clock.
 */
const datedPrices = ({ prices }: ModelInfo, day: string): PricedModel['prices'] => {
  if (!Array.isArray(prices)) return [pricesOf(prices)]
  const dated = new Map<string, Prices>()
  let from = ''
  for (const { constraint, prices: conditional } of prices) {
    if (constraint?.type === 'start_date') from = constraint.start_date
    const found = pricesOf(conditional)
    const known = dated.get(from)
    if (known === undefined || (found.input ?? 0) > (known.input ?? 0)) dated.set(from, found)
  }
  const inForce = [...dated.keys()].findLast((start) => start <= day) ?? ''
  return [...dated].flatMap(([start, found]) =>
    start < inForce ? [] : [{ ...(start > day ? { from: start } : {}), ...found }],
  )
}

const modelOf = (model: ModelInfo, day: string): PricedModel => ({
  id: model.id,
  match: model.match,
  ...(model.context_window === undefined ? {} : { context: model.context_window }),
  prices: datedPrices(model, day),
})

/** The package exports its providers only one by one; their list is in its source text. */
const providersOf = (): Provider[] => {
  const text = readFileSync(join(root, 'dist/index.js'), 'utf8')
  const ids = new Set([...text.matchAll(/^ {4}id: "([^"]+)",$/gm)].map((match) => match[1]!))
  return [...ids].flatMap((providerId) => {
    const found = findProvider({ providerId })
    return found === undefined || found.id !== providerId ? [] : [found]
  })
}

/** The snapshot as of a day, `YYYY-MM-DD`. */
export const snapshotOf = (day: string): PriceSnapshot => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const providers = providersOf().map(({ id, api_pattern, fallback_model_providers, models }) => ({
    id,
    api_pattern,
    ...(fallback_model_providers === undefined ? {} : { fallbacks: fallback_model_providers }),
    models: models.map((model) => modelOf(model, day)),
  }))
  return { source: PACKAGE, version, licence: 'MIT', taken: day, providers }
}

/** One model a line, so that a refresh gives a readable diff. */
export const snapshotText = ({ providers, ...head }: PriceSnapshot): string => {
  const lines = providers.map(({ models, ...provider }) => {
    const rows = models.map((model) => JSON.stringify(model)).join(',\n')
    return `${JSON.stringify(provider).slice(0, -1)},"models":[\n${rows}\n]}`
  })
  return `${JSON.stringify(head).slice(0, -1)},"providers":[\n${lines.join(',\n')}\n]}\n`
}

if (import.meta.main) {
  const day = process.argv[2] ?? new Date().toISOString().slice(0, 10)
  writeFileSync(join(FOLDER, 'snapshot.json'), snapshotText(snapshotOf(day)))
  copyFileSync(join(root, 'LICENSE'), join(FOLDER, 'LICENSE'))
}
