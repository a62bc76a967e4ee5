// How many requests a window holds, from what usage has counted of its minutes and hours. Both are written in one
// transaction with the rows and made of the same ones: the sum is the number of rows, without reading them.
import type { Transaction } from '../database.ts'
import { EVERYBODY, TIER_MS } from '../usage/cells.ts'
import { piecesOf } from '../usage/window.ts'
import type { RequestFilter } from './query.ts'
import { conditions } from './rows.ts'

const CONDITIONS = [
  'outcome',
  'provider',
  'model',
  'errorCode',
  'statusMin',
  'search',
  'key',
  'policies',
  'endpoint',
  'users',
] as const

/** Whether the filter covers the whole window, of all tenants or of one. */
export const isWhole = (filter: RequestFilter): boolean => CONDITIONS.every((name) => filter[name] === null)

/** Of a filter that `isWhole`, exactly. What is less than a minute at the ends of the window is counted by its rows. */
export const countWhole = async (sql: Transaction, schemaName: string, filter: RequestFilter): Promise<number> => {
  const usage = sql(`${schemaName}.usage`)
  const whose = sql`dimension = 'total' and tenant_id = ${filter.tenantId ?? EVERYBODY}`
  // Hours are kept for longer than rows; minutes are not.
  const [kept] = await sql<{ first: number | null }[]>`
    select min(bucket_ms) as first from ${usage} where tier = 'minute' and dimension = 'total'
      and tenant_id = ${EVERYBODY}`
  if (kept!.first === null) return 0
  const fromMs = Math.max(filter.fromMs, kept!.first)
  const within = { fromMs: Math.ceil(fromMs / TIER_MS.minute) * TIER_MS.minute, toMs: floorTo(filter.toMs) }
  const rows = (from: number, to: number) => sql`
    select count(*) as count from ${sql(`${schemaName}.request`)} r
      where ${conditions(sql, { ...filter, fromMs: from, toMs: to })}`
  if (within.fromMs >= within.toMs) {
    const [few] = await sql<{ count: number }[]>`${rows(fromMs, filter.toMs)}`
    return few!.count
  }
  const cells = piecesOf(within, 'minute', 'hour').map(
    (piece) => sql`
      union all select sum(requests) from ${usage}
      where tier = ${piece.tier} and bucket_ms >= ${piece.fromMs} and bucket_ms < ${piece.toMs} and ${whose}`,
  )
  const [row] = await sql<{ count: number }[]>`
    select coalesce(sum(count), 0)::bigint as count from (
      ${rows(fromMs, within.fromMs)} union all ${rows(within.toMs, filter.toMs)} ${cells}) counted`
  return row!.count
}

const floorTo = (ms: number): number => Math.floor(ms / TIER_MS.minute) * TIER_MS.minute
