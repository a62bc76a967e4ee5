// What a start needs of a spool that an earlier process wrote: the next numbers, and the open admissions. Reads the
// last segments only.

import { type Files, nodeFiles } from '../files.ts'
import {
  type Counters,
  claimedEnd,
  endOfWritten,
  FRAME_HEAD_BYTES,
  type Frame,
  headerOf,
  listSegments,
  nextFrame,
  readFrame,
  readSegmentHeader,
  type SegmentFile,
  type SegmentHeader,
  type SpoolTopic,
} from '../segments/segments.ts'
import type { Watermark } from './backlog.ts'
import { furthestWatermark, readWatermark, setAside } from './directory.ts'
import type { SpoolKeeping } from './open.ts'
import { OpenAdmissions } from './open-admissions.ts'
import type { RecordId } from './port.ts'

export interface Recovered {
  readonly next: Counters
  readonly nextOrdinal: number
  readonly open: OpenAdmissions
  /** Runs of bytes in the middle that are no frames, set aside. */
  readonly damaged: number
  /** Bytes cut from the end of the last segment. */
  readonly tornBytes: number
  /** The next numbers do not follow the last record, or the newest head is damaged: a new head has to state them. */
  readonly needsHead: boolean
  /**
   * The first record that was not durable when one of the heads with open admissions was written; null: all were
   * durable.
   */
  readonly neededFrom: number | null
}

interface Scan {
  readonly header: SegmentHeader | null
  readonly frames: readonly Frame[]
  /** Everything that its head carries is readable. */
  readonly isHeadWhole: boolean
  readonly damages: readonly { readonly start: number; readonly end: number }[]
  /** The end of the last whole frame. */
  readonly wholeBytes: number
  readonly bytes: Buffer
}

/**
 * How many records a tail without a whole frame may have held while it was whole: one for each head, and as many as
 * fit where a head is unreadable.
 */
const mostRecordsIn = (tail: Buffer): number => {
  let records = 0
  const written = endOfWritten(tail, 0, tail.length)
  for (let at = 0; written > at && tail.length - at >= FRAME_HEAD_BYTES; ) {
    const end = claimedEnd(tail, at)
    records += end === null ? Math.ceil((written - at) / FRAME_HEAD_BYTES) : 1
    if (end === null) break
    at = end
  }
  return Math.max(1, records)
}

/**
 * Reads one segment whole. Its frames hold numbers and texts, carried ones first; its header is the last readable
 * copy.
 */
const scanSegment = (path: string, files: Files): Scan => {
  const bytes = files.readWhole(path)
  const records: Frame[] = []
  const damages: { start: number; end: number }[] = []
  /** Whole copy of each carried frame, by number. */
  const carried = new Map<number, Frame>()
  let header: SegmentHeader | null = null
  let at = 0
  for (let from = 0; from < bytes.length; ) {
    const read = readFrame(bytes, from, bytes.length)
    const frame = typeof read === 'object' ? read : nextFrame(bytes, from, bytes.length)
    if (frame === null) break
    from = frame.end
    if (frame.start > at) damages.push({ start: at, end: frame.start })
    at = frame.end
    if (frame.topic === 'header') header = headerOf(frame) ?? header
    else if (frame.topic === 'carried') carried.set(header?.copies === 2 ? frame.sequence : carried.size, frame)
    else records.push(frame)
  }
  const inOrder = [...carried].sort(([a], [b]) => a - b).map(([, frame]) => frame)
  const frames = [...inOrder, ...records]
  const isHeadWhole = header !== null && carried.size >= header.carried
  return { header, frames, isHeadWhole, damages, wholeBytes: at, bytes }
}

/** The newest segment whose head is whole, and all after it: together they hold every open admission. */
const lastSegments = (segments: readonly SegmentFile[], files: Files): Scan[] => {
  const scans: Scan[] = []
  for (const segment of [...segments].reverse()) {
    const scan = scanSegment(segment.path, files)
    scans.unshift(scan)
    if (scan.isHeadWhole) break
  }
  return scans
}

/**
 * Reads the records before a head that were not all durable when it was written: settlements that survived, whose
 * admissions it carries, and numbers that it gives to copies of records.
 */
const readBefore = (
  segments: readonly SegmentFile[],
  from: number,
  next: Counters,
  open: OpenAdmissions,
  files: Files,
) => {
  for (const { path } of [...segments].reverse()) {
    const scan = scanSegment(path, files)
    const { header } = scan
    for (const frame of scan.frames) {
      if (frame.topic === 'carried' || frame.topic === 'header') continue
      passed(next, frame.topic, frame)
      if (frame.topic !== 'requests' || frame.type !== 'request.settled') continue
      open.settledBefore(header === null ? '' : recordIdOf(header, frame), frame.data)
    }
    // A segment that begins with this record may be a copy of the end of the previous one.
    if (header !== null && header.record < from) return
  }
}

/**
 * Cuts the torn tail of the last segment, sets damaged bytes aside, and finds the next numbers and the open
 * admissions. The spool must be locked.
 */
export const recoverSpool = (directory: string, files: Files = nodeFiles): Recovered => {
  const segments = listSegments(directory, files)
  const last = segments.at(-1)
  // A consumer that passed a number never reads it again, even where its record was never written or was lost in a
  // power cut.
  const furthest: Counters = {
    record: furthestWatermark(directory, 'spool', files),
    requests: furthestWatermark(directory, 'requests', files),
    operations: furthestWatermark(directory, 'operations', files),
  }
  const next: Counters = { record: 0, requests: 0, operations: 0 }
  const open = new OpenAdmissions()
  if (last === undefined) {
    const needsHead = raise(next, furthest)
    return { next, nextOrdinal: 1, open, damaged: 0, tornBytes: 0, needsHead, neededFrom: null }
  }
  const scans = lastSegments(segments, files)
  const unsyncedFrom = scans.flatMap(({ header }) => header?.unsynced ?? [])
  const neededFrom = unsyncedFrom.length === 0 ? null : Math.min(...unsyncedFrom)
  if (neededFrom !== null) readBefore(segments.slice(0, segments.length - scans.length), neededFrom, next, open, files)
  let damaged = 0
  for (const [index, scan] of scans.entries()) {
    const { ordinal } = segments[segments.length - scans.length + index]!
    for (const { start, end } of scan.damages) {
      damaged++
      setAside(directory, `damaged-${ordinal}-${start}.bin`, scan.bytes.subarray(start, end), files)
    }
    applyScan(scan, next, open)
  }
  open.recovered()
  const tail = scans.at(-1)!
  const torn = tail.bytes.subarray(tail.wholeBytes)
  const tornBytes = torn.length
  if (tornBytes > 0) {
    // Zeros at the end are the end of the log: a power cut leaves them. They are cut off and not set aside.
    const written = torn.subarray(0, endOfWritten(torn, 0, torn.length))
    if (written.length > 0) setAside(directory, `torn-${last.ordinal}-${tail.wholeBytes}.bin`, written, files)
    files.cut(last.path, tail.wholeBytes)
    // A reader may have read the last records before their bytes were damaged: their numbers are not reused.
    const { record, requests, operations } = next
    const more = mostRecordsIn(torn)
    raise(next, { record: record + more, requests: requests + more, operations: operations + more })
  }
  const isNewestWhole = scans.length === 1 && tail.isHeadWhole && tornBytes === 0
  const needsHead = raise(next, furthest) || !isNewestWhole
  return { next, nextOrdinal: last.ordinal + 1, open, damaged, tornBytes, needsHead, neededFrom }
}

const applyScan = (scan: Scan, next: Counters, open: OpenAdmissions): void => {
  const { header } = scan
  if (header !== null) raise(next, header)
  for (const frame of scan.frames) {
    if (frame.topic === 'carried') {
      open.restore(frame)
      continue
    }
    if (frame.topic === 'header') continue
    passed(next, frame.topic, frame)
    if (frame.topic !== 'requests' || header === null) continue
    const recordId = recordIdOf(header, frame)
    if (frame.type === 'request.settled') open.settledBefore(recordId, frame.data)
    else open.observe(frame.type, recordId, frame.subject, frame.atMs, frame.data)
  }
}

const recordIdOf = ({ instance, epoch }: SegmentHeader, { sequence }: Frame): RecordId =>
  `${instance}.${epoch}.${sequence}`

/** Marks the numbers of a record as used. */
const passed = (next: Counters, topic: SpoolTopic, { record, offset }: Frame): void => {
  next.record = Math.max(next.record, record + 1)
  next[topic] = Math.max(next[topic], offset + 1)
}

/** Raises `next` to `to`. Returns whether any number grew. */
const raise = (next: Counters, to: Counters): boolean => {
  const isFurther = to.record > next.record || to.requests > next.requests || to.operations > next.operations
  next.record = Math.max(next.record, to.record)
  next.requests = Math.max(next.requests, to.requests)
  next.operations = Math.max(next.operations, to.operations)
  return isFurther
}

/** The facts about each segment that deletion and backlog need; headers only. */
export interface SegmentMark extends Counters {
  readonly ordinal: number
  readonly path: string
  readonly atMs: number
  readonly bytes: number
  /** It begins with copies of records of the segments before it. */
  readonly repeats: boolean
  /** Segments before it with unreadable headers: they are deleted with it, or a reader would find a gap behind them. */
  readonly headless: readonly string[]
}

export interface SegmentMarks {
  readonly marks: readonly SegmentMark[]
  /** At the end, without a later segment. */
  readonly headless: readonly string[]
}

/** `headless`: segments before it without a readable header. */
export const markOf = (segment: SegmentFile, header: SegmentHeader, headless: readonly string[]): SegmentMark => {
  const { record, requests, operations, at_ms: atMs, unsynced } = header
  // While a sync is under way, a segment begins behind the records that the sync covers.
  return { ...segment, atMs, record, requests, operations, repeats: unsynced === record, headless }
}

export const segmentMarks = (directory: string, files: Files = nodeFiles): SegmentMarks => {
  const marks: SegmentMark[] = []
  let headless: string[] = []
  for (const { ordinal, path, bytes } of listSegments(directory, files)) {
    const header = readSegmentHeader(path, files)
    if (header === null) {
      headless.push(path)
      continue
    }
    marks.push(markOf({ ordinal, path, bytes }, header, headless))
    headless = []
  }
  return { marks, headless }
}

/** The watermark of a spool, from what its consumers wrote. */
export const watermarkOf = (directory: string, keeping: SpoolKeeping, files: Files = nodeFiles): Watermark => {
  if (keeping.until === 'shipped') return { record: readWatermark(directory, 'sender', 'spool', files) }
  const lowest = (topic: SpoolTopic) =>
    Math.min(...keeping.consumers[topic].map((consumer) => readWatermark(directory, consumer, topic, files)))
  return { requests: lowest('requests'), operations: lowest('operations') }
}
