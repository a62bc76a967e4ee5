// The face of the package: what other parts may use (README.md).

export {
  claimedEnd,
  endOfWritten,
  FRAME_HEAD_BYTES,
  type Frame,
  headerOf,
  isLonger,
  nextFrame,
  readFrame,
  type SegmentHeader,
  type SpoolTopic,
} from './frame.ts'
export { type FrameSubject, MOST_READ } from './frame-subject.ts'
export { readSegmentHeader, refuseOtherFormat } from './header.ts'
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
