// A window as buckets of usage: whole days in the middle, hours and minutes at its ends.
import { TIER_MS, type Tier } from './cells.ts'

export interface UsageWindow {
  /** Unix milliseconds, `toMs` exclusive. */
  readonly fromMs: number
  readonly toMs: number
}

/** Buckets of one tier that begin in `[fromMs, toMs)`. */
export interface Piece extends UsageWindow {
  readonly tier: Tier
}

const floorTo = (ms: number, unit: number): number => Math.floor(ms / unit) * unit
const ceilTo = (ms: number, unit: number): number => Math.ceil(ms / unit) * unit

/** The window, rounded outward to whole buckets of a tier. */
export const roundedTo = ({ fromMs, toMs }: UsageWindow, tier: Tier): UsageWindow => ({
  fromMs: floorTo(fromMs, TIER_MS[tier]),
  toMs: ceilTo(toMs, TIER_MS[tier]),
})

/** The bucket of a tier that a part of it lies in. */
export const bucketOf = ({ fromMs }: UsageWindow, tier: Tier): UsageWindow => {
  const startMs = floorTo(fromMs, TIER_MS[tier])
  return { fromMs: startMs, toMs: startMs + TIER_MS[tier] }
}

/** The whole buckets of a tier in a window; empty, where the window begins, when there are none. */
export const innerOf = ({ fromMs, toMs }: UsageWindow, tier: Tier): UsageWindow => {
  const inner = { fromMs: ceilTo(fromMs, TIER_MS[tier]), toMs: floorTo(toMs, TIER_MS[tier]) }
  return inner.fromMs <= inner.toMs ? inner : { fromMs, toMs: fromMs }
}

/**
 * What of a window is no whole bucket of a tier: at its begin and at its end, or all of it when it lies in one bucket.
 */
export const partsOf = (window: UsageWindow, tier: Tier): readonly UsageWindow[] => {
  const { fromMs, toMs } = window
  if (ceilTo(fromMs, TIER_MS[tier]) > floorTo(toMs, TIER_MS[tier])) return fromMs < toMs ? [window] : []
  const inner = innerOf(window, tier)
  return [
    { fromMs, toMs: inner.fromMs },
    { fromMs: inner.toMs, toMs },
  ].filter((part) => part.fromMs < part.toMs)
}

const TIERS: readonly Tier[] = ['minute', 'hour', 'day']

/**
 * As few buckets as can be, of the tiers from `finest` to `coarsest`: together exactly the window, which is rounded to
 * `finest` already.
 */
export const piecesOf = (window: UsageWindow, finest: Tier, coarsest: Tier): readonly Piece[] => {
  const { fromMs, toMs } = window
  if (fromMs >= toMs) return []
  const coarser = TIERS[TIERS.indexOf(finest) + 1]
  if (finest === coarsest || coarser === undefined) return [{ tier: finest, fromMs, toMs }]
  const middle = { fromMs: ceilTo(fromMs, TIER_MS[coarser]), toMs: floorTo(toMs, TIER_MS[coarser]) }
  if (middle.fromMs >= middle.toMs) return [{ tier: finest, fromMs, toMs }]
  return [
    { tier: finest, fromMs, toMs: middle.fromMs },
    ...piecesOf(middle, coarser, coarsest),
    { tier: finest, fromMs: middle.toMs, toMs },
  ].filter((piece) => piece.fromMs < piece.toMs)
}

export const WEEK_MS = 604_800_000
/** 1970-01-05, a Monday. */
const MONDAY_MS = 345_600_000

/** Start of the interval that a time falls in: intervals are counted from midnight UTC, weeks from Monday. */
export const intervalStart = (ms: number, intervalMs: number): number => {
  const origin = intervalMs === WEEK_MS ? MONDAY_MS : 0
  return floorTo(ms - origin, intervalMs) + origin
}

/** The coarsest tier whose buckets never straddle two intervals. */
export const tierWithin = (intervalMs: number): Tier =>
  intervalMs % TIER_MS.day === 0 ? 'day' : intervalMs % TIER_MS.hour === 0 ? 'hour' : 'minute'
