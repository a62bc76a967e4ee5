// Records that are lost where they were written first, and repeated at the head of a later segment because the disk
// refused their sync.
import type { Files } from '../files.ts'
import { type Frame, headerOf, MAX_FRAME_BYTES, nextFrame, readFrame, type SegmentHeader } from './frame.ts'
import { readSegmentHeader } from './header.ts'
import { FrameOfSpool, type SpoolRecord } from './record.ts'
import { listSegments } from './writer.ts'

const CHUNK_BYTES = 256 * 1024

export interface Lost {
  readonly directory: string
  /** Only segments after this ordinal are searched. */
  readonly behind: number
  /** Header of the current segment: copies belong to the same process. */
  readonly header: SegmentHeader
  /** The missing record numbers: from `from`, below `to`. */
  readonly from: number
  readonly to: number
}

/** The lost records that later segments hold, in order. Their memory is their own. Throws the error of the disk. */
export const copiesOf = (lost: Lost, files: Files): SpoolRecord[] => {
  const found = new Map<number, SpoolRecord>()
  for (const { ordinal, path } of listSegments(lost.directory, files)) {
    if (ordinal <= lost.behind) continue
    const header = readSegmentHeader(path, files)
    if (header === null) continue
    if (header.epoch !== lost.header.epoch) break
    if (header.record < lost.to) readCopies(path, lost, found, files)
    // Records that were durable when the segment was begun are not repeated in it or after it.
    if ((header.unsynced ?? lost.to) >= lost.to || found.size === lost.to - lost.from) break
  }
  return [...found.values()].sort((a, b) => a.record - b.record)
}

/** Copies are the first records of a segment and in order, so it is read up to the first record that is not lost. */
const readCopies = (path: string, { from, to }: Lost, found: Map<number, SpoolRecord>, files: Files): void => {
  let header: SegmentHeader | null = null
  for (const frame of framesOf(path, files)) {
    if (frame.topic === 'header') header = headerOf(frame) ?? header
    if (frame.topic === 'header' || frame.topic === 'carried') continue
    if (frame.record >= to) return
    if (frame.record >= from && header !== null && !found.has(frame.record))
      found.set(frame.record, new FrameOfSpool(frame, header))
  }
}

/** The whole frames of a file, each in memory of its own. */
function* framesOf(path: string, files: Files): Generator<Frame> {
  const descriptor = files.open(path)
  try {
    let left = Buffer.alloc(0)
    for (let position = 0; ; ) {
      const buffer = Buffer.allocUnsafe(left.length + CHUNK_BYTES)
      left.copy(buffer)
      const count = files.read(descriptor, buffer, left.length, CHUNK_BYTES, position)
      if (count === 0) return
      position += count
      const limit = left.length + count
      let at = 0
      for (;;) {
        const read = readFrame(buffer, at, limit)
        const frame = typeof read === 'object' ? read : nextFrame(buffer, at, limit)
        if (frame === null) break
        at = frame.end
        yield frame
      }
      // A frame may be cut by the end of the read; a longer one is no frame.
      left = buffer.subarray(Math.max(at, limit - MAX_FRAME_BYTES), limit)
    }
  } finally {
    files.close(descriptor)
  }
}
