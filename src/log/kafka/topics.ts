// The topics as Kafka must hold them: created when missing, checked at every start. A setting that could lose or
// reorder records stops the start.

import { LogUnavailable, TopicMisconfigured } from '../port.ts'
import { TOPICS, type Topic } from '../topics.ts'
import { type Cluster, type ClusterOptions, kafkaCluster } from './cluster.ts'
import type { BrokerConnection, TopicToCreate } from './connection.ts'
import { brokerProblem } from './problems.ts'
import { explain, problemOf, rowOf, type TopicNeeds, wantedTopic, warningsOf } from './topic-rules.ts'
import { CODE, DENIED, LATEST, LIST_OFFSETS, listOffsetsRequest, readListOffsets, type TopicMetadata } from './wire.ts'

export interface TopicsOptions extends ClusterOptions, TopicNeeds {
  /** Default: all. Tests pass others. */
  readonly topics?: readonly Topic[]
}

export interface TopicRow {
  readonly name: string
  readonly partitions: number
  readonly replication: number
  readonly minInSync: number
  readonly cleanup: string
  /** Milliseconds, -1 for ever. */
  readonly retentionMs: number
  readonly created: boolean
}

export interface TopicsReport {
  readonly rows: readonly TopicRow[]
  /** One line each: weaker than recommended, but the best that these brokers allow. */
  readonly warnings: readonly string[]
  /** Name -> partitions found, of the topics that have many: what a new chain records. */
  readonly partitions: Readonly<Record<string, number>>
}

const DEADLINE_MS = 10_000

/**
 * Creates what is missing, then checks everything. Throws TopicMisconfigured, or LogUnavailable while no broker
 * responds.
 */
export const ensureTopics = async (options: TopicsOptions): Promise<TopicsReport> =>
  withCluster(options, async (cluster, topics) => {
    const { found, brokers } = await describe(cluster, topics)
    const missing = topics.filter(({ name }) => !found.has(name))
    if (missing.length > 0) {
      await create(
        cluster,
        missing.map((topic) => wantedTopic(topic, options, brokers)),
      )
    }
    return check(cluster, topics, options, new Set(missing.map(({ name }) => name)))
  })

/** Throws TopicMisconfigured for the first missing or wrong topic, or LogUnavailable while no broker responds. */
export const checkTopics = async (options: TopicsOptions): Promise<TopicsReport> =>
  withCluster(options, (cluster, topics) => check(cluster, topics, options, new Set()))

const withCluster = async <T>(
  options: TopicsOptions,
  work: (cluster: Cluster, topics: readonly Topic[]) => Promise<T>,
): Promise<T> => {
  const cluster = kafkaCluster(options)
  try {
    return await work(cluster, options.topics ?? Object.values(TOPICS))
  } finally {
    cluster.close()
  }
}

const describe = async (
  cluster: Cluster,
  topics: readonly Topic[],
): Promise<{ found: Map<string, TopicMetadata>; brokers: number }> => {
  const metadata = await cluster.metadata(
    topics.map(({ name }) => name),
    DEADLINE_MS,
  )
  const denied = metadata.topics.find(({ error }) => error === CODE.topicAuthorizationFailed)
  if (denied !== undefined) {
    throw new TopicMisconfigured(
      `${denied.name} may not be described by this client: add the ACLs that \`gateway topics\` prints`,
    )
  }
  const existing = metadata.topics.filter(({ error }) => error === CODE.none)
  return { found: new Map(existing.map((topic) => [topic.name, topic])), brokers: metadata.brokers.length }
}

const create = async (cluster: Cluster, topics: readonly TopicToCreate[]): Promise<void> => {
  const connection = await anyBroker(cluster)
  try {
    await connection.createTopics(topics, DEADLINE_MS)
  } catch (error) {
    const problems = refusals(error).filter(({ code }) => code !== CODE.topicAlreadyExists)
    const [first] = problems
    if (first !== undefined) throw new TopicMisconfigured(`${first.topic} cannot be created: ${first.message}`)
  }
  await untilServed(
    cluster,
    topics.map(({ name }) => name),
  )
}

/** The first broker of the cluster that can be connected. Throws LogUnavailable. */
const anyBroker = async (cluster: Cluster): Promise<BrokerConnection> => {
  const { brokers } = await cluster.metadata([], DEADLINE_MS)
  const [broker] = brokers
  if (broker === undefined) throw new LogUnavailable('no broker is known')
  return cluster.shared(broker, 'ask', DEADLINE_MS).catch((error: unknown) => {
    throw withoutResponse(`${broker.host}:${broker.port} cannot be asked`, error)
  })
}

/** No broker responded: the state of the topics is unknown. */
const withoutResponse = (what: string, error: unknown): LogUnavailable =>
  error instanceof LogUnavailable
    ? error
    : new LogUnavailable(`${what}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })

/** The brokers' errors by topic; none for an error of another kind. */
const refusals = (error: unknown): { topic: string; code: number; message: string }[] => {
  if (!(error instanceof Error) || !('errors' in error) || !Array.isArray(error.errors))
    throw withoutResponse('whether the topics were created is not known', error)
  return error.errors.map((each: { topic: string; code: number; message: string }) => each)
}

/**
 * Waits until the leader of every partition serves it. The metadata names a leader a moment before that broker takes
 * over, and an append in between may or may not happen.
 */
export const untilServed = async (cluster: Cluster, names: readonly string[]): Promise<void> => {
  const deadlineMs = performance.now() + DEADLINE_MS
  let problem: string | null = null
  for (;;) {
    try {
      problem = await unserved(cluster, names)
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error)
    }
    if (problem === null) return
    if (performance.now() > deadlineMs)
      throw new LogUnavailable(`the new topics do not take records yet, try again: ${problem}`)
    for (const name of names) cluster.forget(name)
    await Bun.sleep(50)
  }
}

/** The first topic that is not ready yet, null when all are. */
const unserved = async (cluster: Cluster, names: readonly string[]): Promise<string | null> => {
  const { topics } = await cluster.metadata(names, DEADLINE_MS)
  const unknown = topics.find(({ error }) => error !== CODE.none)
  if (unknown !== undefined) return `${unknown.name}: ${brokerProblem(unknown.error)}`
  for (const topic of topics) {
    for (const { partition } of topic.partitions) {
      const { address, leaderEpoch } = await cluster.leader(topic.name, partition, DEADLINE_MS)
      const connection = await cluster.shared(address, 'ask', DEADLINE_MS)
      const body = listOffsetsRequest(topic.name, partition, leaderEpoch, LATEST)
      const { error } = readListOffsets(await connection.request(LIST_OFFSETS, body, DEADLINE_MS))
      if (error !== CODE.none) return `${topic.name}/${partition}: ${brokerProblem(error)}`
    }
  }
  return null
}

const check = async (
  cluster: Cluster,
  topics: readonly Topic[],
  options: TopicsOptions,
  created: ReadonlySet<string>,
): Promise<TopicsReport> => {
  const { found, brokers } = await describe(cluster, topics)
  const missing = topics.find(({ name }) => !found.has(name))
  if (missing !== undefined) {
    throw new TopicMisconfigured(
      `${missing.name} does not exist on ${options.brokers.join(',')}: run \`gateway topics --init\``,
    )
  }
  const settings = await settingsOf(cluster, topics)
  const rows: TopicRow[] = []
  for (const topic of topics) {
    const stored = { metadata: found.get(topic.name)!, settings: settings.get(topic.name) ?? new Map(), brokers }
    const problem = problemOf(topic, stored, options)
    if (problem !== null) throw new TopicMisconfigured(explain(topic.name, problem, options.brokers[0]!))
    rows.push({ ...rowOf(stored), name: topic.name, created: created.has(topic.name) })
  }
  const many = topics.filter(({ partitions }) => partitions === 'many')
  return {
    rows,
    warnings: warningsOf(rows.map((row, index) => ({ topic: topics[index]!, replication: row.replication }))),
    partitions: Object.fromEntries(many.map(({ name }) => [name, found.get(name)!.partitions.length])),
  }
}

const settingsOf = async (cluster: Cluster, topics: readonly Topic[]) => {
  const connection = await anyBroker(cluster)
  try {
    return await connection.topicSettings(
      topics.map(({ name }) => name),
      DEADLINE_MS,
    )
  } catch (error) {
    // An error of a connection has a code too, such as ECONNRESET.
    if (!(error instanceof Error && 'code' in error && DENIED.has(error.code as number)))
      throw withoutResponse('the settings of the topics could not be read', error)
    throw new TopicMisconfigured(
      `the settings of the topics may not be read: ${error.message}; add the ACLs that \`gateway topics\` prints`,
    )
  }
}
