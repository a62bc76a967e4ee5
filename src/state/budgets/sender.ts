// Appends the records of leases, one batch after the other in each partition: records of a holder must be in the order
// in which they were made.

import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable, type NewRecord } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import type { Batch } from './batch.ts'

const RESEND_MS = 200

export interface SenderDeps {
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  monotonicMs(): number
  /** The next batch; null: there is nothing to write. */
  next(partition: number): Batch | null
  /** The batch is in the log. */
  written(batch: Batch): void
  /** The batch is not in the log, for certain or as far as the process can find out before it ends. */
  failed(batch: Batch): void
}

export class BudgetSender {
  /** Partitions with a write under way or due. */
  readonly #running = new Map<number, Promise<void>>()
  /** Of those, the ones that need another round. */
  readonly #again = new Set<number>()
  readonly #closing = new AbortController()
  /** Since when the log does not take batches (monotonic); null: it does. */
  downSinceMs: number | null = null

  constructor(private readonly deps: SenderDeps) {}

  get closed(): boolean {
    return this.#closing.signal.aborted
  }

  /** Writes after this iteration of the event loop, so that the batch contains all records of it. */
  run(partition: number): void {
    if (this.closed) return
    if (this.#running.has(partition)) {
      this.#again.add(partition)
      return
    }
    const work = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#write(partition))
      .catch((error: unknown) => this.deps.diagnostics.error('budgets_not_written', { partition, error }))
      .finally(() => {
        this.#running.delete(partition)
        if (this.#again.delete(partition)) this.run(partition)
      })
    this.#running.set(partition, work)
  }

  /** Waits for the writes under way, within this time. */
  async close(limitMs: number): Promise<void> {
    const timer = setTimeout(() => this.#closing.abort(), limitMs)
    while (this.#running.size > 0 && !this.closed) await Promise.all(this.#running.values())
    clearTimeout(timer)
    this.#closing.abort()
  }

  async #write(partition: number): Promise<void> {
    while (!this.closed) {
      const batch = this.deps.next(partition)
      if (batch === null) return
      const sentAtMs = this.deps.monotonicMs()
      if (!(await this.#append(partition, batch.records))) {
        this.downSinceMs ??= sentAtMs
        this.deps.failed(batch)
        return
      }
      this.downSinceMs = null
      this.deps.written(batch)
    }
  }

  /**
   * False: certainly not written. An indefinite append is sent again, the same bytes, until it is certain: repeats
   * change nothing.
   */
  async #append(partition: number, records: readonly NewRecord[]): Promise<boolean> {
    const { log, diagnostics, monotonicMs } = this.deps
    const { signal } = this.#closing
    let certain = true
    for (;;) {
      try {
        await log.append(TOPICS.budgets.name, partition, records, signal)
        return true
      } catch (error) {
        if (signal.aborted) return false
        const isAway = error instanceof LogUnavailable
        if (error instanceof IndefiniteAppend) certain = false
        else if (certain || !isAway) {
          if (!isAway) diagnostics.error('budgets_append_refused', { error })
          return false
        }
        this.downSinceMs ??= monotonicMs()
      }
      await sleep(RESEND_MS, signal)
      if (signal.aborted) return false
    }
  }
}
