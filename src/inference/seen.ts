// What a frame says of a list of candidates, side by side: looked up and compared once for each list and frame, not for each request. A plan with twenty candidates
// takes 1.6 us in a loop instead of 3.2 (docs/decisions/0055-plans-over-lists.md).
import type { Frame, Signals } from '../state/frame.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { type KnownScores, knownScores, type LatencyMetric } from '../state/scores.ts'
import { healthSkip } from './rejections.ts'

/** Lists are parallel to the candidates. */
export class Seen {
  readonly signals: readonly Signals[]
  /** Why health keeps each from being called now. Null: it keeps nobody. */
  readonly skips: readonly ReturnType<typeof healthSkip>[] | null
  readonly #scores: Partial<Record<LatencyMetric, KnownScores>> = {}

  constructor(
    readonly frame: Frame,
    private readonly entries: readonly CatalogueEntry[],
  ) {
    this.signals = entries.map(({ modelId }) => frame.signals(modelId))
    const skips = this.signals.map(healthSkip)
    this.skips = skips.every((skip) => skip === null) ? null : skips
  }

  /** What these candidates, as ascending places, are ranked by beside their costs, compared with each other. */
  scores(places: readonly number[], metric: LatencyMetric): KnownScores {
    if (places.length < this.entries.length) return this.#scoresOf(places, metric)
    this.#scores[metric] ??= this.#scoresOf(places, metric)
    return this.#scores[metric]
  }

  #scoresOf(places: readonly number[], metric: LatencyMetric): KnownScores {
    const compared = places.map((place) => ({
      cost: null,
      priority: this.entries[place]!.priority,
      signals: this.signals[place]!,
    }))
    return knownScores(compared, metric)
  }
}

/** By list of candidates: what the newest frame says, or a plan that is made again asked of another. */
const newest = new WeakMap<readonly CatalogueEntry[], Seen>()

export const seenOf = (entries: readonly CatalogueEntry[], frame: Frame): Seen => {
  let seen = newest.get(entries)
  if (seen === undefined || seen.frame !== frame) {
    seen = new Seen(frame, entries)
    newest.set(entries, seen)
  }
  return seen
}
