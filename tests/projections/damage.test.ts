// Records that cannot be applied, and tables that are dropped under the worker: nothing stops it.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type AnyProjection, buildToKeep, prepareCatalogue } from '../../projections/builds.ts'
import type { Sql } from '../../projections/database.ts'
import { followPartition, newProgress } from '../../projections/follow.ts'
import { requestsProjection } from '../../projections/requests/project.ts'
import { sharedPostgres, silent, type TestDatabase } from '../services/postgres.ts'
import { applied, openSql, REQUESTS, sender, settled, startWorker, testLog } from './support.ts'

let database: TestDatabase
let sql: Sql

beforeAll(async () => {
  database = await sharedPostgres()
  sql = openSql(database.url)
}, 60_000)
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await database.remove()
}, 60_000)
beforeEach(async () => {
  const schemas = await sql<{ name: string }[]>`
    select nspname as name from pg_namespace where nspname = 'gatelog' or nspname ~ '_v[0-9]+_b[0-9]+$'`
  for (const { name } of schemas) await sql`drop schema ${sql(name)} cascade`
})

const rowsOf = (schema: string) =>
  sql<{ id: string; outcome: string; latency_ms: number }[]>`
    select id, outcome, latency_ms from ${sql(`${schema}.request`)} order by id`

describe('what is damaged', () => {
  test('what cannot be applied is set aside with its reason, and everything around it is applied', async () => {
    const log = testLog()
    const one = sender()
    const { record } = one
    await log.append(REQUESTS, 0, [
      ...one.both('req_1'),
      { key: null, value: Buffer.from('not json') },
      { key: null, value: new Uint8Array(0) },
      record('request.settled', { id: 'req_bad' }),
      record('request.settled', settled('req_ancient', { at_ms: 5 })),
      record('request.settled', settled('req_huge', { cost_nano_usd: 1e300 })),
      record('request.reconciled', { id: 'req_1', of: 'a newer build' }),
      record(
        'request.settled',
        settled('req_2', { requested_model: 'half \ud800 and nul \0', raw_usage: { 'a\0': '\0' } }),
      ),
    ])
    const worker = startWorker({ log, databaseUrl: database.url })
    const schema = await applied(sql, 'requests', 9)
    expect((await rowsOf(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2'])
    const poison = await sql<{ log_offset: number; reason: string }[]>`
      select log_offset, reason from gatelog.poison where model = 'requests' order by log_offset`
    expect(poison.map(({ log_offset, reason }) => `${log_offset} ${reason}`)).toEqual([
      '2 not an envelope',
      '3 not an envelope',
      '4 not a valid request.settled: /request_id',
      '5 at_ms 5 is no time',
      '6 Postgres cannot store it (22P02)',
    ])
    await worker.stop()
  })

  test('an origin that Postgres cannot store, or that is no name, is set aside and stops nothing', async () => {
    const log = testLog()
    const one = sender()
    await log.append(REQUESTS, 0, [
      ...one.both('req_1'),
      sender('a\0b').record('request.settled', settled('req_nul')),
      sender('ins_1', 'e'.repeat(4_000)).record('request.settled', settled('req_long')),
      ...one.both('req_2'),
    ])
    const worker = startWorker({ log, databaseUrl: database.url })
    const schema = await applied(sql, 'requests', 6)
    expect((await rowsOf(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2'])
    await worker.stop()
  })

  test('what cannot be stored because of its origin is set aside without it', async () => {
    const log = testLog()
    await log.append(REQUESTS, 0, sender().both('req_1'))
    const projection = {
      ...requestsProjection,
      open: async () => ({
        fold: () => ({ origin: { instance: 'a\0b', epoch: 'e', sequence: 0 }, rows: [], flaw: null }),
        tip: () => null,
      }),
    }
    await prepareCatalogue(sql)
    const build = (await buildToKeep(sql, projection as unknown as AnyProjection))!
    const stopping = new AbortController()
    const following = followPartition({
      sql,
      log,
      projection,
      build,
      partition: 0,
      signal: stopping.signal,
      diagnostics: silent,
      limits: { maxRecords: 10, maxBytes: 1_048_576, waitMs: 2 },
      takeoverMs: 200,
      progress: newProgress(),
    })
    await applied(sql, 'requests', 2)
    stopping.abort()
    await following
    const [count] = await sql<{ rows: number }[]>`select count(*)::int as rows from gatelog.poison`
    expect(count!.rows).toBe(2)
  })

  test('a day whose table was dropped, or taken away from its parent, while the worker runs is made again', async () => {
    const log = testLog()
    const one = sender()
    const worker = startWorker({ log, databaseUrl: database.url })
    await log.append(REQUESTS, 0, one.both('req_1'))
    const schema = await applied(sql, 'requests', 2)
    await sql.unsafe(`drop table "${schema}".request_20261120`)
    await sql.unsafe(`alter table "${schema}".detail detach partition "${schema}".detail_20261120`)
    await log.append(REQUESTS, 0, one.both('req_2'))
    await applied(sql, 'requests', 4)
    expect((await rowsOf(schema)).map(({ id }) => id)).toEqual(['req_2'])
    const [poison] = await sql<{ count: number }[]>`select count(*)::int as count from gatelog.poison`
    expect(poison!.count).toBe(0)
    await worker.stop()
  })

  for (const [what, empty] of [
    [
      'everything',
      'drop schema gatelog cascade; drop schema requests_v8_b1 cascade; drop schema if exists audit_v2_b1 cascade',
    ],
    ['the catalogue', 'drop schema gatelog cascade'],
    ['the tables of the model', 'drop schema requests_v8_b1 cascade'],
  ] as const) {
    test(`a database that loses ${what} under the running worker is made again from the log`, async () => {
      const log = testLog()
      const one = sender()
      const worker = startWorker({ log, databaseUrl: database.url })
      await log.append(REQUESTS, 0, one.both('req_1'))
      await applied(sql, 'requests', 2)
      await sql.unsafe(empty)
      await log.append(REQUESTS, 0, one.both('req_2'))
      const schema = await applied(sql, 'requests', 4)
      expect((await rowsOf(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2'])
      await worker.stop()
    })
  }
})
