// Records that cannot be applied, and tables that are dropped under the worker: nothing stops it.
import { describe, expect, test } from 'bun:test'
import { type AnyProjection, buildToKeep, prepareCatalogue } from '../../projections/builds.ts'
import { followPartition, newProgress } from '../../projections/follow.ts'
import { requestsProjection } from '../../projections/requests/project.ts'
import { readStatus } from '../../projections/status.ts'
import { silent } from '../services/postgres.ts'
import { firstSchemaOf, testStore } from './store.ts'
import { REQUESTS, sender, settled, testLog } from './support.ts'

const store = testStore()

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
    const schema = await store.fold(log)
    expect((await store.requests(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2'])
    expect((await store.setAside('requests')).map(({ log_offset, reason }) => `${log_offset} ${reason}`)).toEqual([
      '2 not an envelope',
      '3 not an envelope',
      '4 not a valid request.settled: /at_ms',
      '5 at_ms 5 is no time',
      '6 Postgres cannot store it: it cannot store a value (22P02)',
    ])
    // What the metric and `/system` show.
    const shown = await readStatus(store.sql)
    expect(shown.find(({ model }) => model === 'requests')?.poison).toBe(5)
  })

  test('a row that Postgres refuses at the head of more than it takes at once is set aside alone', async () => {
    const log = testLog()
    const { record } = sender()
    const wide = { requested_model: 'm'.repeat(2_000) } // 150 rows are some pieces of a COPY
    await log.append(REQUESTS, 0, [record('request.settled', settled('req_huge', { ...wide, cost_nano_usd: 1e300 }))])
    for (let at = 0; at < 150; at += 50) {
      const rows = Array.from({ length: 50 }, (_, of) => record('request.settled', settled(`req_${at + of}`, wide)))
      await log.append(REQUESTS, 0, rows)
    }
    const schema = await store.fold(log)
    expect((await store.requests(schema)).length).toBe(150)
    expect((await store.setAside('requests')).map(({ log_offset, reason }) => `${log_offset} ${reason}`)).toEqual([
      '0 Postgres cannot store it: it cannot store a value (22P02)',
    ])
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
    const schema = await store.fold(log)
    expect((await store.requests(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2'])
  })

  test('what cannot be stored because of its origin is set aside without it', async () => {
    const log = testLog()
    await log.append(REQUESTS, 0, sender().both('req_1'))
    const projection = {
      ...requestsProjection,
      open: async () => ({
        fold: () => ({ origin: { instance: 'a\0b', epoch: 'e', sequence: 0 }, rows: [], problem: null }),
        tip: () => null,
      }),
    }
    await prepareCatalogue(store.sql)
    const build = (await buildToKeep(store.sql, projection as unknown as AnyProjection))!
    const stopping = new AbortController()
    const following = followPartition({
      sql: store.sql,
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
    await store.applied('requests', 2)
    stopping.abort()
    await following
    const [count] = await store.sql<{ rows: number }[]>`select count(*)::int as rows from gatelog.poison`
    expect(count!.rows).toBe(2)
  })

  test('a day whose table was dropped, or taken away from its parent, while the worker runs is made again', async () => {
    const log = testLog()
    const one = sender()
    store.follow(log)
    await log.append(REQUESTS, 0, one.both('req_1'))
    const schema = await store.applied('requests', 2)
    await store.sql.unsafe(`drop table "${schema}".request_20261120`)
    await store.sql.unsafe(`alter table "${schema}".detail detach partition "${schema}".detail_20261120`)
    await log.append(REQUESTS, 0, one.both('req_2'))
    await store.applied('requests', 4)
    expect((await store.requests(schema)).map(({ id }) => id)).toEqual(['req_2'])
    expect(await store.setAside('requests')).toEqual([])
  })

  for (const [what, loss] of [
    [
      'everything',
      `drop schema gatelog cascade; drop schema ${firstSchemaOf('requests')} cascade; ` +
        `drop schema if exists ${firstSchemaOf('audit')} cascade`,
    ],
    ['the catalogue', 'drop schema gatelog cascade'],
    ['the tables of the model', `drop schema ${firstSchemaOf('requests')} cascade`],
  ] as const) {
    test(`a database that loses ${what} under the running worker is made again from the log`, async () => {
      const log = testLog()
      const one = sender()
      store.follow(log)
      await log.append(REQUESTS, 0, one.both('req_1'))
      await store.applied('requests', 2)
      await store.sql.unsafe(loss)
      await log.append(REQUESTS, 0, one.both('req_2'))
      const schema = await store.applied('requests', 4)
      expect((await store.requests(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2'])
    })
  }
})
