// `GET /v1/models`: the catalogue for clients, one entry for each name and alias, including those of endpoint scopes.

import type { EndpointScope, OverridesInForce } from '../../state/indexes/steering.ts'
import type { Catalogue, CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { ModelList, ModelObject } from '../../wire/models.ts'
import { candidatesFor } from '../plan/candidates.ts'
import { BUILT_IN, withScope } from '../plan/policies.ts'

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

/**
 * Every name and alias that the tenant can call now (not those of a killed provider, a blocked model or a closed
 * scope), with the numbers of the first candidate in priority order: names first, then aliases of models and of
 * endpoint scopes, each list in the order of its ids.
 */
export const listModels = (
  catalogue: Catalogue,
  scopes: ReadonlyMap<string, EndpointScope>,
  overrides: OverridesInForce,
): ModelList => {
  const { killedProviderIds, blockedModels, blockedEndpoints } = overrides
  const routable = ({ unroutable, providerId, name }: CatalogueEntry): boolean =>
    unroutable === null && !killedProviderIds.has(providerId) && !blockedModels.has(name.toLowerCase())
  const names = new Map<string, ModelObject>()
  for (const entry of catalogue.all()) {
    const key = entry.name.toLowerCase()
    if (routable(entry) && !names.has(key)) names.set(key, modelObject(entry.name, entry))
  }
  const aliases = new Map<string, ModelObject>()
  const add = (alias: string, rows: readonly CatalogueEntry[]): void => {
    const key = alias.toLowerCase()
    const entry = blockedModels.has(key) ? undefined : rows.find(routable)
    if (entry !== undefined && !names.has(key) && !aliases.has(key)) aliases.set(key, modelObject(alias, entry))
  }
  for (const alias of catalogue.aliases().keys()) add(alias, catalogue.resolve(alias))
  for (const [alias, scope] of scopes)
    if (scope.enabled && !blockedEndpoints.has(scope.slug)) add(alias, rowsOfScope(scope, catalogue))
  return { object: 'list', data: [...sorted([...names.values()]), ...sorted([...aliases.values()])] }
}

/**
 * The rows that an alias of the scope leads to, the first one first: the forced model, else the preferred ones;
 * preferred providers before the others.
 */
const rowsOfScope = (scope: EndpointScope, catalogue: Catalogue): CatalogueEntry[] => {
  const policy = withScope(BUILT_IN, scope)
  const models = policy.forcedModel === null ? policy.preferredModels : [policy.forcedModel]
  return models.flatMap((model) => [...candidatesFor(model, 'alone', policy, catalogue).entries])
}

const sorted = (models: ModelObject[]): ModelObject[] => models.sort((a, b) => (a.id < b.id ? -1 : 1))

/** One model by name or alias, also when it cannot be routed now. Throws 404. */
export const showModel = (
  catalogue: Catalogue,
  scopes: ReadonlyMap<string, EndpointScope>,
  name: string,
): ModelObject => {
  const lower = name.toLowerCase()
  const isNamed = (alias: string): boolean => alias.toLowerCase() === lower
  const entries = catalogue.resolve(name)
  const scoped = entries.length > 0 ? undefined : [...scopes].find(([alias]) => isNamed(alias))
  const rows = scoped === undefined ? entries : rowsOfScope(scoped[1], catalogue)
  const entry = rows.find(({ unroutable }) => unroutable === null) ?? rows[0]
  if (entry === undefined) throw new GatewayError('not_found', `the model "${name}" does not exist`, { param: 'model' })
  if (scoped !== undefined) return modelObject(scoped[0], entry)
  if (isNamed(entry.name)) return modelObject(entry.name, entry)
  return modelObject([...catalogue.aliases().keys()].find(isNamed) ?? entry.name, entry)
}
