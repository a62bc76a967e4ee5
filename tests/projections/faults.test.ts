// Postgres is stopped under the worker: nothing is lost and nothing counted twice.
// `tests/faults/stores/worker-kill.test.ts` kills the worker itself.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eventually } from '../services/eventually.ts'
import { type PostgresService, startPostgres } from '../services/postgres.ts'
import { applied, openSql, REQUESTS, sender, startWorker, testLog } from './support.ts'

let postgres: PostgresService

beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.remove(), 60_000)

describe('Postgres is away', () => {
  test('at the start, and twice while records come: the tables are complete', async () => {
    const log = testLog()
    const one = sender()
    let written = 0
    const write = async (count: number) => {
      for (let at = 0; at < count; at++) await log.append(REQUESTS, 0, one.both(`req_${written++}`))
    }
    await postgres.stop()
    await write(50)
    const states: string[] = []
    const worker = startWorker({
      log,
      databaseUrl: postgres.url,
      onStatus: (status) => states.push(...status.map(({ state }) => state)),
    })
    await postgres.start() // the worker has tried before Postgres was there
    const sql = openSql(postgres.url)
    await applied(sql, 'requests', 100)
    for (let outage = 0; outage < 2; outage++) {
      const writing = write(200)
      await postgres.stop()
      states.length = 0
      await writing
      await write(50)
      await eventually('the worker says that it waits', async () => states.includes('waiting'))
      await postgres.start()
      await applied(sql, 'requests', 2 * written)
    }
    const schema = await applied(sql, 'requests', 2 * written)
    const [count] = await sql<{ rows: number }[]>`select count(*)::int as rows from ${sql(`${schema}.request`)}`
    expect(count!.rows).toBe(written)
    await worker.stop()
    await sql.end()
  }, 60_000)
})
