// Plans a recorded request again, as it was or under another policy or configuration. Pure: the recorded inputs, and
// the state and frame of that time, give the same plan.
import type { PolicyRow } from '../../domain/steering/policy.ts'
import type { Frame } from '../../state/health/frame.ts'
import type { Steering } from '../../state/indexes/steering.ts'
import type { CatalogueEntry, LiveState } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { candidateList, decisionOf } from '../records/decision.ts'
import type { CandidateSource } from './candidates.ts'
import { makePlan, type Plan } from './plan.ts'
import { type EffectivePolicy, type PolicyKey, policyWith } from './policies.ts'
import { intentOf, type RecordedPlan, recordedInput } from './replay.ts'
import { refuseBlocked, scopeOf } from './route.ts'

/** The members of a request's records about its plan. */
export interface PlannedRequest extends RecordedPlan {
  readonly at_ms: number
  readonly tenant_id: string
  /** Slug of the scope that applied. */
  readonly endpoint: string | null
  readonly policy_id: string | null
  readonly strategy: string | null
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
    /** Providers without an adapter now: used for candidates of which it is not recorded. */
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
  const catalogue =
    whatIf === null ? configuration.catalogue : adapted(configuration.catalogue, record, whatIf.withoutAdapter)
  const { tenant_id: tenantId, decision } = record
  const keyId = record.key_id ?? ''
  const routingPolicyId = live.control.table('keys').get(keyId)?.routing_policy_id ?? null
  const key = { id: keyId, tenantId, routingPolicyId }
  const requested = decision.policy ?? null
  try {
    const intent = intentOf(record)
    // The records do not show whether a header named the scope too. Only for a name that is also a model's it must
    // have.
    const byAlias = decision.scope_alias === true && catalogue.resolve(intent.model).length === 0
    const headers = { ...intent.headers, endpoint: byAlias ? null : record.endpoint }
    const { scope, isAlias } = scopeOf({ model: intent.model, headers }, key, { catalogue, steering })
    const policy =
      whatIf?.policy == null
        ? policyOf(key, requested, scope)
        : policyWith(live, key, requested, scope, { source: sourceOf(decision.source), row: whatIf.policy })
    const overrides = steering.overrides(tenantId, atMs)
    if (overrides.ids.length > 0) refuseBlocked(intent, key, policy, overrides)
    if (whatIf === null) return makePlan(recordedInput(record, { policy, catalogue, overrides, frame }))
    const { seed, turn = 0, sticky = 0 } = { ...decision, seed: record.seed }
    return makePlan({ intent, policy, catalogue, keyId, isScopeAlias: isAlias, overrides, frame, seed, turn, sticky })
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

/** Without a policy of any level, the policy stands in as the installation's. */
const sourceOf = (source: string): EffectivePolicy['source'] =>
  source === 'header' || source === 'key' || source === 'tenant' ? source : 'global'

/**
 * A registry whose rows have an adapter as they had when the request was planned; as now where that was not recorded.
 */
const adapted = (
  catalogue: CandidateSource,
  { candidates }: PlannedRequest,
  withoutAdapter: ReadonlySet<string>,
): CandidateSource => {
  const had = new Map(
    candidates.flatMap(([, modelId, reason]) => (reason === 'disabled' ? [] : [[modelId, reason !== 'no_adapter']])),
  )
  const changed = new Map<CatalogueEntry, CatalogueEntry>()
  const entryOf = (entry: CatalogueEntry): CatalogueEntry => {
    if (entry.unroutable !== null || (had.get(entry.modelId) ?? !withoutAdapter.has(entry.providerId))) return entry
    const without = changed.get(entry) ?? { ...entry, unroutable: 'no_adapter' as const }
    changed.set(entry, without)
    return without
  }
  return {
    version: catalogue.version,
    resolve: (name) => catalogue.resolve(name).map(entryOf),
    all: () => catalogue.all().map(entryOf),
  }
}

/** The fields in which a repeated plan differs from the recorded one; [] when all are equal. */
export const differencesOf = (plan: Plan, record: PlannedRequest): string[] => {
  const decided = decisionOf(plan)
  const members = new Set([...Object.keys(decided), ...Object.keys(record.decision)]) as Set<keyof typeof decided>
  const pairs: [name: string, repeated: unknown, then: unknown][] = [
    ['policy_id', plan.policy.id, record.policy_id],
    ['strategy', plan.strategy, record.strategy],
    ['endpoint', plan.policy.scope?.slug ?? null, record.endpoint],
    ['candidates', candidateList(plan), record.candidates],
    // A request that a budget or a rate limit refused after its plan has no first candidate: nothing to compare.
    ['chosen', record.first_model_id === null ? null : (plan.ordered[0]?.modelId ?? null), record.first_model_id],
  ]
  for (const name of members) pairs.push([name, listed(decided[name], name), listed(record.decision[name], name)])
  return pairs.filter(([, repeated, then]) => !Bun.deepEquals(repeated, then)).map(([name]) => name)
}

const MOST_LISTED = 32

/**
 * The order of overrides and budgets means nothing (a state that was folded again lists them in its own order), nor
 * which of very many are listed.
 */
const listed = (value: unknown, name: string): unknown => {
  if (name !== 'overrides' && name !== 'budgets') return value
  const ids = [...((value as string[] | undefined) ?? [])].sort()
  return ids.length < MOST_LISTED ? ids : null
}

/** An input of a plan that was not recorded, since the plan did not need it: it is 0 or not used. */
export const unrecorded = (
  { strategy, policy, input }: Plan,
  record: PlannedRequest,
  { live }: Pick<Configuration, 'live'>,
): string[] => {
  const missing: string[] = []
  if (strategy === 'round_robin' && record.strategy !== 'round_robin') missing.push('turn')
  const params = live.control.table('policies').get(record.policy_id ?? '')?.strategy_params
  const isHashed = record.strategy === 'sticky' && policy.hashOn === (params?.hash_on ?? 'user')
  if (strategy === 'sticky' && !isHashed) missing.push('sticky')
  const callsTools = (record.decision.needs ?? []).includes('tools')
  if (callsTools && input.overrides.blockedTools.size > 0) missing.push('tools')
  return missing
}
