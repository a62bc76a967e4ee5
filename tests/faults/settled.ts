// The outcomes of an oracle's requests on Kafka, read from the topic itself, so that no read model stands between the
// promise and its proof.
import type { RequestSettled } from '../../src/domain/events/request.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import { kafkaLog } from '../../src/log/kafka/log.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { eventually } from '../services/eventually.ts'
import type { Oracle } from './oracle.ts'

export interface Settled {
  /** Complete for a client and not in the log. */
  readonly lost: number
  /** Requests with more than one outcome, records that repeat an id not counted. */
  readonly doubled: number
  readonly outcomes: number
  /** Records that repeat the id of an earlier one: dropped by the fold. */
  readonly repeats: number
  readonly records: number
  readonly otherTokens: number
  /** Until all was there. */
  readonly tookMs: number
}

/** Of what is in the topic, beside other work: far less than a reader gets through. */
const MOST_READ_PER_MS = 2

/**
 * Waits until everything that the oracle holds complete is in the topic, or the time is up. Call it after
 * `oracle.stop()`.
 */
export const settledInKafka = async (
  brokers: readonly string[],
  oracle: Oracle,
  limitMs = 120_000 + oracle.sent.size / MOST_READ_PER_MS,
): Promise<Settled> => {
  const startedMs = performance.now()
  const log = kafkaLog({ brokers, clientId: 'fault-reader' })
  const byRequest = new Map<string, number>()
  const ids = new Set<string>()
  const found = { records: 0, repeats: 0, otherTokens: 0, complete: 0 }
  const note = (value: Uint8Array | null) => {
    const envelope = value === null ? null : readEnvelope(value)
    if (envelope === null || envelope.type !== 'request.settled') return
    const data = envelope.data as RequestSettled
    const id = data.request_id ?? data.id
    found.records++
    if (ids.has(envelope.id)) {
      found.repeats++
      return
    }
    ids.add(envelope.id)
    if (!oracle.sent.has(id)) return
    const before = byRequest.get(id) ?? 0
    if (before === 0 && oracle.complete.has(id)) found.complete++
    byRequest.set(id, before + 1)
    const tokens = oracle.seen.get(id)?.tokens ?? null
    if (tokens !== null && tokens !== (data.prompt_tokens ?? 0) + (data.completion_tokens ?? 0)) found.otherTokens++
  }
  const stop = new AbortController()
  const partitions = await log.partitions(TOPICS.requests.name)
  const next = partitions.map(() => 0)
  const readers = partitions.map(async (partition, i) => {
    for await (const batch of log.read(TOPICS.requests.name, partition, 0, stop.signal)) {
      for (const { value } of batch) note(value)
      next[i] = (batch.at(-1)?.offset ?? -1) + 1
    }
  })
  const lost = () => oracle.complete.size - found.complete
  await eventually('every outcome is in the topic', () => lost() === 0, { limitMs, everyMs: 200 }).catch(() => {})
  const tookMs = performance.now() - startedMs
  // What is doubled may come after what was missing: everything that is there now is read.
  const ends = await Promise.all(partitions.map((partition) => log.end(TOPICS.requests.name, partition)))
  const isRead = () => partitions.every((_, i) => next[i]! >= ends[i]!)
  await eventually('the rest is read', isRead, { limitMs })
  stop.abort()
  await Promise.all(readers)
  await log.close()
  const doubled = [...byRequest.values()].filter((count) => count > 1).length
  return { lost: lost(), doubled, outcomes: byRequest.size, ...found, tookMs }
}
