// Counts what was taken in the last minute, in buckets of a second: never less than was taken in any 60 s, and expired
// within one second more. Why: `docs/decisions/0009-rate-limits.md`. `inference/limits/script.ts` is the same in Lua.

export const BUCKET_MS = 1_000
/**
 * A minute and the current bucket: the oldest counted bucket may have begun up to 61 s ago, so that no window of 60 s
 * is cut short.
 */
export const BUCKETS = 61

/** The bucket of a moment. */
export const bucketOf = (nowMs: number): number => Math.floor(nowMs / BUCKET_MS)

/** Milliseconds until what was taken in a bucket expires. */
export const expiresInMs = (bucket: number, nowMs: number): number =>
  Math.max(0, Math.ceil((bucket + BUCKETS) * BUCKET_MS - nowMs))

export class SlidingWindow {
  readonly #slots = new Float64Array(BUCKETS)
  #total = 0
  #bucket = 0

  /** What counts at the last `advance`. */
  get total(): number {
    return this.#total
  }

  /** Drops expired buckets. A clock that steps back changes nothing. Returns the current bucket. */
  advance(bucket: number): number {
    const steps = bucket - this.#bucket
    if (steps <= 0) return this.#bucket
    if (steps >= BUCKETS) {
      this.#slots.fill(0)
      this.#total = 0
    } else {
      for (let at = this.#bucket + 1; at <= bucket; at++) {
        this.#total -= this.#slots[at % BUCKETS]!
        this.#slots[at % BUCKETS] = 0
      }
    }
    this.#bucket = bucket
    return bucket
  }

  /** Takes an amount in the bucket of the last `advance`. */
  add(amount: number): void {
    this.#slots[this.#bucket % BUCKETS]! += amount
    this.#total += amount
  }

  /** Returns what was taken in a bucket, while it counts; never more than the bucket holds. */
  refund(bucket: number, amount: number): void {
    if (bucket > this.#bucket || bucket <= this.#bucket - BUCKETS) return
    const given = Math.min(amount, this.#slots[bucket % BUCKETS]!)
    this.#slots[bucket % BUCKETS]! -= given
    this.#total -= given
  }

  /** Milliseconds until `amount` more fits below `limit`, if nothing else is taken; null when it never fits. */
  waitMs(amount: number, limit: number, nowMs: number): number | null {
    if (amount > limit) return null
    let total = this.#total
    if (total + amount <= limit) return 0
    for (let bucket = this.#bucket - BUCKETS + 1; bucket < this.#bucket; bucket++) {
      total -= this.#slots[bucket % BUCKETS]!
      if (total + amount <= limit) return expiresInMs(bucket, nowMs)
    }
    return expiresInMs(this.#bucket, nowMs)
  }
}
