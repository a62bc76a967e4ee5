// Two sums over a moving time window, in a fixed number of buckets: no allocation after construction, no timer.

export class RollingPair {
  readonly #first: Float64Array
  readonly #second: Float64Array
  #bucket = 0
  #firstSum = 0
  #secondSum = 0

  /** The window spans `buckets * bucketMs` and expires one bucket at a time. */
  constructor(
    readonly buckets: number,
    readonly bucketMs: number,
  ) {
    this.#first = new Float64Array(buckets)
    this.#second = new Float64Array(buckets)
  }

  /** `nowMs`: of a monotonic clock. */
  add(nowMs: number, first: number, second: number): void {
    this.#forget(nowMs)
    const at = this.#bucket % this.buckets
    this.#first[at]! += first
    this.#second[at]! += second
    this.#firstSum += first
    this.#secondSum += second
  }

  first(nowMs: number): number {
    this.#forget(nowMs)
    return this.#firstSum
  }

  second(nowMs: number): number {
    this.#forget(nowMs)
    return this.#secondSum
  }

  clear(): void {
    this.#first.fill(0)
    this.#second.fill(0)
    this.#firstSum = 0
    this.#secondSum = 0
  }

  #forget(nowMs: number): void {
    const bucket = Math.floor(nowMs / this.bucketMs)
    if (bucket <= this.#bucket) return
    if (bucket - this.#bucket >= this.buckets) this.clear()
    else {
      for (let each = this.#bucket + 1; each <= bucket; each++) {
        const at = each % this.buckets
        this.#firstSum -= this.#first[at]!
        this.#secondSum -= this.#second[at]!
        this.#first[at] = 0
        this.#second[at] = 0
      }
    }
    this.#bucket = bucket
  }
}
