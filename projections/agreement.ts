// What `gateway verify` compares with: the records of a topic that a read model has applied, sums that show what was
// compared, and what is wrong.
import { type EventLog, LogGap, type LogRecord, LogReplaced } from '../src/log/port.ts'
import type { Transaction } from './database.ts'
import { readOne } from './follow.ts'
import { gather } from './gather.ts'
import type { Build } from './projection.ts'

/** Collects what is wrong, one line each; at most twenty of a kind, then how many more. */
export class Problems {
  readonly #shown: string[] = []
  #found = 0

  constructor(private readonly what: string) {}

  report(problem: string): void {
    this.#found += 1
    if (this.#shown.length < MAX_PROBLEMS_SHOWN) this.#shown.push(problem)
  }

  list(): readonly string[] {
    const more = this.#found - this.#shown.length
    return more > 0 ? [...this.#shown, `and ${more} more differences of ${this.what}`] : this.#shown
  }
}
const MAX_PROBLEMS_SHOWN = 20

export interface OutcomeSums {
  outcomes: number
  promptTokens: number
  completionTokens: number
  costNanoUsd: number
  /** Of each outcome, in whatever order; null where only sums are known. */
  digest: bigint | null
}

export const newSums = (): OutcomeSums => ({
  outcomes: 0,
  promptTokens: 0,
  completionTokens: 0,
  costNanoUsd: 0,
  digest: 0n,
})

export interface Snapshot {
  /** Repeatable read: positions and rows of one moment, whatever a worker does meanwhile. */
  readonly sql: Transaction
  readonly log: EventLog
  readonly signal: AbortSignal
}

export interface Reached {
  readonly partition: number
  readonly next: number
}

export const positionsOf = (sql: Transaction, { model, build }: Build) => sql<Reached[]>`
  select partition, next_offset as next from gatelog.position
    where model = ${model} and build = ${build} order by partition`

const LIMITS = { maxRecords: 5_000, maxBytes: 16 * 1_024 * 1_024, waitMs: 20 }

/**
 * The records of a partition that the topic still has, up to the read model's position. What prevents reading them is
 * reported.
 */
export async function* appliedRecords(
  { log, signal }: Pick<Snapshot, 'log' | 'signal'>,
  topic: string,
  { partition, next }: Reached,
  problems: Problems,
): AsyncGenerator<readonly LogRecord[]> {
  const where = `${topic}/${partition}`
  const end = await log.end(topic, partition)
  if (end < next) problems.report(`${where} ends at ${end}, what was made from it has read up to ${next}`)
  const upTo = Math.min(next, end)
  // A reader of an empty partition would wait for the next record.
  if (upTo === 0 || (await readOne(log, topic, partition, upTo - 1, signal)) === null) return
  const reading = new AbortController()
  try {
    const source = log.read(topic, partition, 0, AbortSignal.any([signal, reading.signal]))
    for await (const batch of gather(source, LIMITS)) {
      const records = batch.filter(({ offset }) => offset < upTo)
      if (records.length > 0) yield records
      if (batch.at(-1)!.offset + 1 >= upTo) return
    }
    signal.throwIfAborted()
  } catch (error) {
    if (!(error instanceof LogGap || error instanceof LogReplaced)) throw error
    problems.report(`${where} cannot be read: ${error.message}`)
  } finally {
    reading.abort()
  }
}
