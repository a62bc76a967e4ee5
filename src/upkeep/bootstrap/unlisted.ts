// What the settings once made and no longer name. It stays, and each start reports it; an operator deletes it through
// the API.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import { naturalKey } from '../../domain/registry/model.ts'
import { policyKey } from '../../domain/steering/policy.ts'
import { ADMIN_KEY_NAME, INFERENCE_KEY_NAME } from './keys.ts'
import { DEFAULT_TENANT, modelEntries, tenantOf } from './names.ts'
import { providerNamed } from './providers.ts'
import type { SeedDeps, SeedInput } from './step.ts'

/** The note about one row of a section. */
export const unlistedLine = (what: string, section: string, end = 'it stays until it is deleted'): string =>
  `${what} is no longer in bootstrap.${section}; ${end}`

/** Tenants, policies, keys, providers and models; the other sections report their own. */
export const unlistedNotes = (
  { bootstrap }: SeedInput,
  { live, kindTable, nowMs }: Pick<SeedDeps, 'live' | 'kindTable' | 'nowMs'>,
): string[] => {
  const { control } = live
  return [
    ...unlistedTenants(bootstrap, control),
    ...unlistedPolicies(bootstrap, control),
    ...unlistedKeys(bootstrap, control, nowMs()),
    ...unlistedProviders(bootstrap, control, kindTable.names),
    ...unlistedModels(bootstrap, control),
  ]
}

const unlistedTenants = ({ tenants = [] }: Bootstrap, state: ControlReader): string[] => {
  const named = new Set([DEFAULT_TENANT, ...tenants.map(({ slug }) => slug)])
  return [...state.table('tenants').rows()]
    .filter(([, row]) => row.managed_by === 'bootstrap' && !named.has(row.slug))
    .map(([, row]) => unlistedLine(`the tenant "${row.slug}"`, 'tenants'))
}

const unlistedPolicies = ({ policies = [] }: Bootstrap, state: ControlReader): string[] => {
  const named = new Set(policies.map(({ name, tenant }) => policyKey(tenantOf(state, tenant), name)))
  return [...state.table('policies').rows()]
    .filter(([, row]) => row.managed_by === 'bootstrap' && !named.has(policyKey(row.tenant_id, row.name)))
    .map(([, row]) => unlistedLine(`the policy "${row.name}"`, 'policies'))
}

/** Only those that still work. The two of the first start are in no section. */
const unlistedKeys = ({ keys = [] }: Bootstrap, state: ControlReader, nowMs: number): string[] => {
  const keyOf = (tenantId: string | null, name: string) => `${tenantId}\0${name}`
  const usual = [ADMIN_KEY_NAME, INFERENCE_KEY_NAME].map((name) => keyOf(tenantOf(state, DEFAULT_TENANT), name))
  const listed = keys.map(({ name, tenant = DEFAULT_TENANT }) => keyOf(tenantOf(state, tenant), name))
  const named = new Set([...usual, ...listed])
  return [...state.table('keys').rows()]
    .filter(([, row]) => row.managed_by === 'bootstrap' && row.status === 'active')
    .filter(([, { expires_at }]) => expires_at === null || Date.parse(expires_at) > nowMs)
    .filter(([, row]) => !named.has(keyOf(row.tenant_id, row.name)))
    .map(([, row]) => unlistedLine(`the key "${row.name}" (${row.id})`, 'keys', 'it works until it is revoked'))
}

/** Providers that are named as their kind come from the environment, too. */
const unlistedProviders = ({ providers = [] }: Bootstrap, state: ControlReader, kinds: readonly string[]): string[] => {
  const named = new Set([...kinds, ...providers.map(({ name }) => name.toLowerCase())])
  return [...state.table('providers').rows()]
    .filter(([, row]) => row.managed_by === 'bootstrap' && !named.has(row.name.toLowerCase()))
    .map(([, row]) => unlistedLine(`the provider "${row.name}"`, 'providers'))
}

/**
 * Without the models of an unlisted provider, which go with it, and without those of a provider of a usual variable:
 * these came with it and cannot be distinguished from models of entries.
 */
const unlistedModels = (bootstrap: Bootstrap, state: ControlReader): string[] => {
  const listed = new Set((bootstrap.providers ?? []).map(({ name }) => name.toLowerCase()))
  const named = new Set(
    modelEntries(bootstrap).map(({ provider, name }) => naturalKey(providerNamed(state, provider)?.id ?? '', name)),
  )
  return [...state.table('models').rows()].flatMap(([, row]) => {
    const provider = state.table('providers').get(row.provider_id)
    if (row.managed_by !== 'bootstrap' || provider === undefined) return []
    const comesOfItself = provider.managed_by === 'bootstrap' || provider.name === provider.kind
    if (comesOfItself && !listed.has(provider.name.toLowerCase())) return []
    if (named.has(naturalKey(row.provider_id, row.name))) return []
    return [unlistedLine(`the model "${row.name}" of "${provider.name}"`, 'models')]
  })
}
