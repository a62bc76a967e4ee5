// Policies: what is permitted, under which limits, and what follows a failure. Names and fields of the events are
// stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import { RateLimits } from '../access/tenant.ts'
import { capUsd } from '../budgets/cap.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changeAction, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import {
  changedFields,
  closed,
  Id,
  ManagedBy,
  Nullable,
  normalisedWord,
  opened,
  requireSmall,
} from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'

export const STRATEGIES = [
  'priority',
  'weighted',
  'round_robin',
  'lowest_cost',
  'lowest_latency',
  'highest_throughput',
  'least_busy',
  'usage_based',
  'balanced',
  'sticky',
] as const
export type Strategy = (typeof STRATEGIES)[number]

/** Names of the strategies in other gateways; hyphens are replaced by underscores before. */
const STRATEGY_ALIASES: Readonly<Record<string, Strategy>> = {
  simple_shuffle: 'weighted',
  loadbalance: 'weighted',
  fallback: 'priority',
  failover: 'priority',
  cost_based_routing: 'lowest_cost',
  latency_based_routing: 'lowest_latency',
  least_connections: 'least_busy',
  lowest_usage: 'usage_based',
}

/** The canonical name of a strategy; refuses an unknown one with the list. */
export const strategyOf = (text: string, param = 'strategy'): Strategy => {
  const word = normalisedWord(text)
  const strategy =
    STRATEGIES.find((each) => each === word) ??
    (Object.hasOwn(STRATEGY_ALIASES, word) ? STRATEGY_ALIASES[word] : undefined)
  if (strategy === undefined)
    throw new Rejection('invalid', `unknown strategy "${text}"; the strategies are ${STRATEGIES.join(', ')}`, param)
  return strategy
}

const Reference = t.String({ minLength: 1, maxLength: 256 })
const References = t.Array(Reference, { maxItems: 64 })
const Milliseconds = t.Integer({ minimum: 1, maximum: 3_600_000 })
const Weight = t.Optional(t.Number({ minimum: 0, maximum: 1_000_000 }))
const Sensitivity = t.Object({ providers: t.Optional(References), cache: t.Optional(t.Boolean()) })
/** Failures after which another provider may be tried. */
const FallbackOn = t.Union([
  t.Literal('rate_limited'),
  t.Literal('quota_exceeded'),
  t.Literal('timeout'),
  t.Literal('upstream_error'),
  t.Literal('provider_unavailable'),
])

/**
 * Providers, models and policies are named by name or id. An absent member: the default
 * (docs/behaviour.md: "Policies", "Time limits").
 */
const Mutable = {
  /** Null: the policy sets no strategy. */
  strategy: Nullable(t.String({ minLength: 1, maxLength: 32 })),
  strategy_params: t.Object({
    weights: t.Optional(
      t.Object({ cost: Weight, latency: Weight, health: Weight, priority: Weight, feedback: Weight }),
    ),
    latency_metric: t.Optional(t.Union([t.Literal('ttft'), t.Literal('e2e')])),
    hash_on: t.Optional(t.String({ maxLength: 128, pattern: '^(?:user|key|header:[A-Za-z0-9-]{1,100})$' })),
  }),
  models: References,
  providers: t.Object({ only: t.Optional(References), order: t.Optional(References), ignore: t.Optional(References) }),
  max_cost_usd: Nullable(t.Number({ minimum: 0, maximum: 1_000_000 })),
  latency_target_ms: Nullable(Milliseconds),
  regions: t.Array(t.String({ minLength: 1, maxLength: 64 }), { maxItems: 64 }),
  allow_region_override: t.Boolean(),
  sensitivity: t.Object({
    pii: t.Optional(Sensitivity),
    phi: t.Optional(Sensitivity),
    public: t.Optional(Sensitivity),
  }),
  fallback: t.Object({
    enabled: t.Optional(t.Boolean()),
    max_attempts: t.Optional(t.Integer({ minimum: 1, maximum: 16 })),
    on: t.Optional(t.Array(FallbackOn, { maxItems: 16 })),
    models: t.Optional(References),
    context_window_models: t.Optional(References),
  }),
  timeouts: t.Object({
    connect_ms: t.Optional(Milliseconds),
    first_token_ms: t.Optional(Milliseconds),
    stream_idle_ms: t.Optional(Milliseconds),
    total_ms: t.Optional(Milliseconds),
  }),
  retry: t.Object({
    attempts: t.Optional(t.Integer({ minimum: 0, maximum: 10 })),
    backoff_initial_ms: t.Optional(t.Integer({ minimum: 0, maximum: 60_000 })),
    backoff_max_ms: t.Optional(t.Integer({ minimum: 0, maximum: 60_000 })),
  }),
  breaker: t.Object({
    failure_threshold: t.Optional(t.Integer({ minimum: 1, maximum: 10_000 })),
    failure_rate_pct: t.Optional(t.Number({ minimum: 0, maximum: 100 })),
    minimum_requests: t.Optional(t.Integer({ minimum: 1, maximum: 100_000 })),
    cooldown_ms: t.Optional(Milliseconds),
  }),
  rate_limits: Nullable(RateLimits),
  cache: t.Object({
    mode: t.Optional(t.Union([t.Literal('off'), t.Literal('exact'), t.Literal('prefix'), t.Literal('semantic')])),
    ttl_seconds: t.Optional(t.Integer({ minimum: 0, maximum: 31_536_000 })),
  }),
  enabled: t.Boolean(),
}
/** The fields of a policy that clients may send. */
export const PolicyFields = closed(t.Object(Mutable))
export type PolicyFields = Static<typeof PolicyFields>

export const PolicyName = t.String({ minLength: 1, maxLength: 128, pattern: '^[^\\s,](?:[^,]*[^\\s,])?$' })
export const PolicyCreated = opened(
  t.Object({
    id: Id,
    tenant_id: Nullable(Id),
    name: PolicyName,
    managed_by: ManagedBy,
    ...Mutable,
  }),
)
/** Only the fields that changed. */
export const PolicyChanged = opened(
  t.Composite([t.Object({ id: Id, managed_by: t.Optional(ManagedBy) }), t.Partial(PolicyFields)]),
)
export const PolicyDeleted = t.Object({ id: Id })

export interface PolicyRow extends Stamps, Readonly<PolicyFields> {
  readonly id: string
  /** Null: global. */
  readonly tenant_id: string | null
  readonly name: string
  readonly managed_by: ManagedBy
}

/** Defaults of the fields that a policy leaves out. */
export const POLICY_DEFAULTS: PolicyFields = {
  strategy: null,
  strategy_params: {},
  models: [],
  providers: {},
  max_cost_usd: null,
  latency_target_ms: null,
  regions: [],
  allow_region_override: true,
  sensitivity: {},
  fallback: {},
  timeouts: {},
  retry: {},
  breaker: {},
  rate_limits: null,
  cache: {},
  enabled: true,
}

/** Index key of a name within a tenant (null: global). Names are compared without case. */
export const policyKey = (tenantId: string | null, name: string): string => `${tenantId ?? ''}/${name.toLowerCase()}`

const rows = changesOf<PolicyRow>('policies')
const subject = (data: { id: string }): string => data.id

export const policy: Aggregate<PolicyRow, ControlReader> = {
  table: 'policies',
  indexes: { tenant: (row) => row.tenant_id ?? '', name: (row) => policyKey(row.tenant_id, row.name) },
  events: {
    'policy.created': eventType({ schema: PolicyCreated, action: 'create', resource: 'policy', subject }),
    'policy.changed': eventType({ schema: PolicyChanged, action: changeAction, resource: 'policy', subject }),
    'policy.deleted': eventType({ schema: PolicyDeleted, action: 'delete', resource: 'policy', subject }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('policies').get(id)
    if (type === 'policy.created')
      return before === undefined ? rows.created(id, data as Static<typeof PolicyCreated>, meta) : []
    if (type === 'policy.deleted') return rows.removed(id, before)
    return rows.changed(id, before, data as Static<typeof PolicyChanged>, meta)
  },
}

export type PolicyCommand =
  /** `upsert` replaces the policy of that name; `id` is used only when there is none. */
  ({ do: 'create' | 'upsert' } & Static<typeof PolicyCreated>) | { do: 'delete'; id: string }

/** A policy as it is stored. Throws 400 for fields that are invalid for every policy. */
export const soundPolicy = (given: Static<typeof PolicyCreated>): Static<typeof PolicyCreated> => {
  const data = {
    ...given,
    strategy: given.strategy === null ? null : strategyOf(given.strategy),
    max_cost_usd: capUsd(given.max_cost_usd, 'max_cost_usd'),
  }
  requireSmall('the policy', data)
  return data
}

export const decidePolicy = (state: ControlReader, command: PolicyCommand): EventRecord[] => {
  const policies = state.table('policies')
  if (command.do === 'delete') {
    if (policies.get(command.id) === undefined) throw new Rejection('not_found', `no policy has the id "${command.id}"`)
    return [{ type: 'policy.deleted', data: { id: command.id } }]
  }
  const { do: verb, ...given } = command
  const data = soundPolicy(given)
  if (data.tenant_id !== null && state.table('tenants').get(data.tenant_id) === undefined) {
    throw new Rejection('not_found', `no tenant has the id "${data.tenant_id}"`, 'tenant_id')
  }
  const [existing] = policies.find('name', policyKey(data.tenant_id, data.name))
  if (existing === undefined) return [{ type: 'policy.created', data }]
  if (verb === 'create') throw new Rejection('conflict', `a policy named "${data.name}" exists already`, 'name')
  const row = policies.get(existing)!
  const { id: _, tenant_id: __, name: ___, managed_by, ...fields } = data
  const changed = changedFields<PolicyRow>(row, fields)
  if (Object.keys(changed).length === 0) return []
  return [
    {
      type: 'policy.changed',
      data: { id: row.id, ...changed, ...(row.managed_by === managed_by ? {} : { managed_by }) },
    },
  ]
}
