// Closed days on a real broker: records of the requests topic are deleted as retention does, Postgres is dropped, and
// the totals are the same.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { ensureTopics } from '../../../src/log/kafka/topics.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { testTopics } from '../../services/kafka.ts'
import { testStore } from '../store.ts'
import { REQUESTS, sender } from '../support.ts'
import { ALL_REQUESTS, EVERY_DAY, madeOf, outcomes, REQUESTS_A_DAY } from './closed-days.ts'

let kafka: Kafka
const store = testStore()

beforeAll(async () => {
  kafka = await startKafka()
}, 180_000)
afterAll(() => kafka?.stop(), 60_000)

test('a rebuild after the broker has deleted requests gives the same totals', async () => {
  const access = { brokers: kafka.bootstrap, clientId: 'closed' }
  await ensureTopics({ ...access, partitions: 1, retentionHours: 24 })
  const topics = testTopics(kafka.bootstrap)
  const log = kafkaLog(access)
  const { record } = sender()
  await log.append(
    REQUESTS,
    0,
    outcomes().map((outcome) => record('request.settled', outcome)),
  )
  const before = await madeOf(store, log)
  expect(before.held).toBe(ALL_REQUESTS)
  expect(before.usage.series.map(({ requests }) => requests)).toEqual(EVERY_DAY)
  for (const start of [REQUESTS_A_DAY + 7, ALL_REQUESTS - 1]) {
    await topics.trim(REQUESTS, start)
    await store.empty()
    expect(await madeOf(store, log)).toEqual({ held: ALL_REQUESTS - start, usage: before.usage })
  }
  expect(await log.end(TOPICS.usage.name, 0)).toBe(EVERY_DAY.length)
  topics.close()
  await log.close()
}, 120_000)
