// Budgets, cache rules, tools and tool policies of `bootstrap:`. Entries use names instead of ids; what the API edited
// since is left alone.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import { BUDGET_DEFAULTS, budgetKey, decideBudget } from '../../domain/budgets/budget.ts'
import { budgetTarget } from '../../domain/budgets/budget-scope.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import type { ManagedBy } from '../../domain/kernel/fields.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { decideTool, TOOL_DEFAULTS, toolKey } from '../../domain/registry/tool.ts'
import { decideToolPolicy, TOOL_POLICY_DEFAULTS, toolPolicyKey } from '../../domain/registry/tool-policy.ts'
import { CACHE_RULE_DEFAULTS, cacheRuleKey, decideCacheRule } from '../../domain/steering/cache-rule.ts'
import { DEFAULT_TENANT, type KeyNaming, keyNamingOf, keyOf, tenantOf } from './names.ts'
import type { SeedDeps, SeedInput, SeedStep } from './step.ts'
import { unlistedLine } from './unlisted.ts'

/** One entry of a section. */
export type Entry<Section extends keyof Bootstrap> = NonNullable<Bootstrap[Section]>[number]

/** All four sections. They come last: they name tenants, keys, providers and models. */
export const limitSteps = ({ bootstrap }: SeedInput, { newId }: Pick<SeedDeps, 'newId'>): SeedStep[] => {
  const naming = keyNamingOf(bootstrap)
  const { budgets = [], cache_rules = [], tools = [], tool_policies = [] } = bootstrap
  const step = (what: string, id: string, decide: (state: ControlReader, id: string) => EventRecord[]): SeedStep => ({
    what: `bootstrap.${what}`,
    decide: (state) => decide(state, id),
  })
  return [
    ...budgets.map((entry, i) =>
      step(`budgets[${i}]`, newId('bud'), (state, id) => seedBudget(state, naming, id, entry)),
    ),
    ...cache_rules.map((entry) =>
      step(`cache_rules "${entry.name}"`, newId('rule'), (state, id) => seedRule(state, naming, id, entry)),
    ),
    ...tools.map((entry) => step(`tools "${entry.name}"`, newId('tool'), (state, id) => seedTool(state, id, entry))),
    ...tool_policies.map((entry) =>
      step(`tool_policies "${entry.name}"`, newId('tpol'), (state, id) => seedToolPolicy(state, id, entry)),
    ),
  ]
}

const isEdited = (row: { readonly managed_by: ManagedBy } | undefined): boolean => row?.managed_by === 'api'

const seedBudget = (state: ControlReader, naming: KeyNaming, id: string, entry: Entry<'budgets'>): EventRecord[] => {
  const {
    tenant = DEFAULT_TENANT,
    scope: given = { type: 'tenant' },
    window = BUDGET_DEFAULTS.window,
    ...fields
  } = entry
  const tenant_id = tenantOf(state, tenant)!
  const named = given.id === undefined || given.type !== 'key' ? given.id : keyOf(state, naming, tenant_id, given.id)
  // The scope `tenant` always means the tenant of the entry.
  const scope = { type: given.type, id: given.type === 'tenant' ? tenant_id : named }
  const budgets = state.table('budgets')
  const [existing] = budgets.find('identity', budgetKey(tenant_id, budgetTarget(state, tenant_id, scope), window))
  if (existing !== undefined && isEdited(budgets.get(existing))) return []
  const settings = { ...fields, window, tenant_id, scope, managed_by: 'bootstrap' } as const
  return decideBudget(state, { do: 'upsert', id, ...settings })
}

/** A key by its name as it is written, blanks at its ends included, which names of keys may have; else without them. */
const keyNamed = (state: ControlReader, naming: KeyNaming, tenantId: string | null, text: string): string => {
  const id = keyOf(state, naming, tenantId, text)
  return id === text ? keyOf(state, naming, tenantId, text.trim()) : id
}

const seedRule = (state: ControlReader, naming: KeyNaming, id: string, entry: Entry<'cache_rules'>): EventRecord[] => {
  const tenant_id = tenantOf(state, entry.tenant)
  const fields = ruleOf(entry, {
    key: (name) => keyNamed(state, naming, tenant_id, name),
    tenant: (slug) => tenantOf(state, slug)!,
  })
  const rules = state.table('cache_rules')
  const [existing] = rules.find('name', cacheRuleKey(tenant_id, entry.name))
  if (existing !== undefined && isEdited(rules.get(existing))) return []
  const settings = { ...fields, tenant_id, managed_by: 'bootstrap' } as const
  return decideCacheRule(state, { do: 'upsert', id, ...settings })
}

/** The fields of a cache rule that an entry sets. `ids`: of the key or tenant that a name means. */
export const ruleOf = (
  { tenant, scopes: given, ...fields }: Entry<'cache_rules'>,
  ids: { key(name: string): string; tenant(slug: string): string },
) => {
  const scopes = (given ?? [tenant === undefined ? 'global' : `tenant:${tenant}`]).map((scope) => {
    const text = scope.trim()
    if (text.startsWith('key:')) return `key:${ids.key(scope.slice(scope.indexOf(':') + 1))}`
    return text.startsWith('tenant:') ? `tenant:${ids.tenant(text.slice('tenant:'.length))}` : text
  })
  return { ...CACHE_RULE_DEFAULTS, ...fields, scopes }
}

const seedTool = (state: ControlReader, id: string, entry: Entry<'tools'>): EventRecord[] => {
  const { name, ...fields } = toolOf(entry)
  const tenant_id = tenantOf(state, entry.tenant)
  const tools = state.table('tools')
  const [existing] = tools.find('name', toolKey(tenant_id, name))
  const row = existing === undefined ? undefined : tools.get(existing)
  if (isEdited(row)) return []
  const settings = { ...fields, tenant_id, managed_by: 'bootstrap' } as const
  if (row === undefined) return decideTool(state, { do: 'register', id, name, ...settings })
  return decideTool(state, { do: 'change', id: row.id, ...settings })
}

/** The fields of a tool that an entry sets. */
export const toolOf = ({ tenant: _, kind = 'function', enabled = true, ...rest }: Entry<'tools'>) => ({
  ...TOOL_DEFAULTS,
  ...rest,
  kind,
  enabled,
})

const seedToolPolicy = (state: ControlReader, id: string, entry: Entry<'tool_policies'>): EventRecord[] => {
  const { tenant, enabled = true, ...fields } = entry
  const tenant_id = tenantOf(state, tenant)
  const policies = state.table('tool_policies')
  const [existing] = policies.find('name', toolPolicyKey(tenant_id, entry.name))
  if (existing !== undefined && isEdited(policies.get(existing))) return []
  const settings = { ...TOOL_POLICY_DEFAULTS, ...fields, enabled, tenant_id, managed_by: 'bootstrap' } as const
  return decideToolPolicy(state, { do: 'upsert', id, ...settings })
}

/** What the settings once made in these sections and no longer name. */
export const unlistedLimits = ({ bootstrap }: SeedInput, { live }: Pick<SeedDeps, 'live'>): string[] => {
  const { control } = live
  const left: string[] = []
  const remember = (what: string, section: string) => left.push(unlistedLine(what, section))
  const naming = keyNamingOf(bootstrap)
  const budgets = new Set((bootstrap.budgets ?? []).map((entry) => namedBudget(control, naming, entry)))
  for (const [, row] of control.table('budgets').rows())
    if (row.managed_by === 'bootstrap' && !budgets.has(budgetKey(row.tenant_id, row.scope, row.window)))
      remember(`the budget ${row.id} (${row.scope.type} ${row.scope.id}, ${row.window})`, 'budgets')
  for (const [section, what, keyOfName] of [
    ['cache_rules', 'the cache rule', cacheRuleKey],
    ['tools', 'the tool', toolKey],
    ['tool_policies', 'the tool policy', toolPolicyKey],
  ] as const) {
    const named = new Set(
      (bootstrap[section] ?? []).map(({ name, tenant }) => keyOfName(tenantOf(control, tenant), name)),
    )
    for (const [, row] of control.table(section).rows())
      if (row.managed_by === 'bootstrap' && !named.has(keyOfName(row.tenant_id, row.name)))
        remember(`${what} "${row.name}"`, section)
  }
  return left
}

/** Index key of the budget that an entry is about; '' while what it names does not exist. */
const namedBudget = (state: ControlReader, naming: KeyNaming, entry: Entry<'budgets'>): string => {
  const { tenant = DEFAULT_TENANT, scope = { type: 'tenant' }, window = BUDGET_DEFAULTS.window } = entry
  const tenantId = tenantOf(state, tenant)!
  try {
    const id =
      scope.type === 'tenant'
        ? tenantId
        : scope.type === 'key'
          ? keyOf(state, naming, tenantId, scope.id ?? '')
          : scope.id
    return budgetKey(tenantId, budgetTarget(state, tenantId, { type: scope.type, id }), window)
  } catch (error) {
    if (error instanceof Rejection) return '' // reported when it was seeded
    throw error
  }
}
