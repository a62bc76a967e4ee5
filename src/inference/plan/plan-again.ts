// Plans a recorded request again, as it was or under another policy or configuration. Pure: the recorded inputs, and
// the state and frame of that time, give the same plan.
import type { PolicyRow } from '../../domain/steering/policy.ts'
import type { Frame } from '../../state/health/frame.ts'
import type { Steering } from '../../state/indexes/steering.ts'
import type { LiveState } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { planRecord } from '../records/plan-record.ts'
import type { CandidateSource } from './candidates.ts'
import { makePlan, type Plan } from './plan.ts'
import { type EffectivePolicy, type PolicyKey, policyWith } from './policies.ts'
import { asItWas, intentOf, type RecordedPlan, recordedInput } from './replay.ts'
import { refuseBlocked, scopeOf } from './route.ts'

/** The members of a request's records about its plan. */
export interface PlannedRequest extends RecordedPlan {
  readonly at_ms: number
  readonly tenant_id: string
  /** Slug of the scope that applied. */
  readonly endpoint: string | null
  readonly policy_id: string | null
  /** The candidate that was called first; null: none. */
  readonly first_model_id: string | null
}

/** A configuration as requests read it. */
export interface Configuration {
  readonly live: Pick<LiveState, 'control' | 'refused'>
  /** Every candidate with an adapter; which ones had none is determined separately. */
  readonly catalogue: CandidateSource
  readonly steering: Steering
  policyOf(key: PolicyKey, requested: string | null, scope: EffectivePolicy['scope']): EffectivePolicy
}

export interface Again {
  readonly frame: Frame
  /** Decides which overrides had expired. */
  readonly atMs: number
  /** Null: the plan as it was made. */
  readonly whatIf: {
    /** In place of the most specific policy; null: no other. */
    readonly policy: PolicyRow | null
    /** Providers without an adapter: of the candidates of then as it was then, of others as it is now. */
    readonly withoutAdapter: ReadonlySet<string>
  } | null
}

/** The plan, or the error that refuses the request before there is a plan. */
export const repeatPlan = (
  record: PlannedRequest,
  configuration: Configuration,
  { frame, atMs, whatIf }: Again,
): Plan | GatewayError => {
  const { live, steering, policyOf } = configuration
  const catalogue = whatIf === null ? configuration.catalogue : asItWas(configuration.catalogue, whatIf.withoutAdapter)
  const { tenant_id: tenantId, plan: recorded } = record
  const keyId = record.key_id ?? ''
  const routingPolicyId = live.control.table('keys').get(keyId)?.routing_policy_id ?? null
  const key = { id: keyId, tenantId, routingPolicyId }
  const requested = recorded.policy ?? null
  try {
    const intent = intentOf(record)
    // The records do not show whether a header named the scope too. Only for a name that is also a model's it must
    // have.
    const byAlias = recorded.scope_alias === true && catalogue.resolve(intent.model).length === 0
    const headers = { ...intent.headers, endpoint: byAlias ? null : record.endpoint }
    const { scope, isAlias } = scopeOf({ model: intent.model, headers }, key, { catalogue, steering })
    const policy =
      whatIf?.policy == null
        ? policyOf(key, requested, scope)
        : policyWith(live, key, requested, scope, {
            source: requested === null ? sourceOf(policyOf(key, null, scope).source) : 'header',
            row: whatIf.policy,
          })
    const overrides = steering.overrides(tenantId, atMs)
    if (overrides.ids.length > 0) refuseBlocked(intent, key, policy, overrides)
    if (whatIf === null) return makePlan(recordedInput(record, { policy, catalogue, overrides, frame }))
    const { seed, turn = 0, sticky = 0 } = recorded
    return makePlan({ intent, policy, catalogue, keyId, isScopeAlias: isAlias, overrides, frame, seed, turn, sticky })
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

/** Without a policy of any level, the policy stands in as the installation's. */
const sourceOf = (source: EffectivePolicy['source']): Exclude<EffectivePolicy['source'], 'built_in'> =>
  source === 'built_in' ? 'global' : source

/** The fields in which a repeated plan differs from the recorded one; [] when all are equal. */
export const differencesOf = (plan: Plan, record: PlannedRequest): string[] => {
  const again = planRecord(plan, record.plan.revision)
  const pairs: [name: string, repeated: unknown, then: unknown][] = [
    ['policy_id', plan.policy.id, record.policy_id],
    ['endpoint', plan.policy.scope?.slug ?? null, record.endpoint],
    ['rejected', again.rejected, record.plan.rejected],
    ['digest', again.digest, record.plan.digest],
    ['chosen', mayBeFirst(plan, record.first_model_id), true],
  ]
  return pairs.filter(([, repeated, then]) => !Bun.deepEquals(repeated, then)).map(([name]) => name)
}

/**
 * A budget of a candidate may have passed it over. A request that a budget or a rate limit refused after its plan has
 * no first candidate.
 */
const mayBeFirst = ({ ordered }: Plan, modelId: string | null): boolean =>
  modelId === null || ordered.some((entry) => entry.modelId === modelId)

/** An input of a plan that was not recorded, since the plan did not need it: it is 0 or not used. */
export const unrecorded = (
  { strategy, policy, input }: Plan,
  record: PlannedRequest,
  { live }: Pick<Configuration, 'live'>,
): string[] => {
  const { plan: recorded, policy_id } = record
  const missing: string[] = []
  if (strategy === 'round_robin' && recorded.turn === undefined) missing.push('turn')
  const params = live.control.table('policies').get(policy_id ?? '')?.strategy_params
  const isHashed = recorded.sticky !== undefined && policy.hashOn === (params?.hash_on ?? 'user')
  if (strategy === 'sticky' && !isHashed) missing.push('sticky')
  const callsTools = (recorded.needs ?? []).includes('tools')
  if (callsTools && input.overrides.blockedTools.size > 0) missing.push('tools')
  return missing
}
