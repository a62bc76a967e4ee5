// Reads the segments of one spool directory in order, of this process or another, while they are written.
import { codeOf } from '../../lib/process/error-code.ts'
import { type Files, nodeFiles } from '../files.ts'
import { LogGap, LogReplaced } from '../port.ts'
import { copiesOf } from './copies.ts'
import { type Frame, headerOf, type SegmentHeader, type SpoolTopic } from './frame.ts'
import { SegmentFrames } from './frames.ts'
import { readSegmentHeader } from './header.ts'
import { FrameOfSpool, type SpoolRecord } from './record.ts'
import { numberFrom, numberIn, pass, type ReadStart, raise, segmentOf } from './seek.ts'
import { type Counters, listSegments, segmentPath } from './writer.ts'

export interface Damage {
  readonly ordinal: number
  readonly position: number
  readonly bytes: Uint8Array
}

export interface SegmentReaderOptions {
  readonly directory: string
  /** Only records of this topic are returned; of both when not given. */
  readonly topic?: SpoolTopic
  readonly files?: Files
  /** The caller does not use records after the next call of `next`: their memory is overwritten. */
  readonly passing?: boolean
  /**
   * The caller does not use records after the next call, so their memory is reused. One call still returns as many
   * records as there are: where they do not fit one buffer, several are in use. The caller reads until nothing is
   * left: only at the end does the reader check whether a segment is missing.
   */
  readonly recycling?: boolean
  /** Bytes that are neither frames nor the unfinished end of the newest segment. */
  onDamage?(damage: Damage): void
  onCarried?(frame: Frame, header: SegmentHeader): void
}

/** One reader of one spool directory. Synchronous: reads at most 256 KiB more from the disk at each step. */
export class SegmentReader {
  private ordinal: number | null = null
  private header: SegmentHeader | null = null
  private readonly frames: SegmentFrames
  /** Numbers below it were returned already; those below `dropBelow` were not requested. */
  private expectedRecord = 0
  private dropBelow = 0
  /**
   * Copies, from a later segment, of records that are lost at the reader's position; they are returned before anything
   * else is read.
   */
  private copies: SpoolRecord[] = []
  /** The record before which copies were searched last. */
  private soughtBefore = 0
  private epoch: string | null = null
  /**
   * The numbers after everything returned so far: a caller that fills gaps below them fills none of a copy that is
   * still to come.
   */
  readonly ends: Counters = { record: 0, requests: 0, operations: 0 }
  /** Whether the last `next` reached the end of what is written. */
  atEnd = false
  private readonly files: Files

  constructor(private readonly options: SegmentReaderOptions) {
    this.files = options.files ?? nodeFiles
    this.frames = new SegmentFrames(this.files, options.recycling === true, (position, bytes) =>
      options.onDamage?.({ ordinal: this.ordinal!, position, bytes }),
    )
  }

  /**
   * Moves to the segment that holds the position. False while the directory has no segment. Throws LogReplaced when
   * the position was deleted.
   */
  seek(start: ReadStart): boolean {
    this.close()
    if (!this.openAt(start)) return false
    this.expectedRecord = 0
    this.dropBelow = 'record' in start ? start.record : 0
    this.copies = []
    this.soughtBefore = 0
    this.epoch = null
    const { header } = this
    if (header !== null) {
      this.expectedRecord = header.record
      raise(this.ends, header)
      if (numberFrom(start) !== 0 && numberIn(header, start) > numberFrom(start)) {
        throw new LogReplaced(
          `${this.options.directory} begins at ${numberIn(header, start)}, not ${numberFrom(start)}`,
        )
      }
    }
    return true
  }

  /** When the current segment was begun, Unix milliseconds; 0 when its header is damaged. */
  get begunAtMs(): number {
    return this.header?.at_ms ?? 0
  }

  /**
   * The segment that is being read, for callers that sync it so that what they read is durable; null before `seek`
   * found one.
   */
  get file(): { readonly descriptor: number; readonly ordinal: number } | null {
    const { descriptor } = this.frames
    return descriptor === null || this.ordinal === null ? null : { descriptor, ordinal: this.ordinal }
  }

  /**
   * The next records: at most `limit` of one segment, none more once they hold `bytes`, fewer when other frames lie
   * between; see `atEnd`. `each` is called with a record as it is read, while its bytes are in the CPU cache, and
   * returns as how many bytes it counts; its results are void where this throws. Throws LogGap when a segment in the
   * middle is missing.
   */
  next(limit: number, bytes = Number.POSITIVE_INFINITY, each?: (record: SpoolRecord) => number): SpoolRecord[] {
    const { passing = false, recycling = false } = this.options
    this.frames.recycle()
    const records: SpoolRecord[] = []
    this.atEnd = false
    let others = 0
    let loadedBytes = 0
    const take = (record: SpoolRecord) => {
      loadedBytes += each?.(record) ?? record.dataBytes
      records.push(record)
    }
    while (records.length + others < limit && loadedBytes < bytes) {
      const copy = this.copies.shift()
      if (copy !== undefined) {
        pass(this.ends, copy.topic, copy)
        take(copy)
        continue
      }
      this.frames.isFree = (passing || recycling) && records.length === 0
      if (passing && records.length > 0 && !this.frames.isNextAtHand) break
      const frame = this.frame(records.length === 0)
      if (frame === null) break
      const record = this.recordOf(frame)
      if (record !== null) take(record)
      else if (this.isOther(frame)) others++
    }
    return records
  }

  close(): void {
    this.frames.close()
    this.ordinal = null
  }

  private isOther({ topic }: Frame): boolean {
    return this.options.topic !== undefined && topic !== this.options.topic
  }

  private recordOf(frame: Frame): SpoolRecord | null {
    if (frame.topic === 'header') {
      const header = headerOf(frame)
      if (header !== null && !this.isBehindCopies(frame, header, header.record)) this.begin(header)
      return null
    }
    const { header } = this
    if (header === null) {
      this.options.onDamage?.({ ordinal: this.ordinal!, position: 0, bytes: this.frames.bytesOf(frame) })
      return null
    }
    if (frame.topic === 'carried') {
      this.options.onCarried?.(frame, header)
      return null
    }
    if (this.isBehindCopies(frame, header, frame.record)) return null
    pass(this.ends, frame.topic, frame)
    if (frame.record < this.expectedRecord) return null
    this.expectedRecord = frame.record + 1
    return frame.record < this.dropBelow || this.isOther(frame) ? null : new FrameOfSpool(frame, header)
  }

  /**
   * Records whose sync the disk refused are repeated at the head of a later segment. A power cut may leave that
   * segment whole and take the originals: the copies are then returned first, or they would be dropped behind what
   * follows. True: the frame, a record or a header whose numbers begin at `to`, is read again after them.
   */
  private isBehindCopies(frame: Frame, header: SegmentHeader, to: number): boolean {
    const from = Math.max(this.expectedRecord, this.dropBelow)
    if (to <= from || to === this.soughtBefore) return false
    this.soughtBefore = to
    const { directory, topic } = this.options
    const copies = copiesOf({ directory, behind: this.ordinal!, header, from, to }, this.files)
    if (copies.length === 0) return false
    this.expectedRecord = copies.at(-1)!.record + 1
    this.copies = topic === undefined ? copies : copies.filter((copy) => copy.topic === topic)
    this.frames.rewind(frame)
    return true
  }

  private begin(header: SegmentHeader): void {
    // Within one epoch a rewritten segment repeats records. A new process never goes back.
    if (this.epoch !== null && header.epoch !== this.epoch && header.record < this.expectedRecord) {
      throw new LogReplaced(
        `${this.options.directory} goes on at ${header.record}, ${this.expectedRecord} was expected`,
      )
    }
    this.header = header
    this.epoch = header.epoch
    raise(this.ends, header)
  }

  /** The next whole frame; null at the end, and at the end of a segment unless `goOn`. */
  private frame(goOn: boolean): Frame | null {
    while (this.ordinal !== null) {
      const frame = this.frames.next(false)
      if (frame !== null) return frame
      // The writer ends a segment before it begins the next one, so the file is complete.
      if (!this.successor(this.ordinal, goOn || this.options.recycling !== true)) {
        this.atEnd = true
        return null
      }
      const last = this.frames.next(true)
      if (last !== null || !goOn) return last
      this.open(this.ordinal + 1)
    }
    return null
  }

  private openAt(start: ReadStart): boolean {
    for (let tries = 1; ; tries++) {
      try {
        const ordinal = segmentOf(this.options.directory, start, this.files)
        if (ordinal === null) return false
        this.open(ordinal)
        return true
      } catch (error) {
        // Its writer may delete the oldest segments meanwhile, but not three times in a row.
        if (codeOf(error) !== 'ENOENT' || tries === 3) throw error
      }
    }
  }

  /** Whether another segment follows. */
  private successor(ordinal: number, looksForGap: boolean): boolean {
    const { directory } = this.options
    const follows = () => this.files.size(segmentPath(directory, ordinal + 1)) !== null
    if (follows()) return true
    if (!looksForGap) return false
    const later = listSegments(directory, this.files).find((segment) => segment.ordinal > ordinal)
    // Listed again: the next one may have been created in between.
    if (later === undefined || follows()) return later !== undefined
    throw new LogGap(`${directory}: segment ${ordinal + 1} is missing, ${later.ordinal} is there`)
  }

  private open(ordinal: number): void {
    const path = segmentPath(this.options.directory, ordinal)
    this.frames.open(path)
    this.ordinal = ordinal
    this.header = readSegmentHeader(path, this.files)
  }
}
