// A partition of the request log for each day of arrival: made ahead, dropped when too old.
import type { Sql, Transaction } from '../database.ts'
import type { Build } from '../projection.ts'
import { LAST_MS, type RequestRow } from './fold.ts'

export const DAY_MS = 86_400_000
const DAYS_AHEAD = 2
const PARTITIONED = ['request', 'detail'] as const

export const dayOf = (ms: number): number => Math.floor(ms / DAY_MS)
/** The day of log time: a clock that is far off makes no tables. */
export const logDayOf = (logAtMs: number): number => dayOf(Math.min(logAtMs, LAST_MS))
const suffixOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '')

interface Known {
  /** Days that have their tables. */
  readonly days: Set<number>
  /** The newest day of log time. */
  newest: number
}

/** Known days by schema: a query for each batch would cost more than the batch. */
const known = new WeakMap<Sql, Map<string, Known>>()
const MAX_SCHEMAS = 16

const knownOf = (sql: Sql, schemaName: string): Known => {
  const bySchema = known.get(sql) ?? new Map<string, Known>()
  known.set(sql, bySchema)
  const held = bySchema.get(schemaName)
  if (held !== undefined) return held
  if (bySchema.size >= MAX_SCHEMAS) bySchema.clear()
  const made = { days: new Set<number>(), newest: Number.NEGATIVE_INFINITY }
  bySchema.set(schemaName, made)
  return made
}

/** Discards what is remembered of the days of a build. */
export const forgetDays = (sql: Sql, { schemaName }: Build): void => void known.get(sql)?.delete(schemaName)

/** What rows need of days. */
export interface Span {
  /** Days on which the requests arrived. */
  readonly days: ReadonlySet<number>
  /** The newest day of log time. */
  readonly newest: number
}

export const spanOf = (rows: readonly RequestRow[]): Span => ({
  days: new Set(rows.map(({ atMs }) => dayOf(atMs))),
  newest: rows.reduce((newest, { place }) => Math.max(newest, logDayOf(place.logAtMs)), Number.NEGATIVE_INFINITY),
})

/**
 * Makes the days that are needed and the ones that come next. When log time has reached a new day, drops those that are
 * older than `keepDays`.
 */
export const makeDays = async (sql: Sql, build: Build, span: Span, keepDays: number): Promise<void> => {
  if (span.days.size === 0) return
  const { schemaName } = build
  const state = knownOf(sql, schemaName)
  const newest = Math.max(state.newest, span.newest)
  const wanted = new Set(span.days)
  for (let ahead = 0; ahead <= DAYS_AHEAD; ahead++) wanted.add(newest + ahead)
  const missing = [...wanted].filter((day) => !state.days.has(day)).sort((a, b) => a - b)
  if (missing.length === 0 && newest === state.newest) return
  const first = await sql.begin(async (transaction) => {
    await transaction`select pg_advisory_xact_lock(hashtextextended(${`gatelog days ${schemaName}`}, 0))`
    const [row] = await transaction<{ day: number }[]>`
      insert into ${transaction(`${schemaName}.newest_day`)} as held (day) values (${newest})
      on conflict (one) do update set day = greatest(held.day, excluded.day) returning day`
    const firstKept = row!.day - keepDays
    for (const day of missing) if (day >= firstKept) await makeDay(transaction, schemaName, day)
    await dropBefore(transaction, schemaName, firstKept)
    return firstKept
  })
  for (const day of missing) state.days.add(day)
  for (const day of state.days) if (day < first) state.days.delete(day)
  state.newest = newest
}

/** Makes the tables of a day when they are not there. */
export const makeDay = async (sql: Transaction, schemaName: string, day: number): Promise<void> => {
  for (const table of PARTITIONED) {
    const name = `"${schemaName}".${table}_${suffixOf(day)}`
    const [row] = await sql<{ there: boolean; attached: boolean }[]>`
      select there is not null as there, exists (select from pg_inherits where inhrelid = there) as attached
      from to_regclass(${name}) as there`
    if (row?.attached === true) continue
    // Made apart and attached: the parent then stays readable meanwhile.
    if (row?.there !== true)
      await sql.unsafe(`create table ${name} (like "${schemaName}".${table} including defaults including constraints)`)
    await sql.unsafe(
      `alter table "${schemaName}".${table} attach partition ${name}
        for values from (${day * DAY_MS}) to (${(day + 1) * DAY_MS})`,
    )
  }
}

/** The days that a build holds. */
export const daysOf = async (sql: Transaction, schemaName: string): Promise<number[]> => {
  const tables = await sql<{ suffix: string }[]>`
    select right(c.relname, 8) as suffix from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass(${`"${schemaName}".request`}) order by 1`
  return tables.map(({ suffix }) =>
    dayOf(Date.parse(`${suffix.slice(0, 4)}-${suffix.slice(4, 6)}-${suffix.slice(6)}T00:00:00Z`)),
  )
}

/**
 * Drops whole tables: nothing is searched, and no space is left behind. Minutes of that time are deleted too; hours and
 * days stay.
 */
const dropBefore = async (sql: Transaction, schemaName: string, firstKept: number): Promise<void> => {
  const old = (await daysOf(sql, schemaName)).filter((day) => day < firstKept)
  for (const day of old) {
    for (const table of PARTITIONED) await sql.unsafe(`drop table if exists "${schemaName}".${table}_${suffixOf(day)}`)
  }
  if (old.length === 0) return
  await sql`delete from ${sql(`${schemaName}.pending`)} where at_ms < ${firstKept * DAY_MS}`
  await sql`delete from ${sql(`${schemaName}.usage`)} where tier = 'minute' and bucket_ms < ${firstKept * DAY_MS}`
}
