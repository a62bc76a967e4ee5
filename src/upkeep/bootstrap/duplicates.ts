// Entries of `bootstrap:` that name the same thing twice: each would undo the other at every start. Found from the
// settings alone.
import type { Bootstrap, BootstrapOverride } from '../../domain/bootstrap.ts'
import { BUDGET_DEFAULTS } from '../../domain/budgets/budget.ts'
import { DEFAULT_TENANT } from './names.ts'

/** One entry: its path, and its identity. */
interface IdentifiedEntry {
  readonly path: string
  readonly identity: readonly string[]
}

/**
 * The first entry that names the same thing as an earlier one, as one line that begins with its path; null when there
 * is none. Corrections of prices may repeat: the later one holds.
 */
export const repetitionProblem = (bootstrap: Bootstrap): string | null => {
  for (const entries of sectionsOf(bootstrap)) {
    const met = new Map<string, string>()
    for (const { path, identity } of entries) {
      const key = identity.join('\0')
      const first = met.get(key)
      if (first !== undefined) return `bootstrap.${path}: it is the same as bootstrap.${first}: take one of them out`
      met.set(key, path)
    }
  }
  return null
}

/** The entries of each section, with the identity by which the tables of the state distinguish rows. */
const sectionsOf = (bootstrap: Bootstrap): readonly (readonly IdentifiedEntry[])[] => {
  const { tenants = [], keys = [], providers = [], models = [], endpoints = [] } = bootstrap
  const { overrides = [], budgets = [] } = bootstrap
  const keyNamed = keyNames(keys)
  const nested = providers.flatMap(({ name: provider, models: own = [] }, i) =>
    own.map(({ name }, k) => ({ path: `providers[${i}].models[${k}].name`, provider, name })),
  )
  const listed = models.map(({ provider, name }, i) => ({ path: `models[${i}].name`, provider, name }))
  const ownNamed = (['policies', 'cache_rules', 'tools', 'tool_policies'] as const).map((section) =>
    (bootstrap[section] ?? []).map(({ tenant = '', name }, i) => ({
      path: `${section}[${i}].name`,
      identity: [tenant, name.toLowerCase()],
    })),
  )
  return [
    tenants.map(({ slug }, i) => ({ path: `tenants[${i}].slug`, identity: [slug] })),
    // Names of keys are case-sensitive.
    keys.map(({ tenant = DEFAULT_TENANT, name }, i) => ({ path: `keys[${i}].name`, identity: [tenant, name] })),
    keys.flatMap(({ id }, i) => (id === undefined ? [] : [{ path: `keys[${i}].id`, identity: [id] }])),
    providers.map(({ name }, i) => ({ path: `providers[${i}].name`, identity: [name.toLowerCase()] })),
    [...nested, ...listed].map(({ path, provider, name }) => ({
      path,
      identity: [provider.toLowerCase(), name.toLowerCase()],
    })),
    ...ownNamed,
    endpoints.map(({ tenant = '', slug }, i) => ({
      path: `endpoints[${i}].slug`,
      identity: [tenant, slug.toLowerCase()],
    })),
    overrides.map((entry, i) => ({
      path: `overrides[${i}]`,
      identity: [entry.tenant ?? '', entry.kind, targetOf(entry, keyNamed)],
    })),
    budgets.map(({ tenant = DEFAULT_TENANT, scope = { type: 'tenant' }, window = BUDGET_DEFAULTS.window }, i) => ({
      path: `budgets[${i}]`,
      identity: [tenant, scope.type, limitedBy(scope), window],
    })),
  ]
}

const limitedBy = ({ type, id = '' }: { readonly type: string; readonly id?: string }): string =>
  type === 'tenant' ? '' : type === 'key' ? id : id.toLowerCase()

/**
 * The name of a key, as an override without tenant writes it -> the key with its tenant, where only one has that name.
 */
const keyNames = (keys: NonNullable<Bootstrap['keys']>): ReadonlyMap<string, string> => {
  const full = keys.map(({ tenant = DEFAULT_TENANT, name }) => [`${tenant}/${name}`, name] as const)
  const bare = Map.groupBy(full, ([, name]) => name)
  const clear = [...bare].flatMap(([name, of]) => (of.length === 1 ? [[name, of[0]![0]] as const] : []))
  return new Map([...clear, ...full.map(([name]) => [name, name] as const)])
}

/** The target in one of its spellings; a target without a prefix is a provider. */
const targetOf = ({ tenant, target }: BootstrapOverride, keyNamed: ReadonlyMap<string, string>): string => {
  const text = target?.trim() || '*'
  // Names of keys may end in blanks.
  const key = /^key:(.*)$/s.exec(target ?? '')?.[1]
  if (key !== undefined) return `key:${tenant === undefined ? (keyNamed.get(key) ?? key) : key}`
  const [, prefix = '', rest = ''] = /^(provider|model|key|tool|endpoint):\s*(.*)$/is.exec(text) ?? []
  const what = prefix.toLowerCase()
  if (what === 'key') return `key:${tenant === undefined ? (keyNamed.get(rest) ?? rest) : rest}`
  if (what === 'tool') return `tool:${rest}`
  if (what !== '') return `${what}:${rest.toLowerCase()}`
  return text === '*' ? text : `provider:${text.toLowerCase()}`
}
