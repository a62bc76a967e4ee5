// Appends that are asked for together go together: one request for several partitions costs the broker and us little more than for one.
import { appendBound, type ProduceAppend, type ProducedPartition } from './produce.ts'

/** Of several, before they are packed; one that is larger goes alone. They share the time of one append. */
const MOST_BYTES = 508 * 1024
/** Who has less time left does not shorten that of the others: the broker is given as long as the shortest. */
const SIMILAR_MS = 100

export interface WaitingAppend extends ProduceAppend {
  readonly timeoutMs: number
  readonly bound: number
  resolve(error: number): void
  reject(error: unknown): void
}

/** Of those that wait: the first, and what goes with it, which are taken out. None of them of the same partition: a broker takes one batch for each. */
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

/** Gives each its answer. */
export const answerEach = (appends: readonly WaitingAppend[], partitions: readonly ProducedPartition[]): void => {
  for (const append of appends) {
    const found = partitions.find((partition) => isSame(partition, append))
    if (found === undefined) append.reject(new Error('Produce was answered without a partition'))
    else append.resolve(found.error)
  }
}

/** Collects what comes in one turn, and hands it over in groups. A failure of `send` is that of all in the group. */
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
