// gateway.requests.v1 -> the request log and usage. A batch goes in by COPY; what stands in two batches, or twice in the log, is put together here.
import { breath } from '../../src/lib/breath.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { copyInto, copyLine } from '../copy.ts'
import { sqlStateOf, type Transaction } from '../database.ts'
import { type Build, type Projection, TURN_RECORDS } from '../projection.ts'
import { count, newTally, type Tally } from '../usage/cells.ts'
import { type ClosedDays, closedDays, noteLate, restoreDays } from '../usage/closed.ts'
import { addUsage } from '../usage/project.ts'
import usageSchema from '../usage/schema.sql' with { type: 'text' }
import { carryOver } from './carry-over.ts'
import { DAY_MS, forgetDays, makeDays } from './days.ts'
import { type AdmittedRow, foldRequestRecord, REQUEST_COLUMNS, type RequestRow, type SettledRow } from './fold.ts'
import schema from './schema.sql' with { type: 'text' }
import { keysOf, type StoredOutcome, storedOutcomes } from './stored.ts'

/** Days of the request log that are kept unless something else is asked for. */
export const KEPT_DAYS = 90

/** The request log with its usage. `keepDays`: how long single requests are kept; usage of hours and days is kept for ever. */
export const requestsModel = (keepDays: number): Projection<RequestRow> => ({
  name: 'requests',
  version: 9,
  topic: TOPICS.requests.name,
  schema: `${schema}\n${usageSchema}`,
  async open({ partition }) {
    return { fold: (record, logAtMs) => foldRequestRecord(record, logAtMs, partition), tip: () => null }
  },
  begin: restoreDays,
  prepare: (sql, build, rows) => makeDays(sql, build, rows, keepDays),
  forget: forgetDays,
  async write(sql, build, rows) {
    const newestDay = await holdBuild(sql, build)
    const keptMs = newestDay === null ? Number.NEGATIVE_INFINITY : (newestDay - keepDays) * DAY_MS
    const isKept = ({ atMs }: RequestRow) => atMs >= keptMs
    const batch = firstOfEach(rows)
    const closed = await closedDays(
      sql,
      build.schemaName,
      batch.settled.map(({ atMs }) => atMs),
    )
    // Too old for a row of its own: it cost what it cost.
    const [settled, old] = [batch.settled.filter(isKept), batch.settled.filter((row) => !isKept(row))]
    const admitted = new Map(batch.admitted.filter(isKept).map((row) => [row.id, row]))
    const texts = await admissionsOf(sql, build, settled, admitted)
    // Counted while Postgres takes the rows: nearly always all of them are new.
    const counting = countAll(closed, [...old, ...settled])
    const { fresh, replaced, outdone } = await insert(sql, build, settled, texts)
    const counted = await counting
    const tally = fresh === settled ? counted : await countAll(closed, [...old, ...fresh])
    for (const each of replaced) takeBack(tally, closed, each)
    for (const each of outdone) takeFromDay(tally, closed, each)
    const changed = [...batch.settled.filter((row) => !closed.has(placeOf(row))), ...replaced.map(({ by }) => by)]
    await noteLate(
      sql,
      build.schemaName,
      [...changed, ...outdone.map(({ row }) => row)].map(({ atMs }) => atMs).filter(closed.isClosed),
    )
    for (const { id } of fresh) admitted.delete(id)
    await keepAdmissions(sql, build, [...admitted.values()])
    await addUsage(sql, build.schemaName, tally, keptMs)
  },
  carryOver,
})

export const requestsProjection: Projection<RequestRow> = requestsModel(KEPT_DAYS)

/**
 * One transaction writes a build at a time, whatever partition it is of. Joins of the batch go by index: Postgres has no statistics of new tables.
 * Answers the newest day of log time.
 */
const holdBuild = async (sql: Transaction, { schemaName }: Build): Promise<number | null> => {
  const [row] = await sql<{ day: number | null }[]>`
    select (select day from ${sql(`${schemaName}.newest_day`)}) as day,
      pg_advisory_xact_lock(hashtextextended(${`gatelog rows ${schemaName}`}, 0)),
      set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('enable_seqscan', 'off', true)`
  return row!.day
}

/** The first record of each request and kind: what comes later in the same partition is a repeat. */
const firstOfEach = (rows: readonly RequestRow[]) => {
  const settled = new Map<string, SettledRow>()
  const admitted = new Map<string, AdmittedRow>()
  for (const row of rows) {
    if (row.kind === 'settled') {
      if (!settled.has(row.id)) settled.set(row.id, row)
    } else if (!admitted.has(row.id)) admitted.set(row.id, row)
  }
  return { settled: [...settled.values()], admitted: [...admitted.values()] }
}

/** The admissions of settlements, of this batch or of an earlier one, whose row is then taken out of `pending`. */
const admissionsOf = async (
  sql: Transaction,
  { schemaName }: Build,
  settled: readonly SettledRow[],
  admitted: ReadonlyMap<string, AdmittedRow>,
): Promise<Map<string, string>> => {
  const texts = new Map<string, string>()
  const earlier: SettledRow[] = []
  for (const row of settled) {
    const own = admitted.get(row.id)
    if (own !== undefined) texts.set(row.id, own.admitted)
    else if (row.wasAdmitted) earlier.push(row)
  }
  if (earlier.length === 0) return texts
  const taken = await sql<{ id: string; admitted: string }[]>`
    delete from ${sql(`${schemaName}.pending`)} held using ${keysOf(sql, earlier)}
    where held.at_ms = key.at_ms and held.id = key.id returning held.id, held.admitted`
  for (const { id, admitted: text } of taken) texts.set(id, text)
  return texts
}

const placeOf = ({ atMs, place: { partition, offset } }: SettledRow) => ({ atMs, partition, offset })

/** Others get their turn now and then. */
const countAll = async (closed: ClosedDays, rows: readonly SettledRow[]): Promise<Tally> => {
  const tally = newTally()
  for (const [at, row] of rows.entries()) {
    countFresh(tally, closed, row)
    if (at % TURN_RECORDS === TURN_RECORDS - 1) await breath()
  }
  return tally
}

/** What a closed day has in it is not counted for that day again. */
const countFresh = (tally: Tally, closed: ClosedDays, row: SettledRow): void => {
  count(tally, row.data)
  if (closed.has(placeOf(row))) count(tally.days, row.data, -1)
}

/** A closed day that has both in it has counted the one that holds. */
const takeBack = (tally: Tally, closed: ClosedDays, { held, by }: Replaced): void => {
  count(tally, held.facts, -1)
  if (closed.has(held) && closed.has(placeOf(by))) count(tally.days, held.facts)
}

/** A closed day that has the one in it that does not hold, without the one that does, has counted it. */
const takeFromDay = (tally: Tally, closed: ClosedDays, { row, held }: Outdone): void => {
  if (closed.has(placeOf(row)) && !closed.has(held)) count(tally.days, row.data, -1)
}

/** What was stored and is no longer the outcome. */
interface Replaced {
  readonly held: StoredOutcome
  readonly by: SettledRow
}

/** What came in and is not the outcome. */
interface Outdone {
  readonly row: SettledRow
  readonly held: StoredOutcome
}

interface Inserted {
  readonly fresh: readonly SettledRow[]
  readonly replaced: readonly Replaced[]
  readonly outdone: readonly Outdone[]
}

const UNIQUE_VIOLATION = '23505'

/** Nearly always no request is there yet; only when one is, it is looked at which of two settlements comes first. */
const insert = async (
  sql: Transaction,
  build: Build,
  settled: readonly SettledRow[],
  texts: Map<string, string>,
): Promise<Inserted> => {
  if (settled.length === 0) return { fresh: [], replaced: [], outdone: [] }
  try {
    await sql.savepoint((inner) => copyRows(inner, build, settled, texts))
    return { fresh: settled, replaced: [], outdone: [] }
  } catch (error) {
    if (sqlStateOf(error) !== UNIQUE_VIOLATION) throw error
  }
  const stored = new Map((await storedOutcomes(sql, build.schemaName, settled)).map((each) => [each.id, each]))
  const fresh: SettledRow[] = []
  const replaced: Replaced[] = []
  const outdone: Outdone[] = []
  for (const row of settled) {
    const held = stored.get(row.id)
    if (held !== undefined && !isBefore(row.place, held)) outdone.push({ row, held })
    else fresh.push(row)
    if (held !== undefined && isBefore(row.place, held)) replaced.push({ held, by: row })
  }
  for (const { held } of replaced) if (held.admitted !== null && !texts.has(held.id)) texts.set(held.id, held.admitted)
  for (const table of ['request', 'detail']) {
    if (replaced.length === 0) break
    const keys = replaced.map(({ held }) => held)
    await sql`
      delete from ${sql(`${build.schemaName}.${table}`)} held using ${keysOf(sql, keys)}
      where held.at_ms = key.at_ms and held.id = key.id`
  }
  await copyRows(sql, build, fresh, texts)
  return { fresh, replaced, outdone }
}

type Placed = Pick<StoredOutcome, 'logAtMs' | 'partition' | 'offset'>

/** Between partitions log time decides, so that their order of arrival here does not matter. */
const isBefore = (a: Placed, b: Placed): boolean =>
  (a.logAtMs - b.logAtMs || a.partition - b.partition || a.offset - b.offset) < 0

const copyRows = async (
  sql: Transaction,
  { schemaName }: Build,
  settled: readonly SettledRow[],
  texts: ReadonlyMap<string, string>,
): Promise<void> => {
  const requests = settled.map(({ line }) => line)
  await copyInto(sql, `"${schemaName}".request`, REQUEST_COLUMNS, requests)
  const details = settled.map((row) => copyLine([row.atMs, row.id, texts.get(row.id) ?? null, row.settled]))
  await copyInto(sql, `"${schemaName}".detail`, ['at_ms', 'id', 'admitted', 'settled'], details)
}

/** Admissions whose settlement was not in this batch: it comes later, or came before from another partition. */
const keepAdmissions = async (sql: Transaction, { schemaName }: Build, rows: readonly AdmittedRow[]): Promise<void> => {
  if (rows.length === 0) return
  const request = sql(`${schemaName}.request`)
  const settled = await sql<{ id: string }[]>`select id from ${keysOf(sql, rows)} join ${request} using (at_ms, id)`
  const known = new Set(settled.map(({ id }) => id))
  const late = rows.filter(({ id }) => known.has(id))
  for (const { id, atMs, admitted } of late) {
    await sql`
      update ${sql(`${schemaName}.detail`)} set admitted = ${admitted} where at_ms = ${atMs} and id = ${id} and admitted is null`
  }
  const open = rows.filter(({ id }) => !known.has(id))
  const lines = open.map(({ atMs, id, admitted, place }) =>
    copyLine([atMs, id, admitted, place.partition, place.offset]),
  )
  const columns = ['at_ms', 'id', 'admitted', 'log_partition', 'log_offset']
  await copyInto(sql, `"${schemaName}".pending`, columns, lines)
}
