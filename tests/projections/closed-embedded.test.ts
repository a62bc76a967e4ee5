// Closed days without a broker: segments of the requests are deleted as retention does, Postgres is dropped, and the totals are the same.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { unlinkSync } from 'node:fs'
import type { Sql } from '../../projections/database.ts'
import { usageQueries } from '../../projections/usage/query.ts'
import { embeddedLog } from '../../src/log/embedded.ts'
import { listSegments } from '../../src/log/segments.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { openTestSpool, temporaryFolder } from '../log/support.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'
import { applied, eventually, NOON_MS, openSql, settled, startWorker } from './support.ts'

const DAY_MS = 86_400_000
const DAYS = 3
const REQUESTS_A_DAY = 20
const ALL = DAYS * REQUESTS_A_DAY
const FIRST_MS = NOON_MS - 10 * DAY_MS - DAY_MS / 2
const folder = temporaryFolder()
let database: TestDatabase
let sql: Sql

beforeAll(async () => {
  database = await sharedPostgres()
  sql = openSql(database.url)
}, 60_000)
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await database.remove()
  folder.remove()
}, 60_000)

test('a rebuild after segments have expired gives the same totals', async () => {
  const dataDir = folder.path
  const spool = await openTestSpool(dataDir, { segmentBytes: 16_384 })
  for (let i = 0; i < ALL; i++) {
    const at_ms = FIRST_MS + Math.floor((i * DAY_MS) / REQUESTS_A_DAY)
    const outcome = settled(`r${i}`, { at_ms, latency_ms: i, cost_nano_usd: 9 * i })
    await spool.append('requests', 'request.settled', 'ten_1', JSON.stringify(outcome))
  }
  const log = embeddedLog({ dataDir, nowMs: Date.now, spoolPollMs: 2 })
  const totals = () =>
    usageQueries(sql).series({ tenantId: 'ten_1', fromMs: FIRST_MS, toMs: FIRST_MS + DAYS * DAY_MS }, DAY_MS)
  const run = async () => {
    const worker = startWorker({ log, databaseUrl: database.url, tuning: { closeMs: 20 } })
    const schema = await applied(sql, 'requests', ALL)
    await eventually('all days are closed', async () => {
      const rows = await sql`select 1 from ${sql(`${schema}.closed_day`)}`
      return rows.length === DAYS ? true : null
    })
    await worker.stop()
    return (await sql`select 1 from ${sql(`${schema}.request`)}`).length
  }
  expect(await run()).toBe(ALL)
  const before = await totals()
  expect(before.series.map(({ requests }) => requests)).toEqual([REQUESTS_A_DAY, REQUESTS_A_DAY, REQUESTS_A_DAY])
  let held = ALL
  for (;;) {
    const segments = listSegments(spool.directory)
    if (segments.length < 2) break
    unlinkSync(segments[0]!.path)
    const schemas = await sql<{ name: string }[]>`
      select nspname as name from pg_namespace where nspname = 'gatelog' or nspname ~ '_v[0-9]+_b[0-9]+$'`
    for (const { name } of schemas) await sql`drop schema ${sql(name)} cascade`
    const left = await run()
    expect(left).toBeLessThan(held)
    held = left
    expect(await totals()).toEqual(before)
  }
  expect(held).toBeLessThan(REQUESTS_A_DAY)
  expect(await log.end(TOPICS.usage.name, 0)).toBeGreaterThanOrEqual(DAYS)
  await spool.close()
  await log.close()
}, 60_000)
