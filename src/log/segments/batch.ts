// The frames of one iteration of the event loop, before they are in a file: one write for all of them costs less than
// one each (`bench -- tricks`, batch). `log/spool/file-spool.ts` decides when a batch is written.
import type { TextPieces } from '../../lib/text/text-pieces.ts'
import { type FrameNumbers, frameBound, type SpoolTopic, sealFrame, writeUnsealed } from './frame.ts'
import type { FrameSubject } from './frame-subject.ts'
import type { Counters } from './writer.ts'

export interface Batch {
  /** Frames without checksums. */
  buffer: Buffer<ArrayBufferLike>
  bytes: number
  /** Of each frame: its end, its topic, its type and subject. */
  readonly ends: number[]
  readonly topics: SpoolTopic[]
  readonly abouts: FrameSubject[]
  /** Numbers of the first frame. */
  first: Counters
  /** The packed bytes that the file gets for the batch; null while frames are added. */
  sealed: Sealed | null
}

/** A batch in the form that is written. */
export interface Sealed {
  readonly buffer: Buffer
  readonly bytes: number
  /** Units that are read whole or not at all: their ends, and how many frames of the batch are in the file by then. */
  readonly ends: readonly number[]
  readonly frames: readonly number[]
}

export const emptyBatch = (
  first: Counters,
  buffer: Buffer<ArrayBufferLike> = Buffer.allocUnsafe(64 * 1024),
): Batch => ({
  buffer,
  bytes: 0,
  ends: [],
  topics: [],
  abouts: [],
  first: { ...first },
  sealed: null,
})

export const addFrame = (
  batch: Batch,
  topic: SpoolTopic,
  numbers: FrameNumbers,
  about: FrameSubject,
  data: TextPieces,
): void => {
  const bound = frameBound(about.type, about.subject, data)
  if (batch.buffer.length - batch.bytes < bound) {
    const larger = Buffer.allocUnsafe(Math.max(batch.buffer.length * 2, batch.bytes + bound))
    batch.buffer.copy(larger, 0, 0, batch.bytes)
    batch.buffer = larger
  }
  batch.bytes = writeUnsealed(batch.buffer, batch.bytes, topic, numbers, about, data)
  batch.ends.push(batch.bytes)
  batch.topics.push(topic)
  batch.abouts.push(about)
}

/** Every frame is a unit. */
export const sealedAsItIs = ({ buffer, bytes, ends }: Batch): Sealed => {
  const frames = new Array<number>(ends.length)
  for (let at = 0, index = 0; index < ends.length; at = ends[index++]!) {
    sealFrame(buffer, at, ends[index]!)
    frames[index] = index + 1
  }
  return { buffer, bytes, ends, frames }
}

/**
 * How much of the batch is in the file once so many of its bytes are written: whole frames, and the bytes that they
 * take.
 */
export const wholeOf = (
  { ends, frames }: Sealed,
  written: number,
): { readonly count: number; readonly bytes: number } => {
  let units = 0
  while (units < ends.length && ends[units]! <= written) units++
  return units === 0 ? { count: 0, bytes: 0 } : { count: frames[units - 1]!, bytes: ends[units - 1]! }
}

/** The batch without its first `count` frames. */
export const restOf = (batch: Batch, count: number): Batch => {
  const whole = count === 0 ? 0 : batch.ends[count - 1]!
  const first = { ...batch.first, record: batch.first.record + count }
  for (const topic of batch.topics.slice(0, count)) first[topic]++
  const rest = emptyBatch(first)
  if (batch.bytes === whole) return rest
  rest.buffer = Buffer.from(batch.buffer.subarray(whole, batch.bytes))
  rest.bytes = batch.bytes - whole
  rest.ends.push(...batch.ends.slice(count).map((end) => end - whole))
  rest.topics.push(...batch.topics.slice(count))
  rest.abouts.push(...batch.abouts.slice(count))
  return rest
}
