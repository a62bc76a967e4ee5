// A window in slices, newest first: what no index finds is searched piece by piece, so that what was found is known
// when the time is up.

export interface Slice {
  /** Unix milliseconds, `toMs` exclusive. */
  readonly fromMs: number
  readonly toMs: number
}

/** The first slice, and the least: of the busiest gateways a minute holds a hundred thousand rows. */
const LEAST_MS = 60_000
const MOST_CHANGE = 8
/** A slice may take so many times longer than wanted: a busy machine must not lead to ever more and smaller slices. */
const PATIENCE = 2

/**
 * A caller that takes the next slice has finished the one before. Each is as much wider or narrower as the last one
 * took less or more than `wantedMs`.
 */
export function* slicesOf(
  { fromMs, toMs }: Slice,
  wantedMs: number,
  clock: () => number = () => performance.now(),
): Generator<Slice, void> {
  let width = LEAST_MS
  for (let end = toMs; end > fromMs; ) {
    const slice = { fromMs: Math.max(fromMs, end - width), toMs: end }
    const startedAt = clock()
    yield slice
    const tookMs = Math.max(1, clock() - startedAt)
    const change = tookMs > wantedMs && tookMs < PATIENCE * wantedMs ? 1 : wantedMs / tookMs
    width = Math.max(LEAST_MS, Math.round(width * Math.min(MOST_CHANGE, Math.max(1 / MOST_CHANGE, change))))
    end = slice.fromMs
  }
}
