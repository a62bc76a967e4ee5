// The blended [0,1] rank of candidates: `balanced` routes by it and `/admin/v1/scores` shows it. Pure.
import type { Signals } from './frame.ts'

/** Weight of each component. Only their proportions matter; all zero counts as all equal. */
export interface ScoreWeights {
  readonly cost: number
  readonly latency: number
  readonly health: number
  readonly priority: number
  readonly feedback: number
}

export const DEFAULT_WEIGHTS: ScoreWeights = { cost: 0.25, latency: 0.25, health: 0.3, priority: 0.1, feedback: 0.1 }

export type LatencyMetric = 'ttft' | 'e2e'

/** The compared values of one candidate. */
export interface Scored {
  /** The cost of one request, or of a million tokens, in any unit that all candidates share; null: no price. */
  readonly cost: number | null
  /** Lower values come first. */
  readonly priority: number
  readonly signals: Signals
}

/** Each from 0 (worst) to 1 (best among those compared). */
export interface ScoreComponents {
  readonly cost: number
  readonly latency: number
  readonly health: number
  readonly priority: number
  readonly feedback: number
}

export interface Score {
  readonly components: ScoreComponents
  /** The weighted mean of the components, 0 to 1. */
  readonly rank: number
}

/** A candidate without observations is neither preferred nor avoided. */
const UNKNOWN = 0.5
/** Differences far below this justify no preference. */
const COST_GRAIN = 1e-9
const LATENCY_GRAIN_MS = 20

/**
 * Scores of the candidates, in their order, compared with each other. Rounded to six digits, so that they can be stored
 * and compared.
 */
export const scores = (
  candidates: readonly Scored[],
  weights: ScoreWeights = DEFAULT_WEIGHTS,
  metric: LatencyMetric = 'ttft',
): Score[] => {
  const best = bestOf(candidates, metric)
  const prepared = preparedScores(candidates, metric)
  const counted = counting(weights)
  const total = totalOf(counted)
  return candidates.map((candidate, i) => {
    const cost = costScore(candidate.cost, best.cost)
    const components = {
      cost,
      latency: prepared.latency[i]!,
      health: prepared.health[i]!,
      priority: prepared.priority[i]!,
      feedback: prepared.feedback[i]!,
    }
    return { components, rank: blended(cost, prepared, i, counted, total) }
  })
}

/**
 * The components that do not depend on what a request costs, each a list in the order of the candidates: computed once
 * for many requests.
 */
export interface PreparedScores {
  readonly latency: Float64Array
  readonly health: Float64Array
  readonly priority: Float64Array
  readonly feedback: Float64Array
}

/** Prepares the scores of candidates that are compared with each other; their `cost` is not used. */
export const preparedScores = (candidates: readonly Scored[], metric: LatencyMetric): PreparedScores => {
  const best = bestOf(candidates, metric)
  return {
    latency: Float64Array.from(candidates, (candidate) => latencyScore(candidate, best, metric)),
    health: Float64Array.from(candidates, healthScore),
    priority: Float64Array.from(candidates, (candidate) => priorityScore(candidate, best)),
    feedback: Float64Array.from(candidates, feedbackScore),
  }
}

/**
 * The ranks alone, as in `scores`: for every request, without an object for each candidate. `costs`: as `Scored.cost`,
 * in the order of the known scores.
 */
export const ranks = (costs: readonly (number | null)[], prepared: PreparedScores, weights: ScoreWeights): number[] => {
  let cheapest = Number.POSITIVE_INFINITY
  for (let i = 0; i < costs.length; i++) if (costs[i] !== null) cheapest = Math.min(cheapest, costs[i]!)
  const counted = counting(weights)
  const total = totalOf(counted)
  const found = new Array<number>(costs.length) // allocated at once: growing it one by one is much slower
  for (let i = 0; i < costs.length; i++) {
    const cost = costScore(costs[i]!, cheapest)
    found[i] = blended(cost, prepared, i, counted, total)
  }
  return found
}

/** The best values among those compared. */
interface Best {
  readonly cost: number
  readonly latencyMs: number
  readonly priority: number
}

const bestOf = (candidates: readonly Scored[], metric: LatencyMetric): Best => {
  let cheapest = Number.POSITIVE_INFINITY
  let fastest = Number.POSITIVE_INFINITY
  let first = Number.POSITIVE_INFINITY
  for (const { cost, priority, signals } of candidates) {
    if (cost !== null) cheapest = Math.min(cheapest, cost)
    fastest = Math.min(fastest, latencyMs(signals, metric) ?? Number.POSITIVE_INFINITY)
    first = Math.min(first, priority)
  }
  return { cost: cheapest, latencyMs: fastest, priority: first }
}

const costScore = (cost: number | null, cheapest: number): number =>
  cost === null ? 0 : cost === cheapest ? 1 : share(cheapest, cost, COST_GRAIN)

const latencyScore = ({ signals }: Scored, best: Best, metric: LatencyMetric): number => {
  const ms = latencyMs(signals, metric)
  return ms === null ? UNKNOWN : share(best.latencyMs, ms, LATENCY_GRAIN_MS)
}

const healthScore = ({ signals }: Scored): number => (signals.breaker === 'open' ? 0 : rounded(signals.health))

/** Score of a priority, by distance and not by ratio: priorities may be zero or negative. */
const priorityScore = ({ priority }: Scored, best: Best): number => rounded(100 / (100 + (priority - best.priority)))

const feedbackScore = ({ signals }: Scored): number =>
  signals.feedback === null ? UNKNOWN : rounded((signals.feedback + 1) / 2)

const latencyMs = ({ ttftMs, e2eMs }: Signals, metric: LatencyMetric): number | null =>
  metric === 'ttft' ? (ttftMs ?? e2eMs) : e2eMs

/** 1 for the best, half for twice as much. */
const share = (best: number, value: number, grain: number): number => rounded((best + grain) / (value + grain))

/** The effective weights: all equal where all are zero. */
const counting = (weights: ScoreWeights): ScoreWeights => (totalOf(weights) > 0 ? weights : EQUAL)

/** The weighted mean of candidate `i`; the order of the sum is fixed, since ranks are recorded. */
const blended = (cost: number, prepared: PreparedScores, i: number, weights: ScoreWeights, total: number): number =>
  rounded(
    (cost * weights.cost +
      prepared.latency[i]! * weights.latency +
      prepared.health[i]! * weights.health +
      prepared.priority[i]! * weights.priority +
      prepared.feedback[i]! * weights.feedback) /
      total,
  )

const totalOf = ({ cost, latency, health, priority, feedback }: ScoreWeights): number =>
  cost + latency + health + priority + feedback

const EQUAL: ScoreWeights = { cost: 1, latency: 1, health: 1, priority: 1, feedback: 1 }

const rounded = (value: number): number => Math.round(Math.min(1, Math.max(0, value)) * 1e6) / 1e6
