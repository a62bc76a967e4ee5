// Closed days on a real broker: records of the requests topic are deleted as retention does, Postgres is dropped, and the totals are the same.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import { usageQueries } from '../../projections/usage/query.ts'
import { kafkaLog } from '../../src/log/kafka.ts'
import { ensureTopics } from '../../src/log/kafka-topics.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { eventually } from '../services/eventually.ts'
import { testTopics } from '../services/kafka.ts'
import { testStore } from './store.ts'
import { NOON_MS, REQUESTS, sender, settled } from './support.ts'

const DAY_MS = 86_400_000
const DAYS = 3
const REQUESTS_A_DAY = 20
const FIRST_MS = NOON_MS - 10 * DAY_MS - DAY_MS / 2
let kafka: Kafka
const store = testStore()

beforeAll(async () => {
  kafka = await startKafka()
}, 180_000)
afterAll(async () => {
  await kafka?.stop()
}, 60_000)

test('a rebuild after the broker has deleted requests gives the same totals', async () => {
  const access = { brokers: kafka.bootstrap, clientId: 'closed' }
  await ensureTopics({ ...access, partitions: 1, retentionHours: 24 })
  const topics = testTopics(kafka.bootstrap)
  const log = kafkaLog(access)
  const { record } = sender()
  const all = DAYS * REQUESTS_A_DAY
  const outcomes = Array.from({ length: all }, (_, i) =>
    settled(`r${i}`, {
      at_ms: FIRST_MS + Math.floor((i * DAY_MS) / REQUESTS_A_DAY),
      latency_ms: i,
      cost_nano_usd: 9 * i,
    }),
  )
  await log.append(
    REQUESTS,
    0,
    outcomes.map((outcome) => record('request.settled', outcome)),
  )
  const totals = () =>
    usageQueries(store.sql).series({ tenantId: 'ten_1', fromMs: FIRST_MS, toMs: FIRST_MS + DAYS * DAY_MS }, DAY_MS)
  const run = async () => {
    const worker = store.follow(log, { tuning: { closeMs: 20 } })
    const schema = await store.applied('requests', all)
    await eventually('all days are closed', async () => {
      const rows = await store.sql`select 1 from ${store.sql(`${schema}.closed_day`)}`
      return rows.length === DAYS
    })
    await worker.stop()
    const requests = await store.sql`select 1 from ${store.sql(`${schema}.request`)}`
    return requests.length
  }
  expect(await run()).toBe(all)
  const before = await totals()
  expect(before.series.map(({ requests }) => requests)).toEqual([REQUESTS_A_DAY, REQUESTS_A_DAY, REQUESTS_A_DAY])
  for (const start of [REQUESTS_A_DAY + 7, all - 1]) {
    await topics.trim(REQUESTS, start)
    await store.empty()
    expect(await run()).toBe(all - start)
    expect(await totals()).toEqual(before)
  }
  expect(await log.end(TOPICS.usage.name, 0)).toBe(DAYS)
  topics.close()
  await log.close()
}, 120_000)
