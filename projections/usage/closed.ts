// gateway.usage.v1 -> the days of a new build: what the requests topic no longer holds. A record that a closed day
// includes is not counted for it again.
import { UsageClosed } from '../../src/domain/events/usage-closed.ts'
import { TypeCompiler } from '../../src/lib/schema/schema.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import type { EventLog, LogRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { copyInto, copyLine } from '../copy.ts'
import type { Queryable, Sql, Transaction } from '../database.ts'
import type { Build } from '../projection.ts'
import { USAGE_COLUMNS } from './project.ts'
import { SUMS } from './share.ts'

const TOPIC = TOPICS.usage.name
const check = TypeCompiler.Compile(UsageClosed)

/**
 * Each closed day of the topic up to an end, in the order of the log. What is not readable is passed over: the set that
 * it is of stays incomplete.
 */
export async function* closedOf(log: EventLog, end: number, signal: AbortSignal): AsyncGenerator<UsageClosed> {
  if (end === 0) return
  const reading = new AbortController()
  const either = AbortSignal.any([signal, reading.signal])
  try {
    for await (const records of log.read(TOPIC, 0, 0, either)) {
      for (const record of records) {
        const closed = record.offset < end ? closedIn(record) : null
        if (closed !== null) yield closed
      }
      if (records.at(-1)!.offset + 1 >= end) return
    }
  } finally {
    reading.abort()
  }
  signal.throwIfAborted()
}

const closedIn = ({ value }: LogRecord): UsageClosed | null => {
  const envelope = value === null ? null : readEnvelope(value)
  return envelope?.type === 'usage.closed' && check.Check(envelope.data) ? envelope.data : null
}

/** One set of records: the same totals of the same day. */
export const setOf = ({ day, sequence, offsets }: UsageClosed): string => JSON.stringify([day, sequence, offsets])
const reachOf = ({ offsets }: UsageClosed): number => offsets.reduce((sum, [, next]) => sum + next, 0)

/**
 * The set that holds for each day: of those that are complete the one with the highest sequence, then the one with the
 * highest offsets.
 */
const holding = async (records: AsyncIterable<UsageClosed>): Promise<ReadonlyMap<string, UsageClosed>> => {
  const best = new Map<string, UsageClosed>()
  /**
   * By day, the set that is being read and its parts so far: a set is written in one go, and again from its first part
   * after a crash.
   */
  const reading = new Map<string, { readonly set: string; parts: number }>()
  for await (const closed of records) {
    const set = setOf(closed)
    const held = reading.get(closed.day)
    const parts = closed.part === 1 ? 1 : held?.set === set && held.parts === closed.part - 1 ? closed.part : 0
    reading.set(closed.day, { set, parts })
    if (parts === 0 || !closed.last) continue
    const before = best.get(closed.day)
    const isBetter =
      before === undefined || (closed.sequence - before.sequence || reachOf(closed) - reachOf(before)) >= 0
    if (isBetter) best.set(closed.day, { ...closed, cells: [] })
  }
  return best
}

export const dayMsOf = (day: string): number => Date.parse(`${day}T00:00:00Z`)

/** The digest by which a day's rows are compared with what was published. */
export const dayDigest = async (sql: Transaction, schemaName: string, dayMs: number): Promise<string> => {
  const [row] = await sql<{ digest: string }[]>`
    select encode(sha256(coalesce(
      string_agg(held::text, chr(10) order by dimension, tenant_id, name, model), '')::bytea), 'hex') as digest
    from ${sql(`${schemaName}.usage`)} held where tier = 'day' and bucket_ms = ${dayMs}`
  return row!.digest
}

/**
 * Puts the closed days into a build that has read nothing yet. Once: other workers wait, and a build that has them is
 * left alone.
 */
export const restoreDays = async (sql: Sql, log: EventLog, build: Build, signal: AbortSignal): Promise<void> => {
  const { schemaName } = build
  const isDone = async (on: Sql | Transaction): Promise<boolean> =>
    (await on`select 1 from ${on(`${schemaName}.restored`)}`).length > 0
  if (await isDone(sql)) return
  const end = await log.end(TOPIC, 0)
  const best = await holding(closedOf(log, end, signal))
  await sql.begin(async (transaction) => {
    await transaction`select pg_advisory_xact_lock(hashtextextended(${`gatelog rows ${schemaName}`}, 0))`
    if (await isDone(transaction)) return
    const wanted = new Map([...best].map(([day, closed]) => [day, setOf(closed)]))
    const seen = new Set<string>()
    for await (const closed of closedOf(log, end, signal)) {
      const part = `${setOf(closed)} ${closed.part}`
      if (wanted.get(closed.day) !== setOf(closed) || seen.has(part)) continue
      seen.add(part)
      await copyInto(transaction, `"${schemaName}".usage`, USAGE_COLUMNS, closed.cells.map(lineOf(dayMsOf(closed.day))))
    }
    for (const [day, { sequence, offsets }] of best) {
      const digest = await dayDigest(transaction, schemaName, dayMsOf(day))
      await transaction`
        insert into ${transaction(`${schemaName}.closed_day`)} (day_ms, sequence, offsets, digest, late)
        values (${dayMsOf(day)}, ${sequence}, ${JSON.stringify(offsets)}, ${digest}, 0)`
    }
    await transaction`insert into ${transaction(`${schemaName}.restored`)} default values`
  })
}

const lineOf =
  (dayMs: number) =>
  (cell: UsageClosed['cells'][number]): string => {
    const { dimension, tenant_id, name, model, latency, ttft } = cell
    return copyLine(['day', dimension, tenant_id, dayMs, name, model, ...SUMS.map((sum) => cell[sum]), latency, ttft])
  }

/** The place of a record, and the day of its outcome. */
export interface Placed {
  readonly atMs: number
  readonly partition: number
  readonly offset: number
}

/** The closed days among those of a batch. */
export interface ClosedDays {
  /** Whether the day of the outcome is closed at all. */
  isClosed(atMs: number): boolean
  /** Whether a closed day includes this record. */
  has(placed: Placed): boolean
}

const DAY_MS = 86_400_000
const dayStart = (atMs: number): number => Math.floor(atMs / DAY_MS) * DAY_MS

/** By start of the day, up to which offset of which partition a closed day includes what the log holds. */
export type Cuts = ReadonlyMap<number, ReadonlyMap<number, number>>

/** What is closed of the days of these outcomes; null: of all days. */
export const cutsOf = async (sql: Queryable, schemaName: string, atMs: readonly number[] | null): Promise<Cuts> => {
  const table = sql(`${schemaName}.closed_day`)
  const days = atMs === null ? null : JSON.stringify([...new Set(atMs.map(dayStart))])
  const rows = await sql<{ day_ms: number; offsets: string }[]>`
    select day_ms, offsets from ${table}
    where ${days}::text is null or day_ms in (select value::bigint from json_array_elements_text(${days}::text::json))`
  return new Map(rows.map(({ day_ms, offsets }) => [day_ms, new Map(JSON.parse(offsets) as [number, number][])]))
}

export const closedBy = (cuts: Cuts): ClosedDays => ({
  isClosed: (ms) => cuts.size > 0 && cuts.has(dayStart(ms)),
  has: ({ atMs, partition, offset }) => cuts.size > 0 && offset < (cuts.get(dayStart(atMs))?.get(partition) ?? 0),
})

export const closedDays = async (
  sql: Queryable,
  schemaName: string,
  atMs: readonly number[] | null,
): Promise<ClosedDays> => closedBy(await cutsOf(sql, schemaName, atMs))

/**
 * Records that closed days have changed: they are closed once more. In the order of days, so that workers never wait
 * for each other in a circle.
 */
export const noteLate = async (sql: Transaction, schemaName: string, atMs: readonly number[]): Promise<void> => {
  const late = new Map<number, number>()
  for (const ms of atMs) late.set(dayStart(ms), (late.get(dayStart(ms)) ?? 0) + 1)
  for (const [dayMs, changes] of [...late].sort(([a], [b]) => a - b))
    await sql`
      insert into ${sql(`${schemaName}.late_day`)} as held (day_ms, changes) values (${dayMs}, ${changes})
      on conflict (day_ms) do update set changes = held.changes + excluded.changes`
}
