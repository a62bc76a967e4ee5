// Copies what the log no longer holds from the build before to the one that takes its place.
import type { Transaction } from '../database.ts'
import type { Build } from '../projection.ts'
import { count, newTally } from '../usage/cells.ts'
import { closedDays, noteLate } from '../usage/closed.ts'
import { addUsage } from '../usage/project.ts'
import { DAY_MS, daysOf, makeDay } from './days.ts'
import { factColumns, factsOf } from './stored.ts'

const ROWS_AT_ONCE = 2_000

/** Requests row by row, with what each adds to usage; of days whose requests are no longer kept, usage as it stands. */
export const carryOver = async (sql: Transaction, from: Build, to: Build): Promise<void> => {
  const days = await daysOf(sql, from.schemaName)
  for (const day of days) await makeDay(sql, to.schemaName, day)
  if (await hasRead(sql, from, to)) return
  const old = await countCarried(sql, from, to)
  await carryRows(sql, from, to)
  await addUsage(sql, to.schemaName, old, Number.NEGATIVE_INFINITY)
  await carryUsage(sql, from, to, days)
}

/**
 * The new build was made from the very first record of every partition that the one before holds anything of: nothing
 * needs to be carried over.
 */
const hasRead = async (sql: Transaction, from: Build, to: Build): Promise<boolean> => {
  const request = sql(`${from.schemaName}.request`)
  const [row] = await sql<{ lacks: boolean }[]>`
    with recursive stored as (
      select min(log_partition) as partition from ${request}
      union all
      select (select min(log_partition) from ${request} where log_partition > stored.partition)
        from stored where stored.partition is not null
    ), held as (
      select partition from stored where partition is not null
      union select log_partition from ${sql(`${from.schemaName}.pending`)}
      union select partition from gatelog.position
        where model = ${from.model} and build = ${from.build} and first_offset is not null
    )
    select exists (
      select from held where not exists (
        select from gatelog.position p
        where p.model = ${to.model} and p.build = ${to.build} and p.partition = held.partition
        and p.first_offset = 0)) as lacks`
  return !row!.lacks
}

/** The log that the new build was made from does not have the record of `held`. */
const isGone = (sql: Transaction, to: Build) => sql`
  not exists (
    select 1 from gatelog.position p
    where p.model = ${to.model} and p.build = ${to.build} and p.partition = held.log_partition
    and p.first_offset <= held.log_offset)`

const countCarried = async (sql: Transaction, from: Build, to: Build) => {
  const tally = newTally()
  const request = sql(`${from.schemaName}.request`)
  const closed = await closedDays(sql, to.schemaName, null)
  const late: number[] = []
  await sql<(Parameters<typeof factsOf>[0] & { log_partition: number; log_offset: number })[]>`
    select ${factColumns(sql)}, r.log_partition, r.log_offset
      from (select * from ${request} held where ${isGone(sql, to)}) r
    join ${sql(`${from.schemaName}.detail`)} d using (at_ms, id)
    where not exists (select 1 from ${sql(`${to.schemaName}.request`)} n 
      where n.at_ms = r.at_ms and n.id = r.id)`.cursor(ROWS_AT_ONCE, (rows) => {
    for (const { log_partition: partition, log_offset: offset, ...row } of rows) {
      const facts = factsOf(row)
      count(tally, facts)
      if (closed.has({ atMs: row.at_ms, partition, offset })) count(tally.days, facts, -1)
      else if (closed.isClosed(row.at_ms)) late.push(row.at_ms)
    }
  })
  await noteLate(sql, to.schemaName, late)
  return tally
}

const carryRows = async (sql: Transaction, from: Build, to: Build): Promise<void> => {
  const before = { request: sql(`${from.schemaName}.request`), detail: sql(`${from.schemaName}.detail`) }
  const after = { request: sql(`${to.schemaName}.request`), detail: sql(`${to.schemaName}.detail`) }
  // The admission is lost, its settlement is not.
  await sql`
    update ${after.detail} d set admitted = held.admitted from ${before.detail} held
    where d.at_ms = held.at_ms and d.id = held.id and d.admitted is null and held.admitted is not null`
  await sql`
    insert into ${after.detail} select held.* from ${before.detail} held join ${before.request} r using (at_ms, id)
    where not exists (select 1 from ${after.request} n where n.at_ms = r.at_ms and n.id = r.id)
      and exists (select 1 from ${before.request} held 
        where held.at_ms = r.at_ms and held.id = r.id and ${isGone(sql, to)})`
  await sql`insert into ${after.request}
    select * from ${before.request} held where ${isGone(sql, to)} on conflict do nothing`
  await sql`
    insert into ${sql(`${to.schemaName}.pending`)}
      select * from ${sql(`${from.schemaName}.pending`)} held where ${isGone(sql, to)}
    on conflict do nothing`
  await sql`
    insert into ${sql(`${to.schemaName}.newest_day`)} as held (day)
      select day from ${sql(`${from.schemaName}.newest_day`)}
    on conflict (one) do update set day = greatest(held.day, excluded.day)`
}

/** Days that the build before has dropped: it has counted all of them, the new one what the log still holds of them. */
const carryUsage = async (sql: Transaction, from: Build, to: Build, kept: readonly number[]): Promise<void> => {
  const first = kept[0]
  if (first === undefined) return
  const after = sql(`${to.schemaName}.usage`)
  await sql`delete from ${after} where bucket_ms < ${first * DAY_MS}`
  await sql`insert into ${after} select * from ${sql(`${from.schemaName}.usage`)} where bucket_ms < ${first * DAY_MS}`
}
