// Many deadlines on one timer. Why: `bench -- tricks` (deadlines).
import { IndexSet, type IndexSetMember } from '../collections/index-set.ts'

/** Something with a deadline. */
export interface Timed extends IndexSetMember {
  /** Monotonic milliseconds (`performance.now()`). */
  readonly deadlineMs: number
  overdue(): void
}

const SWEEP_MS = 20

/**
 * Deadlines are accurate to 20 ms. The timer runs only while a deadline is listed, and never keeps the process alive.
 */
export class Deadlines {
  readonly #all = new IndexSet<Timed>()
  #timer: ReturnType<typeof setInterval> | null = null

  add(timed: Timed): void {
    this.#all.add(timed)
    if (this.#timer === null) this.#begin()
  }

  #begin(): void {
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS)
    this.#timer.unref()
  }

  delete(timed: Timed): void {
    this.#all.delete(timed)
  }

  #sweep(): void {
    if (this.#all.size === 0) {
      clearInterval(this.#timer!)
      this.#timer = null
      return
    }
    const nowMs = performance.now()
    this.#all.each((timed) => {
      if (nowMs < timed.deadlineMs) return
      this.#all.delete(timed)
      timed.overdue()
    })
  }
}
