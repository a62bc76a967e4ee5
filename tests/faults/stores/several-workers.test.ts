// Several workers on the partitions of one broker: the others take over the partitions of one that ends in any way, and
// nothing is counted twice.
import { expect, test } from 'bun:test'
import { TOPICS } from '../../../src/log/topics.ts'
import { openSql } from '../../projections/support.ts'
import { eventually } from '../../services/eventually.ts'
import { sharedBroker } from '../../services/kafka.ts'
import { sharedPostgres } from '../../services/postgres.ts'
import { compareTables } from '../exactly-once/compare.ts'
import { produce } from '../exactly-once/producers.ts'
import { appliedRecords, isComplete, spawnWorker, TUNING } from '../exactly-once/run.ts'
import { kafkaWorld, openWorldLog } from '../exactly-once/world.ts'

const PARTITIONS = 6
const STOPPED_MS = 15_000
/** Outcomes that are written and not applied, at most: the workers are never idle and never far behind. */
const ROOM = 400
const LIMITS = { limitMs: 120_000, everyMs: 20 }

const openScene = async () => {
  const world = await kafkaWorld((await sharedBroker()).bootstrap, PARTITIONS)
  const database = await sharedPostgres()
  const sql = openSql(database.url)
  const log = openWorldLog(world.log)
  let goesOn = true
  const production = produce(world.log, 1_000_000, async (count) => {
    await eventually('the workers follow', async () => (await appliedRecords(sql)) >= 2 * (count - ROOM), LIMITS)
    await Bun.sleep(50) // a load that lasts, not one that is large
    return goesOn
  })
  production.done.catch(() => {}) // awaited below
  const start = () => spawnWorker({ log: world.log, databaseUrl: database.url, tuning: TUNING })
  const ends = async () => {
    const partitions = await log.partitions(TOPICS.requests.name)
    return Promise.all(partitions.map((partition) => log.end(TOPICS.requests.name, partition)))
  }
  return {
    sql,
    start,
    /** Every partition that is written to is applied beyond where it ends now. */
    async takenOver() {
      const before = await ends()
      await eventually(
        'every partition is taken over',
        async () => {
          const rows = await sql<{ partition: number; next: number }[]>`
            select partition, next_offset as next from gatelog.position where model = 'requests'`
          return rows.every(({ partition, next }) => before[partition] === 0 || next > before[partition]!)
        },
        LIMITS,
      )
    },
    async finish() {
      goesOn = false
      await production.done
      const days = production.books.requestsOfDay.size
      await eventually('all is applied and closed', () => isComplete(sql, world.log, days), LIMITS)
      return compareTables(sql, production.books)
    },
    async remove() {
      goesOn = false
      await production.done.catch(() => {})
      await log.close()
      await sql.end({ timeout: 1 })
      await database.remove()
    },
  }
}

type Scene = Awaited<ReturnType<typeof openScene>>
type Worker = ReturnType<Scene['start']>

/** Stops it (SIGSTOP) in the midst of a transaction, whose locks it then holds. */
const freeze = async ({ sql }: Scene, worker: Worker) => {
  await eventually(
    'a worker is stopped in a transaction',
    async () => {
      worker.kill('SIGSTOP')
      await Bun.sleep(100)
      const rows = await sql`
        select 1 from pg_stat_activity where application_name = 'gatelog-worker' and datname = current_database()
          and xact_start is not null and wait_event = 'ClientRead' and state_change < now() - interval '80 ms'`
      if (rows.length === 0) worker.kill('SIGCONT')
      return rows.length > 0
    },
    LIMITS,
  )
  const since = performance.now()
  return async () => {
    await Bun.sleep(Math.max(0, STOPPED_MS - (performance.now() - since)))
    worker.kill('SIGCONT')
  }
}

const endAll = async (workers: readonly Worker[]) => {
  for (const worker of workers) worker.kill('SIGCONT')
  for (const worker of workers) worker.kill('SIGTERM')
  await Promise.all(workers.map(({ exited }) => exited))
}

test('three workers: one after the other is killed, asked to stop, and stopped for 15 s', async () => {
  const scene = await openScene()
  const workers = [scene.start(), scene.start(), scene.start()]
  try {
    await eventually('they have begun', async () => (await appliedRecords(scene.sql)) > 0, LIMITS)
    workers[0]!.kill('SIGKILL')
    await scene.takenOver()
    workers.push(scene.start())
    workers[1]!.kill('SIGTERM')
    expect(await workers[1]!.exited).toBe(0)
    await scene.takenOver()
    workers.push(scene.start())
    const wake = await freeze(scene, workers[2]!)
    await scene.takenOver()
    await wake()
    await scene.takenOver()
    expect(await scene.finish()).toEqual({ missing: 0, doubled: 0, problems: [] })
  } finally {
    await endAll(workers)
    await scene.remove()
  }
}, 300_000)

test('five workers: one killed, one asked to stop and one stopped for 15 s, all at once', async () => {
  const scene = await openScene()
  const workers = Array.from({ length: 5 }, () => scene.start())
  try {
    await eventually('they have begun', async () => (await appliedRecords(scene.sql)) > 0, LIMITS)
    await scene.takenOver()
    const wake = await freeze(scene, workers[4]!)
    workers[0]!.kill('SIGKILL')
    workers[1]!.kill('SIGTERM')
    await scene.takenOver()
    await wake()
    expect(await workers[1]!.exited).toBe(0)
    await scene.takenOver()
    expect(await scene.finish()).toEqual({ missing: 0, doubled: 0, problems: [] })
  } finally {
    await endAll(workers)
    await scene.remove()
  }
}, 300_000)
