// The face of the package: what other parts may use (README.md).

export {
  claimAt,
  endOfWritten,
  FRAME_HEAD_BYTES,
  type Frame,
  headerOf,
  isLonger,
  MOST_PACKED,
  nextFrame,
  readFrame,
  type SegmentHeader,
  type SpoolTopic,
  type StoredFrame,
} from './frame.ts'
export { type FrameSubject, MOST_READ } from './frame-subject.ts'
export { readSegmentHeader, refuseOtherFormat } from './header.ts'
export { framesIn } from './packed-frames.ts'
export { pageCacheHintsOf } from './page-cache-hints.ts'
export { SegmentReader } from './reader.ts'
export type { SpoolRecord } from './record.ts'
export { forgetRefusal, noteRefusal, wasRefused } from './sync-refusal.ts'
export {
  type CarriedFrame,
  type Counters,
  listSegments,
  type SegmentFile,
  SegmentWriter,
  segmentPath,
} from './writer.ts'
