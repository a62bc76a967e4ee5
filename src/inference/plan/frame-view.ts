// What a frame holds of a list of candidates, side by side: looked up and compared once for each list and frame, not
// for each request (docs/decisions/0055-plans-over-lists.md).
import { shallowEqual } from '../../lib/collections/shallow-equal.ts'
import type { Frame, Signals } from '../../state/health/frame.ts'
import { type LatencyMetric, type PreparedScores, preparedScores } from '../../state/health/scores.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { healthSkip } from './rejections.ts'

/** The places that were compared last, and their scores. */
interface Compared {
  readonly places: readonly number[]
  readonly scores: PreparedScores
}

/** Lists are parallel to the candidates. */
export class FrameView {
  readonly signals: readonly Signals[]
  /** Why health excludes each candidate now. Null: it excludes none. */
  readonly skips: readonly ReturnType<typeof healthSkip>[] | null
  readonly #compared: Record<LatencyMetric, Compared | null> = { ttft: null, e2e: null }

  constructor(
    frame: Frame,
    private readonly entries: readonly CatalogueEntry[],
  ) {
    this.signals = entries.map(({ modelId }) => frame.signals(modelId))
    const skips = this.signals.map(healthSkip)
    this.skips = skips.every((skip) => skip === null) ? null : skips
  }

  /**
   * The scores, beside costs, of the candidates at these places, compared with each other. Mostly the same places are
   * compared, those without a rejection.
   */
  scores(places: readonly number[], metric: LatencyMetric): PreparedScores {
    const last = this.#compared[metric]
    return last !== null && shallowEqual(last.places, places) ? last.scores : this.#compare(places, metric)
  }

  #compare(places: readonly number[], metric: LatencyMetric): PreparedScores {
    const compared = places.map((place) => ({
      cost: null,
      priority: this.entries[place]!.priority,
      signals: this.signals[place]!,
    }))
    const scores = preparedScores(compared, metric)
    this.#compared[metric] = { places, scores }
    return scores
  }
}

type ViewsOfFrame = WeakMap<readonly CatalogueEntry[], FrameView>
/**
 * By frame, then by list: a list that is rarely routed must not retain an old frame, which covers thousands of models.
 */
const byFrame = new WeakMap<Frame, ViewsOfFrame>()

export const frameViewOf = (entries: readonly CatalogueEntry[], frame: Frame): FrameView => {
  let views = byFrame.get(frame)
  if (views === undefined) {
    views = new WeakMap()
    byFrame.set(frame, views)
  }
  let view = views.get(entries)
  if (view === undefined) {
    view = new FrameView(frame, entries)
    views.set(entries, view)
  }
  return view
}
