// gateway.requests.v1 -> the request log and usage. A batch goes in by COPY; what stands in two batches, or twice in
// the log, is put together here.
import { yieldToEventLoop } from '../../src/lib/event-loop/yield-to-event-loop.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { copyInto, copyLine } from '../copy.ts'
import { sqlStateOf, type Transaction } from '../database.ts'
import { type Build, type Projection, TURN_RECORDS } from '../projection.ts'
import { newTally, type Tally } from '../usage/cells.ts'
import { type ClosedDays, closedDays, noteLate, restoreDays } from '../usage/closed.ts'
import { addUsage } from '../usage/project.ts'
import usageSchema from '../usage/schema.sql' with { type: 'text' }
import { keepAdmissions, takeAdmissions } from './admissions.ts'
import { carryOver } from './carry-over.ts'
import { countFresh, type Outdone, placeOf, type Replaced, takeBack, takeFromDay } from './counted.ts'
import { forgetDays, makeDays, spanOf } from './days.ts'
import { type AdmittedRow, foldRequestRecord, REQUEST_COLUMNS, type RequestRow, type SettledRow } from './fold.ts'
import { holdBuild } from './hold.ts'
import { load } from './load/load.ts'
import schema from './schema.sql' with { type: 'text' }
import { keysOf, type StoredOutcome, storedOutcomes } from './stored.ts'

/** Days of the request log that are kept by default. */
export const KEPT_DAYS = 90

/**
 * The request log with its usage. `keepDays`: how long single requests are kept; usage of hours and days is kept for
 * ever.
 */
export const requestsModel = (keepDays: number): Projection<RequestRow> => ({
  name: 'requests',
  version: 10,
  topic: TOPICS.requests.name,
  schema: `${schema}\n${usageSchema}`,
  async open({ partition }) {
    return { fold: (record, logAtMs) => foldRequestRecord(record, logAtMs, partition), tip: () => null }
  },
  begin: restoreDays,
  prepare: (sql, build, rows) => makeDays(sql, build, spanOf(rows), keepDays),
  forget: forgetDays,
  async write(sql, build, rows) {
    const keptMs = await holdBuild(sql, build, keepDays)
    const isKept = ({ atMs }: RequestRow) => atMs >= keptMs
    const batch = firstOfEach(rows)
    const closed = await closedDays(
      sql,
      build.schemaName,
      batch.settled.map(({ atMs }) => atMs),
    )
    // Too old for a row of its own: its cost is counted all the same.
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
  load: (options) => load(options, keepDays),
  carryOver,
})

export const requestsProjection: Projection<RequestRow> = requestsModel(KEPT_DAYS)

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

/** The admissions of settlements, of this batch or of an earlier one. */
const admissionsOf = async (
  sql: Transaction,
  build: Build,
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
  for (const [id, text] of await takeAdmissions(sql, build, earlier)) texts.set(id, text)
  return texts
}

/** The event loop runs other work in between. */
const countAll = async (closed: ClosedDays, rows: readonly SettledRow[]): Promise<Tally> => {
  const tally = newTally()
  for (const [at, row] of rows.entries()) {
    countFresh(tally, closed, row)
    if (at % TURN_RECORDS === TURN_RECORDS - 1) await yieldToEventLoop()
  }
  return tally
}

interface Inserted {
  readonly fresh: readonly SettledRow[]
  readonly replaced: readonly Replaced[]
  readonly outdone: readonly Outdone[]
}

const UNIQUE_VIOLATION = '23505'

/** Nearly always no request is there yet; only when one is, the two settlements are compared. */
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
