// The frames of one turn, before they are in a file: written at once sixteen of them take 1.0 to 1.1 us each, one by one 2.9 to 3.1 (`bench -- tricks`, batch).
// When a batch is written, and what that gains, stands in `file-spool.ts`.
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
