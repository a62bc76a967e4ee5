// The log on Kafka. Appends use acks=all, no idempotence and no transactions, and are never retried here: the caller
// repeats, and readers drop repeats.

import { APPEND_LIMITS, appendProblem, PACKED_LIMITS } from '../append-limits.ts'
import { type EventLog, IndefiniteAppend, LogReplaced, LogUnavailable, type NewRecord, RecordRefused } from '../port.ts'
import { TOPICS, type Topic } from '../topics.ts'
import { type Cluster, kafkaCluster } from './cluster.ts'
import type { BrokerConnection, KafkaAccess } from './connection.ts'
import { type Limits, leftMs, requireTime, withDeadline } from './deadline.ts'
import { recordPacker } from './packed-batch.ts'
import { brokerProblem } from './problems.ts'
import { follow, sleep, type TopicRule, type Troubles } from './read.ts'
import { CODE, DENIED, LATEST, LIST_OFFSETS, listOffsetsRequest, readListOffsets } from './wire.ts'

export interface KafkaLogOptions extends KafkaAccess {
  /** `host:port` of at least one broker; it reports the others. */
  readonly brokers: readonly string[]
  /** Rules of the topics: whether offsets may be missing, whether records are retained for ever. */
  readonly topics?: readonly Topic[]
}

/** Time of one append or one query as a whole; without a response by then, the call fails. */
const DEADLINE_MS = 2_000
/** The least time left that is worth a retry. */
const MIN_TRY_MS = 100
const RETRY_MS = 50
const PROBE_MS = 2_000
/** A last response older than this means that the log is unavailable. */
const FRESH_MS = 6_000
/** A reader that fails for longer than this is reported by `health()`. */
const TROUBLE_MS = 3_000

/**
 * Opens nothing by itself except a metadata query every two seconds for `health()`; connections open on use. Each call
 * has connections of its own. Throws at once when `brokers` is not a list of `host:port`.
 */
export const kafkaLog = (options: KafkaLogOptions): EventLog => {
  const cluster = kafkaCluster(options)
  const troubles: Troubles = new Map()
  const closed = new AbortController()
  const rules = new Map((options.topics ?? Object.values(TOPICS)).map((topic) => [topic.name, ruleOf(topic)]))
  const probe = () => {
    if (performance.now() - (cluster.lastResponseMs ?? Number.NEGATIVE_INFINITY) < PROBE_MS) return
    // The cluster stores a failure, for `health()`.
    void cluster.metadata([], PROBE_MS).catch(() => undefined)
  }
  const timer = setInterval(probe, PROBE_MS)
  timer.unref()
  probe()
  const either = new WeakMap<AbortSignal, AbortSignal>()
  /** Made once for each caller: most use one signal for all their appends. */
  const eitherOf = (signal: AbortSignal): AbortSignal => {
    const existing = either.get(signal)
    if (existing !== undefined) return existing
    const made = AbortSignal.any([signal, closed.signal])
    either.set(signal, made)
    return made
  }
  const limits = options.compression === 'lz4' && recordPacker() !== null ? PACKED_LIMITS : APPEND_LIMITS
  return {
    limits,
    async append(topic, partition, records, signal) {
      const problem = appendProblem(records, limits)
      if (problem !== null) throw new RecordRefused(problem)
      signal?.throwIfAborted()
      if (closed.signal.aborted) throw new LogUnavailable('the log is closed')
      await append(cluster, { topic, partition }, records, signal === undefined ? closed.signal : eitherOf(signal))
    },
    read: (topic, partition, from, signal) =>
      follow(
        cluster,
        { topic, partition, from },
        rules.get(topic) ?? UNKNOWN_TOPIC,
        troubles,
        AbortSignal.any([signal, closed.signal]),
      ),
    end: (topic, partition) => offsetAt(cluster, { topic, partition }, LATEST, closed.signal),
    async since(topic, partition, atMs) {
      // Queried first: records that arrive meanwhile are read.
      const end = await offsetAt(cluster, { topic, partition }, LATEST, closed.signal)
      const offset = await offsetAt(cluster, { topic, partition }, Math.max(0, atMs), closed.signal)
      return offset < 0 ? end : offset
    },
    async partitions(topic) {
      const { topics } = await cluster.metadata([topic], DEADLINE_MS)
      const found = topics.find(({ name, error }) => name === topic && error === CODE.none)
      if (found === undefined)
        throw new LogUnavailable(`the topic ${topic} does not exist: run \`gateway topics --init\``)
      return found.partitions.map(({ partition }) => partition).sort((left, right) => left - right)
    },
    health: () => health(cluster, troubles),
    async close() {
      clearInterval(timer)
      closed.abort()
      cluster.close()
    },
  }
}

const ruleOf = (topic: Topic): TopicRule => ({
  compacted: topic.cleanup === 'compact',
  retainedForEver: topic.retentionMs === null,
})
const UNKNOWN_TOPIC: TopicRule = { compacted: false, retainedForEver: false }

interface Target {
  readonly topic: string
  readonly partition: number
}

const append = async (
  cluster: Cluster,
  { topic, partition }: Target,
  records: readonly NewRecord[],
  signal: AbortSignal,
): Promise<void> => {
  let sent = false
  const work = (limits: Limits) =>
    retrying(cluster, topic, limits, async () => {
      sent = false
      const leader = await cluster.leader(topic, partition, leftMs(limits))
      const connection = await cluster.shared(leader.address, 'append', leftMs(limits))
      requireTime(limits, MIN_TRY_MS)
      sent = true
      await send(connection, { topic, partition }, records, leftMs(limits))
      cluster.responded()
    })
  await withDeadline(DEADLINE_MS, signal, work, (why) =>
    sent
      ? new IndefiniteAppend(`${why}: the append may or may not have happened`)
      : new LogUnavailable(explained(cluster, why)),
  )
}

/** From here on the records may be written, unless the broker reports that they are not. */
const send = async (
  connection: BrokerConnection,
  { topic, partition }: Target,
  records: readonly NewRecord[],
  timeoutMs: number,
): Promise<void> => {
  const name = `${topic}/${partition}`
  let code: number
  try {
    code = await connection.produce({ topic, partition, records }, timeoutMs)
  } catch (error) {
    throw new IndefiniteAppend(`the append to ${name} was not answered: ${messageOf(error)}`, { cause: error })
  }
  if (code === CODE.none) return
  if (REFUSED.has(code)) throw new RecordRefused(`${name} refuses the record: ${brokerProblem(code)}`)
  if (DENIED.has(code)) {
    // An operator fixes this, and the record is not the cause: a caller that sets refused records aside would lose it.
    throw new Denied(`this client may not write to ${topic}: ${brokerProblem(code)}`)
  }
  if (NOT_WRITTEN.has(code)) throw new LogUnavailable(`${name} does not take records now: ${brokerProblem(code)}`)
  // Also "not the leader": the leader may have been deposed while it waited for its replicas.
  throw new IndefiniteAppend(`the append to ${name} may not have happened: ${brokerProblem(code)}`)
}

class Denied extends LogUnavailable {}

const REFUSED = new Set<number>([
  CODE.messageTooLarge,
  CODE.recordListTooLarge,
  CODE.invalidTopic,
  CODE.invalidRecord,
  CODE.policyViolation,
])
/** Checked by the broker before it writes. */
const NOT_WRITTEN = new Set<number>([CODE.unknownTopic, CODE.notEnoughReplicas, CODE.corruptMessage])

/** `at`: LATEST, or a log time; then -1: no record is of it or of a later one. */
const offsetAt = async (
  cluster: Cluster,
  { topic, partition }: Target,
  at: number,
  signal: AbortSignal,
): Promise<number> => {
  if (signal.aborted) throw new LogUnavailable('the log is closed')
  const work = (limits: Limits) =>
    retrying(cluster, topic, limits, async () => {
      const leader = await cluster.leader(topic, partition, leftMs(limits))
      const connection = await cluster.shared(leader.address, 'ask', leftMs(limits))
      const body = listOffsetsRequest(topic, partition, leader.leaderEpoch, at)
      const bytes = await connection.request(LIST_OFFSETS, body, leftMs(limits))
      const { error, offset } = readListOffsets(bytes)
      cluster.responded()
      if (error !== CODE.none)
        throw new LogUnavailable(`offsets of ${topic}/${partition} are not known now: ${brokerProblem(error)}`)
      return offset
    })
  return withDeadline(DEADLINE_MS, signal, work, (why) => new LogUnavailable(explained(cluster, why)))
}

/**
 * Retries with refreshed leaders while nothing was written and there is time. The last error is LogUnavailable, or
 * final.
 */
const retrying = async <T>(cluster: Cluster, topic: string, limits: Limits, attempt: () => Promise<T>): Promise<T> => {
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      cluster.forget(topic)
      if (error instanceof RecordRefused) throw error
      cluster.failed(messageOf(error))
      if (error instanceof IndefiniteAppend || error instanceof LogReplaced || error instanceof Denied) throw error
      await sleep(RETRY_MS, limits.signal)
      if (limits.signal.aborted || leftMs(limits) < MIN_TRY_MS) throw unavailable(error)
    }
  }
}

/** A deadline that passed, with the failure of a broker before. */
const explained = ({ lastProblem }: Cluster, why: string): string =>
  lastProblem === '' ? why : `${why}: ${lastProblem}`

const unavailable = (error: unknown): LogUnavailable =>
  error instanceof LogUnavailable ? error : new LogUnavailable(messageOf(error), { cause: error })

const health = (cluster: Cluster, troubles: Troubles): { ok: boolean; detail: string } => {
  const nowMs = performance.now()
  const ageMs = nowMs - (cluster.lastResponseMs ?? Number.NEGATIVE_INFINITY)
  if (ageMs > FRESH_MS) {
    const since = cluster.lastResponseMs === null ? 'ever' : `for ${Math.round(ageMs / 1000)} s`
    return { ok: false, detail: `no Kafka broker has answered ${since}: ${cluster.lastProblem}` }
  }
  for (const { sinceMs, detail } of troubles.values()) if (nowMs - sinceMs > TROUBLE_MS) return { ok: false, detail }
  return { ok: true, detail: 'kafka' }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
