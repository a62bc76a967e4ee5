// Days that are older than kept go as whole tables, by the log's own time; what they cost stays in usage.
import { expect, test } from 'bun:test'
import { type AnyProjection, buildToKeep, prepareCatalogue } from '../../../projections/builds.ts'
import { followPartition, newProgress } from '../../../projections/follow.ts'
import { requestsModel } from '../../../projections/requests/project.ts'
import { usageQueries } from '../../../projections/usage/query.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { silent } from '../../services/postgres.ts'
import { testStore } from '../store.ts'
import { NOON_MS, REQUESTS, sender, settled } from '../support.ts'

const DAY_MS = 86_400_000
const DAYS = 10
const KEPT = 3
const store = testStore()

// docs/behaviour.md: "Retention and erasure"
test('the same days are kept in batches of any size, and usage of hours and days counts all', async () => {
  let now = NOON_MS
  const log = memoryLog({ nowMs: () => now, partitionCount: () => 1 })
  const { record } = sender()
  for (let day = 0; day < DAYS; day++) {
    now = NOON_MS + day * DAY_MS
    await log.append(REQUESTS, 0, [record('request.settled', settled(`req_${day}`, { at_ms: now }))])
  }
  const digests = new Set<string>()
  const { sql } = store
  for (const maxRecords of [1, 4, 500]) {
    await store.empty()
    await prepareCatalogue(sql)
    const projection = requestsModel(KEPT)
    const build = (await buildToKeep(sql, projection as unknown as AnyProjection))!
    const stopping = new AbortController()
    const following = followPartition({
      ...{ sql, log, projection, build, partition: 0, signal: stopping.signal, diagnostics: silent, takeoverMs: 200 },
      limits: { maxRecords, maxBytes: 1_048_576, waitMs: 20 },
      progress: newProgress(),
    })
    const schema = await store.applied('requests', DAYS)
    stopping.abort()
    await following
    projection.forget!(sql, build)
    const days = await sql<{ day: number }[]>`
      select ((at_ms - ${NOON_MS}) / ${DAY_MS})::int as day from ${sql(`${schema}.request`)} order by 1`
    expect(days.map(({ day }) => day)).toEqual([6, 7, 8, 9])
    const tables = await sql<{ name: string }[]>`
      select tablename as name from pg_tables where schemaname = ${schema} and tablename like 'detail_2%' order by 1`
    expect(tables[0]!.name).toBe('detail_20261126')
    digests.add(await store.usageDigest(schema))
  }
  expect(digests.size).toBe(1)
  const window = { tenantId: null, fromMs: NOON_MS, toMs: NOON_MS + DAYS * DAY_MS }
  const usage = usageQueries(sql)
  expect((await usage.totals(window)).totals.requests).toBe(DAYS)
  // Where its rows are gone, a part of an hour cannot be counted.
  const within = (day: number) => ({
    ...{ tenantId: null, fromMs: NOON_MS + day * DAY_MS + 30_000, toMs: NOON_MS + DAYS * DAY_MS - 30_000 },
  })
  expect(await usage.totals(within(2))).toMatchObject({
    window: { fromMs: NOON_MS + 2 * DAY_MS, toMs: NOON_MS + DAYS * DAY_MS },
    totals: { requests: DAYS - 2 },
  })
  const { tenantId: _, ...asked } = within(8)
  expect(await usage.totals(within(8))).toMatchObject({ window: asked, totals: { requests: 1 } })
})
