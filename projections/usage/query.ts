// Usage -> totals, series and breakdowns, from as few buckets as the window needs. Percentiles come from histograms that were added up.
import type { Sql, Transaction } from '../database.ts'
import { readSnapshot } from '../reader.ts'
import { type Dimension, EVERYBODY, TIER_MS, type Tier } from './cells.ts'
import { correctedPieces, correctionSql, type PriceCorrection, spansOf } from './corrected.ts'
import { addWritten, type Histogram, newHistogram, percentileOf } from './histogram.ts'
import { COUNTERS, type Counter } from './share.ts'
import { intervalStart, type Piece, piecesOf, roundedTo, tierWithin, type UsageWindow } from './window.ts'

export interface UsageFilter extends UsageWindow {
  /** Null: everybody. */
  readonly tenantId: string | null
  /** Names as they were recorded. With one of them, what went to other providers or models is left out. */
  readonly provider?: string | null
  readonly model?: string | null
  /**
   * Costs as corrected by these, the later one where two overlap: the tokens that were billed at the corrected prices, and what was booked for all else. Each
   * figure is exact, a fraction of a nano-USD rounded up once. Null: as booked.
   */
  readonly corrections?: readonly PriceCorrection[] | null
}

/** Sums of a window. `errors`: failed, interrupted, denied and orphaned; what a client left (`canceled`) is none. Percentiles are null without requests. */
export interface UsageFigures extends Readonly<Record<Counter, number>> {
  readonly errors: number
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly p99_ms: number | null
  readonly ttft_p50_ms: number | null
  readonly ttft_p95_ms: number | null
}

/** What usage can be broken down by. Those of which provider and model are not known (`NEVER_CORRECTED`) have costs as booked only. All but the first four know whole hours only. */
export type GroupBy = 'provider' | 'model' | 'provider_model' | 'tenant' | Exclude<Dimension, 'total' | 'model'>

export const NEVER_CORRECTED: readonly GroupBy[] = ['key', 'endpoint', 'policy', 'code', 'purpose']

export interface UsageGroup extends UsageFigures {
  /** What the group is of: a name, an id, a slug, a code; null for none. Of `provider_model` the provider. */
  readonly name: string | null
  /** Of `model` and `provider_model`. */
  readonly model: string | null
}

export interface UsagePoint extends UsageFigures {
  /** Start of the interval, Unix milliseconds; the first and the last may reach beyond the window and hold only what is in it. */
  readonly atMs: number
}

export interface UsageReads {
  /** `window` is what was summed: the one asked for, rounded outward to minutes, or to hours or days where nothing finer is kept. */
  totals(filter: UsageFilter): Promise<{ readonly window: UsageWindow; readonly totals: UsageFigures }>
  /** Dearest first, then those with most requests. */
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

export const usageQueries = (sql: Sql): UsageQueries => {
  const snapshot: UsageQueries['snapshot'] = (read) =>
    readSnapshot(sql, 'requests', (transaction, schemaName) => read(readsOf(transaction, schemaName)))
  return {
    snapshot,
    totals: (filter) => snapshot((reads) => reads.totals(filter)),
    groups: (filter, by, limit) => snapshot((reads) => reads.groups(filter, by, limit)),
    series: (filter, intervalMs) => snapshot((reads) => reads.series(filter, intervalMs)),
  }
}

const readsOf = (sql: Transaction, schemaName: string): UsageReads => {
  let kept: Promise<Kept> | null = null
  const windowFor = async (asked: UsageWindow, finest: Tier) => {
    kept ??= keptOf(sql, schemaName)
    const tier = finestKept(await kept, asked.fromMs, finest)
    return { finest: tier, window: roundedTo(asked, tier) } as const
  }
  return {
    async totals(filter) {
      const { window, finest } = await windowFor(filter, 'minute')
      const pieces = piecesOf(window, finest, 'day')
      const [row] = await summed(sql, schemaName, pieces, { filter, window, finest, ...dimensionOf(filter), by: "''" })
      return { window, totals: figuresOf(row ?? null) }
    },
    async groups(filter, by, limit) {
      const group = GROUPS[by]
      const corrections = NEVER_CORRECTED.includes(by) ? null : filter.corrections
      const { window, finest } = await windowFor(filter, group.finest)
      const pieces = piecesOf(window, finest, 'day')
      const rows = await summed(sql, schemaName, pieces, {
        ...{ filter: { ...filter, corrections }, window, ...group, finest, limit },
      })
      const groups = rows.map((row) => ({ name: row.name || null, model: row.model || null, ...figuresOf(row) }))
      return { window, groups }
    },
    async series(filter, intervalMs) {
      const { window, finest } = await windowFor(filter, 'minute')
      const within = tierWithin(intervalMs)
      const coarsest = TIER_MS[finest] > TIER_MS[within] ? finest : within
      const pieces = piecesOf(window, finest, coarsest)
      const origin = intervalStart(0, intervalMs)
      const by = `((bucket_ms - (${origin})) / ${intervalMs} * ${intervalMs} + (${origin}))::text`
      const wanted = { filter, window, finest, coarsest, ...dimensionOf(filter), by }
      const found = new Map((await summed(sql, schemaName, pieces, wanted)).map((row) => [Number(row.name), row]))
      const series: UsagePoint[] = []
      for (let atMs = intervalStart(window.fromMs, intervalMs); atMs < window.toMs; atMs += intervalMs)
        series.push({ atMs, ...figuresOf(found.get(atMs) ?? null) })
      return { window, series }
    },
  }
}

interface Grouping {
  readonly dimension: Dimension
  readonly finest: Tier
  /** SQL of ours, never of a client. */
  readonly by: string
  readonly model?: boolean
}

const GROUPS: Readonly<Record<GroupBy, Grouping>> = {
  provider: { dimension: 'model', finest: 'minute', by: 'name' },
  model: { dimension: 'model', finest: 'minute', by: "''", model: true },
  provider_model: { dimension: 'model', finest: 'minute', by: 'name', model: true },
  tenant: { dimension: 'total', finest: 'minute', by: 'tenant_id' },
  key: { dimension: 'key', finest: 'hour', by: 'name' },
  endpoint: { dimension: 'endpoint', finest: 'hour', by: 'name' },
  policy: { dimension: 'policy', finest: 'hour', by: 'name' },
  code: { dimension: 'code', finest: 'hour', by: 'name' },
  purpose: { dimension: 'purpose', finest: 'hour', by: 'name' },
}

const dimensionOf = ({ provider = null, model = null }: UsageFilter): { readonly dimension: Dimension } => ({
  dimension: provider === null && model === null ? 'total' : 'model',
})

/** What is kept of a length of bucket, by the total of everybody. */
interface Kept {
  readonly minute: number | null
  readonly hour: number | null
  readonly day: number | null
  /** The day of the oldest hour has more than its hours: it was closed, and the log does not have all of it any more. */
  readonly partial: boolean
}

/**
 * Minutes of days that are no longer kept are gone: a window that begins there is rounded to hours. So are hours of days that the log did not have when the
 * read model was made: a window that begins there is rounded to days.
 */
const finestKept = ({ minute, hour, day, partial }: Kept, fromMs: number, finest: Tier): Tier => {
  if (day === null) return finest
  const hoursFrom = hour === null ? Number.POSITIVE_INFINITY : dayOf(hour) + (partial ? TIER_MS.day : 0)
  if (day < hoursFrom && fromMs < hoursFrom) return 'day'
  if (finest === 'hour' || minute === null || hour === null) return 'hour'
  return fromMs < minute && roundedTo({ fromMs: minute, toMs: minute }, 'hour').fromMs > hour ? 'hour' : 'minute'
}

const dayOf = (ms: number): number => roundedTo({ fromMs: ms, toMs: ms }, 'day').fromMs

const keptOf = async (sql: Transaction, schemaName: string): Promise<Kept> => {
  const total = (tier: Tier) => sql`
    ${sql(`${schemaName}.usage`)} where tier = ${tier} and dimension = 'total' and tenant_id = ${EVERYBODY}`
  const [row] = await sql<Kept[]>`
    with first as (select
      (select min(bucket_ms) from ${total('minute')}) as minute, (select min(bucket_ms) from ${total('hour')}) as hour,
      (select min(bucket_ms) from ${total('day')}) as day)
    select *, coalesce(
      (select sum(requests) from ${total('hour')} and bucket_ms / ${TIER_MS.day}::bigint = hour / ${TIER_MS.day}::bigint
         and bucket_ms >= hour and bucket_ms < hour + ${TIER_MS.day}::bigint)
      < (select requests from ${total('day')} and bucket_ms = hour / ${TIER_MS.day}::bigint * ${TIER_MS.day}::bigint), false) as partial
    from first`
  return row!
}

type Summed = Readonly<Record<Counter, number>> & {
  readonly name: string
  readonly model: string
  readonly latency: string | null
  readonly ttft: string | null
}

interface Wanted {
  readonly filter: UsageFilter
  readonly window: UsageWindow
  readonly finest: Tier
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

/** Whose usage: a condition on `tenant_id`. */
const whoseOf = ({ filter, dimension, by }: Wanted, parameter: (value: string) => string): string => {
  if (filter.tenantId !== null) return `tenant_id = ${parameter(filter.tenantId)}`
  if (by === 'tenant_id') return `tenant_id <> '${EVERYBODY}'`
  return dimension === 'total' || dimension === 'model' ? `tenant_id = '${EVERYBODY}'` : 'true'
}

/** Where prices are corrected, of what was asked for; null: nothing of it is. */
const correctedOf = ({ filter, window, finest, coarsest = 'day' }: Wanted): string | null => {
  const { corrections = null, provider = null, model = null } = filter
  const meant = (corrections ?? []).filter(
    (each) => (provider === null || each.provider === provider) && (model === null || each.model === model),
  )
  const pieces = correctedPieces(spansOf(meant, window), finest, coarsest)
  return pieces.length === 0 ? null : JSON.stringify(pieces)
}

/** Sums of the pieces, by group. Histograms are joined end to end: reading them adds them up. */
const summed = async (
  sql: Transaction,
  schemaName: string,
  pieces: readonly Piece[],
  wanted: Wanted,
): Promise<Summed[]> => {
  if (pieces.length === 0) return []
  const { filter, dimension, by, limit = null } = wanted
  const parameters: (string | number)[] = [dimension]
  const parameter = (value: string | number): string => `$${parameters.push(value)}`
  const whose = whoseOf(wanted, parameter)
  const conditions = ['dimension = $1', whose]
  if (dimension === 'model' && filter.provider != null) conditions.push(`name = ${parameter(filter.provider)}`)
  if (dimension === 'model' && filter.model != null) conditions.push(`model = ${parameter(filter.model)}`)
  const held = pieces.map(
    ({ tier, fromMs, toMs }) =>
      `select * from "${schemaName}".usage where tier = '${tier}' and bucket_ms >= ${parameter(fromMs)} and bucket_ms < ${parameter(toMs)}
       and ${conditions.join(' and ')}`,
  )
  const model = wanted.model === true ? 'model' : "''"
  const booked = `select ${by} as name, ${model} as model, ${SUMS}, string_agg(nullif(latency, ''), ' ') as latency,
       string_agg(nullif(ttft, ''), ' ') as ttft
     from (${held.join(' union all ')}) held group by 1, 2`
  const corrected = correctedOf(wanted)
  const changed =
    corrected === null ? null : correctionSql(schemaName, { by, model, whose, pieces: parameter(corrected) })
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
