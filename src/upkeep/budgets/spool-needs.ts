// From which record on the outcomes of the own spool are needed to compute what was spent of budgets: segments after it
// are kept, even those that all consumers have passed.
import type { LocalSpool } from '../../log/spool/spool.ts'
import { neededFrom, noteNeeded } from './spool-spending.ts'

/** How often the mark is written. */
const NOTE_MS = 10_000

export class SpoolNeeds {
  #spool: Pick<LocalSpool, 'directory' | 'files'> | null = null
  #record = 0
  /** The mark that was written last. */
  #noted = -1
  #notedAtMs = Number.NEGATIVE_INFINITY
  #recovered = false

  constructor(private readonly monotonicMs: () => number) {}

  get record(): number {
    return this.#record
  }

  /** The mark of an earlier process holds until what that process held is released. */
  of(spool: Pick<LocalSpool, 'directory' | 'files'>): void {
    this.#spool = spool
    this.#record = neededFrom(spool)
  }

  /** What dead processes of the spool held is released; not so when the process was stopped meanwhile. */
  recovered(isDone: boolean): void {
    this.#recovered = isDone
  }

  from(record: number): void {
    if (!this.#recovered) return
    this.#record = record
    if (this.monotonicMs() - this.#notedAtMs >= NOTE_MS) this.note()
  }

  /**
   * Writes the mark now: the next start does not read again what was reported. Call it at the end of the process too.
   */
  note(): void {
    if (!this.#recovered || this.#spool === null || this.#record === this.#noted) return
    this.#notedAtMs = this.monotonicMs()
    try {
      noteNeeded(this.#spool, this.#record)
      this.#noted = this.#record
    } catch {
      // The spool reports a disk that is full or fails. The mark that was written before names an earlier record, so
      // only more is kept, until the next time.
    }
  }
}
