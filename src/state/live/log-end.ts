// How far the fold is confirmed as the end of the log: requests the end, once for all callers of the same moment, and
// records when the fold had reached a requested end.
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { EventLog } from '../../log/port.ts'
import { CONTROL } from '../fold.ts'

const MAX_UNCONFIRMED = 8
const LAG_TIMES = 3
const LAG_MS = 200

export class LogEnd {
  #asking: Promise<number> | null = null
  #askingNext: Promise<number> | null = null
  /** By the monotonic clock: one that is set does not make the state older or younger. */
  #confirmedAtMs: number
  readonly #unconfirmed: { end: number; askedAtMs: number }[] = []

  constructor(
    readonly log: EventLog,
    readonly monotonicMs: () => number,
    /** How old the state is by now. */
    staleMs = 0,
  ) {
    this.#confirmedAtMs = monotonicMs() - staleMs
  }

  /**
   * The end as of this call: the query is sent after it, shared by all callers that arrive while an earlier one is
   * under way.
   */
  request(): Promise<number> {
    if (this.#asking === null) {
      this.#asking = this.#ask().finally(() => {
        this.#asking = null
      })
      return this.#asking
    }
    this.#askingNext ??= this.#asking
      .catch(() => 0)
      .then(() => {
        this.#askingNext = null
        return this.request()
      })
    return this.#askingNext
  }

  /** The end, requested again when it lies before `next`: a new leader may lag for a moment. */
  async requestFrom(next: number, signal: AbortSignal): Promise<number> {
    let end = await this.request()
    for (let times = 1; end < next && times < LAG_TIMES && !signal.aborted; times++) {
      await sleep(LAG_MS, signal)
      end = await this.request()
    }
    return end
  }

  /** Everything below `next` is folded. */
  folded(next: number): void {
    for (let at = this.#unconfirmed.length - 1; at >= 0; at--) {
      const { end, askedAtMs } = this.#unconfirmed[at]!
      if (end > next) continue
      this.#confirmedAtMs = Math.max(this.#confirmedAtMs, askedAtMs)
      this.#unconfirmed.splice(at, 1)
    }
  }

  /** Milliseconds since the fold was last confirmed to be at the end. */
  staleMs(): number {
    return Math.max(0, this.monotonicMs() - this.#confirmedAtMs)
  }

  async #ask(): Promise<number> {
    const askedAtMs = this.monotonicMs()
    const end = await this.log.end(CONTROL, 0)
    if (this.#unconfirmed.length < MAX_UNCONFIRMED) this.#unconfirmed.push({ end, askedAtMs })
    return end
  }
}
