// The start position of a reader of a spool, and the numbers that it has passed.
import type { Files } from '../files.ts'
import type { SegmentHeader, SpoolTopic } from './frame.ts'
import { readSegmentHeader } from './header.ts'
import { type Counters, listSegments, type SegmentFile } from './writer.ts'

/** The start: a record of the spool, or an offset of a topic. */
export type ReadStart = { readonly record: number } | { readonly topic: SpoolTopic; readonly offset: number }

/** The number of a segment's first record, in the unit of the start. */
export const numberIn = (header: SegmentHeader, start: ReadStart): number =>
  'record' in start ? header.record : header[start.topic]
export const numberFrom = (start: ReadStart): number => ('record' in start ? start.record : start.offset)

/**
 * The ordinal of the last segment that begins at or below a position; the oldest one when all begin above it; null
 * without segments.
 */
export const segmentOf = (directory: string, start: ReadStart, files: Files): number | null => {
  const segments = listSegments(directory, files)
  let low = 0
  let high = segments.length - 1
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    // A segment without a header has no known numbers: the one before it is safe, as records below the position are
    // dropped.
    const header = readSegmentHeader(segments[middle]!.path, files)
    if (header !== null && numberIn(header, start) <= numberFrom(start)) low = middle
    else high = middle - 1
  }
  return segments[beforeCopies(segments, low, files)]?.ordinal ?? null
}

/**
 * A segment that begins with copies of unsynced records may be torn, while the records themselves survived in those
 * before it.
 */
const beforeCopies = (segments: readonly SegmentFile[], at: number, files: Files): number => {
  let first = at
  let from = segments[at] === undefined ? undefined : readSegmentHeader(segments[at].path, files)?.unsynced
  while (from !== undefined && first > 0) {
    const header = readSegmentHeader(segments[--first]!.path, files)
    if (header !== null && header.record < from) break
    from = Math.min(from, header?.unsynced ?? from)
  }
  return first
}

/** Numbers only grow. */
export const raise = (ends: Counters, to: Counters): void => {
  ends.record = Math.max(ends.record, to.record)
  ends.requests = Math.max(ends.requests, to.requests)
  ends.operations = Math.max(ends.operations, to.operations)
}

/** Advances the numbers past a record. */
export const pass = (
  ends: Counters,
  topic: SpoolTopic,
  { record, offset }: { record: number; offset: number },
): void => {
  ends.record = Math.max(ends.record, record + 1)
  ends[topic] = Math.max(ends[topic], offset + 1)
}
