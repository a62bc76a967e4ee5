// Group commit of a spool whose records count once a power cut cannot take them (`log.durability: host`): one sync
// covers many records (`bench -- tricks`, sync).
import { failpoint } from '../../lib/process/failpoints.ts'
import { fileErrorCode } from '../files.ts'
import type { SegmentWriter } from '../segments/segments.ts'
import { type Appended, appendedOnly, SpoolClosed } from './port.ts'

export interface SyncWaiter extends Appended {
  resolve(appended: Appended): void
  reject(error: Error): void
}

export interface GroupSyncDeps<Waiter extends SyncWaiter> {
  readonly writer: SegmentWriter
  /**
   * These waiters, all whose records were in the file when the sync began, are durable, also those that were rejected
   * when an earlier sync failed. Called before they are resolved.
   */
  onDurable(waiters: readonly Waiter[]): void
  onFailure(): void
}

/** A failed sync is retried at every refresh of the spool, then at every second one, and so on up to this. */
const MOST_REFRESHES = 32
/** Nothing is admitted while so many bytes could not be made durable. */
const MOST_UNSYNCED_BYTES = 64 * 1024 * 1024

/**
 * While one fdatasync runs the next records gather, and the next one covers them all. When the disk refuses twice the
 * waiters are rejected, but their records are not given up: they are written again, into another segment, until they
 * are durable. Until then nothing is admitted.
 */
export class GroupSync<Waiter extends SyncWaiter> {
  /** Written, not synced. */
  #waiting: Waiter[] = []
  /** Rejected; still to be made durable. */
  #late: { readonly waiter: Waiter; readonly durable: PromiseWithResolvers<void> }[] = []
  #running: Promise<void> | null = null
  #problem: string | null = null
  #refreshes = 0
  #nextTry = 0

  constructor(private readonly deps: GroupSyncDeps<Waiter>) {}

  /** Why nothing is to be admitted, or null. */
  get problem(): string | null {
    return this.#problem
  }

  get isFull(): boolean {
    return this.#problem !== null && this.deps.writer.unsyncedBytes > MOST_UNSYNCED_BYTES
  }

  /** Their records are in the file. Each waiter is resolved or rejected. */
  add(waiters: readonly Waiter[]): void {
    this.#waiting.push(...waiters)
    this.#running ??= this.#run()
  }

  /** Called regularly: retries failed syncs. */
  refresh(): void {
    if (this.#problem === null || this.#running !== null || ++this.#refreshes < this.#nextTry) return
    this.#nextTry = Math.min(2 * this.#nextTry, MOST_REFRESHES)
    this.#refreshes = 0
    this.#running = this.#run()
  }

  async idle(): Promise<void> {
    while (this.#running !== null) await this.#running
  }

  async #run(): Promise<void> {
    do {
      const covered = this.#waiting
      this.#waiting = []
      if (await this.#sync(covered)) this.#durable(covered)
      else this.#refuse([...covered, ...this.#waiting.splice(0)])
    } while (this.#waiting.length > 0)
    this.#running = null
  }

  /**
   * Records of a failed sync are written into another segment, never synced again in place, together with those that
   * came meanwhile: `covered` then holds these too.
   */
  async #sync(covered: Waiter[]): Promise<boolean> {
    const { writer } = this.deps
    for (const again of [true, false]) {
      try {
        if (writer.isAbandoned) writer.rewriteUnsynced()
        covered.push(...this.#waiting.splice(0))
        await writer.sync(() => this.deps.onDurable([...this.#late.map(({ waiter }) => waiter), ...covered]))
        failpoint('spool_synced')
        return true
      } catch (error) {
        this.deps.onFailure()
        this.#problem = `the disk of data.dir fails (${fileErrorCode(error)})`
        writer.abandon()
        if (!again) return false
      }
    }
    return false
  }

  #durable(covered: readonly Waiter[]): void {
    const late = this.#late.splice(0)
    this.#problem = null
    this.#nextTry = 0
    // In the order of their records.
    for (const { durable } of late) durable.resolve()
    for (const waiter of covered) waiter.resolve(waiter)
  }

  #refuse(waiters: readonly Waiter[]): void {
    const reason = this.#problem ?? 'the disk of data.dir fails'
    this.#nextTry = Math.max(1, this.#nextTry)
    for (const waiter of waiters) {
      const durable = Promise.withResolvers<void>()
      this.#late.push({ waiter, durable })
      waiter.reject(new SpoolClosed(reason, appendedOnly(waiter), durable.promise, 'disk'))
    }
  }
}
