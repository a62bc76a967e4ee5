// Station 4, third step: the order in which candidates are called. Every random choice is drawn from the seed.
import type { Strategy } from '../../domain/steering/policy.ts'
import type { Frame, Signals } from '../../state/health/frame.ts'
import { type LatencyMetric, ranks, type ScoreWeights } from '../../state/health/scores.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { frameViewOf } from './frame-view.ts'

/** The inputs of a strategy. Lists are parallel to the candidates. */
export interface RankInput {
  readonly strategy: Strategy
  readonly entries: readonly CatalogueEntry[]
  /** Null: all of one tier. */
  readonly tiers: readonly number[] | null
  readonly projectedNanoUsd: readonly (number | null)[]
  readonly frame: Frame
  readonly metric: LatencyMetric
  readonly weights: ScoreWeights
  readonly seed: number
  /** How often this model was routed by this strategy before: `round_robin` starts one place further each time. */
  readonly turn: number
  /** The 32 bits that `sticky` hashes. */
  readonly sticky: number
}

/**
 * `order`: places in the list of candidates, the best first. `keys`: what the places were compared by, parallel to the
 * given places; lower is better. The caller owns them.
 */
export interface Ranking {
  readonly order: readonly number[]
  readonly keys: number[] | null
}

/**
 * Orders the candidates at these places (ascending). Ties keep the order of the catalogue, except where load is spread.
 */
export const rank = (places: readonly number[], input: RankInput): Ranking => {
  const keys = KEYS[input.strategy](places, input)
  if (keys === null) return { order: places, keys: null }
  const spreads = input.strategy === 'least_busy' || input.strategy === 'usage_based'
  const ties = spreads ? drawnTies(places, input) : null
  return { order: sorted({ places, keys, ties, tiers: input.tiers }), keys }
}

type Keys = (places: readonly number[], input: RankInput) => number[] | null

const bySignal =
  (key: (signals: Signals, input: RankInput) => number): Keys =>
  (places, input) => {
    const { signals } = frameViewOf(input.entries, input.frame)
    return places.map((place) => key(signals[place]!, input))
  }

/** A candidate without measurements comes first, so that it is measured. */
const UNMEASURED = Number.NEGATIVE_INFINITY

const KEYS: Readonly<Record<Strategy, Keys>> = {
  priority: () => null,
  weighted: (places, { entries, seed }) => {
    const draw = drawing(seed)
    return places.map((place) => exponential(draw(), entries[place]!.weight))
  },
  round_robin: (places, { tiers, turn }) => {
    const keys: number[] = []
    for (let start = 0; start < places.length; ) {
      let end = start + 1
      while (end < places.length && (tiers === null || tiers[places[end]!] === tiers[places[start]!])) end++
      const size = end - start
      for (let at = 0; at < size; at++) keys.push((at - (turn % size) + size) % size)
      start = end
    }
    return keys
  },
  lowest_cost: (places, { projectedNanoUsd }) =>
    places.map((place) => projectedNanoUsd[place] ?? Number.POSITIVE_INFINITY),
  lowest_latency: bySignal(({ ttftMs, e2eMs }, { metric }) =>
    metric === 'ttft' ? (ttftMs ?? e2eMs ?? UNMEASURED) : (e2eMs ?? UNMEASURED),
  ),
  highest_throughput: bySignal(({ tokensPerSecond }) => (tokensPerSecond === null ? UNMEASURED : -tokensPerSecond)),
  least_busy: bySignal(({ inFlight }) => inFlight),
  // A provider that reports no limit counts as far from it.
  usage_based: bySignal(({ headroom }) => -(headroom ?? 1)),
  balanced: (places, { entries, projectedNanoUsd: all, frame, weights, metric }) => {
    const costs = places.length === all.length ? all : costsAt(places, all)
    const keys = ranks(costs, frameViewOf(entries, frame).scores(places, metric), weights)
    for (let i = 0; i < keys.length; i++) keys[i] = -keys[i]!
    return keys
  },
  // Rendezvous hashing: when a candidate comes or goes, only its own requests move.
  sticky: (places, { entries, sticky }) =>
    places.map((place) => {
      const { modelId, weight } = entries[place]!
      return exponential(hashed(modelId, sticky) / 2 ** 32, weight)
    }),
}

const costsAt = (places: readonly number[], all: readonly (number | null)[]) => places.map((place) => all[place]!)

/** Exponential variate: among several, each is the smallest with a probability in proportion to its weight. */
const exponential = (draw: number, weight: number): number =>
  weight > 0 ? -Math.log(1 - draw) / weight : Number.POSITIVE_INFINITY

/** Among equals the lower priority comes first, then the seed decides: load must not pile up on the first name. */
const drawnTies = (places: readonly number[], { entries, seed }: RankInput): number[] => {
  const draw = drawing(seed)
  return places.map((place) => entries[place]!.priority + draw())
}

/**
 * Places are sorted by tiers, then keys, then ties. Keys and ties are parallel to `places`, tiers to the candidates.
 */
interface SortInput {
  readonly places: readonly number[]
  readonly keys: readonly number[]
  readonly ties: readonly number[] | null
  readonly tiers: readonly number[] | null
}

/** Insertion sort: there are few, and mostly in order. Stable. Returns the same list where it is in order. */
const sorted = (input: SortInput): readonly number[] => {
  const { places } = input
  let inOrder = 1
  while (inOrder < places.length && !goesBefore(inOrder, inOrder - 1, input)) inOrder++
  if (inOrder >= places.length) return places
  const at: number[] = []
  for (let i = 0; i < places.length; i++) {
    let j = i
    while (j > 0 && goesBefore(i, at[j - 1]!, input)) {
      at[j] = at[j - 1]!
      j--
    }
    at[j] = i
  }
  for (let i = 0; i < at.length; i++) at[i] = places[at[i]!]!
  return at
}

const goesBefore = (a: number, b: number, { places, keys, ties, tiers }: SortInput): boolean => {
  if (tiers !== null && tiers[places[a]!] !== tiers[places[b]!]) return tiers[places[a]!]! < tiers[places[b]!]!
  if (keys[a] !== keys[b]) return keys[a]! < keys[b]!
  return ties !== null && ties[a]! < ties[b]!
}

/**
 * The ranks that `balanced` compared, by place of all candidates, written into its own list: higher is better, null
 * where none was compared.
 */
export const scoresOf = (count: number, places: readonly number[], keys: number[]): (number | null)[] => {
  if (places.length === count) {
    for (let i = 0; i < count; i++) keys[i] = -keys[i]!
    return keys
  }
  const scores: (number | null)[] = []
  for (let i = 0; i < count; i++) scores.push(null)
  for (let i = 0; i < places.length; i++) scores[places[i]!] = -keys[i]!
  return scores
}

/** Whether places are in the order of the list of candidates. */
export const isAscending = (places: readonly number[]): boolean => {
  for (let i = 1; i < places.length; i++) if (places[i]! < places[i - 1]!) return false
  return true
}

/** Numbers in [0, 1) from a seed (mulberry32). */
export const drawing = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** 32 bits of a text and a number: FNV-1a, then mixed until every bit counts. */
const hashed = (text: string, salt: number): number => {
  let hash = (0x811c9dc5 ^ salt) >>> 0
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
