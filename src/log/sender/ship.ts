// Ships a spool to the log: in order, one batch at a time, at least once. Runs in a worker thread (`worker.ts`); tests
// run it directly.
import { sleep } from '../../lib/event-loop/sleep.ts'
import { failpoint } from '../../lib/process/failpoints.ts'
import { APPEND_LIMITS } from '../append-limits.ts'
import { type Files, nodeFiles } from '../files.ts'
import { type AppendLimits, type EventLog, IndefiniteAppend, LogReplaced, RecordRefused } from '../port.ts'
import { SegmentReader, type SpoolRecord, type SpoolTopic } from '../segments/segments.ts'
import { readWatermark, setAside, writeWatermark } from '../spool/spool.ts'
import { halvesOf, type Shipment, Shipments, type ShipTarget } from './shipments.ts'

// The size of the sender's batches: as much as the log takes, and less for a while after that was too much.

/** How many batches stay small before the log's full size is tried again. */
const SMALL_BATCHES = 256

export class AppendSizes {
  private smallBatches = 0

  constructor(private readonly most: AppendLimits) {}

  get limits(): AppendLimits {
    return this.smallBatches > 0 ? APPEND_LIMITS : this.most
  }

  /** The log has a batch. */
  delivered(): void {
    if (this.smallBatches > 0) this.smallBatches--
  }

  /** Whether it exceeds the current size. */
  isTooMuch(shipment: Shipment): boolean {
    return exceeds(shipment, this.limits)
  }

  /**
   * Whether these may have been too many at once, for the topic or for the time of an append; then the next batches
   * are smaller.
   */
  mayBeTooMuch(shipment: Shipment): boolean {
    const isLarge = exceeds(shipment, APPEND_LIMITS)
    if (isLarge) this.smallBatches = SMALL_BATCHES
    return isLarge
  }
}

/** One record cannot be divided. */
const exceeds = ({ records, bytes }: Shipment, limits: AppendLimits): boolean =>
  records.length > 1 && (records.length > limits.records || bytes > limits.bytes)

export interface ShipProgress {
  readonly directory: string
  /** Every record of the spool below it is in the log (or set aside). */
  readonly record: number
  readonly shipped: number
  /** Batches that were sent again. */
  readonly resent: number
  readonly refused: number
  readonly damagedBytes: number
  /** Age of the newest record shipped when the log took it, milliseconds. */
  readonly lagMs: number
  /** Why the sender makes no progress, or null. */
  readonly problem: string | null
}

export interface ShipOptions {
  readonly directory: string
  readonly log: EventLog
  readonly targets: Readonly<Record<SpoolTopic, ShipTarget>>
  /** Ends when everything is shipped instead of waiting for more: for the spool of a dead process. */
  readonly drain: boolean
  readonly signal: AbortSignal
  readonly nowMs: () => number
  /** Resolves when there may be more, or after a timeout. */
  more(signal: AbortSignal): Promise<void>
  onProgress(progress: ShipProgress): void
  /** Before the same batch is sent again; 100 ms to 5 s, doubled each time, when not given. */
  readonly backoffMs?: (attempt: number) => number
  /**
   * Ships nothing that a power cut could still take from the disk: such outcomes would be shipped twice, and differ.
   * `log.durability: host`.
   */
  readonly afterSync?: boolean
  /**
   * How long a batch waits for more records after one that left nothing behind; 0 when not given. An append costs as
   * much as shipping dozens of records.
   */
  readonly gatherMs?: number
  readonly files?: Files
}

/**
 * While batches gather or follow each other, the watermark is written at this interval: replacing its file costs as
 * much as shipping a hundred records. Readers drop what is sent again after a crash. Where batches gather, progress is
 * reported at the same interval, since a message costs both threads.
 */
const WATERMARK_MS = 250
/** After so many attempts without a response, a shipment that may be too large is halved. */
const WHOLE_TRIES = 3
/**
 * The rest that a batch leaves free of an append to one partition, or its last record would be an append of its own:
 * hardly a record takes more.
 */
const LEFT_BYTES = 64 * 1024
/** So many consecutive refusals have their cause in the log, not in the records: nothing more is set aside. */
const MAX_REFUSALS_IN_A_ROW = 16

const defaultBackoffMs = (attempt: number): number => Math.min(5_000, 100 * 2 ** Math.min(attempt, 6))

/**
 * Ships from the persisted watermark on. Resolves true when drained, false when aborted; never rejects for a failure
 * of the log.
 */
export const shipSpool = async (options: ShipOptions): Promise<boolean> => new Shipper(options).run()

class Shipper {
  private readonly reader: SegmentReader
  private readonly shipments: Shipments
  private readonly sizes: AppendSizes
  private readonly files: Files
  private record: number
  /** Nothing yet: after a failed sender, the log may hold records that it did not report. */
  private reported = -1
  /** The watermark that was written last, and when. */
  private written: number
  private writtenMs = 0
  private counts = { shipped: 0, resent: 0, refused: 0, damagedBytes: 0, lagMs: 0 }
  private refusedInARow = 0
  private problem: string | null = null

  constructor(private readonly options: ShipOptions) {
    const { directory, files = nodeFiles } = options
    this.files = files
    this.sizes = new AppendSizes(options.log.limits ?? APPEND_LIMITS)
    this.shipments = new Shipments(options.targets, this.sizes)
    this.record = readWatermark(directory, 'sender', 'spool', files)
    this.written = this.record
    this.reader = new SegmentReader({
      directory,
      files,
      // A batch is delivered before the next one is read.
      recycling: true,
      onDamage: ({ ordinal, position, bytes }) => {
        this.counts.damagedBytes += bytes.length
        setAside(directory, `damaged-${ordinal}-${position}.bin`, bytes, files)
      },
    })
  }

  async run(): Promise<boolean> {
    const { directory, drain, signal, more, gatherMs = 0 } = this.options
    try {
      while (!signal.aborted) {
        if (this.files.size(directory) !== null && this.seek()) break
        if (drain) return true
        await more(signal)
      }
      while (!signal.aborted) {
        const { records, bytes } = this.sizes.limits
        const batch = this.reader.next(records, bytes - LEFT_BYTES, this.load)
        if (batch.length > 0) {
          if (this.options.afterSync === true) await this.files.sync(this.reader.file!.descriptor)
          await this.deliver(batch)
          this.sizes.delivered()
          if (!signal.aborted) this.advance(batch.at(-1)!.record + 1)
          if (gatherMs > 0 && !drain && this.reader.atEnd) {
            if (gatherMs >= WATERMARK_MS) this.saveAndReport()
            await sleep(gatherMs, signal)
          }
          continue
        }
        if (!this.reader.atEnd) continue
        // Numbers without a record, after a failure of the disk.
        if (this.reader.ends.record > this.record) this.advance(this.reader.ends.record)
        this.saveAndReport()
        if (drain) return true
        await more(signal)
      }
      return false
    } finally {
      try {
        this.save()
      } finally {
        // Also where the disk refuses the watermark: the next attempt opens the segment again.
        this.reader.close()
      }
    }
  }

  /**
   * Segments are deleted only once they are shipped: a watermark before the first of them was set back by a power cut.
   */
  private seek(): boolean {
    try {
      return this.reader.seek({ record: this.record })
    } catch (error) {
      if (!(error instanceof LogReplaced)) throw error
      this.record = 0
      return this.reader.seek({ record: 0 })
    }
  }

  private advance(record: number): void {
    const { gatherMs = 0, nowMs } = this.options
    this.record = record
    const isDue = Math.abs(nowMs() - this.writtenMs) >= WATERMARK_MS
    if (isDue) this.save()
    // Where batches gather, no request waits for a report of each; the last one is reported when nothing more is
    // found.
    if (isDue || gatherMs === 0) this.report()
  }

  private saveAndReport(): void {
    this.save()
    if (this.reported !== this.record) this.report()
  }

  private save(): void {
    if (this.written === this.record) return
    writeWatermark(this.options.directory, 'sender', 'spool', this.record, this.files)
    this.written = this.record
    this.writtenMs = this.options.nowMs()
  }

  private report(): void {
    const { directory } = this.options
    this.reported = this.record
    this.options.onProgress({ directory, record: this.record, ...this.counts, problem: this.problem })
  }

  private readonly load = (source: SpoolRecord): number => this.shipments.load(source)

  /**
   * One loaded batch: its partitions in parallel, each in order. Returns when the log has all of it, or when aborted.
   */
  private async deliver(batch: readonly SpoolRecord[]): Promise<void> {
    await Promise.all(
      this.shipments.unload().map(async (shipments) => {
        for (const shipment of shipments) await this.sendUntilTaken(shipment)
      }),
    )
    this.counts.lagMs = this.options.nowMs() - batch.at(-1)!.atMs
  }

  /** Sends the same records until the log has them, or refuses one of them for good. */
  private async sendUntilTaken(shipment: Shipment): Promise<void> {
    // Loaded before the size was reduced.
    if (this.sizes.isTooMuch(shipment)) return this.inHalves(shipment)
    const { log, signal, backoffMs = defaultBackoffMs } = this.options
    for (let attempt = 0; !signal.aborted; attempt++) {
      let isWithoutResponse: boolean
      try {
        failpoint('sender_before_append')
        await log.append(shipment.topic, shipment.partition, shipment.records, signal)
        failpoint('sender_appended')
        this.counts.shipped += shipment.records.length
        this.refusedInARow = 0
        this.problem = null
        return
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof RecordRefused && (await this.refused(shipment, error))) return
        this.counts.resent++
        this.stuck(error instanceof Error ? error.message : String(error))
        isWithoutResponse = error instanceof IndefiniteAppend
      }
      await sleep(backoffMs(attempt), signal)
      if (attempt + 1 >= WHOLE_TRIES && isWithoutResponse && this.sizes.mayBeTooMuch(shipment))
        return this.inHalves(shipment)
    }
  }

  /**
   * Halves a refused shipment of several records, which may only be too large; a single refused record is set aside.
   * False: it stays and is sent again.
   */
  private async refused(shipment: Shipment, error: RecordRefused): Promise<boolean> {
    if (shipment.records.length > 1) {
      this.sizes.mayBeTooMuch(shipment)
      await this.inHalves(shipment)
      return true
    }
    if (this.refusedInARow >= MAX_REFUSALS_IN_A_ROW) return false
    const { source, value } = shipment.records[0]!
    const line = JSON.stringify({
      reason: error.message,
      topic: shipment.topic,
      record: source.record,
      type: source.type,
    })
    const isStored = setAside(
      this.options.directory,
      'refused.jsonl',
      `${line}\n${new TextDecoder().decode(value)}\n`,
      this.files,
    )
    if (!isStored) return false
    this.refusedInARow++
    this.counts.refused++
    return true
  }

  private async inHalves(shipment: Shipment): Promise<void> {
    for (const half of halvesOf(shipment)) await this.sendUntilTaken(half)
  }

  private stuck(problem: string): void {
    if (this.problem === problem) return
    this.problem = problem
    this.report()
  }
}
