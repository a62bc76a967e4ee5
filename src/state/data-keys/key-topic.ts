// Follows `gateway.keys.v1` from its beginning, for as long as it is open, and records when the end of its first read
// is reached.

import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { type EventLog, LogDamaged, type LogRecord, LogUnavailable } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import { Condition } from '../condition.ts'
import { MasterKeyMissing } from './master-keys.ts'

const KEYS = TOPICS.keys.name
const FOLLOW_MS = 10_000

export interface KeyTopicDeps {
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  /** With keys from the cache, how long the start waits for a log that does not respond. */
  readonly graceMs?: number
  /** Whether the cache has keys to continue with. */
  readonly hasKeys: () => boolean
  readonly take: (record: LogRecord) => void
  /** Called once, when the records up to the first known end are folded. An error that it throws rejects `ready`. */
  readonly onFolded: () => void
}

export class KeyTopic {
  readonly #ready = Promise.withResolvers<void>()
  readonly #moved = new Condition()
  readonly #closing = new AbortController()
  #next = 0
  #target: number | null = null
  #folded = false
  readonly #work: Promise<unknown>

  constructor(readonly deps: KeyTopicDeps) {
    this.#ready.promise.catch(() => {}) // awaiting `ready()` is optional
    this.#work = Promise.all([this.#run(), this.#grace()])
  }

  get folded(): boolean {
    return this.#folded
  }

  /** Aborted when it is closed. */
  get signal(): AbortSignal {
    return this.#closing.signal
  }

  ready(): Promise<void> {
    return this.#ready.promise
  }

  /** Waits until all records of the present log are folded. */
  async followed(): Promise<void> {
    const end = await this.deps.log.end(KEYS, 0)
    if (await this.#moved.until(() => this.#next >= end, FOLLOW_MS)) return
    throw new LogUnavailable(`${KEYS} could not be read in time`)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#ready.reject(new Error('closed before the data keys were read'))
    await this.#work
  }

  async #run(): Promise<void> {
    const { log, diagnostics, take } = this.deps
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        this.#target ??= await log.end(KEYS, 0)
        this.#reached()
        for await (const batch of log.read(KEYS, 0, this.#next, signal)) {
          for (const record of batch) {
            this.#next = record.offset + 1
            take(record)
          }
          this.#reached()
          this.#moved.notify()
        }
      } catch (error) {
        if (error instanceof MasterKeyMissing || error instanceof LogDamaged) this.#ready.reject(error)
        if (error instanceof MasterKeyMissing) return
        if (!(error instanceof LogUnavailable) && !signal.aborted) diagnostics.warn('data_keys_read_failed', { error })
        await sleep(500, signal)
      }
    }
  }

  #reached(): void {
    if (this.#folded || this.#target === null || this.#next < this.#target) return
    this.#folded = true
    this.deps.onFolded()
    this.#ready.resolve()
  }

  /**
   * With keys from the cache, a log that does not respond does not delay the start. Nor does a topic whose last records
   * were compacted away: its end then never appears as a record.
   */
  async #grace(): Promise<void> {
    const { signal } = this.#closing
    const { graceMs = 2_000, log, diagnostics, hasKeys } = this.deps
    await sleep(graceMs, signal)
    if (this.#target === null && hasKeys()) this.#ready.resolve()
    while (!this.#folded && !signal.aborted) {
      const [before, target] = [this.#next, this.#target]
      await sleep(10_000, signal)
      // A log that has only just become reachable is not read yet.
      if (this.#folded || signal.aborted || target === null || this.#next > before || !log.health().ok) continue
      diagnostics.warn('data_keys_end_not_seen', { next: this.#next, end: target })
      this.#target = this.#next
      try {
        this.#reached()
      } catch (error) {
        this.#ready.reject(error)
      }
    }
  }
}
