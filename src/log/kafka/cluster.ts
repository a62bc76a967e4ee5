// The leaders of partitions, and connections to them. Refreshed whenever a response reports a change.
import { hostPort } from '../../lib/http/host-port.ts'
import { LogUnavailable } from '../port.ts'
import { type Address, type BrokerConnection, type KafkaAccess, openConnection } from './connection.ts'
import { CODE, METADATA, type Metadata, metadataRequest, readMetadata, type TopicMetadata } from './wire.ts'

export interface Leader {
  readonly address: Address
  readonly topicId: string
  readonly leaderEpoch: number
}

/** Purpose of a shared connection: an append that waits for its replicas must not delay a query behind it. */
export type Purpose = 'append' | 'ask'

export interface Cluster {
  /**
   * Of the topics named; a missing topic has an error. Queries one broker after the other until one responds or the
   * time is up.
   */
  metadata(topics: readonly string[], timeoutMs: number): Promise<Metadata>
  /** Cached unless `forget` was called for the topic. Throws LogUnavailable when there is none. */
  leader(topic: string, partition: number, timeoutMs: number): Promise<Leader>
  forget(topic: string): void
  /** The shared connection; opened on first use. */
  shared(address: Address, purpose: Purpose, timeoutMs: number): Promise<BrokerConnection>
  /** A connection for one reader. It is closed with the cluster. */
  own(address: Address, timeoutMs: number): Promise<BrokerConnection>
  /** The last response of any broker, by `performance.now()`, null for never; and the failure since. */
  readonly lastResponseMs: number | null
  readonly lastProblem: string
  responded(): void
  failed(problem: string): void
  close(): void
}

export interface ClusterOptions extends KafkaAccess {
  /** `host:port` each. */
  readonly brokers: readonly string[]
}

/** One attempt to connect must leave time for the next broker in the list. */
const CONNECT_MS = 1_000

export const kafkaCluster = (options: ClusterOptions): Cluster => new KafkaCluster(options)

class KafkaCluster implements Cluster {
  lastResponseMs: number | null = null
  lastProblem = 'no broker has answered yet'
  private readonly bootstrap: readonly Address[]
  private readonly addresses = new Map<string, Address>()
  private readonly topics = new Map<string, { metadata: Metadata; topic: TopicMetadata }>()
  private readonly connections = new Map<string, Promise<BrokerConnection>>()
  private readonly owned = new Set<BrokerConnection>()
  private preferred: Address | null = null
  private closed = false

  constructor(private readonly options: ClusterOptions) {
    this.bootstrap = options.brokers.map(parseAddress)
    if (this.bootstrap.length === 0) throw new Error('log.kafka.brokers names no broker')
  }

  responded(): void {
    this.lastResponseMs = performance.now()
    this.lastProblem = ''
  }

  failed(problem: string): void {
    this.lastProblem = problem
  }

  async metadata(topics: readonly string[], timeoutMs: number): Promise<Metadata> {
    const deadlineMs = performance.now() + timeoutMs
    // The broker that responded last is first: a hanging broker would use up the time of the others.
    const preferred = this.preferred === null ? [] : [this.preferred]
    const candidates = [...preferred, ...this.addresses.values(), ...this.bootstrap]
    let problem = 'no broker is known'
    for (const address of candidates) {
      const leftMs = deadlineMs - performance.now()
      if (leftMs <= 0) break
      try {
        const limitMs = Math.min(leftMs, CONNECT_MS)
        const connection = await this.shared(address, 'ask', limitMs)
        const bytes = await connection.request(METADATA, metadataRequest(topics), limitMs)
        const metadata = readMetadata(bytes)
        this.learn(metadata)
        this.preferred = address
        return metadata
      } catch (error) {
        problem = messageOf(error)
        this.failed(problem)
        this.addresses.delete(nameOf(address))
        this.preferred = null
      }
    }
    throw new LogUnavailable(`no broker says who leads ${topics.join(', ')}: ${problem}`)
  }

  private learn(metadata: Metadata): void {
    this.responded()
    if (metadata.brokers.length > 0) this.addresses.clear()
    for (const broker of metadata.brokers) this.addresses.set(nameOf(broker), broker)
    for (const topic of metadata.topics) {
      if (topic.error === CODE.none) this.topics.set(topic.name, { metadata, topic })
      else this.topics.delete(topic.name)
    }
  }

  async leader(topic: string, partition: number, timeoutMs: number): Promise<Leader> {
    if (!this.topics.has(topic)) await this.metadata([topic], timeoutMs)
    const entry = this.topics.get(topic)
    if (entry === undefined) {
      throw new LogUnavailable(
        `the topic ${topic} does not exist or may not be described: run \`gateway topics --init\``,
      )
    }
    const found = entry.topic.partitions.find((candidate) => candidate.partition === partition)
    const broker = entry.metadata.brokers.find(({ node }) => node === found?.leader)
    if (found === undefined || broker === undefined) {
      this.forget(topic)
      throw new LogUnavailable(`${topic}/${partition} has no leader now`)
    }
    return { address: broker, topicId: entry.topic.id, leaderEpoch: found.leaderEpoch }
  }

  forget(topic: string): void {
    this.topics.delete(topic)
  }

  async shared(address: Address, purpose: Purpose, timeoutMs: number): Promise<BrokerConnection> {
    const name = `${purpose} ${nameOf(address)}`
    const existing = this.connections.get(name)
    if (existing !== undefined) {
      const connection = await existing
      if (connection.open) return connection
      if (this.connections.get(name) === existing) this.connections.delete(name)
      return this.shared(address, purpose, timeoutMs)
    }
    const opening = this.open(address, timeoutMs)
    this.connections.set(name, opening)
    try {
      return await opening
    } catch (error) {
      if (this.connections.get(name) === opening) this.connections.delete(name)
      throw error
    }
  }

  async own(address: Address, timeoutMs: number): Promise<BrokerConnection> {
    const connection = await this.open(address, timeoutMs)
    for (const old of this.owned) if (!old.open) this.owned.delete(old)
    this.owned.add(connection)
    return connection
  }

  private async open(address: Address, timeoutMs: number): Promise<BrokerConnection> {
    if (this.closed) throw new LogUnavailable('the log is closed')
    const connection = await openConnection(address, this.options, Math.min(timeoutMs, CONNECT_MS))
    if (this.closed) {
      connection.close('the log is closed')
      throw new LogUnavailable('the log is closed')
    }
    this.responded()
    return connection
  }

  close(): void {
    this.closed = true
    for (const connection of this.owned) connection.close('the log is closed')
    // A connection that is still being opened closes itself once the cluster is closed.
    const ignore = () => undefined
    for (const opening of this.connections.values())
      void opening.then((open) => open.close('the log is closed'), ignore)
    this.connections.clear()
  }
}

const nameOf = ({ host, port }: Address): string => `${host}:${port}`

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const parseAddress = (text: string): Address => {
  const address = hostPort(text)
  if (address === null) throw new Error(`"${text}" is not host:port`)
  return address
}

/** Whether this broker responds and is in a cluster of at least `brokers` nodes. */
export const kafkaResponds = async (address: string, brokers: number): Promise<boolean> => {
  const cluster = kafkaCluster({ brokers: [address], clientId: 'gatelog-probe' })
  try {
    const metadata = await cluster.metadata([], CONNECT_MS)
    return metadata.brokers.length >= brokers && metadata.controller >= 0
  } catch (error) {
    if (error instanceof LogUnavailable) return false
    throw error
  } finally {
    cluster.close()
  }
}
