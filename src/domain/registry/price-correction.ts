// Corrected prices: the real price of the tokens of a model at a provider in a range of time. Usage stays as it was
// booked; readers that request it "as corrected" get the same tokens at these prices. Rows are only ever added, and
// taken back by a revert. Names and fields of the events are stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { described, Id, ManagedBy, Nullable, Timestamp } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { ModelName, naturalKey } from './model.ts'

/** USD per million tokens, of six decimals at most. */
const CorrectedPrice = t.Number({ minimum: 0, maximum: 1_000_000 })

/** The fields that clients send beside target and range. */
export const CorrectionPrices = t.Object({
  input_cost_per_million: CorrectedPrice,
  output_cost_per_million: CorrectedPrice,
  /** Null: cached tokens cost the same as others. */
  cached_input_cost_per_million: Nullable(CorrectedPrice),
})
export type CorrectionPrices = Static<typeof CorrectionPrices>

export const CorrectionReason = t.String({ maxLength: 1_024 })

export const PriceCorrected = t.Composite([
  t.Object({
    id: Id,
    provider_id: Id,
    /** Names as usage records them: rows that are deleted later are still corrected. */
    provider: t.String({ minLength: 1, maxLength: 256 }),
    model_id: Id,
    model: ModelName,
    /** Whole minutes: the smallest unit of usage. */
    from: Timestamp,
    /** Exclusive. */
    to: Timestamp,
    reason: Nullable(CorrectionReason),
    managed_by: t.Optional(
      described(ManagedBy, '`bootstrap`: the settings asked for it; absent: it came through the API.'),
    ),
  }),
  CorrectionPrices,
])
export type PriceCorrected = Static<typeof PriceCorrected>
export const PriceCorrectionWithdrawn = t.Object({ id: Id })

export interface PriceCorrectionRow extends Stamps, Readonly<PriceCorrected> {
  /** The order of the chain: where two overlap, the higher one holds. */
  readonly number: number
}

/** Bound of the rows that every instance holds in memory, and that a read scans. */
export const MAX_CORRECTIONS = 10_000
const MINUTE_MS = 60_000

const rows = changesOf<PriceCorrectionRow>('price_corrections')

/** Index key of a correction: the names that usage records. */
export const correctedKey = (provider: string, model: string): string =>
  `${provider.toLowerCase()}\0${model.toLowerCase()}`

/** All of them, in the order of their decisions. */
export const correctionsOf = (state: ControlReader): PriceCorrectionRow[] =>
  [...state.table('price_corrections').rows()].map(([, row]) => row).sort((a, b) => a.number - b.number)

const nextNumber = (state: ControlReader): number => {
  let last = 0
  for (const [, { number }] of state.table('price_corrections').rows()) last = Math.max(last, number)
  return last + 1
}

const shared = { since: 5, resource: 'price_correction', subject: ({ id }: { id: string }): string => id } as const

export const priceCorrection: Aggregate<PriceCorrectionRow, ControlReader> = {
  table: 'price_corrections',
  indexes: { about: (row) => correctedKey(row.provider, row.model) },
  events: {
    'price.corrected': eventType({ schema: PriceCorrected, action: 'create', ...shared }),
    'price.correction_withdrawn': eventType({ schema: PriceCorrectionWithdrawn, action: 'delete', ...shared }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('price_corrections').get(id)
    if (type === 'price.correction_withdrawn') return rows.removed(id, before)
    if (before !== undefined) return []
    return rows.created(id, { ...(data as PriceCorrected), number: nextNumber(state) }, meta)
  },
}

export type PriceCorrectionCommand =
  | ({
      do: 'correct'
      id: string
      /** Names or ids. */
      provider: string
      model: string
      /** Unix milliseconds, `toMs` exclusive. */
      fromMs: number
      toMs: number
      reason: string | null
      /** Absent: the API. */
      managed_by?: 'bootstrap'
    } & CorrectionPrices)
  /** Writes a withdrawn correction again. It counts as decided now. */
  | ({ do: 'restore' } & PriceCorrected)
  | { do: 'withdraw'; id: string }

const PRICES = ['input_cost_per_million', 'output_cost_per_million', 'cached_input_cost_per_million'] as const

/** Millionths of a USD per million tokens, as a whole number: sums of tokens times it are exact. */
export const microUsdOf = (usdPerMillion: number): number => Math.round(usdPerMillion * 1e6)

/** Throws 400 for a price without an exact representation. */
const requireExact = (prices: CorrectionPrices): void => {
  for (const name of PRICES) {
    const price = prices[name]
    if (price !== null && microUsdOf(price) / 1e6 !== price)
      throw new Rejection('invalid', `"${name}" may have six decimals at most`, name)
  }
}

const requireRange = (fromMs: number, toMs: number): void => {
  for (const [name, ms] of [
    ['from', fromMs],
    ['to', toMs],
  ] as const)
    if (ms % MINUTE_MS !== 0)
      throw new Rejection('invalid', `"${name}" must be a whole minute: usage is kept by the minute`, name)
  if (fromMs >= toMs) throw new Rejection('invalid', '"from" must be earlier than "to"', 'from')
}

/** Throws 400 for values that are invalid for every model: an empty range, or prices outside the range of amounts. */
export const requireCorrectable = (
  range: { readonly fromMs: number; readonly toMs: number },
  prices: CorrectionPrices,
): void => {
  requireRange(range.fromMs, range.toMs)
  requireExact(prices)
}

const correctedModel = (state: ControlReader, asked: { readonly provider: string; readonly model: string }) => {
  const providers = state.table('providers')
  const provider =
    providers.get(asked.provider) ?? providers.findRows('name', asked.provider.toLowerCase())[0] ?? undefined
  if (provider === undefined)
    throw new Rejection('not_found', `no provider has the id or name "${asked.provider}"`, 'provider')
  const models = state.table('models')
  const byId = models.get(asked.model)
  const model =
    byId?.provider_id === provider.id ? byId : models.findRows('natural', naturalKey(provider.id, asked.model))[0]
  if (model === undefined)
    throw new Rejection('not_found', `"${provider.name}" has no model with the id or name "${asked.model}"`, 'model')
  return { provider_id: provider.id, provider: provider.name, model_id: model.id, model: model.name }
}

/** Each correction is recorded, also one that changes nothing. */
export const decidePriceCorrection = (state: ControlReader, command: PriceCorrectionCommand): EventRecord[] => {
  const corrections = state.table('price_corrections')
  if (command.do === 'withdraw') {
    if (corrections.get(command.id) === undefined)
      throw new Rejection('not_found', `no price correction has the id "${command.id}"`)
    return [{ type: 'price.correction_withdrawn', data: { id: command.id } }]
  }
  if (corrections.size >= MAX_CORRECTIONS)
    throw new Rejection('conflict', `at most ${MAX_CORRECTIONS} price corrections may stand`)
  if (command.do === 'restore') {
    const { do: _, ...data } = command
    return [{ type: 'price.corrected', data }]
  }
  const { id, fromMs, toMs, reason, managed_by } = command
  const { input_cost_per_million, output_cost_per_million, cached_input_cost_per_million } = command
  const prices = { input_cost_per_million, output_cost_per_million, cached_input_cost_per_million }
  const model = correctedModel(state, command)
  requireCorrectable({ fromMs, toMs }, prices)
  const range = { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() }
  const owner = managed_by === undefined ? {} : { managed_by }
  return [{ type: 'price.corrected', data: { id, ...model, ...range, ...prices, reason, ...owner } }]
}
