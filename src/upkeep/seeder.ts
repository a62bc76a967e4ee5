// The first start, and every later one: what `bootstrap:` and the usual environment variables ask for becomes decisions, once.
// Several instances may seed at once: all of it goes through the chain, and only what counted is told.
import { decidePolicy, POLICY_DEFAULTS, policyKey } from '../domain/policy.ts'
import { policyWarnings } from '../domain/references.ts'
import { decideTenant } from '../domain/tenant.ts'
import { requireReferences } from './seed-check.ts'
import { DEFAULT_TENANT, prepareKeys, seedKeys } from './seed-keys.ts'
import { forgottenLimits, seedLimits } from './seed-limits.ts'
import { seedProviders } from './seed-providers.ts'
import { seedSteering, steeringNotes } from './seed-steering.ts'
import { type SeedDeps, type SeedInput, type SeedReport, seeded } from './seed-step.ts'

const seedTenants = async ({ bootstrap }: SeedInput, deps: SeedDeps, report: SeedReport): Promise<void> => {
  const entries = bootstrap.tenants ?? []
  const own: typeof entries = entries.some(({ slug }) => slug === DEFAULT_TENANT)
    ? []
    : [{ slug: DEFAULT_TENANT, name: 'Default' }]
  for (const { slug, name, plan = null, rate_limits = null } of [...own, ...entries]) {
    const id = deps.newId('ten')
    await seeded(`bootstrap.tenants "${slug}"`, deps, report, (state) => {
      const [existing] = state.table('tenants').find('slug', slug)
      const row = existing === undefined ? undefined : state.table('tenants').get(existing)
      const fields = { name, plan, rate_limits, managed_by: 'bootstrap' } as const
      if (row === undefined) return decideTenant(state, { do: 'create', id, slug, ...fields })
      const touched = row.managed_by !== 'bootstrap' || !entries.some((entry) => entry.slug === slug)
      return touched ? [] : decideTenant(state, { do: 'replace', id: row.id, ...fields })
    })
  }
}

const seedPolicies = async ({ bootstrap }: SeedInput, deps: SeedDeps, report: SeedReport): Promise<void> => {
  for (const { name, tenant, ...fields } of bootstrap.policies ?? []) {
    const id = deps.newId('pol')
    await seeded(`bootstrap.policies "${name}"`, deps, report, (state) => {
      const [tenantId = null] = tenant === undefined ? [] : state.table('tenants').find('slug', tenant)
      const [existing] = state.table('policies').find('name', policyKey(tenantId, name))
      if (existing !== undefined && state.table('policies').get(existing)!.managed_by !== 'bootstrap') return []
      return decidePolicy(state, {
        do: 'upsert',
        id,
        tenant_id: tenantId,
        name,
        managed_by: 'bootstrap',
        ...POLICY_DEFAULTS,
        ...fields,
      })
    })
  }
}

/** What its policies name that nobody has, once everything is seeded. */
const dangling = ({ bootstrap }: SeedInput, { live: { control } }: SeedDeps): string[] =>
  (bootstrap.policies ?? []).flatMap(({ name, tenant: _, ...fields }) =>
    policyWarnings(control, { ...POLICY_DEFAULTS, ...fields }).map(
      (warning) => `bootstrap.policies "${name}": ${warning}`,
    ),
  )

/** What the settings once made and no longer name. It stays; whoever wants it gone deletes it. */
const forgotten = ({ bootstrap }: SeedInput, { live, kindTable }: SeedDeps): string[] => {
  const { control } = live
  const named = new Set([...kindTable.names, ...(bootstrap.providers ?? []).map(({ name }) => name.toLowerCase())])
  const providers = [...control.table('providers').rows()]
    .filter(([, row]) => row.managed_by === 'bootstrap' && !named.has(row.name.toLowerCase()))
    .map(([, row]) => `the provider "${row.name}" is no longer in bootstrap.providers; it stays until it is deleted`)
  const policies = new Set((bootstrap.policies ?? []).map(({ name }) => name.toLowerCase()))
  const left = [...control.table('policies').rows()]
    .filter(([, row]) => row.managed_by === 'bootstrap' && !policies.has(row.name.toLowerCase()))
    .map(([, row]) => `the policy "${row.name}" is no longer in bootstrap.policies; it stays until it is deleted`)
  return [...providers, ...left]
}

/**
 * Prepares the seeding of one process. Each run seeds in an order in which everything finds what it names: tenants, policies, keys, providers,
 * models, and what limits them; a further one goes on where the last failed and tells every key that counted. Throws BootstrapRefused for a key that no client could
 * send, and a run before it writes anything when the settings name what nothing has; a run throws CommitFailure when the log does not answer.
 */
export const openSeeder = (input: SeedInput, deps: SeedDeps): (() => Promise<SeedReport>) => {
  const keys = prepareKeys(input, deps)
  return async () => {
    requireReferences(input.bootstrap, deps)
    const report: SeedReport = { minted: [], notes: [] }
    await seedTenants(input, deps, report)
    await seedPolicies(input, deps, report)
    await seedKeys(keys, deps, report)
    await seedProviders(input, deps, report)
    await seedSteering(input, deps, report)
    await seedLimits(input, deps, report)
    report.notes.push(...dangling(input, deps), ...forgotten(input, deps), ...forgottenLimits(input, deps))
    report.notes.push(...steeringNotes(input.bootstrap, deps.live.control))
    return report
  }
}
