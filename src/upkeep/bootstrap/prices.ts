// Price corrections of `bootstrap:`. Rows are only ever added, so a changed entry is one more row; what the API decided
// is never overruled.
import type { Bootstrap, BootstrapCorrection } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { canonicalJson } from '../../domain/kernel/tables.ts'
import { naturalKey } from '../../domain/registry/model.ts'
import {
  type CorrectionPrices,
  correctedKey,
  decidePriceCorrection,
  type PriceCorrectionRow,
  requireCorrectable,
} from '../../domain/registry/price-correction.ts'
import { isDay } from '../../lib/time/iso-time.ts'
import { providerNamed } from './providers.ts'
import type { SeedDeps, SeedInput, SeedStep } from './step.ts'
import { unlistedLine } from './unlisted.ts'

interface Wanted {
  readonly provider: string
  readonly model: string
  readonly fromMs: number
  readonly toMs: number
  readonly prices: CorrectionPrices
  readonly reason: string | null
}

/** They come after the models, which they name. */
export const priceSteps = ({ bootstrap }: SeedInput, { newId }: Pick<SeedDeps, 'newId'>): SeedStep[] => {
  const met = new Map<string, number>()
  return (bootstrap.price_corrections ?? []).map((entry, i): SeedStep => {
    const id = newId('pcor')
    const meaning = meaningOf(entry)
    const nth = (met.get(meaning) ?? 0) + 1
    met.set(meaning, nth)
    return { what: `bootstrap.price_corrections[${i}]`, decide: (state) => seedCorrection(state, id, entry, nth) }
  })
}

/** Throws Rejection for an entry that cannot correct a price. */
export const requireSoundCorrection = (entry: BootstrapCorrection): void => {
  const wanted = wantedOf(entry)
  requireCorrectable(wanted, wanted.prices)
}

/**
 * Of entries with equal content, the `nth` needs as many rows of that content: where others came between, the repeated
 * one holds again.
 */
const seedCorrection = (state: ControlReader, id: string, entry: BootstrapCorrection, nth: number): EventRecord[] => {
  const wanted = wantedOf(entry)
  const about = rowsAbout(state, entry)
  const saying = textOf(wanted)
  if (about.filter((row) => textOfRow(row) === saying).length >= nth) return []
  const { provider: providerName, model: modelName, prices, ...rest } = wanted
  if (about.some((row) => row.managed_by !== 'bootstrap' && overlaps(row, wanted))) {
    const what = `"${modelName}" of "${providerName}" in a part of this time`
    throw new Rejection('conflict', `the API has corrected ${what}, which stands: correct the price there`)
  }
  const provider = providerNamed(state, providerName)
  if (provider === undefined) throw new Rejection('invalid', `"provider": there is no provider "${providerName}"`)
  const [model] = state.table('models').find('natural', naturalKey(provider.id, modelName))
  if (model === undefined) throw new Rejection('invalid', `"model": "${provider.name}" has no model "${modelName}"`)
  const named = { id, provider: provider.id, model, managed_by: 'bootstrap' } as const
  return decidePriceCorrection(state, { do: 'correct', ...named, ...rest, ...prices })
}

/** Throws Rejection for a day that does not exist. */
const wantedOf = (entry: BootstrapCorrection): Wanted => {
  const { provider, model, from, to, reason = null, cached_input_cost_per_million = null, ...prices } = entry
  const { input_cost_per_million, output_cost_per_million } = prices
  return {
    ...{ provider, model, reason, fromMs: momentMs(from, 'from'), toMs: momentMs(to, 'to') },
    prices: { input_cost_per_million, output_cost_per_million, cached_input_cost_per_million },
  }
}

const momentMs = (text: string, param: 'from' | 'to'): number => {
  const ms = Date.parse(text.length === 10 ? `${text}T00:00:00Z` : text)
  if (Number.isNaN(ms) || !isDay(text.slice(0, 10))) throw new Rejection('invalid', `"${text}" is not a time`, param)
  return ms
}

/** Also those whose provider or model was deleted since: corrections outlive them. */
export const rowsAbout = (
  state: ControlReader,
  { provider, model }: Pick<BootstrapCorrection, 'provider' | 'model'>,
): readonly PriceCorrectionRow[] => state.table('price_corrections').findRows('about', correctedKey(provider, model))

const textOf = ({ fromMs, toMs, prices, reason }: Omit<Wanted, 'provider' | 'model'>): string =>
  canonicalJson({ fromMs, toMs, reason, ...prices })

const textOfRow = ({ from, to, reason, ...row }: PriceCorrectionRow): string => {
  const { input_cost_per_million, output_cost_per_million, cached_input_cost_per_million } = row
  const prices = { input_cost_per_million, output_cost_per_million, cached_input_cost_per_million }
  return textOf({ fromMs: Date.parse(from), toMs: Date.parse(to), reason, prices })
}

/**
 * The content of an entry, independent of its spelling; '' for an invalid time, which is reported when it is seeded.
 */
const meaningOf = (entry: BootstrapCorrection): string => {
  try {
    return `${correctedKey(entry.provider, entry.model)}\0${textOf(wantedOf(entry))}`
  } catch (error) {
    if (error instanceof Rejection) return ''
    throw error
  }
}

const overlaps = ({ from, to }: PriceCorrectionRow, { fromMs, toMs }: Wanted): boolean =>
  Date.parse(from) < toMs && fromMs < Date.parse(to)

/** The corrections that the settings once made and no longer contain, or contain with other values. */
export const unlistedCorrections = ({ price_corrections = [] }: Bootstrap, state: ControlReader): string[] => {
  const named = new Set(price_corrections.map(meaningOf))
  return [...state.table('price_corrections').rows()]
    .filter(([, row]) => row.managed_by === 'bootstrap')
    .filter(([, row]) => !named.has(`${correctedKey(row.provider, row.model)}\0${textOfRow(row)}`))
    .map(([id, { provider, model }]) =>
      unlistedLine(
        `the price correction ${id} ("${model}" of "${provider}")`,
        'price_corrections',
        'it stays until a later one of the same time holds',
      ),
    )
}
