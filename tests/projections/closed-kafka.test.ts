// Closed days on a real broker: records of the requests topic are deleted as retention does, Postgres is dropped, and the totals are the same.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import type { Sql } from '../../projections/database.ts'
import { usageQueries } from '../../projections/usage/query.ts'
import { kafkaLog } from '../../src/log/kafka.ts'
import { ensureTopics } from '../../src/log/kafka-topics.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { testTopics } from '../services/kafka.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'
import { applied, eventually, NOON_MS, openSql, REQUESTS, sender, settled, startWorker } from './support.ts'

const DAY_MS = 86_400_000
const DAYS = 3
const REQUESTS_A_DAY = 20
const FIRST_MS = NOON_MS - 10 * DAY_MS - DAY_MS / 2
let kafka: Kafka
let database: TestDatabase
let sql: Sql

beforeAll(async () => {
  kafka = await startKafka()
  database = await sharedPostgres()
  sql = openSql(database.url)
}, 180_000)
afterAll(async () => {
  await sql?.end({ timeout: 1 })
  await database?.remove()
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
    usageQueries(sql).series({ tenantId: 'ten_1', fromMs: FIRST_MS, toMs: FIRST_MS + DAYS * DAY_MS }, DAY_MS)
  const run = async () => {
    const worker = startWorker({ log, databaseUrl: database.url, tuning: { closeMs: 20 } })
    const schema = await applied(sql, 'requests', all)
    await eventually('all days are closed', async () => {
      const rows = await sql`select 1 from ${sql(`${schema}.closed_day`)}`
      return rows.length === DAYS ? true : null
    })
    await worker.stop()
    const requests = await sql`select 1 from ${sql(`${schema}.request`)}`
    return requests.length
  }
  expect(await run()).toBe(all)
  const before = await totals()
  expect(before.series.map(({ requests }) => requests)).toEqual([REQUESTS_A_DAY, REQUESTS_A_DAY, REQUESTS_A_DAY])
  for (const start of [REQUESTS_A_DAY + 7, all - 1]) {
    await topics.trim(REQUESTS, start)
    const schemas = await sql<{ name: string }[]>`
      select nspname as name from pg_namespace where nspname = 'gatelog' or nspname ~ '_v[0-9]+_b[0-9]+$'`
    for (const { name } of schemas) await sql`drop schema ${sql(name)} cascade`
    expect(await run()).toBe(all - start)
    expect(await totals()).toEqual(before)
  }
  expect(await log.end(TOPICS.usage.name, 0)).toBe(DAYS)
  topics.close()
  await log.close()
}, 120_000)
