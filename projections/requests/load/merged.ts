// Several partitions as one stream, in about the order of log time: rows then go to the right end of every index, and
// sums are of few buckets at once.
import { type EventLog, LogGap, type LogRecord } from '../../../src/log/port.ts'

/** What is to be read of a partition: from the first offset to the one before `end`, which is more than `next`. */
export interface Stretch {
  readonly partition: number
  readonly next: number
  readonly end: number
}

export interface Slice {
  readonly partition: number
  readonly records: readonly LogRecord[]
}

interface Lane {
  readonly partition: number
  readonly end: number
  readonly iterator: AsyncIterator<readonly LogRecord[]>
  next: number
  /** The next records; null when they have to be read. */
  head: readonly LogRecord[] | null
}

/**
 * A slice of the partition that is behind the others, again and again, until all ends are reached or the signal is
 * aborted. May go beyond an end. The records of a slice must not be used once the next is taken.
 */
export async function* merged(
  log: EventLog,
  topic: string,
  stretches: readonly Stretch[],
  signal: AbortSignal,
): AsyncGenerator<Slice> {
  let lanes = stretches.map(({ partition, next, end }): Lane => {
    const iterator = log.read(topic, partition, next, signal, { passing: true })[Symbol.asyncIterator]()
    return { partition, next, end, iterator, head: null }
  })
  while (!signal.aborted) {
    await Promise.all(lanes.filter(({ head }) => head === null).map(readHead))
    lanes = lanes.filter(({ head }) => head !== null)
    const [lane] = lanes.toSorted((a, b) => a.head![0]!.atMs - b.head![0]!.atMs)
    if (lane === undefined) return
    const { partition, head } = lane
    const records = head!
    const from = records[0]!.offset
    if (lane.next > 0 && from !== lane.next)
      throw new LogGap(`${topic}/${partition}: ${from} came after ${lane.next - 1}`)
    lane.next = records.at(-1)!.offset + 1
    lane.head = null
    yield { partition, records }
  }
}

const readHead = async (lane: Lane): Promise<void> => {
  if (lane.next >= lane.end) return
  const { done, value } = await lane.iterator.next()
  if (done !== true) lane.head = value
}
