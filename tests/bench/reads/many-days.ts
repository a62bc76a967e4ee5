// Makes many days of outcomes out of one projected day: the same rows again, earlier by whole days and under new ids.
// All columns other than times and ids are what the projection wrote, so that the measured rows have the shape of real
// ones.
import { activeBuild } from '../../../projections/builds.ts'
import type { Sql } from '../../../projections/database.ts'
import { makeDay } from '../../../projections/requests/days.ts'
import { DAY_MS } from './sample-day.ts'

const columnsOf = async (sql: Sql, schemaName: string, table: string): Promise<readonly string[]> => {
  const rows = await sql<{ name: string }[]>`
    select attname as name from pg_attribute
    where attrelid = to_regclass(${`"${schemaName}".${table}`}) and attnum > 0 and not attisdropped and attgenerated = '' order by attnum`
  return rows.map(({ name }) => name)
}

/** An id with a time in its head, earlier by so much; one that has none stays. */
const earlierId = (id: string, atMs: string, prefix: string): string => {
  const hex = `lpad(to_hex(${atMs} - $1::bigint), 12, '0')`
  return `'${prefix}' || substr(${hex}, 1, 8) || '-' || substr(${hex}, 9, 4) || substr(${id}, ${prefix.length + 14})`
}

interface RowsToCopy {
  readonly schemaName: string
  readonly table: string
  readonly backMs: number
  readonly where: string
}

/** Copies the rows of a table that `where` names, `changed` columns changed. `$1`: milliseconds back. */
const copyRows = async (
  sql: Sql,
  { schemaName, table, backMs, where }: RowsToCopy,
  changed: Readonly<Record<string, string>>,
): Promise<void> => {
  const columns = await columnsOf(sql, schemaName, table)
  await sql.unsafe(
    `insert into "${schemaName}".${table} (${columns.join(', ')})
     select ${columns.map((column) => changed[column] ?? column).join(', ')} from "${schemaName}".${table} where ${where}`,
    [backMs],
  )
}

export interface Grown {
  readonly requests: number
  readonly usage: number
  readonly feedback: number
}

/** Repeats the day that begins at `startMs` on the one that many days before. */
export const repeatDay = async (sql: Sql, startMs: number, day: number): Promise<void> => {
  const [requests, feedback] = [await activeBuild(sql, 'requests'), await activeBuild(sql, 'feedback')]
  if (requests === null || feedback === null) throw new Error('nothing was projected')
  const { schemaName } = requests
  const within = (column: string) => `${column} >= ${startMs} and ${column} < ${startMs + DAY_MS}`
  const [records] = await sql<{ count: number }[]>`
    select max(log_offset) + 1 as count from ${sql(`${schemaName}.request`)}`
  const backMs = day * DAY_MS
  // Below 0, before all that the log has.
  const log_offset = `log_offset - ${day * records!.count}`
  const at_ms = 'at_ms - $1::bigint'
  const id = earlierId('id', 'at_ms', 'req_')
  await sql.begin((transaction) => makeDay(transaction, schemaName, startMs / DAY_MS - day))
  await copyRows(
    sql,
    { schemaName, table: 'request', backMs, where: within('at_ms') },
    {
      ...{ at_ms, id, log_offset, log_at_ms: 'log_at_ms - $1::bigint' },
      request_id: `case when request_id = id then ${id} else request_id || '-${day}' end`,
    },
  )
  await copyRows(sql, { schemaName, table: 'detail', backMs, where: within('at_ms') }, { at_ms, id })
  await copyRows(
    sql,
    { schemaName, table: 'usage', backMs, where: within('bucket_ms') },
    { bucket_ms: 'bucket_ms - $1::bigint' },
  )
  await copyRows(
    sql,
    { schemaName: feedback.schemaName, table: 'feedback', backMs, where: within('at_ms') },
    {
      ...{ at_ms, log_offset, id: earlierId('id', 'at_ms', 'fb_') },
      request: earlierId('request', 'at_ms', 'req_'),
    },
  )
}

/** What autovacuum does while rows come in over weeks. */
export const settleTables = async (sql: Sql): Promise<Grown> => {
  const [requests, feedback] = [await activeBuild(sql, 'requests'), await activeBuild(sql, 'feedback')]
  const [schemaName, other] = [requests!.schemaName, feedback!.schemaName]
  for (const table of [
    `"${schemaName}".request`,
    `"${schemaName}".detail`,
    `"${schemaName}".usage`,
    `"${other}".feedback`,
  ])
    await sql.unsafe(`vacuum (analyze) ${table}`)
  const count = async (table: string) =>
    (await sql.unsafe<{ count: number }[]>(`select count(*) as count from ${table}`))[0]!.count
  return {
    requests: await count(`"${schemaName}".request`),
    usage: await count(`"${schemaName}".usage`),
    feedback: await count(`"${other}".feedback`),
  }
}
