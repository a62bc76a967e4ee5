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
  /** Its frames have their checksums; nothing is added any more. */
  isSealed: boolean
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
  isSealed: false,
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

/** Gives every frame its checksum. */
export const seal = (batch: Batch): void => {
  if (batch.isSealed) return
  const { buffer, ends } = batch
  for (let at = 0, index = 0; index < ends.length; at = ends[index++]!) sealFrame(buffer, at, ends[index]!)
  batch.isSealed = true
}

/** How many frames of the batch are whole in the file once so many of its bytes are written. */
export const wholeOf = ({ ends }: Batch, written: number): number => {
  let count = 0
  while (count < ends.length && ends[count]! <= written) count++
  return count
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
