// Outcomes -> the usage tables. Called while the request log holds its build for itself: no two transactions add to one cell at once.
import { copyInto, copyLine } from '../copy.ts'
import type { Transaction } from '../database.ts'
import { type Cell, cellsOf, SUMS, type Tally, type Tier } from './cells.ts'
import { addBins, readBins, writtenBins } from './histogram.ts'

const KEYS = ['tier', 'dimension', 'tenant_id', 'bucket_ms', 'name', 'model'] as const
const KEY_COLUMNS = 'tier text, dimension text, tenant_id text, bucket_ms bigint, name text, model text'
export const USAGE_COLUMNS: readonly string[] = [...KEYS, ...SUMS, 'latency', 'ttft']

/** Adds what was counted to the table of a build. */
export const addUsage = async (
  sql: Transaction,
  schemaName: string,
  tally: Tally,
  minutesFromMs: number,
): Promise<void> => {
  const cells = cellsOf(tally, minutesFromMs)
  if (cells.length === 0) return
  const table = `"${schemaName}".usage`
  const known = await mergeKnown(sql, table, await possiblyKnown(sql, table, cells))
  const fresh = cells.filter((cell) => !known.has(cell))
  await copyInto(sql, table, USAGE_COLUMNS, fresh.map(lineOf))
  if (known.size > 0) await update(sql, table, [...known])
}

/** So few are looked up as they are. */
const FEW = 500

/** Without those beyond the newest bucket of their tier: every outcome is in the total of everybody. */
const possiblyKnown = async (sql: Transaction, table: string, cells: readonly Cell[]): Promise<readonly Cell[]> => {
  if (cells.length <= FEW) return cells
  const rows = await sql.unsafe<{ tier: Tier; newest: number | null }[]>(
    `select tier, (select max(bucket_ms) from ${table} held where held.tier = each.tier and dimension = 'total' and tenant_id = '*') as newest
     from unnest(array['minute', 'hour', 'day']) as each (tier)`,
    [],
    { prepare: true },
  )
  const newest = new Map(rows.map((row) => [row.tier, row.newest ?? Number.NEGATIVE_INFINITY]))
  return cells.filter(({ tier, bucketMs }) => bucketMs <= newest.get(tier)!)
}

const keyOf = ({ tier, dimension, tenantId, bucketMs, name, model }: Cell) => ({
  tier,
  dimension,
  tenant_id: tenantId,
  bucket_ms: bucketMs,
  name,
  model,
})

/** Those that have a row; to their histograms the stored ones are added. */
const mergeKnown = async (sql: Transaction, table: string, cells: readonly Cell[]): Promise<ReadonlySet<Cell>> => {
  if (cells.length === 0) return new Set()
  const keys = JSON.stringify(cells.map((cell, place) => ({ ...keyOf(cell), place })))
  const rows = await sql.unsafe<{ place: number; latency: string; ttft: string }[]>(
    `select place, latency, ttft from json_to_recordset($1::text::json) as new (${KEY_COLUMNS}, place integer)
     join ${table} using (${KEYS.join(', ')})`,
    [keys],
    { prepare: true },
  )
  return new Set(
    rows.map(({ place, latency, ttft }) => {
      const cell = cells[place]!
      addBins(cell.latency, readBins(latency))
      addBins(cell.ttft, readBins(ttft))
      return cell
    }),
  )
}

/** Its numbers are joined apart: there are twenty. */
const lineOf = (cell: Cell): string => {
  const { tier, dimension, tenantId, bucketMs, name, model, sums, latency, ttft } = cell
  const key = copyLine([tier, dimension, tenantId, bucketMs, name, model])
  return `${key.slice(0, -1)}\t${sums.join('\t')}\t${writtenBins(latency)}\t${writtenBins(ttft)}\n`
}

const UPDATE_COLUMNS = `${KEY_COLUMNS}, ${SUMS.map((name) => `${name} bigint`).join(', ')}, latency text, ttft text`

const update = async (sql: Transaction, table: string, cells: readonly Cell[]): Promise<void> => {
  const rows = cells.map((cell) => ({
    ...keyOf(cell),
    ...Object.fromEntries(SUMS.map((name, at) => [name, cell.sums[at]])),
    latency: writtenBins(cell.latency),
    ttft: writtenBins(cell.ttft),
  }))
  await sql.unsafe(
    `update ${table} as held set ${SUMS.map((name) => `${name} = held.${name} + new.${name}`).join(', ')},
       latency = new.latency, ttft = new.ttft
     from json_to_recordset($1::text::json) as new (${UPDATE_COLUMNS})
     where ${KEYS.map((name) => `held.${name} = new.${name}`).join(' and ')}`,
    [JSON.stringify(rows)],
    { prepare: true },
  )
  // What was taken back whole was never there. Only an outcome that an earlier one replaced is taken back.
  const emptied = cells.filter(({ sums }) => sums.some((sum) => sum < 0)).map(keyOf)
  if (emptied.length === 0) return
  await sql.unsafe(
    `delete from ${table} as held using json_to_recordset($1::text::json) as new (${KEY_COLUMNS})
     where ${KEYS.map((name) => `held.${name} = new.${name}`).join(' and ')} and held.requests = 0 and held.attempts = 0`,
    [JSON.stringify(emptied)],
    { prepare: true },
  )
}
