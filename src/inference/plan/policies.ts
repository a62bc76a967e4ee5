// The policy of a request: every level that applies, folded into the one that the plan reads.
import { type PolicyRow, policyKey, STRATEGIES, type Strategy } from '../../domain/steering/policy.ts'
import { capNanoUsdOf } from '../../lib/money.ts'
import { type BreakerSettings, breakerSettings } from '../../state/health/breaker.ts'
import { DEFAULT_WEIGHTS, type LatencyMetric, type ScoreWeights } from '../../state/health/scores.ts'
import { type LimitRule, limitRule } from '../../state/indexes/limit-rules.ts'
import type { EndpointScope } from '../../state/indexes/steering.ts'
import type { KeyEntry, LiveState } from '../../state/port.ts'
import { ERRORS, type ErrorCode, GatewayError } from '../../wire/errors.ts'

/** For what no level sets (docs/behaviour.md: "Time limits", "Failover"). */
const DEFAULTS = {
  connectMs: 5_000,
  firstTokenMs: 120_000,
  streamIdleMs: 60_000,
  totalMs: 600_000,
  retryAttempts: 1,
  backoffInitialMs: 100,
  backoffMaxMs: 1_000,
  maxAttempts: 3,
} as const

const FALLBACK_CODES: ReadonlySet<ErrorCode> = new Set(
  (Object.keys(ERRORS) as ErrorCode[]).filter((code) => ERRORS[code].fallback),
)

/** The policy of one request. Names are lower-cased; a provider or model matches by name or id. */
export interface EffectivePolicy {
  /** The most specific policy; null: built in. */
  readonly id: string | null
  readonly name: string | null
  readonly source: 'header' | 'key' | 'tenant' | 'global' | 'built_in'
  /** The endpoint scope that is folded in. */
  readonly scope: EndpointScope | null
  /** Null: neither the policy nor the scope has one of its own. */
  readonly strategy: Strategy | null
  readonly weights: ScoreWeights
  /** Null: the first token for streams, the whole answer for the others. */
  readonly latencyMetric: LatencyMetric | null
  /** `user`, `key` or `header:<name>`. */
  readonly hashOn: string
  /** One list for each level that has one: a candidate must be in all of them. */
  readonly models: readonly ReadonlySet<string>[]
  readonly providersOnly: readonly ReadonlySet<string>[]
  readonly regions: readonly ReadonlySet<string>[]
  readonly providersOrder: readonly string[]
  readonly providersIgnored: ReadonlySet<string>
  readonly sensitivity: PolicyRow['sensitivity']
  /** Providers that may receive payloads of a label: one list for each level that has one. */
  readonly sensitiveTo: Readonly<Partial<Record<Label, readonly ReadonlySet<string>[]>>>
  readonly regionOverrideAllowed: boolean
  /** Rate limits of every level that has some: all of them hold. */
  readonly limits: readonly LimitRule[]
  /** The lowest cap and the shortest target of all levels and of the scope. */
  readonly maxCostNanoUsd: number | null
  readonly latencyTargetMs: number | null
  /** Replaces the model that the request names. */
  readonly forcedModel: string | null
  /** Candidates that go before those of the named model. */
  readonly preferredModels: readonly string[]
  readonly fallbackEnabled: boolean
  readonly fallbackOn: ReadonlySet<ErrorCode>
  readonly fallbackModels: readonly string[]
  readonly contextWindowModels: readonly string[]
  readonly maxAttempts: number
  readonly connectMs: number
  readonly firstTokenMs: number
  readonly streamIdleMs: number
  readonly totalMs: number
  readonly retryAttempts: number
  readonly backoffInitialMs: number
  readonly backoffMaxMs: number
  readonly breaker: BreakerSettings
}

export type Label = keyof PolicyRow['sensitivity']
const LABELS: readonly Label[] = ['pii', 'phi', 'public']

interface Level {
  readonly source: EffectivePolicy['source']
  readonly row: PolicyRow
}

const lowered = (names: readonly string[]): ReadonlySet<string> => new Set(names.map((name) => name.toLowerCase()))
const lists = (levels: readonly Level[], of: (row: PolicyRow) => readonly string[] | undefined) =>
  levels.flatMap(({ row }) => {
    const names = of(row)
    return names === undefined || names.length === 0 ? [] : [lowered(names)]
  })

/**
 * Folds the levels, the most specific first: it gives strategy, order, timeouts and fallback; allow-lists and caps come
 * from all.
 */
export const effectivePolicy = (levels: readonly Level[]): EffectivePolicy => {
  const first = levels[0]
  const row = first?.row
  const params = row?.strategy_params ?? {}
  const fallback = row?.fallback ?? {}
  const timeouts = row?.timeouts ?? {}
  const retry = row?.retry ?? {}
  return {
    id: row?.id ?? null,
    name: row?.name ?? null,
    source: first?.source ?? 'built_in',
    scope: null,
    strategy: validStrategy(row?.strategy ?? null),
    weights: weightsOf(params.weights),
    latencyMetric: params.latency_metric ?? null,
    hashOn: params.hash_on ?? 'user',
    models: lists(levels, ({ models }) => models),
    providersOnly: lists(levels, ({ providers }) => providers.only),
    regions: lists(levels, ({ regions }) => regions),
    providersOrder: (row?.providers.order ?? []).map((name) => name.toLowerCase()),
    providersIgnored: lowered(row?.providers.ignore ?? []),
    sensitivity: row?.sensitivity ?? {},
    sensitiveTo: sensitiveTo(levels),
    regionOverrideAllowed: levels.every(({ row: { allow_region_override } }) => allow_region_override),
    limits: levels.flatMap(({ row: { id, rate_limits } }) => limitRule('policy', id, rate_limits) ?? []),
    maxCostNanoUsd: capOf(levels.map(({ row: { max_cost_usd } }) => max_cost_usd)),
    latencyTargetMs: levels.reduce<number | null>((least, { row: own }) => lower(least, own.latency_target_ms), null),
    forcedModel: null,
    preferredModels: [],
    fallbackEnabled: fallback.enabled ?? true,
    fallbackOn: fallback.on === undefined ? FALLBACK_CODES : new Set(fallback.on),
    fallbackModels: fallback.models ?? [],
    contextWindowModels: fallback.context_window_models ?? [],
    maxAttempts: fallback.max_attempts ?? DEFAULTS.maxAttempts,
    connectMs: timeouts.connect_ms ?? DEFAULTS.connectMs,
    firstTokenMs: timeouts.first_token_ms ?? DEFAULTS.firstTokenMs,
    streamIdleMs: timeouts.stream_idle_ms ?? DEFAULTS.streamIdleMs,
    totalMs: timeouts.total_ms ?? DEFAULTS.totalMs,
    retryAttempts: retry.attempts ?? DEFAULTS.retryAttempts,
    backoffInitialMs: retry.backoff_initial_ms ?? DEFAULTS.backoffInitialMs,
    backoffMaxMs: retry.backoff_max_ms ?? DEFAULTS.backoffMaxMs,
    breaker: breakerSettings(row?.breaker),
  }
}

/** The lower of two limits; null is none. */
export const lower = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b)

const capOf = (capsUsd: readonly (number | null)[]): number | null =>
  capsUsd.reduce<number | null>((least, usd) => lower(least, usd === null ? null : capNanoUsdOf(usd)), null)

/** Null for a strategy that this release does not have. */
const validStrategy = (name: string | null): Strategy | null => STRATEGIES.find((strategy) => strategy === name) ?? null

/** Given weights replace all default weights. */
const weightsOf = (given: Partial<ScoreWeights> | undefined): ScoreWeights =>
  given === undefined || Object.keys(given).length === 0
    ? DEFAULT_WEIGHTS
    : { cost: 0, latency: 0, health: 0, priority: 0, feedback: 0, ...given }

const sensitiveTo = (levels: readonly Level[]): EffectivePolicy['sensitiveTo'] => {
  const all: Partial<Record<Label, readonly ReadonlySet<string>[]>> = {}
  for (const label of LABELS) {
    const allowed = lists(levels, ({ sensitivity }) => sensitivity[label]?.providers)
    if (allowed.length > 0) all[label] = allowed
  }
  return all
}

/**
 * Folds an endpoint scope into a copy of the policy. A policy that a header picked comes before the scope; the limits
 * of both hold, and either can forbid failover.
 */
export const withScope = (policy: EffectivePolicy, scope: EndpointScope): EffectivePolicy => {
  const picked = policy.source === 'header'
  const preferred = scope.preferredProviders.map((name) => name.toLowerCase())
  const ownOrder = preferred.length === 0 || (picked && policy.providersOrder.length > 0)
  return {
    ...policy,
    scope,
    strategy: (picked ? policy.strategy : null) ?? validStrategy(scope.strategy) ?? policy.strategy,
    providersOrder: ownOrder ? policy.providersOrder : preferred,
    maxCostNanoUsd: lower(policy.maxCostNanoUsd, capOf([scope.maxCostUsd])),
    latencyTargetMs: lower(policy.latencyTargetMs, scope.latencyTargetMs),
    forcedModel: scope.forcedModel,
    preferredModels: scope.forcedModel === null ? scope.preferredModels : [],
    fallbackEnabled: policy.fallbackEnabled && !scope.noFallback,
  }
}

/** The built-in policy: without any level. */
export const BUILT_IN = effectivePolicy([])

/** The fields of a key that its policies depend on. */
export type PolicyKey = Pick<KeyEntry, 'tenantId' | 'routingPolicyId'>

/**
 * The policies that apply to a request, most specific first. Throws 404 for one that the header names and the caller
 * may not see.
 */
const levelsOf = (live: Pick<LiveState, 'control' | 'refused'>, key: PolicyKey, requested: string | null): Level[] => {
  const policies = live.control.table('policies')
  const levels: Level[] = []
  const add = (source: Level['source'], row: PolicyRow | undefined) => {
    if (!row?.enabled || levels.some((level) => level.row.id === row.id)) return
    if (live.refused.has(row.id)) {
      throw new GatewayError(
        'provider_unavailable',
        `the policy "${row.name}" was changed by a newer build than this one`,
      )
    }
    levels.push({ source, row })
  }
  const named = (tenantId: string | null, name: string): PolicyRow | undefined => {
    const [id] = policies.find('name', policyKey(tenantId, name))
    return id === undefined ? undefined : policies.get(id)
  }
  const visible = (row: PolicyRow | undefined): PolicyRow | undefined =>
    row?.enabled && (row.tenant_id === null || row.tenant_id === key.tenantId) ? row : undefined
  if (requested !== null) {
    const row =
      visible(policies.get(requested.toLowerCase())) ??
      visible(named(key.tenantId, requested)) ??
      visible(named(null, requested))
    if (row === undefined)
      throw new GatewayError('not_found', `no policy "${requested}"`, { param: 'X-Gateway-Policy' })
    add('header', row)
  }
  if (key.routingPolicyId !== null) add('key', visible(policies.get(key.routingPolicyId)))
  add('tenant', named(key.tenantId, 'default'))
  add('global', named(null, 'default'))
  return levels
}

const MAX_CACHED = 10_000

/** Resolves policies, cached until a policy changes. */
export const policyResolver = (live: Pick<LiveState, 'control' | 'subscribe' | 'refused'>) => {
  const cache = new Map<string, EffectivePolicy>()
  live.subscribe(({ changes, refused }) => {
    if (refused.length > 0) cache.clear()
    for (const { table } of changes) {
      if (table !== 'policies') continue
      cache.clear()
      return
    }
  })
  return (key: PolicyKey, requested: string | null, scope: EndpointScope | null): EffectivePolicy => {
    // Names are matched without case: spellings must not be cached apart.
    const lowerName = requested === null ? '' : requested.toLowerCase()
    // Mostly the tenant decides alone: its id is an existing text with a cached hash.
    const cacheKey =
      requested === null && scope === null && key.routingPolicyId === null
        ? key.tenantId
        : `\0${key.tenantId}\0${key.routingPolicyId ?? ''}\0${lowerName}\0${scope?.id ?? ''}`
    const cached = cache.get(cacheKey)
    if (cached !== undefined && cached.scope === scope) return cached
    const levels = levelsOf(live, key, requested)
    const unscoped = levels.length === 0 ? BUILT_IN : effectivePolicy(levels)
    const policy = scope === null ? unscoped : withScope(unscoped, scope)
    if (cache.size >= MAX_CACHED) cache.clear()
    cache.set(cacheKey, policy)
    return policy
  }
}

/** A policy in place of the most specific one, on its level; may be disabled. */
export type StandIn = Level

/** The policy of a request if another policy were the most specific one. The other levels stay. */
export const policyWith = (
  live: Pick<LiveState, 'control' | 'refused'>,
  key: PolicyKey,
  requested: string | null,
  scope: EndpointScope | null,
  standIn: StandIn,
): EffectivePolicy => {
  const { source, row } = standIn
  const others = levelsOf(live, key, source === 'header' ? null : requested).filter(
    (level) => level.source !== source && level.row.id !== row.id,
  )
  const unscoped = effectivePolicy([standIn, ...others])
  return scope === null ? unscoped : withScope(unscoped, scope)
}
