// Station 4: who is asked, in what order, and why the others are not. A pure function: the same inputs, the same plan.
import { nanoUsdOf } from '../lib/money.ts'
import type { Catalogue, CatalogueEntry } from '../state/port.ts'
import { type ErrorCode, GatewayError } from '../wire/errors.ts'
import { projectedNanoUsd } from './estimate.ts'
import type { Intent, Requirement } from './intent.ts'
import type { EffectivePolicy } from './policies.ts'

/** Ruled reasons, in the order in which they are looked for: the later one is met, the nearer a candidate came. */
export const REJECTED_REASONS = [
  'disabled',
  'no_adapter',
  'not_in_policy',
  'ignored',
  'region',
  'sensitivity',
  'missing_capability',
  'context_too_small',
  'no_price',
  'cost_cap',
] as const
export type RejectedReason = (typeof REJECTED_REASONS)[number]

export interface PlannedCandidate {
  readonly entry: CatalogueEntry
  /** Null: eligible. */
  readonly rejected: RejectedReason | null
}

export interface Plan {
  readonly policy: EffectivePolicy
  readonly strategy: 'priority'
  /** Every candidate in the order of the strategy. */
  readonly candidates: readonly PlannedCandidate[]
  /** Those that may be called, in order. Never empty. */
  readonly ordered: readonly CatalogueEntry[]
  /** Called in place of the others when the prompt turns out too long for a model. */
  readonly forLongContext: readonly CatalogueEntry[]
  /** The first candidate before health is considered. */
  readonly primary: CatalogueEntry
  readonly maxAttempts: number
}

export interface PlanInput {
  readonly intent: Intent
  readonly policy: EffectivePolicy
  readonly catalogue: Pick<Catalogue, 'resolve'>
  /** Drives the random choices of strategies that make any. */
  readonly seed: number
}

/** Candidates beyond this are not looked at: it bounds what a request and its outcome hold. */
export const MAX_CANDIDATES = 64

/** Makes the plan, or throws the ruled error when nobody is left. */
export const makePlan = ({ intent, policy, catalogue }: PlanInput): Plan => {
  const { headers } = intent
  if (headers.region !== null && !policy.regionOverrideAllowed) {
    throw new GatewayError('permission_error', 'the policy does not let a request choose its region', {
      param: 'X-Gateway-Region',
    })
  }
  const found = catalogue.resolve(intent.model)
  if (found.length === 0) {
    throw new GatewayError('not_found', `the model "${intent.model}" does not exist`, { param: 'model' })
  }
  const capNanoUsd = capOf(intent, policy)
  const judge = (entry: CatalogueEntry): PlannedCandidate => ({
    entry,
    rejected: rejection(entry, intent, policy, capNanoUsd),
  })
  const own = inOrder(found, policy.providersOrder).slice(0, MAX_CANDIDATES).map(judge)
  const withFallback = policy.fallbackEnabled && !headers.noFallback
  const candidates = withFallback ? withModels(own, policy.fallbackModels, catalogue, judge) : own
  const ordered = eligible(candidates)
  if (ordered.length === 0) throw nobodyLeft(candidates, intent)
  const primary = ordered[0]!
  return {
    policy,
    strategy: 'priority',
    candidates,
    ordered: withFallback ? ordered : [primary],
    forLongContext: withFallback
      ? eligible(withModels([], policy.contextWindowModels, catalogue, judge)).filter(
          (entry) => !ordered.includes(entry),
        )
      : [],
    primary,
    maxAttempts: policy.maxAttempts,
  }
}

const eligible = (candidates: readonly PlannedCandidate[]): CatalogueEntry[] => {
  const entries: CatalogueEntry[] = []
  for (const { entry, rejected } of candidates) if (rejected === null) entries.push(entry)
  return entries
}

const capOf = ({ headers: { maxCostUsd } }: Intent, policy: EffectivePolicy): number | null => {
  if (maxCostUsd === null) return policy.maxCostUsd === null ? null : nanoUsdOf(policy.maxCostUsd)
  return nanoUsdOf(policy.maxCostUsd === null ? maxCostUsd : Math.min(maxCostUsd, policy.maxCostUsd))
}

/** The catalogue's order (priority, then provider), with the policy's preferred providers in front, in its order. */
const inOrder = (entries: readonly CatalogueEntry[], order: readonly string[]): readonly CatalogueEntry[] => {
  if (order.length === 0) return entries
  const rank = ({ provider, providerId }: CatalogueEntry): number => {
    const at = order.findIndex((name) => name === provider.toLowerCase() || name === providerId)
    return at < 0 ? order.length : at
  }
  return [...entries].sort((a, b) => rank(a) - rank(b))
}

const withModels = (
  candidates: readonly PlannedCandidate[],
  models: readonly string[],
  catalogue: Pick<Catalogue, 'resolve'>,
  judge: (entry: CatalogueEntry) => PlannedCandidate,
): readonly PlannedCandidate[] => {
  if (models.length === 0) return candidates
  const all = [...candidates]
  const known = new Set(candidates.map(({ entry }) => entry.modelId))
  for (const model of models) {
    for (const entry of catalogue.resolve(model)) {
      if (known.has(entry.modelId) || all.length === MAX_CANDIDATES) continue
      known.add(entry.modelId)
      all.push(judge(entry))
    }
  }
  return all
}

const inAll = (allowed: readonly ReadonlySet<string>[], name: string, id: string): boolean => {
  for (const names of allowed) if (!names.has(name.toLowerCase()) && !names.has(id)) return false
  return true
}

const rejection = (
  entry: CatalogueEntry,
  intent: Intent,
  policy: EffectivePolicy,
  capNanoUsd: number | null,
): RejectedReason | null => {
  if (entry.unroutable !== null) return entry.unroutable
  if (!inAll(policy.models, entry.name, entry.modelId)) return 'not_in_policy'
  if (!inAll(policy.providersOnly, entry.provider, entry.providerId)) return 'not_in_policy'
  const { providersIgnored } = policy
  if (
    providersIgnored.size > 0 &&
    (providersIgnored.has(entry.provider.toLowerCase()) || providersIgnored.has(entry.providerId))
  ) {
    return 'ignored'
  }
  if (!regionFits(entry, intent, policy)) return 'region'
  if (!sensitivityFits(entry, intent, policy)) return 'sensitivity'
  if (missing(entry, intent) !== null) return 'missing_capability'
  // Eight bytes a token is less than any prompt counts: only what cannot fit is refused before the provider has seen it.
  if (entry.contextWindow !== null && intent.promptBytes / 8 > entry.contextWindow) return 'context_too_small'
  if (capNanoUsd === null) return null
  const projected = projectedNanoUsd(intent, entry)
  if (projected === null) return 'no_price'
  return projected > capNanoUsd ? 'cost_cap' : null
}

const missing = (entry: CatalogueEntry, { requirements }: Intent): Requirement | null => {
  for (const requirement of requirements) if (!entry.capabilities.includes(requirement.capability)) return requirement
  return null
}

const regionFits = ({ region }: CatalogueEntry, { headers }: Intent, policy: EffectivePolicy): boolean => {
  const asked = headers.region
  if (asked !== null && region?.toLowerCase() !== asked.toLowerCase()) return false
  return policy.regions.length === 0 || (region !== null && inAll(policy.regions, region, region))
}

const sensitivityFits = (entry: CatalogueEntry, { headers }: Intent, policy: EffectivePolicy): boolean => {
  for (const label of headers.sensitivity) {
    const providers = policy.sensitivity[label as keyof EffectivePolicy['sensitivity']]?.providers
    if (providers === undefined || providers.length === 0) continue
    const name = entry.provider.toLowerCase()
    if (!providers.some((provider) => provider === entry.providerId || provider.toLowerCase() === name)) return false
  }
  return true
}

/** Why the first candidate is the first, as a sentence. */
export const routeReason = ({ primary: { provider, name, priority }, candidates }: Plan): string => {
  const all = candidates.length
  return `${provider}/${name} comes first by priority ${priority} among ${eligible(candidates).length} of ${all} candidate${all === 1 ? '' : 's'}`
}

const REFUSALS: Record<RejectedReason, { code: ErrorCode; param: string | null; message: string }> = {
  disabled: { code: 'provider_unavailable', param: null, message: 'every candidate for this model is disabled' },
  no_adapter: {
    code: 'provider_unavailable',
    param: null,
    message: 'no provider of this model can be used: it has no credential or an unknown kind',
  },
  not_in_policy: {
    code: 'invalid_request',
    param: 'model',
    message: 'the policy does not allow this model or its providers',
  },
  ignored: { code: 'invalid_request', param: 'model', message: 'the policy ignores every provider of this model' },
  region: {
    code: 'invalid_request',
    param: 'X-Gateway-Region',
    message: 'no provider of this model is in an allowed region',
  },
  sensitivity: {
    code: 'invalid_request',
    param: 'X-Gateway-Sensitivity',
    message: 'no provider of this model may receive payloads of this sensitivity',
  },
  missing_capability: { code: 'invalid_request', param: null, message: 'the model cannot do what the request asks' },
  context_too_small: {
    code: 'context_length_exceeded',
    param: 'messages',
    message: "the prompt exceeds the model's context window",
  },
  no_price: { code: 'quota_exceeded', param: null, message: 'a cost cap applies and the model has no price' },
  cost_cap: { code: 'quota_exceeded', param: null, message: 'the projected cost exceeds the cap' },
}

/** The ruled error: that of the candidate that came nearest. */
const nobodyLeft = (candidates: readonly PlannedCandidate[], intent: Intent): GatewayError => {
  let nearest = candidates[0]!
  for (const candidate of candidates) {
    if (REJECTED_REASONS.indexOf(candidate.rejected!) > REJECTED_REASONS.indexOf(nearest.rejected!)) nearest = candidate
  }
  const reason = nearest.rejected!
  const { code, param, message } = REFUSALS[reason]
  const details = { rejected_reason: reason }
  if (reason === 'missing_capability') {
    const lacking = missing(nearest.entry, intent)!
    const text = `the model "${intent.model}" does not have the capability "${lacking.capability}" that \`${lacking.param}\` needs`
    return new GatewayError(code, text, {
      param: lacking.param,
      details: { ...details, capability: lacking.capability },
    })
  }
  return new GatewayError(code, `${message} (model "${intent.model}")`, { param, details })
}
