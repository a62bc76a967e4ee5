// Batches simultaneous appends: one request for several partitions costs the broker and the client little more than
// one for a single partition.
import { appendBound, type ProduceAppend, type ProducedPartition } from './produce.ts'

/** Bound of one request before packing; a larger append goes alone. Its appends share the time of one. */
const MOST_BYTES = 508 * 1024
/** The shortest deadline of a request holds for the whole request, so only appends with similar deadlines share one. */
const SIMILAR_MS = 100

export interface WaitingAppend extends ProduceAppend {
  readonly timeoutMs: number
  readonly bound: number
  resolve(error: number): void
  reject(error: unknown): void
}

/**
 * Takes the first waiting append, and those that can share its request, out of the list. At most one per partition: a
 * broker takes one batch for each.
 */
export const takeTogether = (waiting: WaitingAppend[]): WaitingAppend[] => {
  const taken: WaitingAppend[] = []
  let bytes = 0
  for (const append of waiting) {
    bytes += append.bound
    if (taken.length > 0 && (bytes > MOST_BYTES || taken.some((other) => isApart(other, append)))) break
    taken.push(append)
  }
  waiting.splice(0, taken.length)
  return taken
}

const isSame = (one: Pick<ProduceAppend, 'topic' | 'partition'>, other: Pick<ProduceAppend, 'topic' | 'partition'>) =>
  one.partition === other.partition && one.topic === other.topic

const isApart = (one: WaitingAppend, other: WaitingAppend): boolean =>
  isSame(one, other) || Math.abs(one.timeoutMs - other.timeoutMs) > SIMILAR_MS

/** Settles each append with its result. */
export const settleEach = (appends: readonly WaitingAppend[], partitions: readonly ProducedPartition[]): void => {
  for (const append of appends) {
    const found = partitions.find((partition) => isSame(partition, append))
    if (found === undefined) append.reject(new Error('Produce was answered without a partition'))
    else append.resolve(found.error)
  }
}

/**
 * Collects the appends of one iteration of the event loop, and sends them in groups. A failure of `send` fails the
 * whole group.
 */
export class AppendQueue {
  private waiting: WaitingAppend[] = []

  constructor(private readonly send: (appends: readonly WaitingAppend[]) => Promise<void>) {}

  push(append: ProduceAppend, timeoutMs: number): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.waiting.length === 0) queueMicrotask(() => this.flush())
      this.waiting.push({ ...append, timeoutMs, bound: appendBound(append), resolve, reject })
    })
  }

  private flush(): void {
    const { waiting } = this
    this.waiting = []
    while (waiting.length > 0) {
      const together = takeTogether(waiting)
      this.send(together).catch((error: unknown) => {
        for (const append of together) append.reject(error)
      })
    }
  }
}
