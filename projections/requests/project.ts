// gateway.requests.v1 -> the request log.
import type { EventRecord } from '../../src/domain/decision.ts'
import { REQUEST_EVENTS, type RequestAdmitted, type RequestSettled } from '../../src/domain/request.ts'
import { upcast } from '../../src/domain/upcasters.ts'
import { type TSchema, type TypeCheck, TypeCompiler } from '../../src/lib/schema.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import type { LogRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { type Sql, storableJson, type Transaction } from '../database.ts'
import type { Build, Folded, Projection } from '../projection.ts'
import schema from './schema.sql' with { type: 'text' }

/** Where a row came from: orders two settlements of one admission, whatever partitions they stand in. */
interface Place {
  readonly log_at_ms: number
  readonly log_partition: number
  readonly log_offset: number
}
export type RequestRow =
  | { readonly kind: 'admitted'; readonly data: RequestAdmitted; readonly place: Place }
  | { readonly kind: 'settled'; readonly data: RequestSettled; readonly place: Place }

const DAY_MS = 86_400_000
/** Years 2020 to 2100: beyond is a damaged record, and every day in use costs a table. */
const FIRST_MS = Date.UTC(2020, 0, 1)
const LAST_MS = Date.UTC(2100, 0, 1)
const DAYS_AHEAD = 2

const checks = new Map<string, TypeCheck<TSchema>>(
  Object.entries(REQUEST_EVENTS).map(([type, event]) => [type, TypeCompiler.Compile(event)]),
)

const NOTHING = { origin: null, rows: [] } as const

/** What one record is to the request log. Pure: the same record gives the same rows. */
export const foldRequestRecord = (record: LogRecord, logAtMs: number, partition: number): Folded<RequestRow> => {
  if (record.value === null) return { ...NOTHING, flaw: 'a tombstone' }
  const envelope = readEnvelope(record.value)
  if (envelope === null) return { ...NOTHING, flaw: 'not an envelope' }
  const { instance, epoch, sequence } = envelope
  const { type, data } = upcast({ type: envelope.type, data: envelope.data as EventRecord['data'] })
  const origin = { instance, epoch, sequence }
  const check = checks.get(type)
  if (check === undefined) return { origin, rows: [], flaw: null } // of another read model, or of a newer build
  if (!check.Check(data))
    return { origin, rows: [], flaw: `not a valid ${type}: ${check.Errors(data).First()?.path ?? ''}` }
  if (type === 'request.attempted') return { origin, rows: [], flaw: null } // the settlement lists every attempt
  const event = data as unknown as RequestAdmitted | RequestSettled
  if (event.at_ms < FIRST_MS || event.at_ms >= LAST_MS)
    return { origin, rows: [], flaw: `at_ms ${event.at_ms} is no time` }
  const place = { log_at_ms: logAtMs, log_partition: partition, log_offset: record.offset }
  const row =
    type === 'request.admitted'
      ? ({ kind: 'admitted', data: event as RequestAdmitted, place } as const)
      : ({ kind: 'settled', data: event as RequestSettled, place } as const)
  return { origin, rows: [row], flaw: null }
}

const byKey = (a: RequestRow, b: RequestRow): number =>
  a.data.at_ms - b.data.at_ms || (a.data.id < b.data.id ? -1 : a.data.id > b.data.id ? 1 : 0)

/** The first of each id, in key order: one statement must not touch a row twice. */
const firstOfEach = (rows: readonly RequestRow[], kind: RequestRow['kind']): readonly RequestRow[] => {
  const first = new Map<string, RequestRow>()
  for (const row of rows) if (row.kind === kind && !first.has(row.data.id)) first.set(row.data.id, row)
  return [...first.values()].sort(byKey)
}

const SETTLED_COLUMNS = `id text, request_id text, trace_id text, at_ms bigint, tenant_id text, key_id text, requested_model text,
  routed_model text, model_id text, provider text, provider_id text, outcome text, status integer, error_code text, fallback_used boolean,
  stream boolean, cache_hit boolean, finish_reason text, prompt_tokens bigint, completion_tokens bigint, cached_prompt_tokens bigint,
  reasoning_tokens bigint, raw_usage jsonb, cost_nano_usd bigint, cost_basis text, price_version text, latency_ms bigint, ttft_ms bigint,
  policy_id text, strategy text, endpoint text, end_user text, task text, revision text, frame bigint, seed bigint, admission text,
  attempts jsonb, log_at_ms bigint, log_partition integer, log_offset bigint, candidates jsonb, purpose text`
const ADMITTED_COLUMNS = `id text, at_ms bigint, provider text, provider_id text, model text, model_id text, prompt_tokens_estimate bigint,
  reserved_nano_usd bigint, candidates jsonb, log_at_ms bigint, log_partition integer, log_offset bigint`

const namesOf = (columns: string): string[] => columns.split(',').map((column) => column.trim().split(' ')[0]!)

const upsert = async (sql: Transaction, build: Build, table: string, columns: string, rows: readonly object[]) => {
  if (rows.length === 0) return
  const names = namesOf(columns)
  const others = names.filter((name) => name !== 'id' && name !== 'at_ms')
  // Of two, the one that stands first in the log. Between partitions log time decides, so that their order of arrival here does not matter.
  await sql.unsafe(
    `insert into "${build.schemaName}".${table} as held (${names.join(', ')})
     select ${names.join(', ')} from json_to_recordset($1::text::json) as new (${columns})
     on conflict (at_ms, id) do update set ${others.map((name) => `${name} = excluded.${name}`).join(', ')}
     where (excluded.log_at_ms, excluded.log_partition, excluded.log_offset) < (held.log_at_ms, held.log_partition, held.log_offset)`,
    [storableJson(rows)],
    { prepare: true },
  )
}

const dayOf = (ms: number): number => Math.floor(ms / DAY_MS)
const suffixOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '')

/** Days that exist, by schema: asking Postgres for each batch would cost more than the batch. */
const knownDays = new WeakMap<Sql, Map<string, Set<number>>>()

const makeDays = async (sql: Sql, { schemaName }: Build, days: readonly number[]): Promise<void> => {
  const bySchema = knownDays.get(sql) ?? new Map<string, Set<number>>()
  knownDays.set(sql, bySchema)
  if (bySchema.size > 16) bySchema.clear()
  const known = bySchema.get(schemaName) ?? new Set<number>()
  bySchema.set(schemaName, known)
  const missing = [...new Set(days)].filter((day) => !known.has(day)).sort((a, b) => a - b)
  if (missing.length === 0) return
  await sql.begin(async (transaction) => {
    await transaction`select pg_advisory_xact_lock(hashtextextended(${`gatelog days ${schemaName}`}, 0))`
    for (const day of missing) await makeDay(transaction, schemaName, day)
  })
  for (const day of missing) known.add(day)
}

const makeDay = async (sql: Transaction, schemaName: string, day: number): Promise<void> => {
  for (const table of ['request', 'admission']) {
    const name = `"${schemaName}".${table}_${suffixOf(day)}`
    const [row] = await sql<{ there: boolean; attached: boolean }[]>`
      select there is not null as there, exists (select from pg_inherits where inhrelid = there) as attached
      from to_regclass(${name}) as there`
    if (row?.attached === true) continue
    // Made apart and attached: the parent then stays readable meanwhile.
    if (row?.there !== true)
      await sql.unsafe(`create table ${name} (like "${schemaName}".${table} including defaults including constraints)`)
    await sql.unsafe(
      `alter table "${schemaName}".${table} attach partition ${name} for values from (${day * DAY_MS}) to (${(day + 1) * DAY_MS})`,
    )
  }
}

export const requestsProjection: Projection<RequestRow> = {
  name: 'requests',
  version: 3,
  topic: TOPICS.requests.name,
  schema,
  async open({ partition }) {
    return { fold: (record, logAtMs) => foldRequestRecord(record, logAtMs, partition), tip: () => null }
  },
  async prepare(sql, build, rows) {
    if (rows.length === 0) return
    const days = rows.map(({ data }) => dayOf(data.at_ms))
    const newest = dayOf(Math.max(...rows.map(({ place }) => Math.min(place.log_at_ms, LAST_MS))))
    for (let ahead = 0; ahead <= DAYS_AHEAD; ahead++) days.push(newest + ahead)
    await makeDays(sql, build, days)
  },
  forget: (sql, { schemaName }) => void knownDays.get(sql)?.delete(schemaName),
  async write(sql, build, rows) {
    const admitted = firstOfEach(rows, 'admitted').map(({ data, place }) => ({ ...data, ...place }))
    await upsert(sql, build, 'admission', ADMITTED_COLUMNS, admitted)
    const settled = firstOfEach(rows, 'settled').map(({ data, place }) => {
      const { user, ...rest } = data
      return { ...rest, end_user: user, ...place }
    })
    await upsert(sql, build, 'request', SETTLED_COLUMNS, settled)
  },
  async carryOver(sql, from, to) {
    const days = await sql<{ day: number }[]>`
      select distinct floor(at_ms / ${DAY_MS})::int as day from ${sql(`${from.schemaName}.request`)}
      union select distinct floor(at_ms / ${DAY_MS})::int from ${sql(`${from.schemaName}.admission`)} order by 1`
    for (const { day } of days) await makeDay(sql, to.schemaName, day)
    for (const table of ['request', 'admission']) {
      await sql`
        insert into ${sql(`${to.schemaName}.${table}`)}
        select * from ${sql(`${from.schemaName}.${table}`)} held
        where not exists (
          select 1 from gatelog.position p
          where p.model = ${to.model} and p.build = ${to.build} and p.partition = held.log_partition and p.first_offset <= held.log_offset)
        on conflict do nothing`
    }
  },
}
