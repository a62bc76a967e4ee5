// Station 4, second step: why a request, the overrides in force and the current health reject a candidate.
import { capNanoUsdOf } from '../../lib/money.ts'
import type { Frame, Signals } from '../../state/health/frame.ts'
import type { LatencyMetric } from '../../state/health/scores.ts'
import type { HardCaps, OverridesInForce } from '../../state/indexes/steering.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Intent, Requirement } from '../intent/intent.ts'
import { isListed } from './candidates.ts'
import { type EffectivePolicy, type Label, lower } from './policies.ts'

/**
 * In the order of the checks: the later the reason, the nearer the candidate came (docs/behaviour.md: "Rejected
 * candidates").
 */
export const REJECTED_REASONS = [
  'disabled',
  'no_adapter',
  'not_in_policy',
  'ignored',
  'region',
  'sensitivity',
  'killed',
  'blocked',
  'missing_capability',
  'context_too_small',
  'no_price',
  'cost_cap',
  'budget',
  'latency_target',
  'rate_limited',
  'breaker_open',
] as const
export type RejectedReason = (typeof REJECTED_REASONS)[number]

/** The fields of an intent that a plan depends on: all can be recorded. */
export type PlanIntent = Pick<
  Intent,
  | 'model'
  | 'stream'
  | 'requirements'
  | 'textBytes'
  | 'messageCount'
  | 'promptBytes'
  | 'mediaParts'
  | 'maxTokens'
  | 'choices'
  | 'vendorFields'
  | 'headers'
>

/** The bounds for every candidate of one request, computed once. */
export interface Bounds {
  readonly intent: PlanIntent
  readonly policy: EffectivePolicy
  /** Lower-cased. */
  readonly region: string | null
  /** Null: none are in force. */
  readonly overrides: OverridesInForce | null
  /** The model as the request names it is blocked, at every provider. */
  readonly isBlocked: boolean
  /** The lowest of the caps that do not depend on the candidate. */
  readonly capNanoUsd: number | null
  /** Caps of the tenant's budgets, for each single request. Null: none. */
  readonly hardCaps: HardCaps | null
  /** The lowest of the budget caps that do not depend on the candidate. */
  readonly hardCapNanoUsd: number | null
  readonly latencyTargetMs: number | null
  readonly metric: LatencyMetric
}

/** The bounds of a request: caps and targets of all levels combine by the minimum. */
export const boundsOf = (
  intent: PlanIntent,
  policy: EffectivePolicy,
  overrides: OverridesInForce,
  keyId: string,
): Bounds => {
  const { headers } = intent
  const isSteered = overrides.ids.length > 0
  let capNanoUsd = lower(policy.maxCostNanoUsd, inNanoUsd(headers.maxCostUsd))
  if (isSteered) {
    const { maxCostUsd, maxCostUsdOf: of } = overrides
    capNanoUsd = lower(capNanoUsd, inNanoUsd(maxCostUsd))
    if (of.size > 0)
      for (const subject of subjectsOf(intent, policy, keyId))
        capNanoUsd = lower(capNanoUsd, inNanoUsd(of.get(subject) ?? null))
  }
  return {
    intent,
    policy,
    region: headers.region === null ? null : headers.region.toLowerCase(),
    overrides: isSteered ? overrides : null,
    isBlocked: isSteered && overrides.blockedModels.has(intent.model.toLowerCase()),
    capNanoUsd,
    hardCaps: overrides.hardCaps,
    hardCapNanoUsd: overrides.hardCaps === null ? null : hardCapOf(overrides.hardCaps, policy, keyId),
    latencyTargetMs: lower(policy.latencyTargetMs, headers.latencyTargetMs),
    metric: policy.latencyMetric ?? (intent.stream ? 'ttft' : 'e2e'),
  }
}

/** Subjects of overrides that a request has, at every provider. */
export const subjectsOf = ({ model }: PlanIntent, { scope }: EffectivePolicy, keyId: string): string[] => {
  const subjects = [`model:${model.toLowerCase()}`, `key:${keyId}`]
  if (scope !== null) subjects.push(`endpoint:${scope.slug}`)
  return subjects
}

/**
 * The lowest cap of the tenant's budgets that holds for every candidate: of the tenant, the key and the endpoint scope.
 * Nano-USD.
 */
const hardCapOf = ({ all, of }: HardCaps, { scope }: EffectivePolicy, keyId: string): number | null => {
  if (of.size === 0) return all
  const capNanoUsd = lower(all, of.get(`key:${keyId}`) ?? null)
  return scope === null ? capNanoUsd : lower(capNanoUsd, of.get(`endpoint:${scope.slug}`) ?? null)
}

/** The lowest budget cap of this candidate's provider or model. Nano-USD. */
const ownHardCap = (entry: CatalogueEntry, { of }: HardCaps): number | null =>
  of.size === 0
    ? null
    : lower(of.get(`provider:${entry.providerId}`) ?? null, of.get(`model:${entry.name.toLowerCase()}`) ?? null)

const inNanoUsd = (usd: number | null): number | null => (usd === null ? null : capNanoUsdOf(usd))

/** The rejection of a candidate without a standing one. Null: it may be called. */
export const rejection = (
  entry: CatalogueEntry,
  projectedNanoUsd: number | null,
  frame: Frame,
  bounds: Bounds,
): RejectedReason | null => {
  const { intent } = bounds
  if (bounds.region !== null && entry.region?.toLowerCase() !== bounds.region) return 'region'
  if (intent.headers.sensitivity.length > 0 && !mayReceive(entry, intent, bounds.policy)) return 'sensitivity'
  if (bounds.isBlocked) return 'blocked'
  const overruled = bounds.overrides === null ? null : overruling(entry, bounds.overrides, intent)
  if (overruled !== null) return overruled
  if (missing(entry, intent) !== null) return 'missing_capability'
  // No prompt has more than eight bytes a token: only what cannot fit is refused without the provider.
  if (entry.contextWindow !== null && intent.promptBytes / 8 > entry.contextWindow) return 'context_too_small'
  const capNanoUsd =
    bounds.overrides === null ? bounds.capNanoUsd : lower(bounds.capNanoUsd, ownCap(entry, bounds.overrides))
  if (capNanoUsd !== null) {
    if (projectedNanoUsd === null) return 'no_price'
    if (projectedNanoUsd > capNanoUsd) return 'cost_cap'
  }
  const hardCapNanoUsd =
    bounds.hardCaps === null ? null : lower(bounds.hardCapNanoUsd, ownHardCap(entry, bounds.hardCaps))
  if (hardCapNanoUsd !== null) {
    if (projectedNanoUsd === null) return 'no_price'
    if (projectedNanoUsd > hardCapNanoUsd) return 'budget'
  }
  if (bounds.latencyTargetMs === null) return null
  const { ttftMs, e2eMs } = frame.signals(entry.modelId)
  const latencyMs = bounds.metric === 'ttft' ? ttftMs : e2eMs
  return latencyMs !== null && latencyMs > bounds.latencyTargetMs ? 'latency_target' : null
}

/** The rejection by overrides of an operator. */
const overruling = (
  entry: CatalogueEntry,
  overrides: OverridesInForce,
  { requirements }: PlanIntent,
): 'killed' | 'blocked' | null => {
  if (overrides.killedProviderIds.has(entry.providerId)) return 'killed'
  const { blockedModels, disabledOf } = overrides
  // By any name of the model.
  if (disabledOf.size > 0 && disabledOf.get(`model:${entry.name.toLowerCase()}`)?.has('tools'))
    if (requirements.some(({ capability }) => capability === 'tools')) return 'blocked'
  if (blockedModels.size === 0) return null
  return blockedModels.has(entry.name.toLowerCase()) || blockedModels.has(entry.modelId) ? 'blocked' : null
}

/** The lowest cap of an override for this candidate's provider or model. Nano-USD. */
export const ownCap = (entry: CatalogueEntry, { maxCostUsdOf: of }: OverridesInForce): number | null =>
  of.size === 0
    ? null
    : lower(
        inNanoUsd(of.get(`provider:${entry.providerId}`) ?? null),
        inNanoUsd(of.get(`model:${entry.name.toLowerCase()}`) ?? null),
      )

/** The first required capability that the candidate lacks. */
export const missing = (
  entry: CatalogueEntry,
  { requirements }: Pick<PlanIntent, 'requirements'>,
): Requirement | null => {
  for (const requirement of requirements) if (!entry.capabilities.includes(requirement.capability)) return requirement
  return null
}

const mayReceive = (entry: CatalogueEntry, { headers }: PlanIntent, { sensitiveTo }: EffectivePolicy): boolean => {
  for (const label of headers.sensitivity) {
    const allowed = sensitiveTo[label as Label]
    if (allowed !== undefined && !isListed(allowed, entry.provider, entry.providerId)) return false
  }
  return true
}

/** Why health excludes a candidate now. */
export const healthSkip = (signals: Signals): 'breaker_open' | 'rate_limited' | null => {
  if (signals.breaker === 'open' || signals.ejected) return 'breaker_open'
  return signals.coolingDown ? 'rate_limited' : null
}
