// Which policy a request falls under: every level that speaks, folded into one that the plan reads.
import { type PolicyRow, policyKey } from '../domain/policy.ts'
import { type BreakerSettings, breakerSettings } from '../state/breaker.ts'
import { type LimitRule, limitRule } from '../state/limit-rules.ts'
import type { KeyEntry, LiveState } from '../state/port.ts'
import { ERRORS, type ErrorCode, GatewayError } from '../wire/errors.ts'

/** Ruled defaults. */
const DEFAULTS = {
  connectMs: 5_000,
  firstTokenMs: 60_000,
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
  /** The policy that speaks first; null: built in. */
  readonly id: string | null
  readonly name: string | null
  readonly source: 'header' | 'key' | 'tenant' | 'global' | 'built_in'
  readonly strategy: string | null
  /** One list for each level that has one: a candidate must be in all of them. */
  readonly models: readonly ReadonlySet<string>[]
  readonly providersOnly: readonly ReadonlySet<string>[]
  readonly regions: readonly ReadonlySet<string>[]
  readonly providersOrder: readonly string[]
  readonly providersIgnored: ReadonlySet<string>
  readonly sensitivity: PolicyRow['sensitivity']
  readonly regionOverrideAllowed: boolean
  /** The lowest cap of all levels. */
  readonly maxCostUsd: number | null
  /** Rate limits of every level that has some: all of them hold. */
  readonly limits: readonly LimitRule[]
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

/** Folds the levels, first one first: it gives strategy, order, timeouts and fallback; allow-lists and caps come from all of them. */
export const effectivePolicy = (levels: readonly Level[]): EffectivePolicy => {
  const first = levels[0]
  const row = first?.row
  const caps = levels.flatMap(({ row: { max_cost_usd } }) => (max_cost_usd === null ? [] : [max_cost_usd]))
  const fallback = row?.fallback ?? {}
  const timeouts = row?.timeouts ?? {}
  const retry = row?.retry ?? {}
  return {
    id: row?.id ?? null,
    name: row?.name ?? null,
    source: first?.source ?? 'built_in',
    strategy: row?.strategy ?? null,
    models: lists(levels, ({ models }) => models),
    providersOnly: lists(levels, ({ providers }) => providers.only),
    regions: lists(levels, ({ regions }) => regions),
    providersOrder: (row?.providers.order ?? []).map((name) => name.toLowerCase()),
    providersIgnored: lowered(row?.providers.ignore ?? []),
    sensitivity: row?.sensitivity ?? {},
    regionOverrideAllowed: levels.every(({ row: { allow_region_override } }) => allow_region_override),
    maxCostUsd: caps.length === 0 ? null : Math.min(...caps),
    limits: levels.flatMap(({ row: { id, rate_limits } }) => limitRule('policy', id, rate_limits) ?? []),
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

/** The built-in policy: where no level speaks. */
export const BUILT_IN = effectivePolicy([])

/** The policies that speak for a request, most specific first. Throws 404 for one that the header names and the caller may not see. */
const levelsOf = (live: Pick<LiveState, 'control' | 'refused'>, key: KeyEntry, asked: string | null): Level[] => {
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
  if (asked !== null) {
    const row = visible(policies.get(asked)) ?? visible(named(key.tenantId, asked)) ?? visible(named(null, asked))
    if (row === undefined) throw new GatewayError('not_found', `no policy "${asked}"`, { param: 'X-Gateway-Policy' })
    add('header', row)
  }
  if (key.routingPolicyId !== null) add('key', visible(policies.get(key.routingPolicyId)))
  add('tenant', named(key.tenantId, 'default'))
  add('global', named(null, 'default'))
  return levels
}

const MAX_CACHED = 10_000

/** Resolves policies, remembering the answers until a policy changes. */
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
  return (key: KeyEntry, asked: string | null): EffectivePolicy => {
    const cacheKey = `${key.tenantId}\0${key.routingPolicyId ?? ''}\0${asked ?? ''}`
    let policy = cache.get(cacheKey)
    if (policy === undefined) {
      const levels = levelsOf(live, key, asked)
      policy = levels.length === 0 ? BUILT_IN : effectivePolicy(levels)
      if (cache.size >= MAX_CACHED) cache.clear()
      cache.set(cacheKey, policy)
    }
    return policy
  }
}
