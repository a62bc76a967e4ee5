// Fields that the entry of a model no longer sets, and whose values the model keeps, since a catalogue or the
// provider's listing may have filled them. A field is reported only where a new model would certainly have another
// value. No provider is called for this, so a value that may come from a listing is not reported.
import type { BootstrapModel } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import { canonicalJson } from '../../domain/kernel/tables.ts'
import { type ModelRow, naturalKey } from '../../domain/registry/model.ts'
import type { ProviderKind } from '../../providers/port.ts'
import type { KindTable } from '../models/kind-table.ts'
import type { ModelFacts } from '../models/model-facts.ts'
import { providerNamed } from './providers.ts'

const STAYS = 'what the model has stays, though nothing says it here and a new model would have another'

const PRICES = ['input_cost_per_million', 'output_cost_per_million', 'cached_input_cost_per_million'] as const
const SIZES = ['context_window', 'max_output_tokens'] as const

/** What catalogues and kinds have about the models of entries that were there before a start. */
export type KnownFacts = Map<BootstrapModel, ModelFacts>

/** Notes about dropped fields, once everything is seeded: what an entry sets may have replaced what it does not set. */
export const droppedFieldNotes = (known: KnownFacts, state: ControlReader, kinds: KindTable): string[] => {
  const notes = [...known].flatMap(([entry, facts]) => {
    const { provider: providerName, name } = entry
    const provider = providerNamed(state, providerName)
    const [row] = state.table('models').findRows('natural', naturalKey(provider?.id ?? '', name))
    if (provider === undefined || row?.managed_by !== 'bootstrap') return []
    const { listing } = kinds.resolve(provider.kind) ?? {}
    const what = `bootstrap.models "${name}" of "${providerName}"`
    return droppedFieldsOf(entry, row, facts, listing).map((note) => `${what}: ${note}`)
  })
  return notes.sort() // in the order in which providers were listed
}

/** `known`: the facts of catalogues and of the kind. `listing`: how the provider lists models; undefined: it cannot. */
const droppedFieldsOf = (
  entry: BootstrapModel,
  row: ModelRow,
  known: ModelFacts,
  listing: ProviderKind['listing'],
): string[] => {
  const figures = [...droppedFigures(entry, row, known, listing), ...droppedTiers(entry, row, known)]
  const capabilities = droppedCapabilities(entry, row, known, listing)
  return [
    ...(figures.length === 0 ? [] : [`${figures.join(', ')}: ${STAYS}: say it, or null`]),
    ...(capabilities === null ? [] : [`${capabilities}: ${STAYS}: say capabilities`]),
  ]
}

const isPriced = (entry: BootstrapModel): boolean =>
  entry.input_cost_per_million !== undefined || entry.output_cost_per_million !== undefined

const droppedFigures = (
  entry: BootstrapModel,
  row: ModelRow,
  known: ModelFacts,
  listing: ProviderKind['listing'],
): string[] => {
  const differs = (member: (typeof PRICES | typeof SIZES)[number]) =>
    entry[member] === undefined && row[member] !== known[member]
  // Where a catalogue has the value, a new model would have it, whatever a listing has.
  const isUnknown = (member: (typeof PRICES | typeof SIZES)[number]) => row[member] === null
  const prices = PRICES.filter((member) => {
    if (member === 'cached_input_cost_per_million')
      return !isPriced(entry) && listing?.namesPrices !== true && differs(member)
    return differs(member) && (listing?.namesPrices !== true || isUnknown(member))
  })
  return [...prices, ...SIZES.filter((member) => differs(member) && (listing === undefined || isUnknown(member)))]
}

/** No listing has tiers. */
const droppedTiers = (entry: BootstrapModel, row: ModelRow, known: ModelFacts): string[] => {
  const tiers = row.price_tiers ?? null
  if (isPriced(entry) || entry.price_tiers !== undefined || tiers === null) return []
  return canonicalJson(tiers) === canonicalJson(known.price_tiers ?? null) ? [] : ['price_tiers']
}

/** The member that a new model would have otherwise: its capabilities, or only their source. */
const droppedCapabilities = (
  entry: BootstrapModel,
  row: ModelRow,
  known: ModelFacts,
  listing: ProviderKind['listing'],
): 'capabilities' | 'capability_source' | null => {
  if (entry.capabilities !== undefined) return null
  const { capability_source: source, capabilities } = row
  if (source === 'provider' && listing !== undefined) return null
  if (canonicalJson(capabilities.toSorted()) !== canonicalJson(known.capabilities.toSorted())) return 'capabilities'
  return source === (entry.capability_source ?? known.capability_source) ? null : 'capability_source'
}
