// Station 4, first step: whom a request may go to at all, and what the registry and the policy alone say of each. Worked out once for each name.
import type { Catalogue, CatalogueEntry } from '../../state/port.ts'
import type { EffectivePolicy } from './policies.ts'
import type { RejectedReason } from './rejections.ts'

/** Candidates beyond this are not looked at: it bounds what a request and its outcome hold. */
export const MAX_CANDIDATES = 64

/** Parallel lists, in the order of the tiers and within one of the catalogue: lower priority first, then the name of the provider. */
export interface CandidateSet {
  /** A model of that name is in the registry. */
  readonly isKnown: boolean
  readonly entries: readonly CatalogueEntry[]
  /** The first so many are those of the model itself; after them come the models that the policy falls back to. */
  readonly ownCount: number
  readonly ownEntries: readonly CatalogueEntry[]
  /** The places of all, and of the first so many: 0, 1, 2 and so on. */
  readonly places: readonly number[]
  readonly ownPlaces: readonly number[]
  /** What does not depend on the request. Null: nothing against it. */
  readonly standing: readonly (RejectedReason | null)[]
  /** No strategy puts a candidate before one of a lower tier: preferred models and providers, then the rest, then fallbacks. */
  readonly tiers: readonly number[]
  /** Whether there is more than one tier among the first so many, and among all. */
  readonly ownTiered: boolean
  readonly tiered: boolean
}

export type CandidateSource = Pick<Catalogue, 'resolve' | 'all' | 'version'>

/** Sets by name, of one policy, for as long as the catalogue stays as it is and all policies together have not too many: 5 ns instead of 3 us to gather 20 (`bench -- tricks`, sets). */
interface Memo {
  readonly catalogue: CandidateSource
  readonly version: number
  readonly generation: number
  readonly sets: Map<string, CandidateSet>
}

/** Of all policies. Beyond it all are forgotten: a registry with more names, all of them asked for, has its sets made anew now and then. */
const MOST_REMEMBERED = 16_384
const memos = new WeakMap<EffectivePolicy, Memo>()
let generation = 0
let remembered = 0

/** How far one looks. `alone`: nothing but the rows of that name. `long`: also where the policy sends prompts that are too long. */
export type Reach = 'alone' | 'usual' | 'long'

/** The candidates for a model of that name, remembered when the name is one that operators gave (a model's, or `isAlias` of a scope), since clients send any: the models that the scope prefers go before its rows, those that the policy falls back to come after. */
export const candidatesFor = (
  name: string,
  reach: Reach,
  policy: EffectivePolicy,
  catalogue: CandidateSource,
  isAlias = false,
): CandidateSet => {
  let memo = memos.get(policy)
  if (memo === undefined || !isCurrent(memo, catalogue)) {
    memo = { catalogue, version: catalogue.version, generation, sets: new Map() }
    memos.set(policy, memo)
  }
  const word = name.toLowerCase() // clients spell it as they like
  const key = reach === 'usual' ? word : `${reach}\0${word}`
  let set = memo.sets.get(key)
  if (set === undefined) {
    set = gather(name, reach, policy, catalogue)
    if (!set.isKnown && !isAlias) return set
    memo.sets.set(key, set)
    if (++remembered >= MOST_REMEMBERED) {
      generation++
      remembered = 0
    }
  }
  return set
}

const isCurrent = (memo: Memo, catalogue: CandidateSource): boolean =>
  memo.catalogue === catalogue && memo.version === catalogue.version && memo.generation === generation

const gather = (name: string, reach: Reach, policy: EffectivePolicy, catalogue: CandidateSource): CandidateSet => {
  const gathered: { entry: CatalogueEntry; tier: number }[] = []
  const known = new Set<string>()
  const providerTiers = policy.providersOrder.length + 1
  let tier = 0
  const add = (model: string): void => {
    const group: { entry: CatalogueEntry; tier: number }[] = []
    for (const entry of rowsOf(model, catalogue)) {
      if (known.has(entry.modelId)) continue
      known.add(entry.modelId)
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
  const kept = gathered.slice(0, MAX_CANDIDATES)
  const standingOf = standingRule(policy, catalogue)
  const entries = kept.map(({ entry }) => entry)
  const places = entries.map((_, place) => place)
  return {
    isKnown: rowsOf(name, catalogue).length > 0,
    entries,
    ownCount,
    ownEntries: entries.slice(0, ownCount),
    places,
    ownPlaces: places.slice(0, ownCount),
    standing: kept.map(({ entry }) => standingOf(entry)),
    tiers: kept.map(({ tier: own }) => own),
    ownTiered: kept.slice(0, ownCount).some(({ tier: own }) => own !== kept[0]!.tier),
    tiered: kept.some(({ tier: own }) => own !== kept[0]!.tier),
  }
}

/** The entries of one list of models, judged alike: where a prompt that is too long for the others may go. */
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

/** Operators name models by id too. */
const rowsOf = (model: string, catalogue: CandidateSource): readonly CatalogueEntry[] => {
  const rows = catalogue.resolve(model)
  return rows.length > 0 ? rows : catalogue.all().filter(({ modelId }) => modelId === model)
}

/** Where a provider stands in an order of names and ids; after all of them when it is not named. */
const placeOf = (entry: CatalogueEntry, order: readonly string[]): number => {
  const at = order.findIndex((name) => name === entry.provider.toLowerCase() || name === entry.providerId)
  return at < 0 ? order.length : at
}

/** Whether every list of providers has this one, by name or id. */
export const isListed = (lists: readonly ReadonlySet<string>[], name: string, id: string): boolean => {
  for (const names of lists) if (!names.has(name.toLowerCase()) && !names.has(id)) return false
  return true
}

/** What the registry and the policy say of an entry, whatever is asked. */
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
