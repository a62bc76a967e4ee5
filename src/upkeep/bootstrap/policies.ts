// Policies of `bootstrap:`. What the API edited since is left alone.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import { policyWarnings } from '../../domain/references.ts'
import { modelOf } from '../../domain/registry/model-row.ts'
import { decidePolicy, POLICY_DEFAULTS, type PolicyFields, policyKey } from '../../domain/steering/policy.ts'
import { tenantOf } from './names.ts'
import type { SeedDeps, SeedInput, SeedStep } from './step.ts'

/** The fields of a policy that an entry sets. `modelMeant`: a model that it names, as rows have it. */
export const policyOf = (modelMeant: (name: string) => string, given: Partial<PolicyFields>): PolicyFields => {
  const merged = { ...POLICY_DEFAULTS, ...given }
  const { models: own, context_window_models: long } = merged.fallback
  return {
    ...merged,
    models: merged.models.map(modelMeant),
    fallback: {
      ...merged.fallback,
      ...(own === undefined ? {} : { models: own.map(modelMeant) }),
      ...(long === undefined ? {} : { context_window_models: long.map(modelMeant) }),
    },
  }
}

export const policySteps = ({ bootstrap }: SeedInput, deps: Pick<SeedDeps, 'newId'>): SeedStep[] =>
  (bootstrap.policies ?? []).map(({ name, tenant, ...fields }) => {
    const id = deps.newId('pol')
    const decide = (state: ControlReader) => {
      const tenant_id = tenantOf(state, tenant)
      const [existing] = state.table('policies').find('name', policyKey(tenant_id, name))
      if (existing !== undefined && state.table('policies').get(existing)!.managed_by !== 'bootstrap') return []
      const settings = { ...policyOf((model) => modelOf(state, model), fields), managed_by: 'bootstrap' } as const
      return decidePolicy(state, { do: 'upsert', id, tenant_id, name, ...settings })
    }
    return { what: `bootstrap.policies "${name}"`, decide }
  })

/** What the policies of the settings name and no row has, once everything is seeded. */
export const policyNotes = ({ policies = [] }: Bootstrap, state: ControlReader): string[] =>
  policies.flatMap(({ name, tenant: _, ...fields }) =>
    policyWarnings(
      state,
      policyOf((model) => modelOf(state, model), fields),
    ).map((warning) => `bootstrap.policies "${name}": ${warning}`),
  )
