// The control records of a data folder, as `src/state/restore/record-keeper.ts` leaves them: kept in memory, written
// with each decision that is folded, on the platter a second later at most.
import type { LiveChain } from '../../src/state/live-chain.ts'
import type { StoredRecord } from '../../src/state/restore/kept-records.ts'

const SYNCED_MS = 1_000

export class StoredTail {
  #records: (StoredRecord & { readonly writtenAtMs: number })[] = []
  #due = false

  constructor(private readonly nowMs: () => number) {}

  /** As a start reads them. */
  get records(): readonly StoredRecord[] {
    return this.#records
  }

  /** Every decision below it was folded here and stored: no start may forget it. */
  get next(): number {
    return (this.#records.findLast(({ counted }) => counted)?.offset ?? -1) + 1
  }

  /** Stores what that process folds while it is live. */
  follow(live: LiveChain, isAlive: () => boolean): void {
    const store = () => {
      this.#due = false
      if (isAlive() && live.status().phase === 'live') this.#write(live)
    }
    live.watch((step) => {
      if (step.kind !== 'counts' || this.#due) return
      this.#due = true
      queueMicrotask(store)
    })
    void live.ready().then(store, () => {})
  }

  /** What is not on the platter yet is lost. */
  powerCut(): void {
    const syncedMs = this.nowMs() - SYNCED_MS
    this.#records = this.#records.filter(({ writtenAtMs }) => writtenAtMs <= syncedMs)
  }

  #write(live: LiveChain): void {
    const writtenAtMs = this.nowMs()
    for (const record of live.recentRecords((this.#records.at(-1)?.offset ?? -1) + 1))
      this.#records.push({ ...record, writtenAtMs })
  }
}
