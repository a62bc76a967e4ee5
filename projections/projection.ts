// What a read model is, and how a batch of records gets into Postgres exactly once.

import { sha256Hex } from '../src/lib/crypto/digest.ts'
import { yieldToEventLoop } from '../src/lib/event-loop/yield-to-event-loop.ts'
import { failpoint } from '../src/lib/process/failpoints.ts'
import type { Origin } from '../src/log/envelope.ts'
import type { EventLog, LogRecord } from '../src/log/port.ts'
import type { Queryable, Sql, Transaction } from './database.ts'
import type { LoadOptions } from './keep.ts'
import { type AppliedSequences, isRepeat, processStart } from './repeats.ts'

/** One set of tables of a read model. */
export interface Build {
  readonly model: string
  readonly build: number
  readonly version: number
  readonly schemaName: string
  readonly state: 'building' | 'active'
}

export interface Position {
  readonly next: number
  /** Running maximum of log time of what was applied, Unix milliseconds; 0 at the start. */
  readonly logAtMs: number
  readonly tip: string | null
  readonly witness: string | null
}

/** How a read model folds one record. */
export interface Folded<Row> {
  /** Null: repeats cannot happen (control), or the record has no origin. */
  readonly origin: Origin | null
  readonly rows: readonly Row[]
  /** Why it was set aside, or null. */
  readonly problem: string | null
}

/**
 * Folds the records of one partition, in order. May hold state, which then belongs to the position that it was opened
 * at.
 */
export interface Folder<Row> {
  fold(record: LogRecord, logAtMs: number): Folded<Row>
  /** The newest decision that counts; null for topics without a chain. */
  tip(): string | null
  /** Called after the batch up to `next` was committed, for a checkpoint of the state. */
  committed?(next: number, logAtMs: number): Promise<void>
}

export interface OpenContext {
  readonly sql: Sql
  readonly log: EventLog
  readonly build: Build
  readonly partition: number
  readonly position: Position
  readonly signal: AbortSignal
}

/**
 * A read model: three files (`schema.sql`, `project.ts`, `query.ts`) that alone use its tables. What it writes may
 * depend on the events, their partition, offset and log time, on nothing else: a rebuild gives the same rows.
 */
export interface Projection<Row> {
  readonly name: string
  /** Raised with every change of the tables or of their content: a new build is made beside the old one. */
  readonly version: number
  readonly topic: string
  /** The only type of event that it is made of; all of them when absent. Logs may leave the others out. */
  readonly only?: string
  /** How long the first record of a batch waits for others; the worker's own limit when absent. */
  readonly gatherMs?: number
  /** Creates the tables in the schema that is first on the search path. */
  readonly schema: string
  open(context: OpenContext): Promise<Folder<Row>>
  /** What a build holds before it reads its first record. Idempotent, and safe when several workers do it at once. */
  begin?(sql: Sql, log: EventLog, build: Build, signal: AbortSignal): Promise<void>
  /** Whatever must be there before the transaction of the batch (partitions). Idempotent. */
  prepare?(sql: Sql, build: Build, rows: readonly Row[]): Promise<void>
  /** Discards what `prepare` remembers of a build: it queries Postgres again the next time. */
  forget?(sql: Sql, build: Build): void
  /** Inserts in key order, so that workers never wait for each other in a circle. */
  write(sql: Transaction, build: Build, rows: readonly Row[]): Promise<void>
  /**
   * Brings a build without readers near the end of the log faster than following does, and returns; followers go on
   * from where it is.
   */
  load?(options: LoadOptions): Promise<void>
  /** Copies from a build of the same version what the log no longer holds. `sql` sees both. */
  carryOver?(sql: Transaction, from: Build, to: Build): Promise<void>
}

/** One folded record, with the state of the fold after it: a batch can be cut anywhere. */
export interface Entry<Row> extends Folded<Row> {
  readonly record: LogRecord
  readonly logAtMs: number
  readonly tip: string | null
}

/** The position moved, or the build was replaced: another worker owns this partition. */
export class LostOwnership extends Error {
  override readonly name = 'LostOwnership'
}

const MAX_POISON_BYTES = 4_096
const EMPTY = new Uint8Array(0)

/** The digest by which a record is recognised later. */
export const witnessOf = ({ key, value }: LogRecord): string => sha256Hex(value ?? `tombstone ${key}`)

/**
 * So many records are folded, or counted, before the event loop runs other work: Postgres is fed with the batch before
 * meanwhile.
 */
export const TURN_RECORDS = 256

/** Folds records one after the other. Log time is the running maximum: a clock that steps back changes no order. */
export const foldAll = async <Row>(
  folder: Folder<Row>,
  records: readonly LogRecord[],
  startMs: number,
): Promise<readonly Entry<Row>[]> => {
  let logAtMs = startMs
  const entries: Entry<Row>[] = []
  for (const record of records) {
    logAtMs = Math.max(logAtMs, record.atMs)
    const { origin, rows, problem } = folder.fold(record, logAtMs)
    entries.push({ origin, rows, problem, record, logAtMs, tip: folder.tip() })
    if (entries.length % TURN_RECORDS === 0) await yieldToEventLoop()
  }
  return entries
}

export interface BatchTarget<Row> {
  readonly sql: Sql
  readonly projection: Projection<Row>
  readonly build: Build
  readonly partition: number
}
/** The build, topic and partition of a position. */
export type Target = Pick<BatchTarget<never>, 'build' | 'partition'> & {
  readonly projection: Pick<Projection<never>, 'topic'>
}

/** The position of a build in a partition, made when it is new; null when the build was removed. */
export const positionOf = async ({
  sql,
  projection,
  build,
  partition,
}: BatchTarget<never>): Promise<Position | null> => {
  const read = () => sql<{ next: number; logAtMs: number; tip: string | null; witness: string | null }[]>`
    select next_offset as next, log_at_ms as "logAtMs", tip, witness from gatelog.position
    where model = ${build.model} and build = ${build.build}
      and topic = ${projection.topic} and partition = ${partition}`
  const [known] = await read()
  if (known !== undefined) return known
  await sql`
    insert into gatelog.position (model, build, topic, partition, next_offset, log_at_ms)
    select model, build, topic, ${partition}, 0, 0 from gatelog.build
      where model = ${build.model} and build = ${build.build}
    on conflict do nothing`
  const [made] = await read()
  return made ?? null
}

/**
 * Writes a batch and moves the position, in one transaction: a crash repeats all of it or none. Throws LostOwnership
 * when the position is no longer `from`, and any error of Postgres. Returns how many records were repeats.
 */
export const applyBatch = async <Row>(
  target: BatchTarget<Row>,
  from: Position,
  entries: readonly Entry<Row>[],
): Promise<{ readonly position: Position; readonly repeats: number }> => {
  const { sql, projection, build } = target
  const last = entries.at(-1)!
  const position: Position = {
    next: last.record.offset + 1,
    logAtMs: last.logAtMs,
    tip: last.tip,
    witness: witnessOf(last.record),
  }
  await projection.prepare?.(
    sql,
    build,
    entries.flatMap(({ rows }) => rows),
  )
  const repeats = await sql.begin(async (transaction) => {
    await movePosition(transaction, target, { from, to: position, first: entries[0]!.record.offset })
    const fresh = await withoutRepeats(transaction, target, entries)
    await setAside(transaction, target, fresh)
    const rows = fresh.flatMap((entry) => (entry.problem === null ? entry.rows : []))
    if (rows.length > 0) await projection.write(transaction, build, rows)
    failpoint('projection_written')
    return entries.length - fresh.length
  })
  failpoint('projection_committed')
  return { position, repeats: repeats as number }
}

/**
 * By compare-and-set, in the transaction of what was read up to `to`. `first`: where the batch begins. Throws
 * LostOwnership.
 */
export const movePosition = async (
  sql: Transaction,
  { projection, build, partition }: Target,
  { from, to, first }: { readonly from: Position; readonly to: Position; readonly first: number },
): Promise<void> => {
  const moved = await sql`
    update gatelog.position set next_offset = ${to.next}, log_at_ms = ${to.logAtMs}, tip = ${to.tip},
      witness = ${to.witness}, first_offset = coalesce(first_offset, ${first})
    where model = ${build.model} and build = ${build.build} and topic = ${projection.topic} and partition = ${partition}
      and next_offset = ${from.next} and tip is not distinct from ${from.tip}`
  if (moved.count !== 1) throw new LostOwnership(`${build.model}: partition ${partition} is no longer at ${from.next}`)
}

/**
 * Drops what an earlier batch, or this one, has applied already, and remembers the rest. The position's row lock makes
 * this the only writer.
 */
const withoutRepeats = async <Row>(
  sql: Queryable,
  { projection, build, partition }: BatchTarget<Row>,
  entries: readonly Entry<Row>[],
): Promise<readonly Entry<Row>[]> => {
  const starts = new Map<string, { instance: string; epoch: string }>()
  for (const { origin } of entries) {
    if (origin !== null) starts.set(processStart(origin), { instance: origin.instance, epoch: origin.epoch })
  }
  if (starts.size === 0) return entries
  const origins = JSON.stringify([...starts.values()])
  const known = await sql<{ instance: string; epoch: string; sequence: number }[]>`
    select s.instance, s.epoch, s.sequence from gatelog.sequence s
    join json_to_recordset(${origins}::text::json) as o (instance text, epoch text) using (instance, epoch)
    where s.model = ${build.model} and s.build = ${build.build}
      and s.topic = ${projection.topic} and s.partition = ${partition}`
  const applied: AppliedSequences = new Map(known.map((row) => [processStart(row), row.sequence]))
  const fresh = entries.filter(({ origin }) => origin === null || !isRepeat(applied, origin))
  const highest = [...starts].map(([name, start]) => ({ ...start, sequence: applied.get(name)! }))
  await rememberSequences(sql, { projection, build, partition }, highest)
  return fresh
}

/** The highest sequence that was applied of each process start. */
export const sequencesOf = async (sql: Queryable, { projection, build, partition }: Target): Promise<Origin[]> =>
  sql<Origin[]>`
    select instance, epoch, sequence from gatelog.sequence
    where model = ${build.model} and build = ${build.build}
      and topic = ${projection.topic} and partition = ${partition}`

/** Records them as applied. */
export const rememberSequences = async (
  sql: Queryable,
  { projection, build, partition }: Target,
  highest: readonly Origin[],
): Promise<void> => {
  if (highest.length === 0) return
  const rows = highest.toSorted((a, b) => (`${a.instance} ${a.epoch}` < `${b.instance} ${b.epoch}` ? -1 : 1))
  await sql`
    insert into gatelog.sequence (model, build, topic, partition, instance, epoch, sequence)
    select ${build.model}, ${build.build}, ${projection.topic}, ${partition}, instance, epoch, sequence
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as o (instance text, epoch text, sequence bigint)
    on conflict (model, build, topic, partition, instance, epoch) do update set sequence = excluded.sequence`
}

const setAside = async <Row>(
  sql: Queryable,
  { projection, build, partition }: BatchTarget<Row>,
  entries: readonly Entry<Row>[],
): Promise<void> => {
  for (const { problem, record } of entries) {
    if (problem === null) continue
    const value = Buffer.from((record.value ?? EMPTY).subarray(0, MAX_POISON_BYTES))
    await sql`
      insert into gatelog.poison (model, build, topic, partition, log_offset, at_ms, reason, value)
      values (${build.model}, ${build.build}, ${projection.topic}, ${partition}, ${record.offset},
        ${record.atMs}, ${problem.slice(0, 500)}, ${value})
      on conflict do nothing`
  }
}
