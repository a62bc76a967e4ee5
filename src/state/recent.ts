// The last records of the control topic as they came: for `gateway log restore` (ids are digests, so a lost tail that is appended again
// unchanged counts again), and to know at what offset a recent decision stands.
import type { LogRecord } from '../log/port.ts'

/** At most this many records and this many bytes: whichever is reached first. */
export const RECENT_RECORDS = 10_000
export const RECENT_BYTES = 64 * 1024 * 1024

interface Kept {
  readonly record: LogRecord
  /** Id of the decision when it counted, else null. */
  counted: string | null
}

export class RecentRecords {
  readonly #kept = new Map<number, Kept>()
  readonly #offsets = new Map<string, number>()
  #bytes = 0

  add(record: LogRecord, counted: string | null): void {
    this.#kept.set(record.offset, { record, counted })
    this.#bytes += record.value?.length ?? 0
    if (counted !== null) this.#offsets.set(counted, record.offset)
    for (const [offset, oldest] of this.#kept) {
      if (this.#kept.size <= RECENT_RECORDS && this.#bytes <= RECENT_BYTES) break
      this.#kept.delete(offset)
      this.#bytes -= oldest.record.value?.length ?? 0
      if (oldest.counted !== null) this.#offsets.delete(oldest.counted)
    }
  }

  /** The record at that offset turned out to be a decision that counted. */
  counts(id: string, offset: number): void {
    const kept = this.#kept.get(offset)
    if (kept === undefined) return
    kept.counted = id
    this.#offsets.set(id, offset)
  }

  /** Offset of a recent decision that counted. */
  offsetOf(id: string): number | undefined {
    return this.#offsets.get(id)
  }

  /** Oldest first. */
  *records(): IterableIterator<LogRecord> {
    for (const { record } of this.#kept.values()) yield record
  }
}
