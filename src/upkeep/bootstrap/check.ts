// Checks of `bootstrap:` beyond its schema: values that the rules accept, names that exist. Each problem is one line
// that begins with its path.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { KindTable } from '../models/kind-table.ts'
import { repetitionProblem } from './duplicates.ts'
import { BootstrapRefused, hasScopes, usualKey } from './keys.ts'
import { DEFAULT_TENANT } from './names.ts'
import { rowsAbout } from './prices.ts'
import type { SeedDeps } from './step.ts'
import { valueProblem } from './validate.ts'

/** What can be checked from the settings alone: the first problem, or null. */
export const bootstrapProblem = (bootstrap: Bootstrap, kinds: KindTable): string | null =>
  valueProblem(bootstrap, kinds) ?? usualKeyProblem(bootstrap) ?? repetitionProblem(bootstrap)

/**
 * An entry may set the limits of one of the usual keys, never its scopes or its text: these belong to the environment.
 */
const usualKeyProblem = ({ keys = [] }: Bootstrap): string | null => {
  for (const [i, { name, tenant = DEFAULT_TENANT, scopes, key_env }] of keys.entries()) {
    const usual = usualKey(tenant, name)
    if (usual === undefined) continue
    const what = `"${name}" is the key of ${usual.variable}`
    if (key_env !== undefined)
      return `bootstrap.keys[${i}].key_env: ${what}, which holds its text: take key_env out or choose another name`
    if (!hasScopes(usual, scopes))
      return (
        `bootstrap.keys[${i}].scopes: ${what} and has the scopes [${usual.scopes}]: say these or choose ` +
        `another name`
      )
  }
  return null
}

/**
 * Names may stand for rows that an earlier start or the API made, so this needs the folded log. Throws BootstrapRefused
 * with the first name that no row has.
 */
export const requireReferences = (bootstrap: Bootstrap, { live, kindTable, env }: SeedDeps): void => {
  const problem = referenceProblem(bootstrap, live.control, usualNames(kindTable, env))
  if (problem !== null) throw new BootstrapRefused(problem)
}

const referenceProblem = (bootstrap: Bootstrap, state: ControlReader, usual: readonly string[]): string | null => {
  const { tenants = [], keys = [], policies = [], providers = [], models = [] } = bootstrap
  const { endpoints = [], overrides = [], budgets = [], cache_rules = [], tools = [], tool_policies = [] } = bootstrap
  const { price_corrections = [] } = bootstrap
  const slugs = new Set([DEFAULT_TENANT, ...tenants.map(({ slug }) => slug)])
  const isTenant = (slug: string) => slugs.has(slug) || state.table('tenants').find('slug', slug).length > 0
  for (const [section, entries] of Object.entries({
    keys,
    policies,
    endpoints,
    overrides,
    budgets,
    cache_rules,
    tools,
    tool_policies,
  })) {
    for (const [i, { tenant }] of entries.entries()) {
      if (tenant === undefined || isTenant(tenant)) continue
      return (
        `bootstrap.${section}[${i}].tenant: there is no tenant "${tenant}": add it to bootstrap.tenants or ` +
        `correct the name`
      )
    }
  }
  const known = [...state.table('policies').rows()].map(([, row]) => row)
  const policyNames = new Set([...policies, ...known].map(({ name }) => name.toLowerCase()))
  for (const [i, { routing_policy: name }] of keys.entries()) {
    if (name === undefined || policyNames.has(name.toLowerCase())) continue
    return (
      `bootstrap.keys[${i}].routing_policy: there is no policy "${name}": add it to bootstrap.policies or ` +
      `correct the name`
    )
  }
  const providerNames = new Set([...providers.map(({ name }) => name), ...usual].map((name) => name.toLowerCase()))
  const isProvider = (name: string) =>
    providerNames.has(name.toLowerCase()) || state.table('providers').find('name', name.toLowerCase()).length > 0
  const noProvider = (path: string, name: string) =>
    `bootstrap.${path}.provider: there is no provider "${name}": add it to bootstrap.providers or correct the name`
  for (const [i, { provider: name }] of models.entries()) if (!isProvider(name)) return noProvider(`models[${i}]`, name)
  for (const [i, entry] of price_corrections.entries()) {
    if (isProvider(entry.provider) || rowsAbout(state, entry).length > 0) continue
    return noProvider(`price_corrections[${i}]`, entry.provider)
  }
  return null
}

/** Providers that seeding makes without an entry: those of the usual variables that are set, and the sandbox. */
const usualNames = ({ names, resolve }: KindTable, env: SeedDeps['env']): string[] =>
  names.filter((name) => {
    const variable = resolve(name)?.usualEnv
    return name === 'sandbox' || (variable != null && Boolean(env(variable)))
  })
