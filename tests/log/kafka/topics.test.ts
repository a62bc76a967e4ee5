// Topics and leaders on three real brokers: what one broker cannot show.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { checkTopics, ensureTopics } from '../../../src/log/kafka/topics.ts'
import { type LogRecord, TopicMisconfigured } from '../../../src/log/port.ts'
import { TOPICS, type Topic } from '../../../src/log/topics.ts'
import { fact, numberOf } from '../../contract/event-log.ts'
import { appendSurely } from '../../contract/kafka-traffic.ts'
import { eventually } from '../../services/eventually.ts'
import { testTopics } from '../../services/kafka.ts'

let kafka: Kafka
beforeAll(async () => {
  kafka = await startKafka({ brokers: 3 })
}, 180_000)
afterAll(() => kafka?.stop())

const options = () => ({ brokers: kafka.bootstrap, clientId: 'topics', partitions: 2, retentionHours: 24 })

test('missing topics are named, made once with three copies, and found right afterwards', async () => {
  const missing = await checkTopics(options()).catch((error: unknown) => error)
  expect(missing).toBeInstanceOf(TopicMisconfigured)
  expect((missing as Error).message).toContain('gateway topics --init')
  // Two operators at once: neither fails because the other was first.
  const [made] = await Promise.all([ensureTopics(options()), ensureTopics(options())])
  expect(made.rows.map(({ name }) => name)).toEqual(Object.values(TOPICS).map(({ name }) => name))
  for (const row of made.rows) expect(row).toMatchObject({ replication: 3, minInSync: 2 })
  expect(made.warnings).toEqual([])
  expect(made.partitions).toMatchObject({ [TOPICS.requests.name]: 2, [TOPICS.budgets.name]: 2 })
  // Whoever made them may write at once.
  const log = kafkaLog({ ...options(), clientId: 'first' })
  for (const { name, partitions } of made.rows) {
    for (let partition = 0; partition < partitions; partition++) await log.append(name, partition, [fact(0, 'key')])
  }
  await log.close()
  const again = await ensureTopics(options())
  expect(again.rows.some(({ created }) => created)).toBe(false)
  expect(await checkTopics(options())).toEqual(again)
}, 60_000)

test('a topic that somebody else made wrongly is refused, with the mend', async () => {
  const topics = testTopics(kafka.bootstrap, 1)
  const name = await topics.create(1, { 'retention.ms': '-1' })
  const wrong: Topic = { ...TOPICS.control, name }
  const error = await checkTopics({ ...options(), topics: [wrong] }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(TopicMisconfigured)
  expect((error as Error).message).toStartWith(`${name} has replication.factor 1, wanted is at least 3`)
  topics.close()
}, 60_000)

test('the leader is killed while it is written and read: nothing acknowledged is lost, every offset comes once and in order', async () => {
  const topics = testTopics(kafka.bootstrap, 3)
  const topic = await topics.create(1, { 'min.insync.replicas': '2' })
  const log = kafkaLog({ brokers: kafka.bootstrap, clientId: 'failover' })
  const seen: LogRecord[] = []
  const stop = new AbortController()
  const reading = (async () => {
    for await (const batch of log.read(topic, 0, 0, stop.signal)) seen.push(...batch)
  })()
  const append = (number: number) => appendSurely(log, topic, fact(number))
  let unknown = 0
  for (let number = 0; number < 100; number++) unknown += await append(number)
  const { address } = await topics.cluster.leader(topic, 0, 5_000)
  const victim = [0, 1, 2].find((index) => kafka.broker(index).port === address.port)!
  await kafka.broker(victim).kill()
  for (let number = 100; number < 200; number++) unknown += await append(number)
  await kafka.broker(victim).restart()
  for (let number = 200; number < 250; number++) unknown += await append(number)
  const end = await log.end(topic, 0)
  await eventually('all that was written is read', () => seen.length >= end, { limitMs: 60_000 })
  stop.abort()
  await reading
  expect(seen.map(({ offset }) => offset)).toEqual(Array.from({ length: end }, (_, index) => index))
  const numbers = seen.map(numberOf)
  expect([...new Set(numbers)]).toEqual(Array.from({ length: 250 }, (_, index) => index))
  expect(end - 250).toBeLessThanOrEqual(unknown)
  await log.close()
  topics.close()
}, 90_000)
