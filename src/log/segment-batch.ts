// The frames of one turn, before they are in a file: with one write for all of them an append took 1.5 us when it was made. A write for each was not measured
// beside it; when a batch is written, and what that gains, stands in `file-spool.ts`.
import type { SpoolTopic } from './frame.ts'
import type { Counters } from './segments.ts'

export interface Batch {
  buffer: Buffer<ArrayBufferLike>
  bytes: number
  /** Where each frame ends, and its topic. */
  readonly ends: number[]
  readonly topics: SpoolTopic[]
  /** Numbers of the first frame. */
  first: Counters
}

export const emptyBatch = (
  first: Counters,
  buffer: Buffer<ArrayBufferLike> = Buffer.allocUnsafe(64 * 1024),
): Batch => ({
  buffer,
  bytes: 0,
  ends: [],
  topics: [],
  first: { ...first },
})

/** What is left of it without its first `count` frames, which end at `whole`. */
export const restOf = (batch: Batch, count: number, whole: number): Batch => {
  const first = { ...batch.first, record: batch.first.record + count }
  for (const topic of batch.topics.slice(0, count)) first[topic]++
  const rest = emptyBatch(first)
  if (batch.bytes === whole) return rest
  rest.buffer = Buffer.from(batch.buffer.subarray(whole, batch.bytes))
  rest.bytes = batch.bytes - whole
  rest.ends.push(...batch.ends.slice(count).map((end) => end - whole))
  rest.topics.push(...batch.topics.slice(count))
  return rest
}
