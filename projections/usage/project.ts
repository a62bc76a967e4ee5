// Outcomes -> the usage tables. Called while the request log's transaction has the build locked: no two transactions
// add to one cell at once.
import { copyInto, copyLine, copyPieces, readCopyLine } from '../copy.ts'
import type { Transaction } from '../database.ts'
import { type Cell, cellsOf, type Tally, TIER_MS, type Tier } from './cells.ts'
import { addBins, readBins, writtenBins } from './histogram.ts'
import { SUMS } from './share.ts'

const TIERS = Object.keys(TIER_MS) as Tier[]
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

/** The cells of a bucket as lines to be copied: what another thread has counted. */
export interface UsageText {
  readonly tier: Tier
  readonly bucketMs: number
  readonly text: Uint8Array<ArrayBuffer>
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export const usageText = (cells: Iterable<Cell>): readonly UsageText[] => {
  const groups = new Map<number, Record<Tier, string>>()
  for (const cell of cells) {
    const { tier, bucketMs } = cell
    const group = groups.get(bucketMs) ?? { minute: '', hour: '', day: '' }
    groups.set(bucketMs, group)
    group[tier] += lineOf(cell)
  }
  return [...groups].flatMap(([bucketMs, texts]) =>
    TIERS.filter((tier) => texts[tier] !== '').map((tier) => ({ tier, bucketMs, text: encoder.encode(texts[tier]) })),
  )
}

/**
 * Adds what another thread has counted: most of it is of buckets that the table does not have yet, and goes in as it
 * is.
 */
export const addUsageText = async (
  sql: Transaction,
  schemaName: string,
  groups: readonly UsageText[],
): Promise<void> => {
  if (groups.length === 0) return
  const table = `"${schemaName}".usage`
  const newest = await newestBuckets(sql, table)
  const isNew = ({ tier, bucketMs }: UsageText) => bucketMs > newest.get(tier)!
  const cells = groups.filter((group) => !isNew(group)).flatMap(cellsIn)
  const known = await mergeKnown(sql, table, cells)
  const fresh = cells.filter((cell) => !known.has(cell)).map(lineOf)
  await copyPieces(sql, table, USAGE_COLUMNS, [
    encoder.encode(fresh.join('')),
    ...groups.filter(isNew).map(({ text }) => text),
  ])
  if (known.size > 0) await update(sql, table, [...known])
}

const cellsIn = ({ text }: UsageText): Cell[] => decoder.decode(text).split('\n').slice(0, -1).map(cellOf)

/** So few are looked up one by one. */
const FEW = 500

/** Without those beyond the newest bucket of their tier. */
const possiblyKnown = async (sql: Transaction, table: string, cells: readonly Cell[]): Promise<readonly Cell[]> => {
  if (cells.length <= FEW) return cells
  const newest = await newestBuckets(sql, table)
  return cells.filter(({ tier, bucketMs }) => bucketMs <= newest.get(tier)!)
}

/** Newest bucket of each tier, read from the total of all tenants: every outcome is in it. */
const newestBuckets = async (sql: Transaction, table: string): Promise<ReadonlyMap<Tier, number>> => {
  const rows = await sql.unsafe<{ tier: Tier; newest: number | null }[]>(
    `select tier, (select max(bucket_ms) from ${table} held 
      where held.tier = each.tier and dimension = 'total' and tenant_id = '*') as newest
     from unnest(array['minute', 'hour', 'day']) as each (tier)`,
    [],
    { prepare: true },
  )
  return new Map(rows.map((row) => [row.tier, row.newest ?? Number.NEGATIVE_INFINITY]))
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

/** Its numbers are joined separately: there are twenty. */
const lineOf = (cell: Cell): string => {
  const { tier, dimension, tenantId, bucketMs, name, model, sums, latency, ttft } = cell
  const key = copyLine([tier, dimension, tenantId, bucketMs, name, model])
  return `${key.slice(0, -1)}\t${sums.join('\t')}\t${writtenBins(latency)}\t${writtenBins(ttft)}\n`
}

/** The cell that `lineOf` made a line of. */
const cellOf = (line: string): Cell => {
  const [tier, dimension, tenantId, bucketMs, name, model, ...rest] = readCopyLine(line) as string[]
  const [latency, ttft] = rest.slice(SUMS.length)
  return {
    tier: tier as Cell['tier'],
    dimension: dimension as Cell['dimension'],
    tenantId: tenantId!,
    bucketMs: Number(bucketMs),
    name: name!,
    model: model!,
    sums: rest.slice(0, SUMS.length).map(Number),
    latency: readBins(latency!),
    ttft: readBins(ttft!),
  }
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
  // A cell whose outcomes were all taken back was never stored. Only an outcome that an earlier one replaced is taken
  // back.
  const emptied = cells.filter(({ sums }) => sums.some((sum) => sum < 0)).map(keyOf)
  if (emptied.length === 0) return
  await sql.unsafe(
    `delete from ${table} as held using json_to_recordset($1::text::json) as new (${KEY_COLUMNS})
     where ${KEYS.map((name) => `held.${name} = new.${name}`).join(' and ')} 
       and held.requests = 0 and held.attempts = 0`,
    [JSON.stringify(emptied)],
    { prepare: true },
  )
}
