// Where a window begins or ends inside a bucket: that part of the bucket is counted by its rows, in the way in which
// the buckets themselves were.
import type { Transaction } from '../database.ts'
import { factColumns, factsOf } from '../requests/stored.ts'
import { type Cell, cellsOf, count, EVERYBODY, newTally } from './cells.ts'
import { writtenBins } from './histogram.ts'
import { SUMS } from './share.ts'
import { bucketOf, innerOf, partsOf, roundedTo, type UsageWindow } from './window.ts'

/**
 * Rows of one part. Beyond that the window is widened to the whole bucket: counting rows takes time of the thread that
 * serves.
 */
export const MOST_ROWS = 5_000
/** Read and counted at once, about: the thread has requests to serve meanwhile. */
const ROWS_AT_ONCE = 250

/** How a window is summed. */
export interface Frame {
  /** What is summed: the requested window, wider where a part of a bucket cannot be counted by itself. */
  readonly window: UsageWindow
  /** The whole buckets of `window`; may be empty. */
  readonly whole: UsageWindow
  /** What is summed besides, counted by row. */
  readonly parts: readonly UsageWindow[]
  readonly cells: readonly Cell[]
}

/** A window of whole buckets. */
export const wholeFrame = (window: UsageWindow): Frame => ({ window, whole: window, parts: [], cells: [] })

interface FrameQuery extends UsageWindow {
  /** Null: all tenants. */
  readonly tenantId: string | null
  /** The finest bucket that has what is requested. */
  readonly unit: 'minute' | 'hour'
  /** `MOST_ROWS`. */
  readonly mostRows: number
}

/** Of a window of which all rows are still there. */
export const frameOf = async (sql: Transaction, schemaName: string, query: FrameQuery): Promise<Frame> => {
  const window = { fromMs: query.fromMs, toMs: query.toMs }
  const frame = { window, whole: innerOf(window, query.unit), parts: [] as UsageWindow[], cells: [] as Cell[] }
  for (const part of partsOf(window, query.unit)) {
    const bucket = bucketOf(part, query.unit)
    const { rows, beyond } = await look(sql, schemaName, part, bucket, query.tenantId)
    if (beyond && rows <= query.mostRows) {
      frame.parts.push(part)
      frame.cells.push(...(await countRows(sql, schemaName, part, rows, query)))
      continue
    }
    frame.whole = joined(frame.whole, bucket)
    if (beyond) frame.window = joined(frame.window, bucket)
  }
  return frame
}

const joined = (a: UsageWindow, b: UsageWindow): UsageWindow => ({
  fromMs: Math.min(a.fromMs, b.fromMs),
  toMs: Math.max(a.toMs, b.toMs),
})

/**
 * How many rows a part has at most, and whether its bucket has others: where it has none, as in the minute under way,
 * the bucket is the part.
 */
const look = async (
  sql: Transaction,
  schemaName: string,
  part: UsageWindow,
  bucket: UsageWindow,
  tenantId: string | null,
): Promise<{ readonly rows: number; readonly beyond: boolean }> => {
  const minutes = roundedTo(part, 'minute')
  const tenantCondition = tenantConditionOf(sql, tenantId)
  const request = sql(`${schemaName}.request`)
  const [row] = await sql<{ rows: number; beyond: boolean }[]>`
    select coalesce((select sum(requests) from ${sql(`${schemaName}.usage`)}
        where tier = 'minute' and dimension = 'total' and tenant_id = ${tenantId ?? EVERYBODY}
          and bucket_ms >= ${minutes.fromMs} and bucket_ms < ${minutes.toMs}), 0)::bigint as rows,
      exists (select from ${request} r
        where r.at_ms >= ${bucket.fromMs} and r.at_ms < ${part.fromMs} ${tenantCondition})
        or exists (select from ${request} r
        where r.at_ms >= ${part.toMs} and r.at_ms < ${bucket.toMs} ${tenantCondition}) as beyond`
  return row!
}

/** `rows`: how many there are, about. */
const countRows = async (
  sql: Transaction,
  schemaName: string,
  part: UsageWindow,
  rows: number,
  { tenantId, unit }: FrameQuery,
): Promise<readonly Cell[]> => {
  const tally = newTally()
  const widthMs = Math.ceil((part.toMs - part.fromMs) / Math.max(1, Math.ceil(rows / ROWS_AT_ONCE)))
  for (let fromMs = part.fromMs; fromMs < part.toMs; fromMs += widthMs) {
    const toMs = Math.min(part.toMs, fromMs + widthMs)
    const some = await sql<Parameters<typeof factsOf>[0][]>`
      select ${factColumns(sql)} from ${sql(`${schemaName}.request`)} r
      join ${sql(`${schemaName}.detail`)} d using (at_ms, id)
      where r.at_ms >= ${fromMs} and r.at_ms < ${toMs}
        and d.at_ms >= ${fromMs} and d.at_ms < ${toMs} ${tenantConditionOf(sql, tenantId)}`
    for (const row of some) count(tally, factsOf(row))
  }
  return cellsOf(tally, Number.NEGATIVE_INFINITY).filter(({ tier }) => tier === unit)
}

const tenantConditionOf = (sql: Transaction, tenantId: string | null) =>
  tenantId === null ? sql`` : sql`and r.tenant_id = ${tenantId}`

/** Rows of `usage` as JSON has them. */
export const rowsOf = (cells: readonly Cell[]): readonly Readonly<Record<string, string | number>>[] =>
  cells.map(({ dimension, tenantId, bucketMs, name, model, sums, latency, ttft }) => ({
    ...{ tier: 'part', dimension, tenant_id: tenantId, bucket_ms: bucketMs, name, model },
    ...Object.fromEntries(SUMS.map((sum, at) => [sum, sums[at]!])),
    ...{ latency: writtenBins(latency), ttft: writtenBins(ttft) },
  }))

/** SQL of those rows as a relation with the columns of `usage`. `json`: the parameter that holds them. */
export const relationOf = (schemaName: string, json: string): string =>
  `json_populate_recordset(null::"${schemaName}".usage, ${json}::text::json)`
