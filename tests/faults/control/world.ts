// A separate log for a test and the instances that share it, in this process: each with its own connections, fold and
// commit queue.
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { type MemoryFaults, memoryLog } from '../../../src/log/memory.ts'
import type { EventLog, LogRecord } from '../../../src/log/port.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { testTopics } from '../../services/kafka.ts'
import { openRaceLog } from '../../state/commit/race-writer.ts'
import { begin, type Instance, macKey, nowMs, openInstance } from '../../state/support.ts'

export interface World {
  readonly kind: 'memory' | 'kafka'
  /** The log as one more instance sees it. */
  view(faults?: MemoryFaults): EventLog
  close(): Promise<void>
}

export const memoryWorld = (): World => {
  const log = memoryLog({ nowMs })
  return { kind: 'memory', view: (faults) => log.view(faults), close: () => log.close() }
}

export interface BrokerOptions {
  /** Instances are sent there instead of to the broker: a proxy. */
  readonly through?: { port: number; to: number | string }
  readonly bootstrap?: readonly string[]
}

/** A topic of a random name on three brokers: each record on two of them before it is acknowledged. */
export const threeBrokerWorld = async (): Promise<World & { killLeader(): Promise<() => Promise<void>> }> => {
  const kafka = await startKafka({ brokers: 3 })
  const topics = testTopics(kafka.bootstrap, 3)
  const safe = { 'min.insync.replicas': '2', 'unclean.leader.election.enable': 'false' }
  const topic = await topics.create(1, safe)
  return {
    kind: 'kafka',
    view: () => namedLog(kafka.bootstrap, topic),
    async killLeader() {
      topics.cluster.forget(topic)
      const { address } = await topics.cluster.leader(topic, 0, 10_000)
      const leader = kafka.broker(kafka.bootstrap.findIndex((at) => at.endsWith(`:${address.port}`)))
      await leader.kill()
      return () => leader.restart()
    },
    async close() {
      topics.close()
      await kafka.stop()
    },
  }
}

/** A topic of a random name on a real broker stands for the control topic. */
export const kafkaWorld = async ({
  through,
  bootstrap,
}: BrokerOptions = {}): Promise<World & { direct(): EventLog }> => {
  const properties: Record<string, string> =
    through === undefined ? {} : { 'advertised.listeners': `PLAINTEXT://127.0.0.1:${through.port}` }
  const given = through === undefined ? (bootstrap ?? process.env.GATELOG_TEST_KAFKA?.split(',')) : undefined
  const kafka = given === undefined ? await startKafka({ brokers: 1, properties }) : null
  if (through !== undefined && kafka !== null) through.to = kafka.broker(0).port
  const brokers = through === undefined ? (given ?? kafka!.bootstrap) : [`127.0.0.1:${through.port}`]
  const topics = testTopics(brokers)
  const topic = await topics.create()
  const view = (): EventLog => namedLog(brokers, topic)
  return {
    kind: 'kafka',
    view,
    direct: view,
    async close() {
      if (kafka === null) await topics.remove(topic)
      topics.close()
      await kafka?.stop()
    },
  }
}

const namedLog = (brokers: readonly string[], topic: string): EventLog =>
  openRaceLog({ adapter: 'kafka', brokers, topic })

/** Starts a chain and so many instances on it. */
export const openInstances = async (world: World, count: number): Promise<readonly Instance[]> => {
  const first = world.view()
  await begin(first)
  await first.close()
  const instances: Instance[] = []
  for (let n = 0; n < count; n++) {
    const log = world.view()
    const instance = await openInstance(`ins_${n}`, log)
    await instance.live.ready()
    instances.push({
      ...instance,
      async close() {
        await instance.close()
        await log.close()
      },
    })
  }
  return instances
}

/**
 * Once all have folded the whole log: how many of them, and of a separate fold of the whole log, have the same digest
 * and tip.
 */
export const agreeing = async (
  world: World,
  instances: readonly Instance[],
): Promise<{ equal: number; of: number }> => {
  const log = world.view()
  const end = await log.end(CONTROL, 0)
  await Promise.all(instances.map(({ live }) => live.condition.until(() => live.next >= end, 10_000)))
  const replay = await foldAgain(log, macKey, new AbortController().signal)
  await log.close()
  const digest = replay.state.digest()
  const same = instances.filter(({ live }) => live.status().digest === digest && live.tip === replay.tip)
  return { equal: same.length + 1, of: instances.length + 1 }
}

/** All records that the log holds now. */
export const recordsOf = async (log: EventLog): Promise<readonly LogRecord[]> => {
  const end = await log.end(CONTROL, 0)
  const records: LogRecord[] = []
  const reading = new AbortController()
  for await (const batch of log.read(CONTROL, 0, 0, reading.signal)) {
    records.push(...batch)
    if (records.length >= end) break
  }
  return records
}

export const closeAll = async (world: World, instances: readonly Instance[]): Promise<void> => {
  for (const instance of instances) await instance.close()
  await world.close()
}
