// How far the clock of this process is from the log's, which stamps every record when it takes it. Measured from
// records that are read as soon as they are written.

import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { correctWallClock } from '../lib/time/wall-clock.ts'

/** A clock that is at most so far from the log's is right: replies take their time. */
export const CLOCK_TOLERANCE_MS = 2_000
/** What counts as the same distance: the clock of this process is corrected anew beyond it. */
const STEADY_MS = 500
/** A larger distance is reported and not applied: times of another day would do more harm than a wrong clock. */
const MOST_CORRECTED_MS = 86_400_000
/** Of another process's records the smallest distance of so many. */
const OBSERVATIONS = 8

export class LogClock {
  #aheadMs: number | null = null
  #appliedMs = 0
  readonly #received: number[] = []

  /** `apply`: called with what the clock of this process is to be corrected by, when that changes. */
  constructor(readonly apply: (aheadMs: number) => void) {}

  /** How far this clock runs ahead of the log's, milliseconds; negative: behind; null: it is not measured yet. */
  get aheadMs(): number | null {
    return this.#aheadMs
  }

  /**
   * A record of this process: the log took it between the two moments of this clock, so the distance is certain,
   * however long the replies took.
   */
  own(sentAtMs: number, logAtMs: number, receivedAtMs: number): void {
    const [least, most] = [sentAtMs - logAtMs, receivedAtMs - logAtMs]
    this.#measured(least > 0 ? least : Math.min(0, most))
  }

  /**
   * A record of another process, read at the end of the log: the distance is at most this, and a reply's time less. One
   * slow reply is no clock that is ahead, so that takes all observations.
   */
  other(logAtMs: number, receivedAtMs: number): void {
    this.#received.push(receivedAtMs - logAtMs)
    if (this.#received.length > OBSERVATIONS) this.#received.shift()
    const least = Math.min(...this.#received)
    if (least > 0 && this.#received.length < OBSERVATIONS) return
    this.#measured(least)
  }

  #measured(aheadMs: number): void {
    this.#aheadMs = aheadMs
    const distanceMs = Math.abs(aheadMs)
    const correctionMs = distanceMs > CLOCK_TOLERANCE_MS && distanceMs <= MOST_CORRECTED_MS ? aheadMs : 0
    if (correctionMs === this.#appliedMs) return
    if (correctionMs !== 0 && Math.abs(correctionMs - this.#appliedMs) < STEADY_MS) return
    this.#appliedMs = correctionMs
    this.apply(correctionMs)
  }
}

/** What is wrong with a clock, and what to do; null: nothing. `log`: what it is compared with. */
export const clockProblem = (aheadMs: number | null, log: string): string | null => {
  if (aheadMs === null || Math.abs(aheadMs) <= CLOCK_TOLERANCE_MS) return null
  const seconds = Math.round(Math.abs(aheadMs) / 1_000)
  return (
    `the clock of this machine is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} ${log}: ` +
    'set it by NTP (compare with the other machines, whose clock may be the wrong one)'
  )
}

/** What a process does with the distance of its clock: `apply` of its `LogClock`. */
export const correctsWallClock =
  (diagnostics: Diagnostics) =>
  (aheadMs: number): void => {
    correctWallClock(aheadMs)
    if (aheadMs === 0) diagnostics.info('clock_right', {})
    else diagnostics.warn('clock_wrong', { ahead_ms: aheadMs, mend: 'set the clock of this machine by NTP' })
  }
