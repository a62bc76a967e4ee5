// Further calls are a bounded share of traffic: a failing upstream is not overloaded by repeats of the requests that it
// fails.
import { RollingPair } from '../../lib/collections/rolling-pair.ts'

const BUCKETS = 10
const BUCKET_MS = 1_000

/** Bound of the further calls of the last 10 s: this share of the first ones, or this many. */
export interface BudgetRule {
  readonly share: number
  readonly least: number
}

/** Repeats of a call to the same candidate, of each provider. */
export const RETRIES: BudgetRule = { share: 0.2, least: 10 }
/** Calls to another candidate, of the whole process: breakers bound these too, so each request may have one. */
export const FALLBACKS: BudgetRule = { share: 1, least: 200 }

export class RetryBudget {
  readonly #calls = new RollingPair(BUCKETS, BUCKET_MS)

  constructor(readonly rule: BudgetRule) {}

  /** A first call was made. */
  first(nowMs: number): void {
    this.#calls.add(nowMs, 1, 0)
  }

  /** Whether a further call may be made now; counts it when it may. */
  take(nowMs: number): boolean {
    const { share, least } = this.rule
    if (this.#calls.second(nowMs) >= Math.max(least, share * this.#calls.first(nowMs))) return false
    this.#calls.add(nowMs, 0, 1)
    return true
  }
}
