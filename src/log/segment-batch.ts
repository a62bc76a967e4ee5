// The frames of one turn, before they are in a file.
import { frameBound, readFrame, type SpoolTopic, writeFrame } from './frame.ts'
import type { Counters } from './segments.ts'
import { KnownTexts } from './shared-data.ts'

export interface Batch {
  /** What texts remember who are spelled in it: of no other batch of this process. */
  readonly name: number
  buffer: Buffer<ArrayBufferLike>
  bytes: number
  /** Where each frame ends, and its topic. */
  readonly ends: number[]
  readonly topics: SpoolTopic[]
  /** Numbers of the first frame. */
  first: Counters
}

let batches = 0

export const emptyBatch = (
  first: Counters,
  buffer: Buffer<ArrayBufferLike> = Buffer.allocUnsafe(64 * 1024),
): Batch => ({
  name: ++batches,
  buffer,
  bytes: 0,
  ends: [],
  topics: [],
  first: { ...first },
})

/** What is left of it without its first `count` frames: what those spelled, the others spell themselves. */
export const restOf = (batch: Batch, count: number): Batch => {
  const first = { ...batch.first, record: batch.first.record + count }
  for (const topic of batch.topics.slice(0, count)) first[topic]++
  const rest = emptyBatch(first)
  const known = new KnownTexts()
  for (let i = 0, at = 0; i < batch.ends.length; at = batch.ends[i++]!) {
    const frame = readFrame(batch.buffer, at, batch.bytes, known)
    if (typeof frame === 'string') throw new Error('a frame that was just written cannot be read')
    if (i < count) continue
    const { type, subject, data } = frame
    const bound = frameBound(type, subject, data)
    if (rest.buffer.length - rest.bytes < bound) rest.buffer = enlarged(rest, bound)
    rest.bytes = writeFrame(rest.buffer, rest.bytes, batch.topics[i]!, frame, type, subject, data)
    rest.ends.push(rest.bytes)
    rest.topics.push(batch.topics[i]!)
  }
  return rest
}

/** Memory for what it holds and so many bytes more. */
export const enlarged = ({ buffer, bytes }: Batch, more: number): Buffer<ArrayBufferLike> => {
  const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, bytes + more))
  buffer.copy(larger, 0, 0, bytes)
  return larger
}
