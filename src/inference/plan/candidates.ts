// Station 4, first step: the candidates of a name, and which of them registry and policy reject. Computed once for each
// name.
import type { Catalogue, CatalogueEntry } from '../../state/port.ts'
import type { EffectivePolicy } from './policies.ts'
import type { RejectedReason } from './rejections.ts'

/** Candidates beyond this are left out: it bounds a request and its outcome. */
export const MAX_CANDIDATES = 64

/**
 * Parallel lists, in the order of the tiers and within a tier of the catalogue: lower priority first, then the name of
 * the provider.
 */
export interface CandidateSet {
  /** A model of that name is in the registry. */
  readonly isKnown: boolean
  readonly entries: readonly CatalogueEntry[]
  /** The first `ownCount` are those of the model itself; the fallback models of the policy follow. */
  readonly ownCount: number
  readonly ownEntries: readonly CatalogueEntry[]
  /** The places of all, and of the first `ownCount`: 0, 1, 2 and so on. */
  readonly places: readonly number[]
  readonly ownPlaces: readonly number[]
  /** Rejections that do not depend on the request. Null: none. */
  readonly standing: readonly (RejectedReason | null)[]
  /**
   * No strategy puts a candidate before one of a lower tier: preferred models and providers, then the rest, then
   * fallbacks.
   */
  readonly tiers: readonly number[]
  /** Whether there is more than one tier among the first `ownCount`, and among all. */
  readonly ownTiered: boolean
  readonly tiered: boolean
}

export type CandidateSource = Pick<Catalogue, 'resolve' | 'all' | 'version'>

/** The sets of one policy by name, valid for one version of the catalogue (`bench -- tricks`, sets). */
interface PolicySets {
  readonly catalogue: CandidateSource
  readonly version: number
  readonly generation: number
  readonly sets: Map<string, CandidateSet>
}

/** Bound of the sets of all policies together: at it all are evicted. */
const MAX_CACHED = 16_384

class SetCache {
  readonly #byPolicy = new WeakMap<EffectivePolicy, PolicySets>()
  /** Raised to evict all sets. */
  #generation = 0
  #size = 0

  /** The valid sets of a policy. */
  of(policy: EffectivePolicy, catalogue: CandidateSource): Map<string, CandidateSet> {
    const cached = this.#byPolicy.get(policy)
    if (
      cached !== undefined &&
      cached.catalogue === catalogue &&
      cached.version === catalogue.version &&
      cached.generation === this.#generation
    )
      return cached.sets
    const sets = new Map<string, CandidateSet>()
    this.#byPolicy.set(policy, { catalogue, version: catalogue.version, generation: this.#generation, sets })
    return sets
  }

  add(sets: Map<string, CandidateSet>, key: string, set: CandidateSet): void {
    sets.set(key, set)
    if (++this.#size < MAX_CACHED) return
    this.#generation++
    this.#size = 0
  }
}

/**
 * One for the process and not in `deps`: a set depends on policy and catalogue alone, so a plan stays a function of its
 * input.
 */
const cache = new SetCache()

/**
 * Which candidates are gathered. `alone`: only those of the name. `long`: also the policy's models for long prompts.
 */
export type Reach = 'alone' | 'usual' | 'long'

/**
 * The candidates for a model name: the models that the scope prefers, those of the name, the fallbacks of the policy.
 * Cached only for names that operators gave (of a model, or `isAlias` of a scope), since clients send any.
 */
export const candidatesFor = (
  name: string,
  reach: Reach,
  policy: EffectivePolicy,
  catalogue: CandidateSource,
  isAlias = false,
): CandidateSet => {
  const sets = cache.of(policy, catalogue)
  const lowerName = name.toLowerCase() // names are matched without case
  const key = reach === 'usual' ? lowerName : `${reach}\0${lowerName}`
  const cached = sets.get(key)
  if (cached !== undefined) return cached
  const set = gather(name, reach, policy, catalogue)
  if (set.isKnown || isAlias) cache.add(sets, key, set)
  return set
}

const gather = (name: string, reach: Reach, policy: EffectivePolicy, catalogue: CandidateSource): CandidateSet => {
  const gathered: { entry: CatalogueEntry; tier: number }[] = []
  const added = new Set<string>()
  const providerTiers = policy.providersOrder.length + 1
  let tier = 0
  const add = (model: string): void => {
    const group: { entry: CatalogueEntry; tier: number }[] = []
    for (const entry of rowsOf(model, catalogue)) {
      if (added.has(entry.modelId)) continue
      added.add(entry.modelId)
      group.push({ entry, tier: tier * providerTiers + placeOf(entry, policy.providersOrder) })
    }
    group.sort((a, b) => a.tier - b.tier)
    gathered.push(...group)
    tier += 1
  }
  if (reach !== 'alone') for (const model of policy.preferredModels) add(model)
  add(name)
  const ownCount = Math.min(gathered.length, MAX_CANDIDATES)
  if (reach !== 'alone') for (const model of policy.fallbackModels) add(model)
  if (reach === 'long') for (const model of policy.contextWindowModels) add(model)
  const chosen = gathered.slice(0, MAX_CANDIDATES)
  const standingOf = standingRule(policy, catalogue)
  const entries = chosen.map(({ entry }) => entry)
  const places = entries.map((_, place) => place)
  return {
    isKnown: rowsOf(name, catalogue).length > 0,
    entries,
    ownCount,
    ownEntries: entries.slice(0, ownCount),
    places,
    ownPlaces: places.slice(0, ownCount),
    standing: chosen.map(({ entry }) => standingOf(entry)),
    tiers: chosen.map(({ tier: own }) => own),
    ownTiered: chosen.slice(0, ownCount).some(({ tier: own }) => own !== chosen[0]!.tier),
    tiered: chosen.some(({ tier: own }) => own !== chosen[0]!.tier),
  }
}

/** The entries of one list of models by the same rules: for a prompt that is too long for the others. */
export const candidatesOf = (
  models: readonly string[],
  policy: EffectivePolicy,
  catalogue: CandidateSource,
): { entry: CatalogueEntry; standing: RejectedReason | null }[] => {
  const standingOf = standingRule(policy, catalogue)
  const found: { entry: CatalogueEntry; standing: RejectedReason | null }[] = []
  for (const model of models) {
    for (const entry of rowsOf(model, catalogue)) {
      if (found.length === MAX_CANDIDATES || found.some((other) => other.entry.modelId === entry.modelId)) continue
      found.push({ entry, standing: standingOf(entry) })
    }
  }
  return found
}

/** Operators may name models by id. */
const rowsOf = (model: string, catalogue: CandidateSource): readonly CatalogueEntry[] => {
  const rows = catalogue.resolve(model)
  return rows.length > 0 ? rows : catalogue.all().filter(({ modelId }) => modelId === model)
}

/** The place of a provider in an order of names and ids; behind all of them when it is not named. */
const placeOf = (entry: CatalogueEntry, order: readonly string[]): number => {
  const at = order.findIndex((name) => name === entry.provider.toLowerCase() || name === entry.providerId)
  return at < 0 ? order.length : at
}

/** Whether every list of providers has this one, by name or id. */
export const isListed = (lists: readonly ReadonlySet<string>[], name: string, id: string): boolean => {
  for (const names of lists) if (!names.has(name.toLowerCase()) && !names.has(id)) return false
  return true
}

/** The rejection of an entry by registry and policy, for any request. */
const standingRule = (policy: EffectivePolicy, catalogue: CandidateSource) => {
  // Models are named by name, id or alias.
  const models = policy.models.map((names) => ({
    names,
    aliased: new Set([...names].flatMap((name) => catalogue.resolve(name).map(({ modelId }) => modelId))),
  }))
  return (entry: CatalogueEntry): RejectedReason | null => {
    if (entry.unroutable !== null) return entry.unroutable
    for (const { names, aliased } of models)
      if (!names.has(entry.modelId) && !aliased.has(entry.modelId)) return 'not_in_policy'
    if (!isListed(policy.providersOnly, entry.provider, entry.providerId)) return 'not_in_policy'
    const { providersIgnored: ignored } = policy
    if (ignored.has(entry.provider.toLowerCase()) || ignored.has(entry.providerId)) return 'ignored'
    const { region } = entry
    if (policy.regions.length > 0 && (region === null || !isListed(policy.regions, region, region))) return 'region'
    return null
  }
}
