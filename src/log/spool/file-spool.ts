// The spool on disk: batches, durability, admission, deletion. Made by `open.ts`.

import { stages } from '../../lib/event-loop/stages.ts'
import { failpoint } from '../../lib/process/failpoints.ts'
import type { TextPieces } from '../../lib/text/text-pieces.ts'
import { type Files, fileErrorCode, nodeFiles } from '../files.ts'
import { RecordRefused } from '../port.ts'
import { isLonger, pageCacheHintsOf, SegmentWriter, type SpoolTopic, segmentPath } from '../segments/segments.ts'
import { Backlog } from './backlog.ts'
import { BALLAST_BYTES, makeBallast, roomOf } from './ballast.ts'
import { type ClaimedSpool, removeSpool } from './directory.ts'
import { GroupSync } from './group-sync.ts'
import type { LocalSpool, SpoolOptions, SpoolStatus } from './open.ts'
import type { OpenAdmission } from './open-admissions.ts'
import { SpoolWaiter } from './pending-record.ts'
import { type Appended, REFUSABLE, SpoolClosed } from './port.ts'
import { markOf, recoverSpool, segmentMarks, watermarkOf } from './recovery.ts'
import { Unshipped } from './unshipped.ts'

/** A record is at most this long: no broker takes more. */
const MAX_RECORD_BYTES = 64 * 1024
/** A batch this large is written at once instead of at the end of the iteration. */
const MAX_BATCH_BYTES = 1024 * 1024
const REFRESH_MS = 1_000
const MIB = 1024 * 1024
const mib = (bytes: number): number => Math.floor(bytes / MIB)

/** A claimed directory, opened for this process. */
export class FileSpool implements LocalSpool {
  readonly instance: string
  readonly number: number
  readonly directory: string
  readonly openAtStart: readonly OpenAdmission[]
  readonly files: Files
  private readonly writer: SegmentWriter
  private readonly idPrefix: string
  private readonly backlogMarks: Backlog
  private readonly ballast: ReturnType<typeof makeBallast>
  private readonly recovered: ReturnType<typeof recoverSpool>
  private readonly timer: ReturnType<typeof setInterval>
  /** In the batch; written but not synced; written but not shipped. Each in order of records. */
  private pending: SpoolWaiter[] = []
  private readonly sync: GroupSync<SpoolWaiter>
  private readonly unshipped = new Unshipped()
  private scheduled = false
  private closed = false
  private diskProblem: string | null = null
  private backlogProblem: string | null = null
  /** Numbers were passed over, or the newest head is damaged, and no written head states the next numbers yet. */
  private needsHead = false
  private readonly counts: { writeFailures: number; syncFailures: number; rejected: number }

  constructor(
    private readonly claimed: ClaimedSpool,
    /** Distinguishes this start of the process from others. */
    readonly epoch: string,
    /** `durability: 'log'` only where there is a sender. */
    private readonly options: SpoolOptions,
    /** While the records of an earlier process were made durable. */
    refusedSyncs = 0,
  ) {
    this.counts = { writeFailures: 0, syncFailures: refusedSyncs, rejected: 0 }
    const { directory, instance, number } = claimed
    this.instance = instance
    this.number = number
    this.directory = directory
    const { files = nodeFiles } = options
    this.files = files
    this.idPrefix = `${instance}.${this.epoch}.`
    this.recovered = recoverSpool(directory, files)
    this.openAtStart = this.recovered.open.list()
    const { marks, headless } = segmentMarks(directory, files)
    let unmarked = headless
    this.backlogMarks = new Backlog(marks, watermarkOf(directory, options.keeping, files))
    this.ballast = makeBallast(directory, this.ballastBytes, files)
    this.writer = new SegmentWriter({
      directory,
      files,
      instance,
      epoch: this.epoch,
      nowMs: options.nowMs,
      segmentBytes: options.segmentBytes ?? 64 * 1024 * 1024,
      next: this.recovered.next,
      nextOrdinal: this.recovered.nextOrdinal,
      neededFrom: this.recovered.neededFrom,
      keepUnsynced: this.options.durability === 'host',
      pageCache: pageCacheHintsOf(options.keeping, files),
      carried: () => this.recovered.open.carried(),
      onSegment: (ordinal, header) => {
        this.backlogMarks.began(markOf({ ordinal, path: segmentPath(directory, ordinal), bytes: 0 }, header, unmarked))
        unmarked = []
      },
    })
    this.sync = new GroupSync({
      writer: this.writer,
      onDurable: (waiters) => {
        for (const waiter of waiters) if (waiter.isSettlement) this.recovered.open.note(waiter)
      },
      onFailure: () => this.counts.syncFailures++,
    })
    this.needsHead = this.recovered.needsHead
    this.writeHead()
    this.refresh()
    this.timer = setInterval(() => this.refresh(), REFRESH_MS)
    this.timer.unref()
  }

  get admission(): { readonly open: boolean; readonly reason: string } {
    const reason = this.closed ? 'the spool is closed' : this.problem
    return reason === null ? { open: true, reason: '' } : { open: false, reason }
  }

  private get problem(): string | null {
    return this.sync.problem ?? this.diskProblem ?? this.backlogProblem ?? this.unshipped.problem
  }

  get end(): number {
    return this.writer.next.record
  }

  append(
    topic: SpoolTopic,
    type: string,
    subject: string,
    data: TextPieces,
    of?: Appended | typeof REFUSABLE,
  ): Promise<Appended> {
    if (this.closed || this.sync.isFull || (of === REFUSABLE && this.problem !== null)) {
      const lacks = (this.sync.problem ?? this.diskProblem) === null ? 'log' : 'disk'
      return Promise.reject(new SpoolClosed(this.admission.reason, null, null, lacks))
    }
    if (isLonger(data, MAX_RECORD_BYTES) || isLonger(type, 255) || isLonger(subject, 4096)) {
      return Promise.reject(new RecordRefused(`a ${type.slice(0, 64)} is larger than a record may be`))
    }
    const { record } = this.writer.next
    const atMs = this.options.nowMs()
    const sequence = this.writer.add(topic, type, subject, data, atMs)
    const { idPrefix } = this
    const waiter = new SpoolWaiter({ idPrefix, sequence, record, topic, of: this.own(of), type, subject, data, atMs })
    this.pending.push(waiter)
    if (this.writer.pendingBytes >= MAX_BATCH_BYTES) this.flush()
    else if (!this.scheduled) {
      this.scheduled = true
      if (this.options.atEnd === undefined) stages.atEnd(this.endOfIteration)
      else this.options.atEnd(this.endOfIteration)
    }
    return waiter.appended
  }

  /** The admission of another spool is found by the text. */
  private own(of: Appended | typeof REFUSABLE | undefined): number | null | undefined {
    if (of === undefined) return undefined
    if (of === REFUSABLE) return null
    return of.idPrefix === this.idPrefix ? of.sequence : undefined
  }

  backlog(): ReturnType<Backlog['report']> {
    return this.backlogMarks.report(this.writer.next, this.options.nowMs())
  }

  shipped(record: number): void {
    this.backlogMarks.advance({ record })
    this.unshipped.shipped(record)
    this.deleteSegments()
  }

  refresh(): void {
    const { backlogBytes = 8 * 1024 ** 3, keeping, nowMs } = this.options
    try {
      this.diskProblem = this.ballast.ensure() ? null : this.fullDisk()
    } catch (error) {
      this.diskProblem = this.problemOf(error)
    }
    this.counts.rejected += this.unshipped.expire(nowMs())
    this.sync.refresh()
    if (keeping.until === 'projected') {
      this.backlogMarks.advance(watermarkOf(this.directory, keeping, this.files))
      this.deleteSegments()
    }
    if (this.diskProblem === null) this.writeHead()
    const { bytes } = this.backlogMarks.report(this.writer.next, nowMs())
    this.backlogProblem =
      bytes > backlogBytes ? `${bytes} bytes wait to be ${keeping.until}, ${backlogBytes} is the bound` : null
  }

  private problemOf(error: unknown): string {
    const code = fileErrorCode(error)
    if (code === 'ENOSPC') return this.fullDisk()
    return code === 'EDQUOT' ? 'the quota of data.dir is used up (EDQUOT)' : `the disk of data.dir fails (${code})`
  }

  private fullDisk(): string {
    const needed = `${mib(roomOf(this.ballastBytes))} MiB are needed`
    try {
      return `the disk of data.dir is nearly full: ${mib(this.files.freeBytes(this.directory))} MiB are free, ${needed}`
    } catch {
      return `the disk of data.dir is full: ${needed}` // a disk that fails too does not say how full it is
    }
  }

  private get ballastBytes(): number {
    return this.options.ballastBytes ?? BALLAST_BYTES
  }

  status(): SpoolStatus {
    const { damaged, tornBytes, open } = this.recovered
    return {
      number: this.number,
      records: this.writer.next.record,
      ...this.counts,
      openAdmissions: open.size,
      damaged,
      tornBytes,
    }
  }

  async close({ remove = false }: { readonly remove?: boolean } = {}): Promise<void> {
    if (this.closed) return
    this.flush()
    this.closed = true
    clearInterval(this.timer)
    await this.sync.idle()
    this.counts.rejected += this.unshipped.close()
    this.writer.close()
    if (remove) removeSpool(this.claimed, this.files)
    else this.claimed.lock.release()
  }

  private readonly endOfIteration = (): void => {
    this.scheduled = false
    this.flush()
  }

  /**
   * Writes the batch of this iteration and resolves its waiters. When the disk refuses: gives up the ballast, then
   * opens a new segment, then rejects.
   */
  private flush(): void {
    if (this.pending.length === 0) return
    this.backlogMarks.writing({ ...this.writer.first }, this.writer.pendingBytes, this.options.nowMs())
    failpoint('spool_before_write')
    if (!this.tryWrite() && !(this.ballast.release() && this.tryWrite())) {
      this.written(this.writer.leave())
      if (!this.tryWrite()) {
        this.written(this.writer.leave())
        this.writer.drop()
        this.needsHead = true
        this.reject(this.pending.splice(0))
      }
    }
    failpoint('spool_written')
    this.written(this.pending.length)
    this.options.onFlushed?.(this.writer.next.record)
  }

  private tryWrite(): boolean {
    const isWritten = this.tries(() => this.writer.flush())
    if (isWritten) this.needsHead = false
    return isWritten
  }

  /**
   * Numbers that are passed over have no records and no waiters: a new head states where numbering continues. It
   * carries what a damaged head carried.
   */
  private writeHead(): void {
    if (this.needsHead && this.pending.length === 0) this.needsHead = !this.tries(() => this.writer.open())
  }

  private tries(step: () => void): boolean {
    try {
      step()
      return true
    } catch (error) {
      this.counts.writeFailures++
      this.diskProblem = this.problemOf(error)
      return false
    }
  }

  /** The first `count` of the pending records are in the file. */
  private written(count: number): void {
    if (count === 0) return
    const done = count === this.pending.length ? this.pending : this.pending.splice(0, count)
    if (done === this.pending) this.pending = []
    // A settlement that a power cut may still take leaves its admission open.
    const isSafe = this.options.durability !== 'host'
    for (const waiter of done) if (waiter.observed && (isSafe || !waiter.isSettlement)) this.recovered.open.note(waiter)
    if (this.options.durability === 'log') this.unshipped.add(done, this.options.nowMs())
    else if (this.options.durability === 'host') this.sync.add(done)
    else for (const waiter of done) waiter.resolve(waiter)
  }

  private reject(waiters: readonly SpoolWaiter[]): void {
    const reason = this.diskProblem ?? 'the disk of data.dir fails'
    this.counts.rejected += waiters.length
    for (const { reject } of waiters) reject(new SpoolClosed(reason, null, null, 'disk'))
  }

  private deleteSegments(): void {
    const { keeping, nowMs } = this.options
    const retentionMs = keeping.until === 'shipped' ? 0 : keeping.retentionMs
    if (retentionMs === null) return
    const before = keeping.until === 'shipped' ? Number.POSITIVE_INFINITY : nowMs() - retentionMs
    const retainFrom = Math.min(this.options.retainFrom?.() ?? Number.POSITIVE_INFINITY, this.writer.retainedFrom - 1)
    const deletable = this.backlogMarks.takeDeletable(before, retainFrom)
    for (const path of deletable.flatMap((mark) => [...mark.headless, mark.path])) {
      try {
        this.files.remove(path)
      } catch (error) {
        // The next start finds it again; until then it only takes room.
        this.diskProblem ??= `a segment cannot be deleted (${fileErrorCode(error)})`
      }
    }
  }
}
