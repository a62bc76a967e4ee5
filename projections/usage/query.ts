// Usage -> totals, series and breakdowns, from as few buckets as the window needs. Percentiles come from histograms
// that were added up.
import type { Sql, Transaction } from '../database.ts'
import { readSnapshot } from '../reader.ts'
import { type Cell, type Dimension, EVERYBODY, TIER_MS, type Tier } from './cells.ts'
import { correctedPart, correctedPieces, correctionSql, type PriceCorrection, spansOf } from './corrected.ts'
import { type Frame, frameOf, MOST_ROWS, relationOf, rowsOf, wholeFrame } from './ends.ts'
import { addWritten, type Histogram, newHistogram, percentileOf } from './histogram.ts'
import { finestKept, type Kept, keptOf } from './kept.ts'
import { COUNTERS, type Counter } from './share.ts'
import { intervalStart, piecesOf, roundedTo, tierWithin, type UsageWindow } from './window.ts'

export interface UsageFilter extends UsageWindow {
  /** Null: all tenants. */
  readonly tenantId: string | null
  /** Names as they were recorded. With one of them, what went to other providers or models is left out. */
  readonly provider?: string | null
  readonly model?: string | null
  /**
   * Costs as corrected by these, the later one where two overlap: the tokens that were billed at the corrected prices,
   * and what was booked for all else. Each figure is exact, a fraction of a nano-USD rounded up once. Null: as booked.
   */
  readonly corrections?: readonly PriceCorrection[] | null
}

/**
 * Sums of a window. `errors`: failed, interrupted, denied and orphaned; what a client left (`canceled`) is none.
 * Percentiles are null without requests.
 */
export interface UsageFigures extends Readonly<Record<Counter, number>> {
  readonly errors: number
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly p99_ms: number | null
  readonly ttft_p50_ms: number | null
  readonly ttft_p95_ms: number | null
}

/**
 * What usage can be broken down by. Those of which provider and model are not known (`NEVER_CORRECTED`) have costs as
 * booked only. What is no whole hour of all but the first four is counted by row.
 */
export type GroupBy = 'provider' | 'model' | 'provider_model' | 'tenant' | Exclude<Dimension, 'total' | 'model'>

export const NEVER_CORRECTED: readonly GroupBy[] = ['key', 'endpoint', 'policy', 'code', 'purpose']

export interface UsageGroup extends UsageFigures {
  /** The value of the group: a name, an id, a slug, a code; null for none. Of `provider_model` the provider. */
  readonly name: string | null
  /** The model of a group of `model` and `provider_model`; null: none. */
  readonly model: string | null
}

export interface UsagePoint extends UsageFigures {
  /**
   * Start of the interval, Unix milliseconds; the first and the last may reach beyond the window and hold only what is
   * in it.
   */
  readonly atMs: number
}

export interface UsageReads {
  /**
   * `window` is what was summed: the requested one, rounded outward to hours or days where nothing finer is kept, and
   * at an end with too many rows (`ends.ts`).
   */
  totals(filter: UsageFilter): Promise<{ readonly window: UsageWindow; readonly totals: UsageFigures }>
  /** The most expensive first, then those with most requests. */
  groups(
    filter: UsageFilter,
    by: GroupBy,
    limit: number,
  ): Promise<{ readonly window: UsageWindow; readonly groups: readonly UsageGroup[] }>
  /** Every interval of the window, empty ones too. */
  series(
    filter: UsageFilter,
    intervalMs: number,
  ): Promise<{ readonly window: UsageWindow; readonly series: readonly UsagePoint[] }>
}

/** Each by itself, or several of one moment, so that their sums agree. Throws ReadStoreUnavailable within 2 s. */
export interface UsageQueries extends UsageReads {
  snapshot<Result>(read: (reads: UsageReads) => Promise<Result>): Promise<Result>
}

/** `mostRows`: of a part of a bucket, to be counted one by one. */
export const usageQueries = (sql: Sql, mostRows = MOST_ROWS): UsageQueries => {
  const snapshot: UsageQueries['snapshot'] = (read) =>
    readSnapshot(sql, 'requests', (transaction, schemaName) => read(readsOf(transaction, schemaName, mostRows)))
  return {
    snapshot,
    totals: (filter) => snapshot((reads) => reads.totals(filter)),
    groups: (filter, by, limit) => snapshot((reads) => reads.groups(filter, by, limit)),
    series: (filter, intervalMs) => snapshot((reads) => reads.series(filter, intervalMs)),
  }
}

const readsOf = (sql: Transaction, schemaName: string, mostRows: number): UsageReads => {
  let kept: Promise<Kept> | null = null
  const framed = async ({ fromMs, toMs, tenantId }: UsageFilter, unit: 'minute' | 'hour'): Promise<Framed> => {
    kept ??= keptOf(sql, schemaName)
    const finest = finestKept(await kept, fromMs, unit)
    // Rows are kept for as long as minutes are.
    const hasRows = finestKept(await kept, fromMs, 'minute') === 'minute'
    if (!hasRows) return { finest, ...wholeFrame(roundedTo({ fromMs, toMs }, finest)) }
    return { finest, ...(await frameOf(sql, schemaName, { fromMs, toMs, tenantId, unit, mostRows })) }
  }
  const frames = new Map<string, Promise<Framed>>()
  /** The parts of a response are of one window: its ends are counted once. */
  const frameFor = (filter: UsageFilter, unit: 'minute' | 'hour'): Promise<Framed> => {
    const key = JSON.stringify([filter.fromMs, filter.toMs, filter.tenantId, unit])
    const found = frames.get(key) ?? framed(filter, unit)
    frames.set(key, found)
    return found
  }
  return {
    async totals(filter) {
      const frame = await frameFor(filter, 'minute')
      const [row] = await summed(sql, schemaName, { filter, frame, ...dimensionOf(filter), by: "''" })
      return { window: frame.window, totals: figuresOf(row ?? null) }
    },
    async groups(filter, by, limit) {
      const group = GROUPS[by]
      const corrections = NEVER_CORRECTED.includes(by) ? null : filter.corrections
      const frame = await frameFor(filter, group.unit)
      const rows = await summed(sql, schemaName, { filter: { ...filter, corrections }, frame, ...group, limit })
      const groups = rows.map((row) => ({ name: row.name || null, model: row.model || null, ...figuresOf(row) }))
      return { window: frame.window, groups }
    },
    async series(filter, intervalMs) {
      const frame = await frameFor(filter, 'minute')
      const { window, finest } = frame
      const within = tierWithin(intervalMs)
      const coarsest = TIER_MS[finest] > TIER_MS[within] ? finest : within
      const origin = intervalStart(0, intervalMs)
      const by = `((bucket_ms - (${origin})) / ${intervalMs} * ${intervalMs} + (${origin}))::text`
      const rows = await summed(sql, schemaName, { filter, frame, coarsest, ...dimensionOf(filter), by })
      const found = new Map(rows.map((row) => [Number(row.name), row]))
      const series: UsagePoint[] = []
      for (let atMs = intervalStart(window.fromMs, intervalMs); atMs < window.toMs; atMs += intervalMs)
        series.push({ atMs, ...figuresOf(found.get(atMs) ?? null) })
      return { window, series }
    },
  }
}

/** `finest`: the shortest buckets that are summed. */
type Framed = Frame & { readonly finest: Tier }

interface Grouping {
  readonly dimension: Dimension
  /** The finest bucket that has it. */
  readonly unit: 'minute' | 'hour'
  /** SQL of ours, never of a client. */
  readonly by: string
  readonly model?: boolean
}

const GROUPS: Readonly<Record<GroupBy, Grouping>> = {
  provider: { dimension: 'model', unit: 'minute', by: 'name' },
  model: { dimension: 'model', unit: 'minute', by: "''", model: true },
  provider_model: { dimension: 'model', unit: 'minute', by: 'name', model: true },
  tenant: { dimension: 'total', unit: 'minute', by: 'tenant_id' },
  key: { dimension: 'key', unit: 'hour', by: 'name' },
  endpoint: { dimension: 'endpoint', unit: 'hour', by: 'name' },
  policy: { dimension: 'policy', unit: 'hour', by: 'name' },
  code: { dimension: 'code', unit: 'hour', by: 'name' },
  purpose: { dimension: 'purpose', unit: 'hour', by: 'name' },
}

const dimensionOf = ({ provider = null, model = null }: UsageFilter): { readonly dimension: Dimension } => ({
  dimension: provider === null && model === null ? 'total' : 'model',
})

type Summed = Readonly<Record<Counter, number>> & {
  readonly name: string
  readonly model: string
  readonly latency: string | null
  readonly ttft: string | null
}

interface Wanted {
  readonly filter: UsageFilter
  readonly frame: Framed
  readonly coarsest?: Tier
  readonly dimension: Dimension
  readonly by: string
  readonly model?: boolean
  readonly limit?: number
}

const SUMS = COUNTERS.map((name) => `sum(${name})::bigint as ${name}`).join(', ')
/** The counters that corrections change. */
const CORRECTED = new Map<Counter, string>([
  ['cost_nano_usd', 'ceil(sums.cost_nano_usd + coalesce(changed.nano_usd, 0))::bigint'],
  ['unpriced', '(sums.unpriced - coalesce(changed.unpriced, 0))::bigint'],
])
const CORRECTED_SUMS = COUNTERS.map((name) => `${CORRECTED.get(name) ?? `sums.${name}`} as ${name}`).join(', ')

/** The `tenant_id` of the usage; null: that of each tenant. */
const ownerOf = ({ filter, dimension, by }: Wanted): string | null =>
  filter.tenantId ?? (by !== 'tenant_id' && (dimension === 'total' || dimension === 'model') ? EVERYBODY : null)

const tenantConditionOf = (wanted: Wanted, parameter: (value: string) => string): string => {
  const owner = ownerOf(wanted)
  return owner === null ? `tenant_id <> '${EVERYBODY}'` : `tenant_id = ${parameter(owner)}`
}

/** Where prices are corrected in what was requested; null: nowhere. */
const correctedOf = ({ filter, frame: { whole, parts, finest }, coarsest = 'day' }: Wanted): string | null => {
  const { corrections = null, provider = null, model = null } = filter
  const meant = (corrections ?? []).filter(
    (each) => (provider === null || each.provider === provider) && (model === null || each.model === model),
  )
  const pieces = [
    ...correctedPieces(spansOf(meant, whole), finest, coarsest),
    ...parts.flatMap((part) => correctedPart(meant, part)),
  ]
  return pieces.length === 0 ? null : JSON.stringify(pieces)
}

/** Sums of the window, by group. Histograms are joined end to end: reading them adds them up. */
const summed = async (sql: Transaction, schemaName: string, wanted: Wanted): Promise<Summed[]> => {
  const { filter, frame, coarsest = 'day', dimension, by, limit = null } = wanted
  const pieces = piecesOf(frame.whole, frame.finest, coarsest)
  const corrected = correctedOf(wanted)
  const owner = ownerOf(wanted)
  // Corrections apply to providers and models, whatever is summed.
  const isMeant = (cell: Cell) => cell.dimension === dimension || (corrected !== null && cell.dimension === 'model')
  const cells = frame.cells.filter((cell) => (owner === null || cell.tenantId === owner) && isMeant(cell))
  if (pieces.length === 0 && cells.length === 0) return []
  const parameters: (string | number)[] = [dimension]
  const parameter = (value: string | number): string => `$${parameters.push(value)}`
  const tenantCondition = tenantConditionOf(wanted, parameter)
  const conditions = ['dimension = $1', tenantCondition]
  if (dimension === 'model' && filter.provider != null) conditions.push(`name = ${parameter(filter.provider)}`)
  if (dimension === 'model' && filter.model != null) conditions.push(`model = ${parameter(filter.model)}`)
  const held = pieces.map(
    ({ tier, fromMs, toMs }) =>
      `select * from "${schemaName}".usage
        where tier = '${tier}' and bucket_ms >= ${parameter(fromMs)} and bucket_ms < ${parameter(toMs)}
       and ${conditions.join(' and ')}`,
  )
  const parts = cells.length === 0 ? null : relationOf(schemaName, parameter(JSON.stringify(rowsOf(cells))))
  if (parts !== null) held.push(`select * from ${parts} held where ${conditions.join(' and ')}`)
  const model = wanted.model === true ? 'model' : "''"
  const booked = `select ${by} as name, ${model} as model, ${SUMS}, string_agg(nullif(latency, ''), ' ') as latency,
       string_agg(nullif(ttft, ''), ' ') as ttft
     from (${held.join(' union all ')}) held group by 1, 2`
  const changed =
    corrected === null
      ? null
      : correctionSql(schemaName, { by, model, tenantCondition, parts, pieces: parameter(corrected) })
  const most = limit === null ? '' : `order by cost_nano_usd desc, requests desc, 1, 2 limit ${parameter(limit)}`
  const all =
    changed === null
      ? booked
      : `select sums.name, sums.model, ${CORRECTED_SUMS}, sums.latency, sums.ttft
         from (${booked}) sums left join (${changed}) changed using (name, model)`
  return sql.unsafe<Summed[]>(`${all} ${most}`, parameters, { prepare: true })
}

const histogramOf = (text: string | null): Histogram => {
  const histogram = newHistogram()
  if (text !== null) addWritten(histogram, text)
  return histogram
}

const figuresOf = (row: Summed | null): UsageFigures => {
  const counters = Object.fromEntries(COUNTERS.map((name) => [name, row?.[name] ?? 0])) as Record<Counter, number>
  const latency = histogramOf(row?.latency ?? null)
  const ttft = histogramOf(row?.ttft ?? null)
  const { failed, interrupted, denied, orphaned } = counters
  return {
    ...counters,
    errors: failed + interrupted + denied + orphaned,
    p50_ms: percentileOf(latency, 0.5),
    p95_ms: percentileOf(latency, 0.95),
    p99_ms: percentileOf(latency, 0.99),
    ttft_p50_ms: percentileOf(ttft, 0.5),
    ttft_p95_ms: percentileOf(ttft, 0.95),
  }
}
