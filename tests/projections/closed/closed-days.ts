// A few closed days of outcomes, and the usage that is reported whatever is left of their requests.
import { usageQueries } from '../../../projections/usage/query.ts'
import type { RequestSettled } from '../../../src/domain/events/request.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { eventually } from '../../services/eventually.ts'
import type { TestStore } from '../store.ts'
import { NOON_MS, settled } from '../support.ts'

const DAY_MS = 86_400_000
const DAYS = 3
export const REQUESTS_A_DAY = 20
export const ALL_REQUESTS = DAYS * REQUESTS_A_DAY
const FIRST_MS = NOON_MS - 10 * DAY_MS - DAY_MS / 2

/** The outcomes of all days, the oldest first. */
export const outcomes = (): RequestSettled[] =>
  Array.from({ length: ALL_REQUESTS }, (_, i) =>
    settled(`r${i}`, {
      at_ms: FIRST_MS + Math.floor((i * DAY_MS) / REQUESTS_A_DAY),
      latency_ms: i,
      cost_nano_usd: 9 * i,
    }),
  )

/**
 * Makes the read models from the log, until all days are closed. Returns the number of requests in the request log, and
 * usage by day.
 */
export const madeOf = async (store: TestStore, log: EventLog) => {
  const worker = store.follow(log, { tuning: { closeMs: 20 } })
  const schema = await store.applied('requests', ALL_REQUESTS)
  await eventually('all days are closed', async () => {
    const rows = await store.sql`
      select 1 from ${store.sql(`${schema}.closed_day`)} closed left join ${store.sql(`${schema}.late_day`)} late using (day_ms)
      where closed.late = coalesce(late.changes, 0)`
    return rows.length === DAYS
  })
  await worker.stop()
  const requests = await store.sql`select 1 from ${store.sql(`${schema}.request`)}`
  const window = { tenantId: 'ten_1', fromMs: FIRST_MS, toMs: FIRST_MS + DAYS * DAY_MS }
  return { held: requests.length, usage: await usageQueries(store.sql).series(window, DAY_MS) }
}

export const EVERY_DAY = Array<number>(DAYS).fill(REQUESTS_A_DAY)
