// One connection to one broker. The only file that uses kafkajs: its connections, TLS, SASL and older requests.
// Deadlines and Produce are implemented here.
import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type { SASLOptions } from 'kafkajs'
import type Broker from 'kafkajs/src/broker/index.js'
import type ConnectionPool from 'kafkajs/src/network/connectionPool.js'
import type { Connection } from 'kafkajs/src/network/connectionPool.js'
import { AppendQueue, settleEach, type WaitingAppend } from './appends.ts'
import { type RecordPacker, recordPacker } from './packed-batch.ts'
import { openingProblem } from './problems.ts'
import { PRODUCE, type ProduceAppend, produceBound, readProduce, writeProduce } from './produce.ts'
import { type Api, FETCH, LIST_OFFSETS, METADATA } from './wire.ts'

export interface KafkaAccess {
  readonly clientId: string
  /** true: the system's certificate authorities. */
  readonly ssl?: boolean | ConnectionOptions
  readonly sasl?: SASLOptions
  /** How appends of many records are packed; `none` when not given. */
  readonly compression?: Compression
}

export type Compression = 'lz4' | 'none'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface TopicToCreate {
  readonly name: string
  readonly partitions: number
  readonly replication: number
  readonly settings: Readonly<Record<string, string>>
}

export interface BrokerConnection {
  readonly open: boolean
  /**
   * Sends a body and resolves with the body of the response. A deadline that passes closes the connection, so
   * everything else under way on it fails too.
   */
  request(api: Api, body: Buffer, timeoutMs: number): Promise<Uint8Array>
  /**
   * The broker's error code for this partition, 0 when every in-sync replica has the records. Throws without a
   * response. Appends of one iteration of the event loop may share a request.
   */
  produce(append: ProduceAppend, timeoutMs: number): Promise<number>
  createTopics(topics: readonly TopicToCreate[], timeoutMs: number): Promise<void>
  /** Effective settings of each topic. */
  topicSettings(names: readonly string[], timeoutMs: number): Promise<ReadonlyMap<string, ReadonlyMap<string, string>>>
  /** Closes at once; requests under way fail. */
  close(reason: string): void
}

/**
 * The broker's timeout for its replicas is shorter by this than the own deadline, so that its response still arrives.
 */
const RESPONSE_MARGIN_MS = 300
const TOPIC_RESOURCE = 2

/** Loaded with the first connection: more than 300 modules for each thread, which an embedded log does not need. */
const loadClasses = async () => {
  const broker = import('kafkajs/src/broker/index.js')
  const pool = import('kafkajs/src/network/connectionPool.js')
  return { Broker: (await broker).default, ConnectionPool: (await pool).default }
}

/** Connects, agrees on versions and authenticates, all within `timeoutMs`. */
export const openConnection = async (
  address: Address,
  access: KafkaAccess,
  timeoutMs: number,
): Promise<BrokerConnection> => {
  const { Broker, ConnectionPool } = await loadClasses()
  const sockets = new Set<Socket>()
  let closed: Error | null = null
  const close = (reason: string) => {
    closed ??= new Error(`connection to ${address.host}:${address.port} closed: ${reason}`)
    // With an error, because kafkajs fails what is under way on 'error' and 'end' but not on 'close'.
    for (const socket of sockets) socket.destroy(closed)
    sockets.clear()
  }
  const pool = new ConnectionPool({
    ...address,
    clientId: access.clientId,
    ssl: access.ssl === true ? {} : access.ssl || null,
    sasl: access.sasl ?? null,
    logger: SILENT,
    connectionTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    enforceRequestTimeout: false,
    socketFactory: (target: SocketTarget) => track(sockets, dial(target)),
  })
  for (const { requestQueue } of pool.pool) calm(requestQueue)
  const broker = new Broker({
    connectionPool: pool,
    logger: SILENT,
    authenticationTimeout: timeoutMs,
    allowAutoTopicCreation: false,
  })
  const within = async <T>(work: Promise<T>, limitMs: number, what: string): Promise<T> => {
    const timer = setTimeout(() => close(`no answer to ${what} within ${limitMs} ms`), limitMs)
    try {
      return await work
    } catch (error) {
      throw closed ?? error
    } finally {
      clearTimeout(timer)
    }
  }
  try {
    await within(broker.connect(), timeoutMs, 'the first requests')
    requireVersions(broker, address)
  } catch (error) {
    close('it could not be used')
    if (error instanceof TooOld) throw error
    const attempted = { name: `${address.host}:${address.port}`, ssl: Boolean(access.ssl), login: access.sasl != null }
    throw new Error(openingProblem(error, attempted), { cause: error })
  }
  const { clientId, compression } = access
  const packer = compression === 'lz4' ? recordPacker() : null
  return brokerConnection({ broker, pool, clientId, packer, within, close, isClosed: () => closed !== null })
}

interface Opened {
  readonly broker: Broker
  readonly pool: ConnectionPool
  readonly clientId: string
  readonly packer: RecordPacker | null
  readonly within: <T>(work: Promise<T>, limitMs: number, what: string) => Promise<T>
  readonly close: (reason: string) => void
  readonly isClosed: () => boolean
}

const brokerConnection = (opened: Opened): BrokerConnection => {
  const { broker, pool, within, close, isClosed } = opened
  const appends = new AppendQueue((together) => produce(opened, together))
  return {
    get open() {
      return !isClosed() && broker.isConnected()
    },
    async request(api, body, timeoutMs) {
      // Always the first connection of the pool: it would put Fetch on a second one, which this reader does not need.
      const connection = await pool.getConnection(0)
      const request = { apiKey: api.key, apiVersion: api.version, apiName: api.name, encode: async () => encoded(body) }
      return within(connection.send({ request, response: RAW }), timeoutMs, api.name)
    },
    produce: (append, timeoutMs) => appends.push(append, timeoutMs),
    async createTopics(topics, timeoutMs) {
      const wanted = topics.map(({ name, partitions, replication, settings }) => ({
        topic: name,
        numPartitions: partitions,
        replicationFactor: replication,
        configEntries: Object.entries(settings).map(([setting, value]) => ({ name: setting, value })),
      }))
      await within(broker.createTopics({ topics: wanted, timeout: timeoutMs }), timeoutMs, 'CreateTopics')
    },
    async topicSettings(names, timeoutMs) {
      const resources = names.map((name) => ({ type: TOPIC_RESOURCE, name }))
      const found = await within(broker.describeConfigs({ resources }), timeoutMs, 'DescribeConfigs')
      return new Map(
        found.resources.map(({ resourceName, configEntries }) => [
          resourceName,
          new Map(configEntries.map(({ configName, configValue }) => [configName, configValue ?? ''])),
        ]),
      )
    },
    close,
  }
}

/** One request. Settles each append; throws without a response. */
const produce = ({ pool, clientId, packer, within }: Opened, appends: readonly WaitingAppend[]): Promise<void> => {
  const limitMs = Math.min(...appends.map((append) => append.timeoutMs))
  const send = async () => {
    const connection = await pool.getConnection(0)
    if (!connection.isAuthenticated()) await connection.authenticate()
    const buffer = Buffer.allocUnsafeSlow(produceBound({ clientId, appends }))
    const timeoutMs = Math.max(1, Math.floor(limitMs - RESPONSE_MARGIN_MS))
    const bytes = await roundTrip(connection, PRODUCE, (correlationId) =>
      writeProduce(buffer, { correlationId, clientId, timeoutMs, nowMs: Date.now(), packer, appends }),
    )
    const { partitions, throttleMs } = readProduce(bytes)
    connection.requestQueue.maybeThrottle(throttleMs)
    settleEach(appends, partitions)
  }
  return within(send(), limitMs, PRODUCE.name)
}

class TooOld extends Error {}

const requireVersions = (broker: Broker, { host, port }: Address): void => {
  for (const api of [PRODUCE, FETCH, LIST_OFFSETS, METADATA]) {
    const range = broker.versions?.[api.key]
    if (range !== undefined && range.minVersion <= api.version && range.maxVersion >= api.version) continue
    throw new TooOld(
      `the broker ${host}:${port} does not know ${api.name} version ${api.version}: Kafka 3.1 or later is needed`,
    )
  }
}

/**
 * Sends a frame as it is, without the copies that kafkajs makes of a request; its request queue matches the response.
 */
const roundTrip = (connection: Connection, api: Api, frame: (correlationId: number) => Buffer): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    if (!connection.isConnected()) throw new Error('the connection is closed')
    const correlationId = connection.nextCorrelationId()
    const bytes = frame(correlationId)
    const answered = ({ payload }: { readonly payload: Buffer }) => resolve(payload)
    connection.requestQueue.push({
      entry: {
        apiKey: api.key,
        apiVersion: api.version,
        apiName: api.name,
        correlationId,
        resolve: answered,
        reject,
      },
      expectResponse: true,
      requestTimeout: null,
      sendRequest: () => connection.socket.write(bytes),
    })
  })

const RAW = { decode: async (raw: Buffer) => raw, parse: async (raw: Buffer) => raw }

/** The form that kafkajs expects of an encoder. */
const encoded = (bytes: Buffer) => ({ buf: bytes, buffer: bytes })

interface SocketTarget extends Address {
  readonly ssl: ConnectionOptions | null
  readonly onConnect: () => void
}

const dial = ({ host, port, ssl, onConnect }: SocketTarget): Socket => {
  const name = isIP(host) === 0 ? { servername: host } : {}
  const socket =
    ssl === null ? connectPlain({ host, port }, onConnect) : connectTls({ host, port, ...name, ...ssl }, onConnect)
  socket.setKeepAlive(true, 60_000)
  socket.setNoDelay(true)
  return socket
}

const track = (sockets: Set<Socket>, socket: Socket): Socket => {
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
  return socket
}

/**
 * After every response kafkajs checks its queue by a timer of negative length that renews itself: a thousand wake-ups
 * a second for each connection, and a TimeoutNegativeWarning. A check is only needed while requests wait.
 */
const calm = (queue: ConnectionPool['pool'][number]['requestQueue']): void => {
  queue.scheduleCheckPendingRequests = () => {
    if (queue.pending.length === 0 || queue.throttleCheckTimeoutId !== null) return
    const waitMs = Math.max(10, queue.throttledUntil - Date.now())
    queue.throttleCheckTimeoutId = setTimeout(() => {
      queue.throttleCheckTimeoutId = null
      queue.checkPendingRequests()
    }, waitMs)
  }
}

// Failures reach the caller as errors, or are retried here; kafkajs logs nothing.
const SILENT = {
  namespace: () => SILENT,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
