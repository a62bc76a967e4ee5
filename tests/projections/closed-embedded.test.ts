// Closed days without a broker: segments of the requests are deleted as retention does, Postgres is dropped, and the totals are the same.
import { afterAll, expect, test } from 'bun:test'
import { unlinkSync } from 'node:fs'
import { usageQueries } from '../../projections/usage/query.ts'
import { embeddedLog } from '../../src/log/embedded.ts'
import { listSegments } from '../../src/log/segments.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { openTestSpool, temporaryFolder } from '../log/support.ts'
import { eventually } from '../services/eventually.ts'
import { testStore } from './store.ts'
import { NOON_MS, settled } from './support.ts'

const DAY_MS = 86_400_000
const DAYS = 3
const REQUESTS_A_DAY = 20
const ALL = DAYS * REQUESTS_A_DAY
const FIRST_MS = NOON_MS - 10 * DAY_MS - DAY_MS / 2
const folder = temporaryFolder()
const store = testStore()
afterAll(() => folder.remove())

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
    usageQueries(store.sql).series({ tenantId: 'ten_1', fromMs: FIRST_MS, toMs: FIRST_MS + DAYS * DAY_MS }, DAY_MS)
  const run = async () => {
    const worker = store.follow(log, { tuning: { closeMs: 20 } })
    const schema = await store.applied('requests', ALL)
    await eventually('all days are closed', async () => {
      const rows = await store.sql`select 1 from ${store.sql(`${schema}.closed_day`)}`
      return rows.length === DAYS
    })
    await worker.stop()
    return (await store.sql`select 1 from ${store.sql(`${schema}.request`)}`).length
  }
  expect(await run()).toBe(ALL)
  const before = await totals()
  expect(before.series.map(({ requests }) => requests)).toEqual([REQUESTS_A_DAY, REQUESTS_A_DAY, REQUESTS_A_DAY])
  let held = ALL
  for (;;) {
    const segments = listSegments(spool.directory)
    if (segments.length < 2) break
    unlinkSync(segments[0]!.path)
    await store.empty()
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
