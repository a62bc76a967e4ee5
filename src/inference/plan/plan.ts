// Station 4: which candidates are called, in what order, and why the others are not. Pure: the same inputs give the
// same plan.
import type { Strategy } from '../../domain/steering/policy.ts'
import type { Frame } from '../../state/health/frame.ts'
import type { Disabled, OverridesInForce } from '../../state/indexes/steering.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { GatewayError } from '../../wire/errors.ts'
import { outputBound, promptTokensEstimate } from '../money/estimate.ts'
import { priceOf } from '../money/price.ts'
import { type CandidateSet, type CandidateSource, candidatesFor, candidatesOf } from './candidates.ts'
import { frameViewOf } from './frame-view.ts'
import type { EffectivePolicy } from './policies.ts'
import { nearestOf, noCandidateLeft, primarySkipped, regionForbidden, unknownModel } from './refusals.ts'
import {
  type Bounds,
  boundsOf,
  healthSkip,
  type PlanIntent,
  type RejectedReason,
  rejection,
  subjectsOf,
} from './rejections.ts'
import { isAscending, type RankInput, rank, scoresOf } from './strategies.ts'

/** All inputs of a plan. The same inputs give the same plan again. */
export interface PlanInput {
  readonly intent: PlanIntent
  /** With the endpoint scope folded in. */
  readonly policy: EffectivePolicy
  readonly catalogue: CandidateSource
  readonly keyId: string
  /** The name that the request gives as its model is an alias of the endpoint scope. */
  readonly isScopeAlias: boolean
  readonly overrides: OverridesInForce
  readonly frame: Frame
  /** Source of the random choices of a strategy. */
  readonly seed: number
  /** How many requests for this model `round_robin` has ordered before; 0 for other strategies. */
  readonly turn: number
  /** Hash of the value that `sticky` routes by, 32 bits; 0 for other strategies. */
  readonly sticky: number
}

export interface Plan {
  readonly input: PlanInput
  readonly policy: EffectivePolicy
  readonly strategy: Strategy
  /** All candidates, in the order of the registry (preferred ones first). The lists below are parallel to it. */
  readonly candidates: readonly CatalogueEntry[]
  /** Null: may be called. */
  readonly reasons: readonly (RejectedReason | null)[]
  /** Null: no price. */
  readonly projectedNanoUsd: readonly (number | null)[]
  /**
   * The blended rank in [0, 1] of the candidates that were compared. Null: the strategy does not compare ranks, or
   * there was only one.
   */
  readonly scores: readonly (number | null)[] | null
  /** Places of the candidates that only their health could exclude, in the order of the strategy. */
  readonly order: readonly number[]
  /** The candidates in the order of their calls. Empty only when the plan refuses. */
  readonly ordered: readonly CatalogueEntry[]
  /** Replaces the other candidates when the prompt turns out too long for a model. */
  readonly forLongContext: readonly CatalogueEntry[]
  /** The first candidate before health is considered. Null without a candidate. */
  readonly primary: CatalogueEntry | null
  readonly maxAttempts: number
  /** The error for the client when no candidate may be called. */
  readonly refused: GatewayError | null
}

/** The strategy of a request: that of its policy or scope, else the cheapest for batches, else the blended rank. */
export const strategyFor = ({ strategy }: EffectivePolicy, { headers }: Pick<PlanIntent, 'headers'>): Strategy =>
  strategy ?? (headers.batch ? 'lowest_cost' : 'balanced')

/** Makes the plan. Never throws: a request without a candidate has a plan with `refused`. */
export const makePlan = (input: PlanInput): Plan => {
  const { intent, policy, catalogue, overrides, keyId } = input
  const strategy = strategyFor(policy, intent)
  if (intent.headers.region !== null && !policy.regionOverrideAllowed)
    return refusing(input, strategy, regionForbidden())
  const forced = forcedModel(input, overrides.forcedModels) ?? forcedModel(input, overrides.forcedByTenants)
  const name = forced ?? policy.forcedModel ?? intent.model
  const reach = forced === null ? 'usual' : 'alone'
  const set = candidatesFor(name, reach, policy, catalogue, input.isScopeAlias)
  if (!set.isKnown && !(input.isScopeAlias && name === intent.model && set.ownCount > 0))
    return refusing(input, strategy, unknownModel(intent.model, name))
  const mayFailOver =
    policy.fallbackEnabled &&
    !intent.headers.noFallback &&
    (overrides.ids.length === 0 || !isDisabled('fallback', overrides, subjectsOf(intent, policy, keyId)))
  const bounds = boundsOf(intent, policy, overrides, keyId)
  const all = judged(input, strategy, set, mayFailOver, bounds)
  const wantsLonger =
    all.eligible.length === 0 &&
    mayFailOver &&
    forced === null &&
    policy.contextWindowModels.length > 0 &&
    all.reasons[nearestOf(all.reasons)] === 'context_too_small'
  if (!wantsLonger) return planFrom(all, mayFailOver, forced === null)
  return planFrom(judged(input, strategy, candidatesFor(name, 'long', policy, catalogue), true, bounds), true, true)
}

/** Whether an operator has switched this off for everything or for one of these subjects. */
export const isDisabled = (
  what: Disabled,
  { disabled, disabledOf }: OverridesInForce,
  subjects: readonly string[],
): boolean =>
  disabled.has(what) || (disabledOf.size > 0 && subjects.some((subject) => disabledOf.get(subject)?.has(what)))

/** The model that an override forces: for the named model before those for the key, the scope and all requests. */
const forcedModel = (
  { intent, policy, catalogue, keyId }: PlanInput,
  forcedModels: ReadonlyMap<string, string>,
): string | null => {
  if (forcedModels.size === 0) return null
  const registryName = catalogue.resolve(intent.model)[0]?.name ?? intent.model
  const [, ...others] = subjectsOf(intent, policy, keyId)
  const subjects = [intent.model.toLowerCase(), registryName.toLowerCase(), ...others, '*']
  for (const subject of subjects) {
    const model = forcedModels.get(subject)
    if (model !== undefined) return model
  }
  return null
}

const NONE: readonly never[] = []

const refusing = (input: PlanInput, strategy: Strategy, refused: GatewayError): Plan => ({
  input,
  policy: input.policy,
  strategy,
  candidates: NONE,
  reasons: NONE,
  projectedNanoUsd: NONE,
  scores: null,
  order: NONE,
  ordered: NONE,
  forLongContext: NONE,
  primary: null,
  maxAttempts: 0,
  refused,
})

/** The candidates with the rejection of each. */
interface Judged {
  readonly input: PlanInput
  readonly strategy: Strategy
  readonly bounds: Bounds
  readonly candidates: readonly CatalogueEntry[]
  readonly tiers: readonly number[] | null
  readonly reasons: (RejectedReason | null)[]
  readonly projectedNanoUsd: (number | null)[]
  /** Places of those without a rejection. */
  readonly eligible: readonly number[]
}

const judged = (
  input: PlanInput,
  strategy: Strategy,
  set: CandidateSet,
  mayFailOver: boolean,
  bounds: Bounds,
): Judged => {
  const count = mayFailOver ? set.entries.length : set.ownCount
  const { intent, frame } = input
  const promptTokens = promptTokensEstimate(intent)
  const reasons = set.standing.slice(0, count)
  const projectedNanoUsd = new Array<number | null>(count)
  let isAnyOut = false
  for (let i = 0; i < count; i++) {
    const entry = set.entries[i]!
    const projected = priceOf(entry, promptTokens, outputBound(intent, entry))
    projectedNanoUsd[i] = projected
    reasons[i] ??= rejection(entry, projected, frame, bounds)
    if (reasons[i] !== null) isAnyOut = true
  }
  const all = count === set.entries.length
  const places = all ? set.places : set.ownPlaces
  let eligible = isAnyOut ? withoutReason(places, reasons) : places
  const wantedTokens = promptTokens + (intent.maxTokens ?? 0)
  if (eligible.length > 1) eligible = fitting(eligible, set, wantedTokens, reasons)
  return {
    input,
    strategy,
    bounds,
    candidates: all ? set.entries : set.ownEntries,
    tiers: (all ? set.tiered : set.ownTiered) ? set.tiers : null,
    reasons,
    projectedNanoUsd,
    eligible,
  }
}

// Closures that are rarely needed stand in functions of their own: a function with a capturing closure allocates a
// scope at each call.

/** The places without a rejection. */
const withoutReason = (places: readonly number[], reasons: readonly (RejectedReason | null)[]): readonly number[] =>
  places.filter((place) => reasons[place] === null)

/**
 * Where some rows of the model are likely to hold the prompt and the answer, the others are left out. The estimate
 * alone refuses no request.
 */
const fitting = (
  eligible: readonly number[],
  set: CandidateSet,
  wantedTokens: number,
  reasons: (RejectedReason | null)[],
): readonly number[] => {
  const { entries, ownCount } = set
  let fits = 0
  let own = 0
  for (const place of eligible) {
    if (place >= ownCount) break
    own++
    const { contextWindow } = entries[place]!
    if (contextWindow === null || wantedTokens <= contextWindow) fits++
  }
  return fits === 0 || fits === own ? eligible : onlyFitting(eligible, set, wantedTokens, reasons)
}

const onlyFitting = (
  eligible: readonly number[],
  { entries, ownCount }: CandidateSet,
  wantedTokens: number,
  reasons: (RejectedReason | null)[],
): readonly number[] =>
  eligible.filter((place) => {
    const { contextWindow } = entries[place]!
    if (place >= ownCount || contextWindow === null || wantedTokens <= contextWindow) return true
    reasons[place] = 'context_too_small'
    return false
  })

/** Candidates for a prompt that turns out too long for a model. */
const forLongContext = (all: Judged): readonly CatalogueEntry[] =>
  all.input.policy.contextWindowModels.length === 0 ? NONE : longer(all)

const longer = ({ input, bounds }: Judged): readonly CatalogueEntry[] => {
  const { intent, policy, catalogue, frame } = input
  const promptTokens = promptTokensEstimate(intent)
  const eligible: CatalogueEntry[] = []
  for (const { entry, standing } of candidatesOf(policy.contextWindowModels, policy, catalogue)) {
    const projected = priceOf(entry, promptTokens, outputBound(intent, entry))
    if (standing === null && rejection(entry, projected, frame, bounds) === null) eligible.push(entry)
  }
  const healthy = eligible.filter(({ modelId }) => healthSkip(frame.signals(modelId)) === null)
  return healthy.length === 0 ? eligible.slice(0, 1) : healthy
}

/** Orders the candidates that are left, and leaves out those whose health excludes them. */
const planFrom = (all: Judged, mayFailOver: boolean, mayChangeModel: boolean): Plan => {
  const { input, strategy, candidates, reasons, projectedNanoUsd, eligible } = all
  const { policy, intent, overrides } = input
  if (eligible.length === 0) {
    const refused = noCandidateLeft(candidates, reasons, intent)
    return { ...refusing(input, strategy, refused), candidates, reasons, projectedNanoUsd }
  }
  const { order, keys } = eligible.length === 1 ? { order: eligible, keys: null } : rank(eligible, rankInput(all))
  const primary = candidates[order[0]!]!
  const failsOver =
    mayFailOver &&
    (overrides.ids.length === 0 ||
      !isDisabled('fallback', overrides, [`provider:${primary.providerId}`, `model:${primary.name.toLowerCase()}`]))
  // The last candidate is always tried, unless the client accepts only the primary.
  const isLast = order.length === 1 && !intent.headers.noFallback
  const skipped = failsOver || isLast ? null : healthSkip(input.frame.signals(primary.modelId))
  const scores = strategy === 'balanced' && keys !== null ? scoresOf(candidates.length, eligible, keys) : null
  if (skipped !== null) reasons[order[0]!] = skipped
  return {
    input,
    policy,
    strategy,
    candidates,
    reasons,
    projectedNanoUsd,
    scores,
    order,
    ordered: skipped !== null ? NONE : failsOver ? healthy(all, order) : [primary],
    forLongContext: failsOver && mayChangeModel ? forLongContext(all) : NONE,
    primary,
    maxAttempts: policy.maxAttempts,
    refused: skipped === null ? null : primarySkipped(primary, skipped),
  }
}

const rankInput = ({ input, strategy, candidates, tiers, projectedNanoUsd, bounds }: Judged): RankInput => ({
  strategy,
  entries: candidates,
  tiers,
  projectedNanoUsd,
  frame: input.frame,
  metric: bounds.metric,
  weights: input.policy.weights,
  seed: input.seed,
  turn: input.turn,
  sticky: input.sticky,
})

/**
 * The candidates that health does not exclude, in order; `candidates` itself where that is the same list. If health
 * excludes all, the first one: the last candidate is always tried.
 */
const healthy = ({ input, candidates, reasons }: Judged, order: readonly number[]): readonly CatalogueEntry[] => {
  const skips = input.frame.number === 0 || order.length === 1 ? null : frameViewOf(candidates, input.frame).skips
  if (skips === null && order.length === candidates.length && isAscending(order)) return candidates
  const ordered: CatalogueEntry[] = []
  for (const place of order) {
    const skipped = skips === null ? null : skips[place]!
    if (skipped === null) ordered.push(candidates[place]!)
    else reasons[place] = skipped
  }
  if (ordered.length > 0) return ordered
  reasons[order[0]!] = null
  return [candidates[order[0]!]!]
}
