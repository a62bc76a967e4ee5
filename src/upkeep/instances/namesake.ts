// Another process that announces itself under this one's name: a data folder was copied. Both spend from the same
// leases, and each start closes those of the other.

/**
 * After so many announcements another process of this name counts as alive: the last ones of the process before this
 * one may arrive late.
 */
const TIMES = 5
const SILENT_MS = 10_000

export class Namesake {
  #epoch = ''
  #times = 0
  #heardAtMs = Number.NEGATIVE_INFINITY

  constructor(readonly monotonicMs: () => number) {}

  /** True: it has just become certain. */
  heard(epoch: string): boolean {
    if (this.#epoch !== epoch) {
      this.#epoch = epoch
      this.#times = 0
    }
    this.#heardAtMs = this.monotonicMs()
    return ++this.#times === TIMES
  }

  get isAlive(): boolean {
    return this.#times >= TIMES && this.monotonicMs() - this.#heardAtMs < SILENT_MS
  }
}
