// Days that are over -> gateway.usage.v1: each day's rows as they stand in the read model, with the offsets that they
// hold, so that a build that is made from the log later need not have the requests themselves. A day that changes
// afterwards is closed once more, whole, with the next sequence.

import { type UsageClosed, UsageClosedCell } from '../../src/domain/events/usage-closed.ts'
import { sha256Hex } from '../../src/lib/crypto/digest.ts'
import { sleep } from '../../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../src/lib/process/diagnostics.ts'
import { wallMs } from '../../src/lib/time/wall-clock.ts'
import { writeEnvelope } from '../../src/log/envelope.ts'
import type { EventLog } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { activeBuild } from '../builds.ts'
import { isMissingTable, type Sql, type Transaction } from '../database.ts'
import { databaseProblem } from '../problems.ts'
import type { Build } from '../projection.ts'
import { untilWritten } from '../requests/hold.ts'
import { dayDigest } from './closed.ts'

export interface CloseOptions {
  readonly sql: Sql
  readonly log: EventLog
  readonly signal: AbortSignal
  readonly diagnostics: Diagnostics
  readonly pollMs: number
  readonly nowMs?: () => number
}

const DAY_MS = 86_400_000
/** A day waits so long for requests that were still under way, and for instances that were unreachable for a moment. */
const GRACE_MS = 3_600_000
/** Days of one transaction: Postgres must keep what they read meanwhile. */
const DAYS_AT_ONCE = 8
const ROWS_AT_ONCE = 500
/** Below the 64 KiB that a record may have, with its envelope. */
const MAX_PART_BYTES = 48_000

/** Closes days until the signal is aborted. Two workers never do it at once; a crash writes a set again, whole. */
export const closeDays = async (options: CloseOptions): Promise<void> => {
  const { signal, diagnostics, pollMs } = options
  for (let failures = 0; !signal.aborted; ) {
    try {
      const closed = await closeSome(options)
      failures = 0
      if (closed > 0) diagnostics.info('usage_days_closed', { days: closed })
      if (closed < DAYS_AT_ONCE) await sleep(pollMs, signal)
    } catch (error) {
      if (signal.aborted) return
      if (!isMissingTable(error)) {
        diagnostics.debug('usage_days_not_closed', { reason: databaseProblem(error) })
        failures++
      }
      await sleep(Math.min(pollMs, 100 * 2 ** Math.min(failures, 8)), signal)
    }
  }
}

interface Cut {
  readonly offsets: UsageClosed['offsets']
  /** Everything before this moment is in the build, as far as can be known. */
  readonly completeMs: number
}

/**
 * One snapshot of the build: offsets, sums and what was closed before are of the same moment. Returns how many days
 * were checked. A writer beside the closing of a day does not see that it is closed and notes nothing: such a day is
 * checked once more, from a moment when that writer has committed.
 */
const closeSome = async (options: CloseOptions): Promise<number> => {
  const { sql, log, nowMs = wallMs } = options
  const topic = TOPICS.requests.name
  const known = await activeBuild(sql, 'requests')
  if (known === null) return 0
  await untilWritten(sql, known)
  const ends = new Map<number, number>()
  for (const partition of await log.partitions(topic)) ends.set(partition, await log.end(topic, partition))
  return sql.begin(async (transaction) => {
    await transaction.unsafe('set transaction isolation level repeatable read')
    const [own] = await transaction<{ held: boolean }[]>`
      select pg_try_advisory_xact_lock(hashtextextended('gatelog usage closing', 0)) as held`
    const build = await activeBuild(transaction, 'requests')
    if (own?.held !== true || build?.build !== known.build) return 0
    const { offsets, completeMs } = await cutOf(transaction, build, ends, nowMs())
    const days = await daysToClose(transaction, build, completeMs)
    for (const day of days) await closeDay(options, transaction, build, day, offsets)
    return days.length
  }) as Promise<number>
}

/** A partition that was read to its end has nothing more of the time before the end was queried. */
const cutOf = async (
  sql: Transaction,
  { model, build }: Build,
  ends: ReadonlyMap<number, number>,
  nowMs: number,
): Promise<Cut> => {
  const rows = await sql<{ partition: number; next: number; at: number }[]>`
    select partition, next_offset as next, log_at_ms as at from gatelog.position
    where model = ${model} and build = ${build} order by partition`
  const reached = new Map(rows.map((row) => [row.partition, row]))
  const completeMs = [...ends].map(([partition, end]) => {
    const row = reached.get(partition)
    return (row?.next ?? 0) >= end ? nowMs : (row?.at ?? 0)
  })
  return { offsets: rows.map(({ partition, next }) => [partition, next]), completeMs: Math.min(nowMs, ...completeMs) }
}

interface Day {
  readonly dayMs: number
  /** 0: it was never closed. */
  readonly sequence: number
  readonly digest: string | null
  /** Changes up to now. */
  readonly changes: number
}

const daysToClose = (sql: Transaction, { schemaName }: Build, completeMs: number): Promise<Day[]> => {
  const lastMs = completeMs - GRACE_MS - DAY_MS
  return sql<Day[]>`
    select held.bucket_ms as "dayMs", coalesce(closed.sequence, 0) as sequence, closed.digest,
      coalesce(late.changes, 0) as changes
    from ${sql(`${schemaName}.usage`)} held
    left join ${sql(`${schemaName}.closed_day`)} closed on closed.day_ms = held.bucket_ms
    left join ${sql(`${schemaName}.late_day`)} late on late.day_ms = held.bucket_ms
    where held.tier = 'day' and held.dimension = 'total' and held.tenant_id = '*' and held.bucket_ms <= ${lastMs}
      and (closed.day_ms is null or coalesce(late.changes, 0) <> closed.late)
    order by held.bucket_ms limit ${DAYS_AT_ONCE}`
}

const closeDay = async (
  options: CloseOptions,
  sql: Transaction,
  build: Build,
  day: Day,
  offsets: UsageClosed['offsets'],
): Promise<void> => {
  const { dayMs, changes } = day
  const digest = await dayDigest(sql, build.schemaName, dayMs)
  // A change that was reverted, or was read again by a new build, is closed already.
  const isSame = digest === day.digest
  const sequence = isSame ? day.sequence : day.sequence + 1
  if (!isSame) await publish(options, sql, build, dayMs, { sequence, offsets })
  const table = sql(`${build.schemaName}.closed_day`)
  // Closed for the first time, it is to be checked once more.
  const seen = day.digest === null ? changes - 1 : changes
  // The offsets of a set that was not written again stay those that the topic has.
  await sql`
    insert into ${table} as held (day_ms, sequence, offsets, digest, late)
    values (${dayMs}, ${sequence}, ${JSON.stringify(offsets)}, ${digest}, ${seen})
    on conflict (day_ms) do update set late = excluded.late, sequence = excluded.sequence, digest = excluded.digest,
      offsets = case when ${isSame} then held.offsets else excluded.offsets end`
}

type Row = UsageClosedCell & { readonly bucket_ms: number; readonly tier: string }

const FIELDS = Object.keys(UsageClosedCell.properties) as (keyof UsageClosedCell)[]
const cellOf = (row: Row): UsageClosedCell =>
  Object.fromEntries(FIELDS.map((name) => [name, row[name]])) as unknown as UsageClosedCell

/** Part by part, as the rows come: a day of many keys is never held whole. */
const publish = async (
  { log, signal }: CloseOptions,
  sql: Transaction,
  { schemaName }: Build,
  dayMs: number,
  { sequence, offsets }: Pick<UsageClosed, 'sequence' | 'offsets'>,
): Promise<void> => {
  const day = new Date(dayMs).toISOString().slice(0, 10)
  let part = 0
  let cells: UsageClosedCell[] = []
  let bytes = 0
  const send = async (last: boolean) => {
    part++
    await append(log, { day, sequence, offsets, part, last, cells }, dayMs + DAY_MS, signal)
    cells = []
    bytes = 0
  }
  const rows = sql<Row[]>`
    select * from ${sql(`${schemaName}.usage`)} where tier = 'day' and bucket_ms = ${dayMs}
    order by dimension, tenant_id, name, model`.cursor(ROWS_AT_ONCE)
  for await (const batch of rows)
    for (const row of batch) {
      const cell = cellOf(row)
      const size = Buffer.byteLength(JSON.stringify(cell)) + 1
      if (cells.length > 0 && bytes + size > MAX_PART_BYTES) await send(false)
      cells.push(cell)
      bytes += size
    }
  await send(true)
}

/**
 * By day, sequence and part; the epoch separates sets of other offsets, so that none is taken for a repeat of another.
 */
const append = async (log: EventLog, closed: UsageClosed, atMs: number, signal: AbortSignal): Promise<void> => {
  const { day, sequence, offsets, part } = closed
  const epoch = `${day}_${sequence}_${sha256Hex(JSON.stringify(offsets)).slice(0, 16)}`
  const origin = { instance: 'usage', epoch, sequence: part - 1 }
  const value = Buffer.from(writeEnvelope(origin, 'usage.closed', day, atMs, JSON.stringify(closed)))
  await log.append(TOPICS.usage.name, 0, [{ key: day, value }], signal)
}
