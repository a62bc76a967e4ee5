// Follows one partition, assigned by the caller, from a given offset, on a connection of its own. There is no consumer
// group, so nothing to join or to lose.

import { type LogGap, type LogRecord, LogReplaced } from '../port.ts'
import type { Cluster, Leader } from './cluster.ts'
import type { BrokerConnection } from './connection.ts'
import { brokerProblem } from './problems.ts'
import { acceptBatches, takeBatches } from './records.ts'
import {
  CODE,
  EARLIEST,
  FETCH,
  type Fetched,
  fetchRequest,
  LATEST,
  LIST_OFFSETS,
  listOffsetsRequest,
  readFetch,
  readListOffsets,
} from './wire.ts'

export interface Place {
  readonly topic: string
  readonly partition: number
  readonly from: number
}

export interface TopicRule {
  /** Offsets may be missing. */
  readonly compacted: boolean
  /** Nothing is ever removed: a first offset above 0 is a loss. */
  readonly retainedForEver: boolean
}

/** Readers that cannot continue, and since when: for `health()`. */
export type Troubles = Map<object, { readonly sinceMs: number; readonly detail: string }>

/** How long the broker holds a fetch without new records. New ones are returned at once. */
const MAX_WAIT_MS = 500
const FETCH_DEADLINE_MS = MAX_WAIT_MS + 4_500
const CONNECT_MS = 2_000
const MAX_FETCH_BYTES = 1024 * 1024
/** The bytes that are unpacked and returned at once. */
const ENOUGH_BYTES = 1024 * 1024
const MAX_BACKOFF_MS = 1_000

/** One response at a time, fetched on request: a slow consumer delays its own reader only, and nothing is buffered. */
export async function* follow(
  cluster: Cluster,
  place: Place,
  rule: TopicRule,
  troubles: Troubles,
  signal: AbortSignal,
): AsyncGenerator<readonly LogRecord[]> {
  const reader = new PartitionReader(cluster, place, rule)
  const stop = () => reader.close()
  signal.addEventListener('abort', stop)
  let failures = 0
  try {
    while (!signal.aborted) {
      let accepted: Step
      try {
        accepted = await reader.step()
        failures = 0
        troubles.delete(reader)
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof LogReplaced) throw error
        const detail = `${reader.name}: ${error instanceof Error ? error.message : String(error)}`
        troubles.set(reader, { sinceMs: troubles.get(reader)?.sinceMs ?? performance.now(), detail })
        reader.startOver()
        await sleep(Math.min(MAX_BACKOFF_MS, 25 * 2 ** failures++), signal)
        continue
      }
      if (accepted.records.length > 0) yield accepted.records
      if (accepted.gap !== null) throw accepted.gap
    }
  } finally {
    signal.removeEventListener('abort', stop)
    troubles.delete(reader)
    reader.close()
  }
}

interface Step {
  readonly records: readonly LogRecord[]
  readonly gap: LogGap | null
}
const NOTHING: Step = { records: [], gap: null }

class PartitionReader {
  readonly name: string
  private next: number
  private epoch = -1
  private topicId: string | null = null
  private connection: { readonly open: BrokerConnection; readonly to: string } | null = null
  private closed = false
  /** Fetched, not unpacked yet. */
  private rest: Uint8Array | null = null

  constructor(
    private readonly cluster: Cluster,
    private readonly place: Place,
    private readonly rule: TopicRule,
  ) {
    this.next = place.from
    this.name = `${place.topic}/${place.partition}`
  }

  /** One fetch, or a part of one. Throws LogReplaced for good; any other error is retried. */
  async step(): Promise<Step> {
    if (this.rest !== null) return this.accept(this.rest)
    const { topic, partition } = this.place
    const leader = await this.cluster.leader(topic, partition, CONNECT_MS)
    if (this.topicId !== null && this.topicId !== leader.topicId) {
      throw new LogReplaced(`${topic} was deleted and created again while it was read (at offset ${this.next})`)
    }
    this.topicId = leader.topicId
    const connection = await this.connect(leader)
    const query = {
      topicId: leader.topicId,
      partition,
      leaderEpoch: leader.leaderEpoch,
      offset: this.next,
      lastEpoch: this.epoch,
      maxWaitMs: MAX_WAIT_MS,
      maxBytes: MAX_FETCH_BYTES,
    }
    const fetched = readFetch(await connection.request(FETCH, fetchRequest(query), FETCH_DEADLINE_MS))
    this.cluster.responded()
    if (fetched.error === CODE.offsetOutOfRange) return this.outOfRange(connection, leader)
    if (fetched.error !== CODE.none) throw new Error(`the broker refuses a fetch: ${brokerProblem(fetched.error)}`)
    this.requireSame(fetched)
    return this.accept(fetched.records)
  }

  private requireSame({ divergedAt }: Fetched): void {
    if (divergedAt !== null) {
      const other = `epoch ${divergedAt.epoch} ends at offset ${divergedAt.end}`
      throw new LogReplaced(
        `${this.name} lost what was read before offset ${this.next} and was written anew (${other})`,
      )
    }
  }

  private accept(fetched: Uint8Array): Step {
    const { batches, rest } = takeBatches(fetched, ENOUGH_BYTES)
    this.rest = rest
    const start = { next: this.next, epoch: this.epoch }
    const accepted = acceptBatches(batches, start, { compacted: this.rule.compacted, name: this.name })
    this.next = accepted.next
    this.epoch = accepted.epoch
    return accepted
  }

  private async outOfRange(connection: BrokerConnection, leader: Leader): Promise<Step> {
    const earliest = await this.offsetAt(connection, leader, EARLIEST)
    const latest = await this.offsetAt(connection, leader, LATEST)
    // 0 means from the first record that exists: where retention is finite, that is later.
    if (this.next === 0 && this.next < earliest && !this.rule.retainedForEver) {
      this.next = earliest
      return NOTHING
    }
    if (this.next < earliest || this.next > latest) {
      throw new LogReplaced(`${this.name} has offsets ${earliest} to ${latest}, not ${this.next}`)
    }
    // In range after all: the broker does not have the requested epoch any more.
    this.epoch = -1
    return NOTHING
  }

  private async offsetAt(connection: BrokerConnection, leader: Leader, at: number): Promise<number> {
    const body = listOffsetsRequest(this.place.topic, this.place.partition, leader.leaderEpoch, at)
    const { error, offset } = readListOffsets(await connection.request(LIST_OFFSETS, body, CONNECT_MS))
    if (error !== CODE.none) throw new Error(`the broker refuses to state offsets: ${brokerProblem(error)}`)
    return offset
  }

  private async connect({ address }: Leader): Promise<BrokerConnection> {
    const to = `${address.host}:${address.port}`
    if (this.connection?.open.open === true && this.connection.to === to) return this.connection.open
    this.connection?.open.close('another connection takes its place')
    const open = await this.cluster.own(address, CONNECT_MS)
    if (this.closed) open.close('the reader has ended')
    this.connection = { open, to }
    return open
  }

  /** After a failure: queries the leader and connects again. */
  startOver(): void {
    this.rest = null
    this.cluster.forget(this.place.topic)
    this.connection?.open.close('the reader starts over')
    this.connection = null
  }

  close(): void {
    this.closed = true
    this.connection?.open.close('the reader has ended')
  }
}

/** Resolves after the time, or at once when the signal is aborted. */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
