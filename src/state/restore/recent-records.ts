// The last records of the control topic in their original bytes: for `gateway log restore` (ids are digests, so a lost
// tail that is appended again unchanged counts again), and for the offset of a recent decision.
import type { LogRecord } from '../../log/port.ts'

/** Bounds of records and of bytes: whichever is reached first. */
export const RECENT_RECORDS = 10_000
export const RECENT_BYTES = 64 * 1024 * 1024

export interface RecentRecord {
  readonly offset: number
  readonly atMs: number
  readonly value: LogRecord['value']
  /** A decision that counted. */
  readonly counted: boolean
}

interface Kept {
  readonly record: LogRecord
  /** Id of the decision when it counted, else null. */
  counted: string | null
}

/** A ring: offsets follow each other, so a record's slot is its offset modulo the size. */
export class RecentRecords {
  readonly #ring: (Kept | undefined)[] = []
  readonly #offsets = new Map<string, number>()
  #oldest = 0
  #next = 0
  #bytes = 0

  add(record: LogRecord, counted: string | null): void {
    const { offset } = record
    if (offset !== this.#next) this.#clear(offset)
    if (offset - this.#oldest === RECENT_RECORDS) this.#dropOldest()
    this.#ring[offset % RECENT_RECORDS] = { record, counted }
    this.#bytes += record.value?.length ?? 0
    this.#next = offset + 1
    if (counted !== null) this.#offsets.set(counted, offset)
    while (this.#bytes > RECENT_BYTES) this.#dropOldest()
  }

  /** The record at that offset is a decision that counted. */
  counts(id: string, offset: number): void {
    const kept = this.#at(offset)
    if (kept === undefined) return
    kept.counted = id
    this.#offsets.set(id, offset)
  }

  /** Offset of a recent decision that counted. */
  offsetOf(id: string): number | undefined {
    return this.#offsets.get(id)
  }

  /** Those from that offset on, oldest first. */
  *records(from = 0): IterableIterator<RecentRecord> {
    for (let offset = Math.max(from, this.#oldest); offset < this.#next; offset++) {
      const kept = this.#at(offset)
      if (kept === undefined) continue
      const { atMs, value } = kept.record
      yield { offset, atMs, value, counted: kept.counted !== null }
    }
  }

  #at(offset: number): Kept | undefined {
    return offset < this.#oldest || offset >= this.#next ? undefined : this.#ring[offset % RECENT_RECORDS]
  }

  #dropOldest(): void {
    const kept = this.#at(this.#oldest)
    this.#ring[this.#oldest % RECENT_RECORDS] = undefined
    this.#oldest += 1
    if (kept === undefined) return
    this.#bytes -= kept.record.value?.length ?? 0
    if (kept.counted !== null) this.#offsets.delete(kept.counted)
  }

  /** The records restart at another offset: at a snapshot's window, or a second reading of it. */
  #clear(offset: number): void {
    this.#ring.length = 0
    this.#offsets.clear()
    this.#bytes = 0
    this.#oldest = this.#next = offset
  }
}
