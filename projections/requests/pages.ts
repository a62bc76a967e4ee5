// The request log page by page, for files: each row once, whatever comes meanwhile, and no statement that takes long.
import type { Sql } from '../database.ts'
import { readActive } from '../reader.ts'
import type { RequestFilter, RequestView } from './query.ts'
import { conditions, listColumns, type StoredRequest, viewOf } from './rows.ts'
import { slicesOf } from './slices.ts'

const PAGE_ROWS = 1_000
/** What the statements of a slice should take together. */
const SLICE_MS = 500

/** The rows of a filter, newest first, `limit` of them in all; a page may throw as a list does. */
export async function* requestPages(sql: Sql, filter: RequestFilter): AsyncGenerator<readonly RequestView[], void> {
  let spentMs = 0
  const timed = async <Result>(read: () => Promise<Result>): Promise<Result> => {
    const startedAt = performance.now()
    const result = await read()
    spentMs += performance.now() - startedAt
    return result
  }
  let left = filter.limit
  let skip = filter.offset
  // The reader of the pages may be slow.
  for (const slice of slicesOf(filter, SLICE_MS, () => spentMs)) {
    const sliceFilter = { ...filter, ...slice }
    if (skip > 0) {
      const count = await timed(() => countRows(sql, sliceFilter))
      if (count <= skip) {
        skip -= count
        continue
      }
    }
    for (let last: StoredRequest | undefined; ; ) {
      const limit = Math.min(left, PAGE_ROWS)
      const rows = await timed(() => readPage(sql, { ...sliceFilter, limit, offset: skip }, last))
      if (rows.length > 0) yield rows.map(viewOf)
      left -= rows.length
      if (left === 0) return
      skip = 0
      last = rows.at(-1)
      if (rows.length < limit) break
    }
  }
}

const countRows = (sql: Sql, filter: RequestFilter): Promise<number> =>
  readActive(sql, 'requests', async (schemaName) => {
    const [row] = await sql<{ count: number }[]>`
      select count(*) as count from ${sql(`${schemaName}.request`)} r where ${conditions(sql, filter)}`
    return row!.count
  })

/** The rows after the last one of the page before. */
const readPage = (sql: Sql, filter: RequestFilter, last: StoredRequest | undefined): Promise<StoredRequest[]> =>
  readActive(sql, 'requests', async (schemaName) => {
    const after =
      last === undefined ? sql`` : sql`and at_ms <= ${last.at_ms} and (at_ms, id) < (${last.at_ms}::bigint, ${last.id})`
    return sql<StoredRequest[]>`
      select ${listColumns(sql)} from ${sql(`${schemaName}.request`)} r where ${conditions(sql, filter)} ${after}
      order by at_ms desc, id desc limit ${filter.limit} offset ${filter.offset}`
  })
