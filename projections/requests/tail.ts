// The request log as it grows: rows by their place in the log, which goes up in each partition whatever their time of
// arrival.
import type { Sql } from '../database.ts'
import type { LogPlace, RequestFilter, TailRow } from './query.ts'
import { conditions, listColumns, type StoredRequest, viewOf } from './rows.ts'

/** Bound of the rows that one call returns of a partition. */
const MOST_ROWS = 200
/**
 * Records of one partition that one call goes through, whatever of them matches: a reader that is far behind catches up
 * in steps.
 */
const MOST_RECORDS = 5_000

/** Rows below it are stored: the position is moved in the transaction that writes them. */
export const readPlace = async (sql: Sql): Promise<LogPlace> => {
  const rows = await sql<{ partition: number; next: number }[]>`
    select p.partition, p.next_offset as next from gatelog.position p join gatelog.build b using (model, build)
    where b.model = 'requests' and b.state = 'active'`
  return new Map(rows.map(({ partition, next }) => [partition, next]))
}

type Placed = StoredRequest & {
  readonly log_at_ms: number
  readonly log_partition: number
  readonly log_offset: number
}

export const readSince = async (sql: Sql, schemaName: string, place: LogPlace, filter: RequestFilter) => {
  const now = await readPlace(sql)
  const stretches = [...now]
    .map(([partition, next]) => {
      const first = place.get(partition) ?? 0
      return { partition, first, to: Math.min(next, first + MOST_RECORDS) }
    })
    .filter(({ first, to }) => first < to)
  if (stretches.length === 0) return { rows: [], reached: now, isBehind: false }
  const found = await sql<Placed[]>`
    select r.* from json_to_recordset(${JSON.stringify(stretches)}::text::json) 
      as s (partition int, first bigint, "to" bigint)
    cross join lateral (
      select ${listColumns(sql)}, log_at_ms, log_partition, log_offset from ${sql(`${schemaName}.request`)}
      where log_partition = s.partition and log_offset >= s.first and log_offset < s."to" and ${conditions(sql, filter)}
      order by log_offset limit ${MOST_ROWS}
    ) r order by r.log_at_ms, r.log_partition, r.log_offset`
  const reached = new Map([...now, ...stretches.map(({ partition, to }) => [partition, to] as const)])
  for (const [partition, rows] of Map.groupBy(found, (row) => row.log_partition))
    if (rows.length === MOST_ROWS) reached.set(partition, rows.at(-1)!.log_offset + 1)
  const rows = found.map(
    (row): TailRow => ({ request: viewOf(row), partition: row.log_partition, offset: row.log_offset }),
  )
  return { rows, reached, isBehind: [...now].some(([partition, next]) => reached.get(partition)! < next) }
}
