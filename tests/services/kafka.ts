// One real broker for all test files of a run: the one that the runner started, or one that is started at the first use
// and ends with the process.
import { startKafka } from '../../infra/kafka/kafka.ts'
import { ByteWriter } from '../../src/log/kafka/bytes.ts'
import { type Cluster, kafkaCluster } from '../../src/log/kafka/cluster.ts'
import { untilServed } from '../../src/log/kafka/topics.ts'
import type { Api } from '../../src/log/kafka/wire.ts'
import { eventually } from './eventually.ts'

export interface SharedBroker {
  readonly bootstrap: readonly string[]
}

const KEY = Symbol.for('gatelog.test.kafka')
const shared = globalThis as { [KEY]?: Promise<SharedBroker> }

/** Throws when there is none: a missing broker fails its tests, it never skips them. */
export const sharedBroker = (): Promise<SharedBroker> => {
  shared[KEY] ??= provide()
  return shared[KEY]
}

const provide = async (): Promise<SharedBroker> => {
  const given = process.env.GATELOG_TEST_KAFKA
  if (given !== undefined && given !== '') return { bootstrap: given.split(',') }
  // It ends with this process: `bun test` has no hook after the last file.
  return startKafka()
}

export interface TestTopics {
  /** A fresh topic, with LogAppendTime. */
  create(partitions?: number, settings?: Readonly<Record<string, string>>, name?: string): Promise<string>
  remove(name: string): Promise<void>
  /** Deletes the records of partition 0 below an offset, as retention does. */
  trim(name: string, start: number): Promise<void>
  /** Changes settings of a topic that is there, as an operator would. */
  set(name: string, settings: Readonly<Record<string, string>>): Promise<void>
  readonly cluster: Cluster
  close(): void
}

const DEADLINE_MS = 10_000
const DELETE_TOPICS: Api = { name: 'DeleteTopics', key: 20, version: 5 }
const DELETE_RECORDS: Api = { name: 'DeleteRecords', key: 21, version: 2 }
const ALTER_CONFIGS: Api = { name: 'IncrementalAlterConfigs', key: 44, version: 1 }
const TOPIC_RESOURCE = 2
const SET = 0

/** Makes and deletes topics of random names, and waits until the broker knows them. */
export const testTopics = (bootstrap: readonly string[], replication = 1): TestTopics => {
  const cluster = kafkaCluster({ brokers: bootstrap, clientId: 'gatelog-test' })
  const controller = async () => {
    const { brokers } = await cluster.metadata([], DEADLINE_MS)
    return cluster.shared(brokers[0]!, 'ask', DEADLINE_MS)
  }
  const untilGone = (name: string) =>
    eventually(`${name} is gone`, async () => {
      const { topics } = await cluster.metadata([name], DEADLINE_MS)
      return topics[0]!.partitions.length === 0
    })
  return {
    cluster,
    async create(partitions = 1, settings = {}, name = `test.${Bun.randomUUIDv7()}`) {
      const all = { 'message.timestamp.type': 'LogAppendTime', ...settings }
      const connection = await controller()
      await connection.createTopics([{ name, partitions, replication, settings: all }], DEADLINE_MS)
      await untilServed(cluster, [name])
      return name
    },
    async remove(name) {
      const out = new ByteWriter().untagged()
      out.compactArray([name], (each) => out.compactText(each))
      await (await controller()).request(DELETE_TOPICS, out.int32(DEADLINE_MS).untagged().bytes(), DEADLINE_MS)
      await untilGone(name)
    },
    async trim(name, start) {
      const { address } = await cluster.leader(name, 0, DEADLINE_MS)
      const out = new ByteWriter().untagged()
      out.compactArray([name], (each) => {
        out.compactText(each).compactArray([0], (partition) => out.int32(partition).int64(start).untagged())
        out.untagged()
      })
      const connection = await cluster.shared(address, 'ask', DEADLINE_MS)
      await connection.request(DELETE_RECORDS, out.int32(DEADLINE_MS).untagged().bytes(), DEADLINE_MS)
    },
    async set(name, settings) {
      const out = new ByteWriter().untagged()
      out.compactArray([name], (each) => {
        out.int8(TOPIC_RESOURCE).compactText(each)
        out.compactArray(Object.entries(settings), ([setting, value]) =>
          out.compactText(setting).int8(SET).compactText(value).untagged(),
        )
        out.untagged()
      })
      await (await controller()).request(ALTER_CONFIGS, out.int8(0).untagged().bytes(), DEADLINE_MS)
    },
    close: () => cluster.close(),
  }
}
