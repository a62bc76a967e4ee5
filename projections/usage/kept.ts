// Since when minutes, hours and days of usage are there, and thus how finely a window can be summed.
import type { Transaction } from '../database.ts'
import { EVERYBODY, TIER_MS, type Tier } from './cells.ts'
import { roundedTo } from './window.ts'

/** What is kept of a length of bucket, by the total of all tenants. */
export interface Kept {
  readonly minute: number | null
  readonly hour: number | null
  readonly day: number | null
  /**
   * The day of the oldest hour has more than its hours: it was closed, and the log does not have all of it any more.
   */
  readonly partial: boolean
}

/**
 * Minutes of days that are no longer kept are deleted: a window that begins there is rounded to hours. So are hours of
 * days that the log did not have when the read model was made: a window that begins there is rounded to days.
 */
export const finestKept = ({ minute, hour, day, partial }: Kept, fromMs: number, finest: Tier): Tier => {
  if (day === null) return finest
  const hoursFrom = hour === null ? Number.POSITIVE_INFINITY : dayOf(hour) + (partial ? TIER_MS.day : 0)
  if (day < hoursFrom && fromMs < hoursFrom) return 'day'
  if (finest === 'hour' || minute === null || hour === null) return 'hour'
  return fromMs < minute && roundedTo({ fromMs: minute, toMs: minute }, 'hour').fromMs > hour ? 'hour' : 'minute'
}

const dayOf = (ms: number): number => roundedTo({ fromMs: ms, toMs: ms }, 'day').fromMs

export const keptOf = async (sql: Transaction, schemaName: string): Promise<Kept> => {
  const total = (tier: Tier) => sql`
    ${sql(`${schemaName}.usage`)} where tier = ${tier} and dimension = 'total' and tenant_id = ${EVERYBODY}`
  const [row] = await sql<Kept[]>`
    with first as (select
      (select min(bucket_ms) from ${total('minute')}) as minute, (select min(bucket_ms) from ${total('hour')}) as hour,
      (select min(bucket_ms) from ${total('day')}) as day)
    select *, coalesce(
      (select sum(requests) from ${total('hour')} and bucket_ms / ${TIER_MS.day}::bigint = hour / ${TIER_MS.day}::bigint
         and bucket_ms >= hour and bucket_ms < hour + ${TIER_MS.day}::bigint)
      < (select requests from ${total('day')}
        and bucket_ms = hour / ${TIER_MS.day}::bigint * ${TIER_MS.day}::bigint), false) as partial
    from first`
  return row!
}
