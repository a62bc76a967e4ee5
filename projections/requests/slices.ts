// A window in slices, newest first: what no index answers is searched piece by piece, so that what was found is known when the time is up.

export interface Slice {
  /** Unix milliseconds, `toMs` exclusive. */
  readonly fromMs: number
  readonly toMs: number
}

const FIRST_MS = 3_600_000
const LEAST_MS = 60_000
/** What one slice should take: the next is as much wider or narrower as the last one took less or more. */
const WANTED_MS = 60
const MOST_CHANGE = 4

/** Whoever takes the next slice has done with the one before. */
export function* slicesOf(
  { fromMs, toMs }: Slice,
  clock: () => number = () => performance.now(),
): Generator<Slice, void> {
  let width = FIRST_MS
  for (let end = toMs; end > fromMs; ) {
    const slice = { fromMs: Math.max(fromMs, end - width), toMs: end }
    const startedAt = clock()
    yield slice
    const change = WANTED_MS / Math.max(1, clock() - startedAt)
    width = Math.max(LEAST_MS, Math.round(width * Math.min(MOST_CHANGE, Math.max(1 / MOST_CHANGE, change))))
    end = slice.fromMs
  }
}
