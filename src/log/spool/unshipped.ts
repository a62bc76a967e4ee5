// Callers that wait, under `log.durability: log`, for the log to take a record. The wait has a limit: unreachable
// brokers block no request for ever.
import { type Appended, appendedOnly, SpoolClosed } from './port.ts'

export interface ShipmentWaiter extends Appended {
  readonly record: number
  resolve(appended: Appended): void
  reject(error: Error): void
}

/** The longest wait for the log to take a record; also the age of a record at which admission closes. */
const LIMIT_MS = 5_000

export class Unshipped {
  /** In order of records, which is that of their times. */
  #waiting: { readonly waiter: ShipmentWaiter; readonly sinceMs: number }[] = []
  /** The newest record whose wait was given up, until the log has it. */
  #late: number | null = null

  /** Why nothing is to be admitted, or null. */
  get problem(): string | null {
    return this.#late === null ? null : `the log has not taken what was written ${LIMIT_MS / 1_000} s ago`
  }

  add(waiters: readonly ShipmentWaiter[], nowMs: number): void {
    for (const waiter of waiters) this.#waiting.push({ waiter, sinceMs: nowMs })
  }

  /** The log has every record below `record`. */
  shipped(record: number): void {
    let count = 0
    while (count < this.#waiting.length && this.#waiting[count]!.waiter.record < record) count++
    for (const { waiter } of this.#waiting.splice(0, count)) waiter.resolve(waiter)
    if (this.#late !== null && this.#late < record) this.#late = null
  }

  /**
   * Rejects those that have waited too long. Their records stay, and are shipped when the log is back. Returns how
   * many.
   */
  expire(nowMs: number): number {
    let count = 0
    while (count < this.#waiting.length && nowMs - this.#waiting[count]!.sinceMs >= LIMIT_MS) count++
    if (count > 0) this.#late = this.#waiting[count - 1]!.waiter.record
    return this.#refuse(count, this.problem ?? '')
  }

  /** Rejects all. Returns how many. */
  close(): number {
    return this.#refuse(this.#waiting.length, 'the spool was closed before the log took the record')
  }

  #refuse(count: number, reason: string): number {
    for (const { waiter } of this.#waiting.splice(0, count))
      waiter.reject(new SpoolClosed(reason, appendedOnly(waiter)))
    return count
  }
}
