// A random configuration that changes by one decision at a time: what is asked of it is planned on one state, and
// planned again on another that was folded from the same decisions.
import { type ControlState, eventIsValid, foldDecision } from '../../../src/domain/control.ts'
import type { Decision, EventRecord } from '../../../src/domain/kernel/decision.ts'
import { POLICY_DEFAULTS } from '../../../src/domain/steering/policy.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { endpointCreated, keyIssued, modelCreated, providerCreated, tenantCreated } from '../../domain/world.ts'
import { type Dice, MODELS, modelOf, PROVIDERS, policyOf, scopeOf } from '../../faults/explained/world.ts'

export const TENANTS = ['ten_one', 'ten_two'] as const
export const KEYS = ['key_1', 'key_2', 'key_3', 'key_4'] as const
export const POLICIES = ['first', 'second', 'third', 'fourth'] as const
const SLUGS = ['support', 'chat'] as const
/** Between two decisions. */
const STEP_MS = 1_000
const START_MS = Date.UTC(2026, 0, 1)

export const atMsOf = (height: number): number => START_MS + height * STEP_MS
export const revisionOf = (height: number): string => sha256Hex(`decision ${height}`)

/** Folds one decision; the events must be valid. */
export const fold = (state: ControlState, height: number, events: readonly EventRecord[]): void => {
  const at = new Date(atMsOf(height)).toISOString()
  const actor = { type: 'system', id: 'test' } as const
  const decision: Decision = { parent: '', at, actor, cause: null, v: 1, events: [...events] }
  const { malformed } = foldDecision(state, decision, revisionOf(height), atMsOf(height))
  if (malformed !== null) throw new Error(`the decision ${height} is not valid: ${JSON.stringify(events)}`)
}

const policyData = (roll: Dice, id: string, name: string, tenant_id: string | null) => ({
  ...{ id, tenant_id, name, managed_by: 'api' },
  ...POLICY_DEFAULTS,
  ...policyOf(roll),
})

const scopeData = (roll: Dice, slug: string) => {
  const { overrides, ...fields } = scopeOf(roll, slug)
  const event = endpointCreated(`end_${slug}`, slug, null).data as { overrides: object }
  return { ...event, ...fields, overrides: { ...event.overrides, ...overrides } }
}

/** Providers, models under several names, policies, keys of two tenants. */
export const beginning = (roll: Dice): EventRecord[] => {
  const providers = PROVIDERS.map((name) =>
    providerCreated(`prov_${name}`, name, {
      // Without a credential a provider of this kind has no adapter.
      kind: name === 'keyless' ? 'openai' : 'openai_compatible',
      region: roll.one([null, 'eu', 'us']),
      weight: roll.one([null, 0, 1, 5]),
    }),
  )
  const models = PROVIDERS.flatMap((provider) =>
    roll
      .some(MODELS, 0.85)
      .map((name) => modelCreated(`mod_${provider}_${name}`, `prov_${provider}`, modelData(roll, name))),
  )
  return [
    ...TENANTS.map((id) => tenantCreated(id)),
    ...providers,
    ...models,
    ...POLICIES.map((name) => ({ type: 'policy.created', data: policyData(roll, `pol_${name}`, name, null) })),
    ...KEYS.map((id, i) => keyIssued(id, TENANTS[i % 2]!, { routing_policy_id: i < 2 ? `pol_${POLICIES[i]}` : null })),
    ...SLUGS.map((slug) => ({ type: 'endpoint.created', data: scopeData(roll, slug) })),
  ]
}

const modelData = (roll: Dice, name: string) => ({
  ...{ name, upstream_model: name, cached_input_cost_per_million: null, capability_source: 'operator' },
  ...modelOf(roll),
})

const overrideData = (roll: Dice, height: number) => {
  const model = roll.one(MODELS)
  const [kind, target, value] = roll.one([
    ['kill', `provider:prov_${roll.one(PROVIDERS)}`, null],
    ['block', `model:${model}`, null],
    ['cap', roll.one(['*', `model:${model}`]), { max_cost_usd: 0.0005 }],
    ['force', `model:${model}`, { model: roll.one(MODELS) }],
    ['disable', '*', { features: ['fallback'] }],
  ] as const)
  return {
    ...{ id: `ovr_${height}`, kind, target, tenant_id: roll.one([null, null, TENANTS[0]]), value, reason: 'a test' },
    enabled: roll.chance(0.5),
    // It ends by itself a few decisions later.
    expires_at: new Date(atMsOf(height + 3)).toISOString(),
  }
}

/** The next decision: something is changed, killed, deleted or made anew. */
export const nextDecision = (roll: Dice, state: ControlState, height: number): EventRecord[] => {
  const policies = [...state.table('policies').rows()].map(([id]) => id)
  const models = [...state.table('models').rows()].map(([id]) => id)
  const gone = POLICIES.filter((name) => !policies.includes(`pol_${name}`))
  const missing = PROVIDERS.flatMap((provider) => MODELS.map((name) => ({ provider, name }))).filter(
    ({ provider, name }) => !models.includes(`mod_${provider}_${name}`),
  )
  const made = (name: string) => ({ type: 'policy.created', data: policyData(roll, `pol_${name}`, name, null) })
  const deletedModel = () => ({ type: 'model.deleted', data: { id: roll.one(models) } })
  const addedModel = () => {
    const { provider, name } = roll.one(missing)
    return modelCreated(`mod_${provider}_${name}`, `prov_${provider}`, modelData(roll, name))
  }
  const { id: _, name: __, tenant_id: ___, managed_by: ____, ...policyFields } = policyData(roll, '', '', null)
  const choices: (() => EventRecord)[] = [
    () => ({ type: 'override.written', data: overrideData(roll, height) }),
    () => ({ type: 'override.written', data: overrideData(roll, height) }),
    () => ({ type: 'model.changed', data: { id: roll.one(models), ...modelOf(roll) } }),
    () => ({ type: roll.chance(0.5) ? 'model.disabled' : 'model.enabled', data: { id: roll.one(models) } }),
    () => ({ type: 'provider.changed', data: { id: `prov_${roll.one(PROVIDERS)}`, weight: roll.below(5) } }),
    () => (models.length > 5 ? deletedModel() : addedModel()),
    () => (missing.length > 0 ? addedModel() : deletedModel()),
    () => (gone.length > 0 ? made(roll.one(gone)) : { type: 'policy.deleted', data: { id: roll.one(policies) } }),
    () =>
      policies.length > 0
        ? { type: 'policy.changed', data: { id: roll.one(policies), ...policyFields } }
        : made(POLICIES[0]),
  ]
  for (;;) {
    const event = roll.one(choices)()
    if (eventIsValid(event)) return [event]
  }
}
