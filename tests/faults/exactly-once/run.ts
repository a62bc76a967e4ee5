// One run: outcomes stream in while the worker is killed (`SIGKILL`) at random points, within a batch, a start and a
// closing; then everything is compared.
import { join } from 'node:path'
import type { Sql } from '../../../projections/database.ts'
import { rebuild } from '../../../projections/rebuild.ts'
import { buildFigures } from '../../../projections/verify.ts'
import { readModels, type WorkerTuning } from '../../../projections/worker.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { MAC_KEY, openSql } from '../../projections/support.ts'
import { eventually } from '../../services/eventually.ts'
import { silent } from '../../services/postgres.ts'
import { type ClosingReport, compareClosings, compareTables, type Differences } from './compare.ts'
import { type Books, DAYS, produce } from './producers.ts'
import type { WorkerTask } from './worker.ts'
import { openWorldLog, type World, type WorldLog } from './world.ts'

export interface KillRun {
  readonly world: World
  readonly databaseUrl: string
  readonly kills: number
  readonly outcomes: number
  /** Afterwards everything in Postgres is dropped under a worker that makes it anew. */
  readonly wipes?: boolean
  /** Called with a line of progress now and then. */
  readonly progress?: (line: string) => void
}

export interface KillReport extends Differences {
  readonly books: Books
  readonly closings: ClosingReport
  /** Kills that met a transaction of the worker. */
  readonly insideTransactions: number
  readonly seconds: number
  /** Seconds of a rebuild in one go, and by a worker that found an empty database; null: not requested. */
  readonly rebuiltS: number
  readonly wipedS: number | null
}

export const TUNING: Partial<WorkerTuning> = {
  pollMs: 50,
  reportMs: 200,
  takeoverMs: 500,
  closeMs: 100,
  frozenMs: 1_500,
  limits: { maxRecords: 1_000, maxBytes: 2 * 1_048_576, waitMs: 5 },
}
const CATCH_UP_MS = 120_000

export const spawnWorker = (task: WorkerTask) =>
  Bun.spawn([process.execPath, join(import.meta.dir, 'worker.ts'), JSON.stringify(task)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })

/** Records of the requests topic that the active build has applied, all partitions together; 0 while there is none. */
export const appliedRecords = async (sql: Sql): Promise<number> => {
  const rows = await sql<{ next: number }[]>`
    select coalesce(sum(next_offset), 0)::bigint as next from gatelog.position where model = 'requests'`.catch(() => [])
  return rows[0]?.next ?? 0
}

/** Whether every read model has applied all that its topic holds, and every day is closed as it stands now. */
export const isComplete = async (sql: Sql, world: WorldLog, days: number): Promise<boolean> => {
  const log = openWorldLog(world)
  try {
    for (const [model, topic] of [
      ['requests', TOPICS.requests.name],
      ['feedback', TOPICS.requests.name],
      ['frames', TOPICS.operations.name],
    ] as const) {
      for (const partition of await log.partitions(topic)) {
        const [row] = await sql<{ next: number }[]>`
          select next_offset as next from gatelog.position where model = ${model} and partition = ${partition}`
        if ((row?.next ?? 0) < (await log.end(topic, partition))) return false
      }
    }
    const [{ name } = { name: '' }] = await sql<{ name: string }[]>`
      select schema_name as name from gatelog.build where model = 'requests' and state = 'active'`
    const [closed] = await sql<{ days: number }[]>`
      select count(*) as days from ${sql(`${name}.closed_day`)} c left join ${sql(`${name}.late_day`)} l using (day_ms)
      where coalesce(l.changes, 0) = c.late`
    return closed!.days === days
  } finally {
    await log.close()
  }
}

const tablesNow = async (sql: Sql): Promise<string[]> =>
  (await buildFigures(sql))
    .flatMap(({ model, tables }) => tables.map(({ name, digest }) => `${model} ${name} ${digest}`))
    .filter((line) => /^(requests (request|detail|usage)|frames frame) /.test(line))

const secondsSince = (startedMs: number): number => (performance.now() - startedMs) / 1_000

/** What the kills have left, made anew from the log in one go: one line for each table that is then another. */
const rebuiltAlike = async (sql: Sql, log: EventLog, databaseUrl: string) => {
  const before = await tablesNow(sql)
  const startedMs = performance.now()
  const signal = new AbortController().signal
  const projections = readModels(MAC_KEY).filter(({ name }) => name === 'requests' || name === 'frames')
  await rebuild({ projections, log, databaseUrl, signal, diagnostics: silent, print: () => {} })
  const rebuiltS = secondsSince(startedMs)
  const after = new Set(await tablesNow(sql))
  const problems = before.filter((line) => !after.has(line)).map((line) => `made anew from the log is another: ${line}`)
  return { before, problems, rebuiltS }
}

/** Everything is dropped while no worker runs; the next one finds an empty database, as after the loss of its disk. */
const wipedAlike = async (sql: Sql, task: WorkerTask, before: readonly string[]) => {
  const schemas = await sql<{ name: string }[]>`
    select nspname as name from pg_namespace where starts_with(nspname, 'gatelog')`
  for (const { name } of schemas) await sql`drop schema ${sql(name)} cascade`
  const startedMs = performance.now()
  const worker = spawnWorker(task)
  try {
    const isThere = () => isComplete(sql, task.log, DAYS).catch(() => false) // its tables are not there yet
    await eventually('all is there again', isThere, { limitMs: 5 * CATCH_UP_MS, everyMs: 50 })
  } finally {
    worker.kill('SIGTERM')
    await worker.exited
  }
  const wipedS = secondsSince(startedMs)
  const after = new Set(await tablesNow(sql))
  const problems = before.filter((line) => !after.has(line)).map((line) => `after a wipe is another: ${line}`)
  return { problems: schemas.length === 0 || before.length === 0 ? ['nothing was there to drop'] : problems, wipedS }
}

export const killRun = async ({
  world,
  databaseUrl,
  kills,
  outcomes,
  wipes,
  progress,
}: KillRun): Promise<KillReport> => {
  const startedAt = performance.now()
  const sql = openSql(databaseUrl)
  const log = openWorldLog(world.log)
  const room = Math.max(400, Math.floor(outcomes / 50))
  let produced = 0
  const production = produce(world.log, outcomes, async (count) => {
    produced = count
    // Two records for each outcome, and some written twice.
    await eventually('the worker follows', async () => (await appliedRecords(sql)) >= 2 * (count - room), {
      limitMs: CATCH_UP_MS,
    })
    return true
  })
  production.done.catch(() => {}) // awaited below
  const task = { log: world.log, databaseUrl, tuning: TUNING }
  let worker = spawnWorker(task)
  let insideTransactions = 0
  const goesOn = (wanted: number) => produced >= wanted || produced >= outcomes
  for (let kill = 0; kill < kills; kill++) {
    const wanted = Math.floor((outcomes * (kill + 0.5)) / kills)
    await eventually(`${wanted} outcomes are written`, () => goesOn(wanted), { limitMs: CATCH_UP_MS, everyMs: 2 })
    if (kill % 5 !== 0) await untilBusy(kill % 2 === 0 ? 'closing' : 'applying')
    await Bun.sleep(Math.random() * 30)
    const [busy] = await sql<{ transactions: number }[]>`
      select count(*) as transactions from pg_stat_activity
      where application_name = 'gatelog-worker' and datname = current_database() and xact_start is not null`
    worker.kill('SIGKILL')
    if (busy!.transactions > 0) insideTransactions++
    await worker.exited
    worker = spawnWorker(task)
    // One in five goes while it starts.
    if (kill % 5 === 4) await Bun.sleep(Math.random() * 500)
    if (kill % 10 === 9) progress?.(`${kill + 1} kills, ${produced} outcomes, ${seconds()} s`)
  }
  await production.done
  await eventually('all is applied and closed', () => isComplete(sql, world.log, DAYS), {
    limitMs: CATCH_UP_MS,
    everyMs: 50,
  })
  worker.kill('SIGTERM')
  await worker.exited
  const differences = await compareTables(sql, production.books)
  const closings = await compareClosings(sql, log, production.books)
  const { before, rebuiltS, ...rebuilt } = await rebuiltAlike(sql, log, databaseUrl)
  const wiped = wipes === true ? await wipedAlike(sql, task, before) : { problems: [], wipedS: null }
  await log.close()
  await sql.end({ timeout: 1 })
  return {
    ...differences,
    problems: [...differences.problems, ...rebuilt.problems, ...wiped.problems],
    rebuiltS,
    wipedS: wiped.wipedS,
    books: production.books,
    closings,
    insideTransactions,
    seconds: seconds(),
  }

  function seconds(): number {
    return Math.round((performance.now() - startedAt) / 1_000)
  }

  /** Until the worker has applied, or written a closed day, since now; or nothing is left to do. */
  async function untilBusy(what: 'applying' | 'closing'): Promise<void> {
    const now = () => (what === 'applying' ? appliedRecords(sql) : log.end(TOPICS.usage.name, 0))
    const before = await now()
    const deadline = performance.now() + 2_000
    while ((await now()) === before && performance.now() < deadline) await Bun.sleep(1)
  }
}
