// The clock of this process, measured by its own announcements: when each was sent, when the log took it, when it came
// back. Where the log has no clock of its own (embedded), its last record shows the time that this clock had then.
import { clockProblem, LogClock } from '../../log/log-clock.ts'
import type { LiveChain } from '../../state/live-chain.ts'

/** Announcements whose sending time is remembered until they are read. */
const MOST_SENT = 64

export interface OwnClockDeps {
  readonly live: Pick<LiveChain, 'logAtMs'>
  /** Gets what is measured; absent: it is only shown. */
  readonly clock?: LogClock
  /** The clock that is measured; absent: the one of the machine. */
  readonly clockMs?: () => number
}

export class OwnClock {
  readonly #clock: LogClock
  readonly #clockMs: () => number
  /** Number of an announcement -> when it was sent. */
  readonly #sent = new Map<number, number>()

  constructor(readonly deps: OwnClockDeps) {
    this.#clock = deps.clock ?? new LogClock(() => {})
    this.#clockMs = deps.clockMs ?? Date.now
  }

  sends(sequence: number): void {
    this.#sent.set(sequence, this.#clockMs())
    this.#sent.delete(sequence - MOST_SENT)
  }

  received(sequence: number, logAtMs: number): void {
    const sentAtMs = this.#sent.get(sequence)
    if (sentAtMs === undefined) return
    this.#sent.delete(sequence)
    this.#clock.own(sentAtMs, logAtMs, this.#clockMs())
  }

  /** How far it runs ahead, whole milliseconds; negative: behind; 0 also while that is not measured. */
  get aheadMs(): number {
    const [aheadMs, ownLogMs] = [this.#clock.aheadMs ?? 0, this.#beforeOwnLogMs]
    return Math.round(Math.abs(ownLogMs) > Math.abs(aheadMs) ? ownLogMs : aheadMs)
  }

  /** What is wrong with it, and what to do; null: nothing. */
  problem(): string | null {
    return clockProblem(this.#clock.aheadMs, 'the brokers') ?? clockProblem(this.#beforeOwnLogMs, 'its own log')
  }

  get #beforeOwnLogMs(): number {
    return Math.min(0, this.#clockMs() - this.deps.live.logAtMs)
  }
}
