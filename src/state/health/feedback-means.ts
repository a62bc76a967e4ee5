// The mean feedback of each model: that of the read model for the last days, and what this process received since.
// Bounded.

export interface FeedbackSum {
  readonly sum: number
  readonly count: number
}

interface Given {
  readonly modelId: string
  readonly score: number
  readonly atMs: number
}

const KEPT = 10_000

export class FeedbackMeans {
  /** Feedback by request and metric, oldest first: a repeat replaces the earlier one. */
  readonly #given = new Map<string, Given>()
  #base: ReadonlyMap<string, FeedbackSum> = new Map()
  #changed = false

  constructor(readonly kept = KEPT) {}

  /** A repeat of the same request and metric replaces the earlier one. */
  add(request: string, metric: string, given: Given): void {
    const key = `${request} ${metric}`
    this.#given.delete(key)
    if (this.#given.size >= this.kept) this.#given.delete(this.#given.keys().next().value!)
    this.#given.set(key, given)
    this.#changed = true
  }

  /**
   * The sums of the read model; feedback that they contain is no longer counted from here. `untilMs`: their newest
   * feedback.
   */
  rebase(base: ReadonlyMap<string, FeedbackSum>, untilMs: number): void {
    for (const [key, { atMs }] of this.#given) if (atMs <= untilMs) this.#given.delete(key)
    this.#base = base
    this.#changed = true
  }

  /** -1 to 1 by model id; null when nothing has changed since the last call. */
  means(): ReadonlyMap<string, number> | null {
    if (!this.#changed) return null
    this.#changed = false
    const sums = new Map<string, { sum: number; count: number }>()
    for (const [modelId, { sum, count }] of this.#base) sums.set(modelId, { sum, count })
    for (const { modelId, score } of this.#given.values()) {
      const held = sums.get(modelId)
      if (held === undefined) sums.set(modelId, { sum: score, count: 1 })
      else {
        held.sum += score
        held.count += 1
      }
    }
    const means = new Map<string, number>()
    for (const [modelId, { sum, count }] of sums)
      if (count > 0) means.set(modelId, Math.min(1, Math.max(-1, sum / count)))
    return means
  }
}
