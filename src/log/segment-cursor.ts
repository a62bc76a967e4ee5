// Reads the segments of one spool directory in order, of this process or another, while they are written.
import { codeOf } from '../lib/error-code.ts'
import { CHUNK_BUFFER_BYTES, ChunkBuffers } from './chunk-buffers.ts'
import { type Files, nodeFiles } from './files.ts'
import { type Frame, headerOf, isWhole, nextFrame, readFrame, type SegmentHeader, type SpoolTopic } from './frame.ts'
import { LogGap, LogReplaced } from './port.ts'
import { copiesOf } from './segment-copies.ts'
import { readSegmentHeader } from './segment-header.ts'
import { type CursorStart, numberFrom, numberIn, pass, raise, segmentOf } from './segment-seek.ts'
import { type Counters, listSegments, segmentPath } from './segments.ts'
import { FrameOfSpool, type SpoolRecord } from './spool-record.ts'

export interface Damage {
  readonly ordinal: number
  readonly position: number
  readonly bytes: Uint8Array
}

export interface CursorOptions {
  readonly directory: string
  /** Only records of this topic are given out; of both when not given. */
  readonly topic?: SpoolTopic
  readonly files?: Files
  /** Records are not used once `next` is called again: the same memory is read into all the time. */
  readonly passing?: boolean
  /** Nor are they here, but as many are given out as there are: where they do not fit one piece of memory, several are in use. */
  readonly recycling?: boolean
  /** Bytes that are neither frames nor the unfinished end of the newest segment. */
  onDamage?(damage: Damage): void
  onCarried?(frame: Frame, header: SegmentHeader): void
}

const CHUNK_BYTES = CHUNK_BUFFER_BYTES / 2

/** One reader of one spool directory. Synchronous: reads at most 256 KiB more from the disk at each step. */
export class SegmentCursor {
  private ordinal: number | null = null
  private descriptor: number | null = null
  private header: SegmentHeader | null = null
  /** Bytes of it are not written twice while records that were given out may read their texts in it. */
  private buffer: Buffer = Buffer.allocUnsafe(0)
  private readonly buffers: ChunkBuffers
  /** Nobody reads texts in it any more. */
  private isFree = true
  /** The bytes at hand are `buffer[at, limit)`; `position` is where `buffer[limit]` stands in the file. */
  private at = 0
  private limit = 0
  private position = 0
  /** Numbers below it were delivered already; those below `dropBelow` were not asked for. */
  private expectedRecord = 0
  private dropBelow = 0
  /** Copies, from a later segment, of records that are lost where the reader stands; they come before what is read next. */
  private ahead: SpoolRecord[] = []
  /** The record in front of which copies were looked for. */
  private soughtBefore = 0
  private epoch: string | null = null
  /** The numbers that come after everything given so far: whoever fills what is missing below them fills no copy that is still to come. */
  readonly ends: Counters = { record: 0, requests: 0, operations: 0 }
  /** Whether the last `next` reached what is written now. */
  atEnd = false
  private readonly files: Files

  constructor(private readonly options: CursorOptions) {
    this.files = options.files ?? nodeFiles
    this.buffers = new ChunkBuffers(options.recycling === true)
  }

  /** Moves to the segment that holds the position. False while the directory has no segment. Throws LogReplaced when the position was deleted. */
  seek(start: CursorStart): boolean {
    this.close()
    if (!this.openAt(start)) return false
    this.expectedRecord = 0
    this.dropBelow = 'record' in start ? start.record : 0
    this.ahead = []
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

  /** When the segment at hand was begun, Unix milliseconds; 0 when its header is damaged. */
  get begunAtMs(): number {
    return this.header?.at_ms ?? 0
  }

  /** The segment that is being read, to be synced by who wants what it reads to be durable; null before `seek` found one. */
  get file(): { readonly descriptor: number; readonly ordinal: number } | null {
    return this.descriptor === null || this.ordinal === null
      ? null
      : { descriptor: this.descriptor, ordinal: this.ordinal }
  }

  /** What comes next, at most `limit` records of one segment, fewer when others lie between; see `atEnd`. Throws LogGap when a segment in the middle is gone. */
  next(limit: number): SpoolRecord[] {
    const { passing = false, recycling = false } = this.options
    this.buffers.recycle()
    const records: SpoolRecord[] = []
    this.atEnd = false
    let others = 0
    while (records.length + others < limit) {
      const copy = this.ahead.shift()
      if (copy !== undefined) {
        pass(this.ends, copy.topic, copy)
        records.push(copy)
        continue
      }
      this.isFree = (passing || recycling) && records.length === 0
      if (passing && records.length > 0 && !isWhole(this.buffer, this.at, this.limit)) break
      const frame = this.frame(records.length === 0)
      if (frame === null) break
      const record = this.recordOf(frame)
      if (record !== null) records.push(record)
      else if (this.isOther(frame)) others++
    }
    return records
  }

  close(): void {
    if (this.descriptor !== null) this.files.close(this.descriptor)
    this.descriptor = null
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
      this.options.onDamage?.({
        ordinal: this.ordinal!,
        position: 0,
        bytes: Buffer.from(this.buffer.subarray(frame.start, frame.end)),
      })
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
   * Records that the disk would not sync are written once more at the head of a later segment, which a power cut may leave whole while it takes them here: they
   * are read there first, or they would be dropped behind what follows. True: the frame, a record or a header whose numbers begin at `to`, comes again after them.
   */
  private isBehindCopies(frame: Frame, header: SegmentHeader, to: number): boolean {
    const from = Math.max(this.expectedRecord, this.dropBelow)
    if (to <= from || to === this.soughtBefore) return false
    this.soughtBefore = to
    const { directory, topic } = this.options
    const copies = copiesOf({ directory, behind: this.ordinal!, header, from, to }, this.files)
    if (copies.length === 0) return false
    this.expectedRecord = copies.at(-1)!.record + 1
    this.ahead = topic === undefined ? copies : copies.filter((copy) => copy.topic === topic)
    this.at = frame.start
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

  /** The next whole frame; null at the end, and at the end of a segment when it may not go on to the following one. */
  private frame(goOn: boolean): Frame | null {
    while (this.descriptor !== null && this.ordinal !== null) {
      const frame = this.frameHere(false)
      if (frame !== null) return frame
      // The writer ends a segment before it begins the next one, so what is there now is all there will be.
      if (!this.successor(this.ordinal)) {
        this.atEnd = true
        return null
      }
      const last = this.frameHere(true)
      if (last !== null || !goOn) return last
      this.open(this.ordinal + 1)
    }
    return null
  }

  private openAt(start: CursorStart): boolean {
    for (let tries = 1; ; tries++) {
      try {
        const ordinal = segmentOf(this.options.directory, start, this.files)
        if (ordinal === null) return false
        this.open(ordinal)
        return true
      } catch (error) {
        // Its writer may delete the oldest segments meanwhile; not three times in a row.
        if (codeOf(error) !== 'ENOENT' || tries === 3) throw error
      }
    }
  }

  private successor(ordinal: number): boolean {
    const { directory } = this.options
    const follows = () => this.files.size(segmentPath(directory, ordinal + 1)) !== null
    if (follows()) return true
    const later = listSegments(directory, this.files).find((segment) => segment.ordinal > ordinal)
    // Listed again: the next one may have been made in between.
    if (later === undefined || follows()) return later !== undefined
    throw new LogGap(`${directory}: segment ${ordinal + 1} is missing, ${later.ordinal} is there`)
  }

  /** The next frame of this segment. `ended`: nothing will be added to it, so what is no frame is damage. */
  private frameHere(ended: boolean): Frame | null {
    for (;;) {
      const found = readFrame(this.buffer, this.at, this.limit)
      if (typeof found === 'object') {
        this.at = found.end
        return found
      }
      if (this.fill()) continue
      if (this.at === this.limit) return null
      const later = nextFrame(this.buffer, this.at, this.limit)
      if (later === null && !ended) return null
      this.damaged(later?.start ?? this.limit)
      if (later === null) return null
    }
  }

  private damaged(end: number): void {
    const position = this.position - (this.limit - this.at)
    this.options.onDamage?.({
      ordinal: this.ordinal!,
      position,
      bytes: Buffer.from(this.buffer.subarray(this.at, end)),
    })
    this.at = end
  }

  /** Reads on; false at the end of the file. */
  private fill(): boolean {
    if (this.limit === this.buffer.length) {
      const left = this.limit - this.at
      const isRoomy = this.isFree && 2 * left <= this.buffer.length
      const buffer = isRoomy ? this.buffer : this.buffers.another(2 * left, this.buffer)
      this.buffer.copy(buffer, 0, this.at, this.limit)
      this.buffer = buffer
      this.limit = left
      this.at = 0
    }
    const count = this.files.read(
      this.descriptor!,
      this.buffer,
      this.limit,
      Math.min(CHUNK_BYTES, this.buffer.length - this.limit),
      this.position,
    )
    this.limit += count
    this.position += count
    return count > 0
  }

  private open(ordinal: number): void {
    const path = segmentPath(this.options.directory, ordinal)
    const descriptor = this.files.open(path)
    if (this.descriptor !== null) this.files.close(this.descriptor)
    this.descriptor = descriptor
    this.ordinal = ordinal
    this.header = readSegmentHeader(path, this.files)
    if (!this.isFree || this.buffer.length === 0) this.buffer = this.buffers.another(0, this.buffer)
    this.at = 0
    this.limit = 0
    this.position = 0
  }
}
