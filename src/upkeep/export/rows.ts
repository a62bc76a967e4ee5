// Rows of the control state as entries of `bootstrap:`: names for ids, and no field that has its default.
import type { ApiKeyRow } from '../../domain/access/api-key.ts'
import type { TenantRow } from '../../domain/access/tenant.ts'
import type { Bootstrap, BootstrapKey, BootstrapModel } from '../../domain/bootstrap.ts'
import { BUDGET_DEFAULTS, type BudgetRow } from '../../domain/budgets/budget.ts'
import { requireTarget } from '../../domain/budgets/budget-scope.ts'
import type { ControlReader } from '../../domain/control.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { canonicalJson } from '../../domain/kernel/tables.ts'
import { type ModelRow, naturalKey } from '../../domain/registry/model.ts'
import type { PriceCorrectionRow } from '../../domain/registry/price-correction.ts'
import { PROVIDER_DEFAULTS, type ProviderRow } from '../../domain/registry/provider.ts'
import { isBoundTo } from '../../domain/registry/secret-binding.ts'
import { TOOL_DEFAULTS, type ToolRow } from '../../domain/registry/tool.ts'
import { TOOL_POLICY_DEFAULTS, type ToolPolicyRow } from '../../domain/registry/tool-policy.ts'
import { CACHE_RULE_DEFAULTS, type CacheRuleRow } from '../../domain/steering/cache-rule.ts'
import { endpointKey } from '../../domain/steering/endpoint.ts'
import { POLICY_DEFAULTS, type PolicyRow } from '../../domain/steering/policy.ts'
import { usdOf } from '../../lib/money.ts'
import { hasScopes, usualKey } from '../bootstrap/keys.ts'
import { ModelTexts } from '../bootstrap/model-names.ts'
import { type KeyNames, nameOfKey } from './keys.ts'

export type Entry<Section extends keyof Bootstrap> = NonNullable<Bootstrap[Section]>[number]

/** An entry, or why there can be none. */
export type Exported<Shape> =
  | { readonly entry: Shape; readonly note?: string }
  | { readonly entry: null; readonly note: string }

const IDENTITY = ['id', 'tenant_id', 'managed_by', 'created_at', 'updated_at', 'revision'] as const

/** The members of a row that differ from the defaults. */
export const withoutDefaults = <Row extends object>(row: Row, defaults: object): Partial<Row> => {
  const fieldsSet: Record<string, unknown> = {}
  const absent = defaults as Readonly<Record<string, unknown>>
  // A row has its members in the order of its history.
  const members = Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [name, value] of members) {
    if (value === undefined || (IDENTITY as readonly string[]).includes(name)) continue
    if (Object.hasOwn(absent, name) && canonicalJson(absent[name]) === canonicalJson(value)) continue
    fieldsSet[name] = value
  }
  return fieldsSet as unknown as Partial<Row>
}

/** `{ tenant }` of a row, nothing for a row of all tenants. */
export const ownerOf = (state: ControlReader, tenantId: string | null): { tenant?: string } => {
  const slug = tenantId === null ? undefined : state.table('tenants').get(tenantId)?.slug
  return slug === undefined ? {} : { tenant: slug }
}

export const providerName = (state: ControlReader, text: string): string =>
  state.table('providers').get(text)?.name ?? text

export const tenantEntry = ({ slug, name, plan, rate_limits }: TenantRow): Entry<'tenants'> => ({
  slug,
  name,
  ...(plan === null ? {} : { plan }),
  ...(rate_limits === null ? {} : { rate_limits }),
})

export const keyEntry = (state: ControlReader, names: KeyNames, row: ApiKeyRow): Exported<BootstrapKey> => {
  const policy = row.routing_policy_id === null ? undefined : state.table('policies').get(row.routing_policy_id)
  const { name, isUnclear } = names.get(row.id)!
  const owner = ownerOf(state, row.tenant_id)
  const entry: BootstrapKey = {
    name,
    ...(isUnclear ? { id: row.id } : {}),
    ...owner,
    scopes: row.scopes as BootstrapKey['scopes'],
    ...(row.expires_at === null ? {} : { expires_at: row.expires_at }),
    ...(policy === undefined
      ? {}
      : { routing_policy: policy.name, routing_policy_owner: policy.tenant_id === null ? 'global' : 'tenant' }),
    ...(row.rate_limits === null ? {} : { rate_limits: row.rate_limits }),
  }
  if (name === row.name) return { entry }
  const usual = usualKey(owner.tenant, row.name)
  const why =
    usual === undefined || hasScopes(usual, row.scopes)
      ? 'another key has this name'
      : `the key of ${usual.variable} has this name, and other scopes`
  const what = `the key ${JSON.stringify(row.name)} of ${owner.tenant} (${row.id})`
  return { entry, note: `${what} is named ${JSON.stringify(name)} here: ${why}` }
}

export const providerEntry = (row: ProviderRow): Exported<Entry<'providers'>> => {
  const { credential, env_bound_to, status, name, kind, ...fields } = row
  const fieldsSet = withoutDefaults(fields, { ...PROVIDER_DEFAULTS, base_url: null })
  const entry = { name, kind, ...fieldsSet, ...(status === 'active' ? {} : { enabled: false }) }
  const notes: string[] = []
  if (credential !== null)
    notes.push(`the credential of the provider ${JSON.stringify(name)} is not here: it must be given again`)
  // An entry of a file gives its variable to its address.
  if (row.api_key_env !== null && !isBoundTo(env_bound_to, row)) {
    delete entry.api_key_env
    notes.push(
      `the provider ${JSON.stringify(name)}: its ${row.api_key_env} was not given for its address, and is left out`,
    )
  }
  return notes.length === 0 ? { entry } : { entry, note: notes.join('; ') }
}

export const modelEntry = (state: ControlReader, row: ModelRow): BootstrapModel => {
  const { status, name, provider_id, upstream_model, aliases, price_tiers = null, ...fields } = row
  return {
    provider: providerName(state, provider_id),
    name,
    ...(upstream_model === name ? {} : { upstream_model }),
    ...(aliases.length === 0 ? {} : { aliases }),
    ...(withoutDefaults(fields, {}) as Partial<BootstrapModel>),
    price_tiers,
    ...(status === 'active' ? {} : { enabled: false }),
  }
}

export const policyEntry = (state: ControlReader, row: PolicyRow): Exported<Entry<'policies'>> => {
  const texts = new ModelTexts(state, row.managed_by)
  const providers = (names: readonly string[]) => names.map((name) => providerName(state, name))
  const models = (names: readonly string[]) => names.map((name) => texts.of(name))
  const { fallback, sensitivity } = row
  const named: PolicyRow = {
    ...row,
    models: models(row.models),
    providers: mapped(row.providers, providers),
    fallback: {
      ...fallback,
      ...(fallback.models === undefined ? {} : { models: models(fallback.models) }),
      ...(fallback.context_window_models === undefined
        ? {}
        : { context_window_models: models(fallback.context_window_models) }),
    },
    sensitivity: mapped(sensitivity, (rule) =>
      rule.providers === undefined ? rule : { ...rule, providers: providers(rule.providers) },
    ),
  }
  const { name, ...fieldsSet } = withoutDefaults(named, POLICY_DEFAULTS)
  const entry = { name: row.name, ...ownerOf(state, row.tenant_id), ...fieldsSet }
  return { entry, ...texts.noteOn(`the policy ${JSON.stringify(row.name)}`) }
}

/** The present members, each as `change` makes it. */
const mapped = <Shape extends object>(
  shape: Shape,
  change: (value: NonNullable<Shape[keyof Shape]>) => NonNullable<Shape[keyof Shape]>,
): Shape =>
  Object.fromEntries(
    Object.entries(shape).map(([name, value]) => [name, value === undefined ? undefined : change(value)]),
  ) as unknown as Shape

const usd = (nanoUsd: number | null): number | null => (nanoUsd === null ? null : usdOf(nanoUsd))

export const budgetEntry = (state: ControlReader, keys: KeyNames, row: BudgetRow): Exported<Entry<'budgets'>> => {
  const { scope, tenant_id, limit_nano_usd, soft_limit_nano_usd, hard_cap_nano_usd, ...others } = row
  const { height: _, limits_height: __, ...rest } = others
  const owner = ownerOf(state, tenant_id)
  const what = `the budget of ${owner.tenant ?? tenant_id} for ${scope.type} ${JSON.stringify(scope.id)}`
  const { type } = scope as { type: NonNullable<Entry<'budgets'>['scope']>['type'] }
  const id =
    type === 'key'
      ? nameOfKey(state, keys, tenant_id, scope.id)
      : type === 'provider'
        ? providerName(state, scope.id)
        : scope.id
  if (id === null) return { entry: null, note: `${what} is left out: there is no such key any more` }
  try {
    requireTarget(state, tenant_id, { type, id: scope.id })
  } catch (error) {
    if (!(error instanceof Rejection)) throw error
    return { entry: null, note: `${what} is left out: there is nothing of that name any more` }
  }
  const money = {
    limit_usd: usd(limit_nano_usd),
    soft_limit_usd: usd(soft_limit_nano_usd),
    hard_cap_usd: usd(hard_cap_nano_usd),
  }
  const fieldsSet = withoutDefaults({ ...rest, ...money }, { ...BUDGET_DEFAULTS, window: '' })
  return { entry: { ...owner, ...(type === 'tenant' ? {} : { scope: { type, id } }), ...fieldsSet } }
}

export const cacheRuleEntry = (
  state: ControlReader,
  keys: KeyNames,
  row: CacheRuleRow,
): Exported<Entry<'cache_rules'>> => {
  const scopes = row.scopes.map((scope) => scopeName(state, keys, row.tenant_id, scope))
  const usable = scopes.filter((scope) => scope !== null)
  const lost = scopes.length - usable.length
  const what = `the cache rule ${JSON.stringify(row.name)}`
  if (usable.length === 0) return { entry: null, note: `${what} is left out: nothing that it names is there any more` }
  const { name, ttl_seconds, scopes: _, ...fieldsSet } = withoutDefaults({ ...row }, CACHE_RULE_DEFAULTS)
  const entry = {
    name: row.name,
    ...ownerOf(state, row.tenant_id),
    ttl_seconds: row.ttl_seconds,
    scopes: usable,
    ...fieldsSet,
  }
  return lost === 0
    ? { entry }
    : { entry, note: `${lost} scopes of ${what} are left out: no name means what they mean` }
}

/** A scope of a rule in names, or null where an id has no name any more. */
const scopeName = (state: ControlReader, keys: KeyNames, tenantId: string | null, scope: string): string | null => {
  const rest = scope.slice(scope.indexOf(':') + 1)
  if (scope.startsWith('tenant:')) {
    const slug = state.table('tenants').get(rest)?.slug
    return slug === undefined ? null : `tenant:${slug}`
  }
  if (scope.startsWith('key:')) {
    const name = nameOfKey(state, keys, tenantId, rest)
    return name === null ? null : `key:${name}`
  }
  if (!scope.startsWith('endpoint:')) return scope
  const owners = tenantId === null ? [null, ...[...state.table('tenants').rows()].map(([id]) => id)] : [tenantId, null]
  const endpoints = state.table('endpoints')
  return owners.some((owner) => endpoints.find('slug', endpointKey(owner, rest)).length > 0) ? scope : null
}

export const toolEntry = (state: ControlReader, row: ToolRow): Entry<'tools'> => {
  const { name, ...fieldsSet } = withoutDefaults(row, { ...TOOL_DEFAULTS, kind: 'function', enabled: true })
  return { name: row.name, ...ownerOf(state, row.tenant_id), ...(fieldsSet as Partial<Entry<'tools'>>) }
}

export const toolPolicyEntry = (state: ControlReader, row: ToolPolicyRow): Entry<'tool_policies'> => {
  const { name, ...fieldsSet } = withoutDefaults(row, { ...TOOL_POLICY_DEFAULTS, enabled: true })
  return { name: row.name, ...ownerOf(state, row.tenant_id), ...fieldsSet }
}

/** By names, as usage has them: a deleted provider or model has no other reference. */
export const correctionEntry = (
  state: ControlReader,
  row: PriceCorrectionRow,
): Exported<Entry<'price_corrections'>> => {
  const { provider, model, from, to, reason, cached_input_cost_per_million: cached, ...prices } = row
  const [providerId] = state.table('providers').find('name', provider.toLowerCase())
  const isThere =
    providerId !== undefined && state.table('models').find('natural', naturalKey(providerId, model)).length > 0
  if (!isThere) {
    const what = `the price correction of ${JSON.stringify(model)} of ${JSON.stringify(provider)} from ${from} to ${to}`
    return { entry: null, note: `${what} is left out: there is no such model any more` }
  }
  const { input_cost_per_million, output_cost_per_million } = prices
  return {
    entry: {
      ...{ provider, model, from, to, input_cost_per_million, output_cost_per_million },
      ...(cached === null ? {} : { cached_input_cost_per_million: cached }),
      ...(reason === null ? {} : { reason }),
    },
  }
}
