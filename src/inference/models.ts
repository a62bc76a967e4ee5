// `GET /v1/models`: the catalogue as clients see it, one entry for each name and alias.
import type { Catalogue, CatalogueEntry } from '../state/port.ts'
import type { OverridesInForce } from '../state/steering.ts'
import { GatewayError } from '../wire/errors.ts'
import type { ModelList, ModelObject } from '../wire/models.ts'

const modelObject = (id: string, entry: CatalogueEntry): ModelObject => ({
  id,
  object: 'model',
  created: Math.floor(entry.createdAtMs / 1_000),
  owned_by: entry.provider,
  gateway_provider: entry.provider,
  gateway_context_window: entry.contextWindow,
  gateway_input_cost_per_million: entry.inputCostPerMillion,
  gateway_output_cost_per_million: entry.outputCostPerMillion,
  gateway_capabilities: entry.capabilities,
})

/** Every name and alias that can be routed (a killed provider and a blocked model cannot), by the first candidate in priority order; names first, each list in the order of its ids. */
export const listModels = (catalogue: Catalogue, overrides: OverridesInForce): ModelList => {
  const routable = ({ unroutable, providerId, name }: CatalogueEntry): boolean =>
    unroutable === null &&
    !overrides.killedProviderIds.has(providerId) &&
    !overrides.blockedModels.has(name.toLowerCase())
  const byName = new Map<string, ModelObject>()
  for (const entry of catalogue.all()) {
    const key = entry.name.toLowerCase()
    if (routable(entry) && !byName.has(key)) byName.set(key, modelObject(entry.name, entry))
  }
  const aliases: ModelObject[] = []
  for (const alias of catalogue.aliases().keys()) {
    const entry = overrides.blockedModels.has(alias.toLowerCase()) ? undefined : catalogue.resolve(alias).find(routable)
    if (entry !== undefined && !byName.has(alias.toLowerCase())) aliases.push(modelObject(alias, entry))
  }
  return { object: 'list', data: [...sorted([...byName.values()]), ...sorted(aliases)] }
}

const sorted = (models: ModelObject[]): ModelObject[] => models.sort((a, b) => (a.id < b.id ? -1 : 1))

/** One model by name or alias, also when it cannot be routed now. Throws 404. */
export const showModel = (catalogue: Catalogue, name: string): ModelObject => {
  const entries = catalogue.resolve(name)
  const entry = entries.find(({ unroutable }) => unroutable === null) ?? entries[0]
  if (entry === undefined) throw new GatewayError('not_found', `the model "${name}" does not exist`, { param: 'model' })
  const lower = name.toLowerCase()
  if (entry.name.toLowerCase() === lower) return modelObject(entry.name, entry)
  const alias = [...catalogue.aliases().keys()].find((candidate) => candidate.toLowerCase() === lower)
  return modelObject(alias ?? entry.name, entry)
}
