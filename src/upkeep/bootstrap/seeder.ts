// The seeding of the first start and of every later one: `bootstrap:` and the usual environment variables become
// decisions, once. Several instances may seed at once: all decisions go through the chain, and only what counted is
// reported.

import { decideTenant } from '../../domain/access/tenant.ts'
import type { ControlReader } from '../../domain/control.ts'
import { aliasNotes } from './aliases.ts'
import { requireReferences } from './check.ts'
import { droppedFieldNotes, type KnownFacts } from './dropped-fields.ts'
import { usualTextNotes, workingTexts } from './given-keys.ts'
import { keySettingNotes, keySettingSteps } from './key-settings.ts'
import { keySteps, mintedKeys, prepareKeys } from './keys.ts'
import { withoutDeleted } from './left-out/deleted.ts'
import { limitSteps, unlistedLimits } from './limits.ts'
import { modelSteps } from './models.ts'
import { DEFAULT_TENANT } from './names.ts'
import { policyNotes, policySteps } from './policies.ts'
import { priceSteps, unlistedCorrections } from './prices.ts'
import { providerSteps } from './providers.ts'
import { steeringNotes, steeringSteps } from './steering.ts'
import { commitSteps, type SeedDeps, type SeedInput, type SeedReport, type SeedStep } from './step.ts'
import { unlistedNotes } from './unlisted.ts'

const tenantSteps = ({ bootstrap }: SeedInput, deps: SeedDeps): SeedStep[] => {
  const entries = bootstrap.tenants ?? []
  const own: typeof entries = entries.some(({ slug }) => slug === DEFAULT_TENANT)
    ? []
    : [{ slug: DEFAULT_TENANT, name: 'Default' }]
  return [...own, ...entries].map(({ slug, name, plan = null, rate_limits = null }) => {
    const id = deps.newId('ten')
    const isListed = entries.some((entry) => entry.slug === slug)
    const decide = (state: ControlReader) => {
      const [existing] = state.table('tenants').find('slug', slug)
      const row = existing === undefined ? undefined : state.table('tenants').get(existing)
      const fields = { name, plan, rate_limits, managed_by: 'bootstrap' } as const
      if (row === undefined) return decideTenant(state, { do: 'create', id, slug, ...fields })
      const touched = row.managed_by !== 'bootstrap' || !isListed
      return touched ? [] : decideTenant(state, { do: 'replace', id: row.id, ...fields })
    }
    return { what: `bootstrap.tenants "${slug}"`, decide }
  })
}

/**
 * Prepares the seeding of one process. Each run fetches what has to be known of new models, then decides everything at
 * once, in an order in which every entry finds what it names: tenants, providers, models, policies, keys, steering,
 * limits, and corrected prices. That is one decision, or several when they do not fit into one. A further run goes on
 * where the last one failed, and reports every key that counted. Throws BootstrapRefused for a key that no client could
 * send. A run throws it before it writes anything when the settings name a row that does not exist; a run throws
 * CommitFailure when the log is not reachable.
 */
export const openSeeder = (input: SeedInput, deps: SeedDeps): (() => Promise<SeedReport>) => {
  const keys = prepareKeys(input, deps)
  return async () => {
    requireReferences(input.bootstrap, deps)
    const { control } = deps.live
    const report: SeedReport = { minted: [], working: [], notes: [] }
    const { recreate } = input.bootstrap
    const steps = withoutDeleted([...tenantSteps(input, deps), ...providerSteps(input, deps, report)], recreate)
    const known: KnownFacts = new Map()
    steps.push(...(await modelSteps(input, steps, known, deps, report)))
    steps.push(...policySteps(input, deps), ...keySteps(keys), ...keySettingSteps(keys))
    steps.push(...steeringSteps(input, deps), ...limitSteps(input, deps), ...priceSteps(input, deps))
    await commitSteps(withoutDeleted(steps, recreate), deps, report)
    report.minted.push(...mintedKeys(keys, control))
    report.working.push(...workingTexts(keys, control))
    report.notes.push(...droppedFieldNotes(known, control, deps.kindTable))
    report.notes.push(...aliasNotes(input.bootstrap, control), ...keySettingNotes(keys, control))
    report.notes.push(...usualTextNotes(keys, control))
    report.notes.push(
      ...policyNotes(input.bootstrap, control),
      ...unlistedNotes(input, deps),
      ...unlistedLimits(input, deps),
    )
    report.notes.push(...steeringNotes(input.bootstrap, control, deps.nowMs()))
    report.notes.push(...unlistedCorrections(input.bootstrap, control))
    return report
  }
}
