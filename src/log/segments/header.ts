// The head of a segment file.
import { type Files, nodeFiles } from '../files.ts'
import { EarlierRecords } from '../port.ts'
import {
  type Frame,
  type FrameNumbers,
  frameBound,
  headerOf,
  isOfOtherFormat,
  nextFrame,
  readFrame,
  type SegmentHeader,
  writeFrame,
} from './frame.ts'
import type { CarriedFrame } from './writer.ts'

const HEADER_BYTES = 4 * 1024

/** The header of a segment, from whichever of its copies is whole; null when none is. */
export const readSegmentHeader = (path: string, files: Files = nodeFiles): SegmentHeader | null => {
  const frame = firstFrame(path, files)
  return frame === null ? null : headerOf(frame)
}

/** Throws EarlierRecords for a segment of another format: the records in it are those of an earlier build. */
export const refuseOtherFormat = (path: string, files: Files = nodeFiles): void => {
  const frame = firstFrame(path, files)
  if (frame === null || !isOfOtherFormat(frame)) return
  throw new EarlierRecords(
    `${path} holds records of an earlier build, which this one cannot read: remove this spool once that build has ` +
      'shipped all of it; embedded, move spool/ and postgres/ out of the data folder (docs/operations.md, Upgrade)',
  )
}

const firstFrame = (path: string, files: Files): Frame | null => {
  const descriptor = files.open(path)
  try {
    const buffer = Buffer.alloc(HEADER_BYTES)
    const bytes = files.read(descriptor, buffer, 0, buffer.length, 0)
    const first = readFrame(buffer, 0, bytes)
    return typeof first === 'object' ? first : nextFrame(buffer, 0, bytes)
  } finally {
    files.close(descriptor)
  }
}

/**
 * Two copies of the header, then two of the carried frames: a head that is damaged in one place is still complete. An
 * older head would not replace it, since the settlements of the admissions that it carries may be in deleted segments.
 */
export const segmentHead = (header: SegmentHeader, carried: readonly CarriedFrame[]): Buffer => {
  const text = JSON.stringify(header)
  const numbers: FrameNumbers = { record: header.record, offset: 0, sequence: 0, atMs: header.at_ms }
  const bound = carried.reduce(
    (sum, frame) => sum + frameBound(frame.type, frame.subject, frame.data),
    frameBound('', '', text),
  )
  const buffer = Buffer.allocUnsafe(2 * bound)
  let at = writeFrame(buffer, 0, 'header', numbers, { type: '', subject: '', data: text })
  at = writeFrame(buffer, at, 'header', numbers, { type: '', subject: '', data: text })
  const from = at
  for (const [sequence, { type, subject, data }] of carried.entries())
    at = writeFrame(buffer, at, 'carried', { ...numbers, sequence }, { type, subject, data })
  at += buffer.copy(buffer, at, from, at)
  return buffer.subarray(0, at)
}
