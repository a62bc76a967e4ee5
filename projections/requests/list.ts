// Lists of the request log: rows, how many there are, and how many of each code, all of one moment.
import { isTooSlow, type Transaction } from '../database.ts'
import type { RequestFilter, RequestView } from './query.ts'
import { conditions, listColumns, type StoredRequest, viewOf } from './rows.ts'
import { type Slice, slicesOf } from './slices.ts'
import { countWhole, isWhole } from './total.ts'

export interface RequestList {
  /** Newest first. */
  readonly requests: readonly RequestView[]
  /** All that match from `searchedFromMs` on. */
  readonly total: number
  /** How far back the window was searched: its start, unless that would have taken too long. */
  readonly searchedFromMs: number
}

export interface FailureList extends RequestList {
  /** The requests that `total` counts, by error code; `unknown`: no code. */
  readonly byCode: Readonly<Record<string, number>>
}

export interface SearchLimits {
  /** No further slice is begun after this; the one under way then may take as long as a statement may. */
  readonly searchMs: number
  readonly statementMs: number
}

/** The time that one slice is to take. */
const SLICE_MS = 60
/** With two statements for a slice, together less than the time of a read. */
const LIMITS: SearchLimits = { searchMs: 800, statementMs: 500 }

const readRows = (sql: Transaction, schemaName: string, filter: RequestFilter): Promise<StoredRequest[]> => sql<
  StoredRequest[]
>`
  select ${listColumns(sql)} from ${sql(`${schemaName}.request`)} r where ${conditions(sql, filter)}
  order by at_ms desc, id desc limit ${filter.limit} offset ${filter.offset}`

const countRows = async (sql: Transaction, schemaName: string, filter: RequestFilter): Promise<number> => {
  const [row] = await sql<{ count: number }[]>`
    select count(*) as count from ${sql(`${schemaName}.request`)} r where ${conditions(sql, filter)}`
  return row!.count
}

/**
 * What a filter finds. The count of a whole window, or of a tenant's, comes from usage; everything else is searched
 * slice by slice.
 */
export const listRequests = async (
  sql: Transaction,
  schemaName: string,
  filter: RequestFilter,
  limits = LIMITS,
): Promise<RequestList> => {
  if (!isWhole(filter)) return searched(sql, schemaName, filter, null, limits)
  const rows = await readRows(sql, schemaName, filter)
  const total = await countWhole(sql, schemaName, filter)
  return { requests: rows.map(viewOf), total, searchedFromMs: filter.fromMs }
}

export const listFailures = async (
  sql: Transaction,
  schemaName: string,
  filter: RequestFilter,
  limits = LIMITS,
): Promise<FailureList> => {
  const codes = new Map<string, number>()
  const list = await searched(sql, schemaName, filter, codes, limits)
  return { ...list, byCode: Object.fromEntries([...codes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))) }
}

/** Adds how many match to the codes, when these are requested; returns how many. */
const countSlice = async (
  sql: Transaction,
  schemaName: string,
  filter: RequestFilter,
  codes: Map<string, number> | null,
): Promise<number> => {
  if (codes === null) return countRows(sql, schemaName, filter)
  const rows = await sql<{ code: string; count: number }[]>`
    select coalesce(error_code, 'unknown') as code, count(*) as count
    from ${sql(`${schemaName}.request`)} r where ${conditions(sql, filter)} group by 1`
  for (const { code, count } of rows) codes.set(code, (codes.get(code) ?? 0) + count)
  return rows.reduce((sum, { count }) => sum + count, 0)
}

const searched = async (
  sql: Transaction,
  schemaName: string,
  filter: RequestFilter,
  codes: Map<string, number> | null,
  { searchMs, statementMs }: SearchLimits,
): Promise<RequestList> => {
  // Rows lie in the order of their arrival: without the hint, each slice would read the whole day that it is a part of.
  await sql`
    select set_config('statement_timeout', ${`${statementMs}ms`}, true), set_config('random_page_cost', '1.1', true)`
  const startedAt = performance.now()
  const requests: RequestView[] = []
  let total = 0
  let searchedFromMs = filter.toMs
  let skipped = 0

  const search = async (slice: Slice): Promise<void> => {
    const sliceFilter = { ...filter, ...slice, limit: filter.limit - requests.length, offset: filter.offset - skipped }
    const rows = sliceFilter.limit === 0 ? [] : await readRows(sql, schemaName, sliceFilter)
    const isShort =
      sliceFilter.limit > 0 && rows.length < sliceFilter.limit && (rows.length > 0 || sliceFilter.offset === 0)
    const count =
      isShort && (codes === null || rows.length === 0)
        ? rows.length === 0
          ? 0
          : sliceFilter.offset + rows.length
        : await countSlice(sql, schemaName, sliceFilter, codes)
    requests.push(...rows.map(viewOf))
    skipped += Math.min(sliceFilter.offset, count)
    total += count
    searchedFromMs = slice.fromMs
  }
  for (const slice of slicesOf(filter, SLICE_MS)) {
    const isFirst = slice.toMs === filter.toMs
    if (!isFirst && performance.now() - startedAt > searchMs) break
    try {
      await search(slice)
    } catch (error) {
      if (isFirst || !isTooSlow(error)) throw error
      break
    }
  }
  return { requests, total, searchedFromMs }
}
