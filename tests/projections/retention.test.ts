// Days that are older than kept go as whole tables, by the log's own time; what they cost stays in usage.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AnyProjection, buildToKeep, prepareCatalogue } from '../../projections/builds.ts'
import type { Sql } from '../../projections/database.ts'
import { followPartition, newProgress } from '../../projections/follow.ts'
import { requestsModel } from '../../projections/requests/project.ts'
import { usageQueries } from '../../projections/usage/query.ts'
import { memoryLog } from '../../src/log/memory.ts'
import { sharedPostgres, silent, type TestDatabase } from '../services/postgres.ts'
import { applied, NOON_MS, openSql, REQUESTS, sender, settled, tableDigest } from './support.ts'

const DAY_MS = 86_400_000
const DAYS = 10
const KEPT = 3
let database: TestDatabase
let sql: Sql

beforeAll(async () => {
  database = await sharedPostgres()
  sql = openSql(database.url)
}, 60_000)
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await database.remove()
}, 60_000)

test('the same days are kept in batches of any size, and usage of hours and days counts all', async () => {
  let now = NOON_MS
  const log = memoryLog({ nowMs: () => now, partitionCount: () => 1 })
  const { record } = sender()
  for (let day = 0; day < DAYS; day++) {
    now = NOON_MS + day * DAY_MS
    await log.append(REQUESTS, 0, [record('request.settled', settled(`req_${day}`, { at_ms: now }))])
  }
  const digests = new Set<string>()
  for (const maxRecords of [1, 4, 500]) {
    await sql`drop schema if exists gatelog cascade`
    await sql`drop schema if exists requests_v8_b1 cascade`
    await prepareCatalogue(sql)
    const projection = requestsModel(KEPT)
    const build = (await buildToKeep(sql, projection as unknown as AnyProjection))!
    const stopping = new AbortController()
    const following = followPartition({
      ...{ sql, log, projection, build, partition: 0, signal: stopping.signal, diagnostics: silent, takeoverMs: 200 },
      limits: { maxRecords, maxBytes: 1_048_576, waitMs: 20 },
      progress: newProgress(),
    })
    const schema = await applied(sql, 'requests', DAYS)
    stopping.abort()
    await following
    projection.forget!(sql, build)
    const days = await sql<{ day: number }[]>`
      select ((at_ms - ${NOON_MS}) / ${DAY_MS})::int as day from ${sql(`${schema}.request`)} order by 1`
    expect(days.map(({ day }) => day)).toEqual([6, 7, 8, 9])
    const tables = await sql<{ name: string }[]>`
      select tablename as name from pg_tables where schemaname = ${schema} and tablename like 'detail_2%' order by 1`
    expect(tables[0]!.name).toBe('detail_20261126')
    digests.add(await tableDigest(sql, schema, 'usage', 'tier, dimension, tenant_id, bucket_ms, name, model'))
  }
  expect(digests.size).toBe(1)
  const window = { tenantId: null, fromMs: NOON_MS, toMs: NOON_MS + DAYS * DAY_MS }
  expect((await usageQueries(sql).totals(window)).totals.requests).toBe(DAYS)
})
