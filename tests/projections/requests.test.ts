// The request log in Postgres: exactly once, whatever is repeated, damaged or raced.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type AnyProjection, buildToKeep, prepareCatalogue } from '../../projections/builds.ts'
import type { Sql } from '../../projections/database.ts'
import { followPartition, newProgress } from '../../projections/follow.ts'
import { rebuild } from '../../projections/rebuild.ts'
import { requestsProjection } from '../../projections/requests/project.ts'
import { readModels } from '../../projections/worker.ts'
import { LogReplaced } from '../../src/log/port.ts'
import { sharedPostgres, silent, type TestDatabase } from '../services/postgres.ts'
import {
  admitted,
  applied,
  eventually,
  MAC_KEY,
  NOON_MS,
  openSql,
  REQUESTS,
  sender,
  settled,
  startWorker,
  tableDigest,
  testLog,
} from './support.ts'

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

describe('the request log', () => {
  test('repeats of the same instance, epoch and sequence are dropped; another epoch is not a repeat', async () => {
    const log = testLog()
    const one = sender()
    const batch = [...one.both('req_1'), ...one.both('req_2'), ...one.both('req_3')]
    await log.append(REQUESTS, 0, batch)
    await log.append(REQUESTS, 0, batch.slice(2)) // an append whose answer was lost, sent again
    await log.append(REQUESTS, 0, sender('ins_1', 'e2').both('req_4'))
    const worker = startWorker({ log, databaseUrl: database.url })
    const schema = await applied(sql, 'requests', 12)
    expect((await rowsOf(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2', 'req_3', 'req_4'])
    const sequences = await sql<{ epoch: string; sequence: number }[]>`
      select epoch, sequence from gatelog.sequence where model = 'requests' order by epoch`
    expect(sequences.map(({ epoch, sequence }) => [epoch, sequence])).toEqual([
      ['e1', 5],
      ['e2', 1],
    ])
    await worker.stop()
  })

  test('the first settlement of an admission in the log is the outcome', async () => {
    const log = testLog()
    const { record } = sender()
    await log.append(REQUESTS, 0, [
      record('request.admitted', admitted('req_1')),
      record('request.settled', settled('req_1', { outcome: 'success' })),
      record('request.settled', settled('req_1', { outcome: 'orphaned', cost_basis: 'estimated' })),
    ])
    const worker = startWorker({ log, databaseUrl: database.url })
    const schema = await applied(sql, 'requests', 3)
    expect((await rowsOf(schema)).map(({ outcome }) => outcome)).toEqual(['success'])
    await worker.stop()
  })

  test('between partitions the earlier settlement in log time is the outcome, whichever is folded first', async () => {
    for (const late of [0, 1]) {
      const log = testLog(2)
      await log.append(REQUESTS, 1 - late, [
        sender('ins_1').record('request.settled', settled('req_1', { outcome: 'success' })),
      ])
      await log.append(REQUESTS, late, [
        sender('ins_2').record('request.settled', settled('req_1', { outcome: 'orphaned' })),
      ])
      const worker = startWorker({ log, databaseUrl: database.url })
      await applied(sql, 'requests', 1, 0)
      const schema = await applied(sql, 'requests', 1, 1)
      expect((await rowsOf(schema)).map(({ outcome }) => outcome)).toEqual(['success'])
      await worker.stop()
      await sql`drop schema gatelog cascade`
      await sql`drop schema ${sql(schema)} cascade`
    }
  })

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
    await sql.unsafe(`alter table "${schema}".admission detach partition "${schema}".admission_20261120`)
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
      'drop schema gatelog cascade; drop schema requests_v3_b1 cascade; drop schema if exists audit_v2_b1 cascade',
    ],
    ['the catalogue', 'drop schema gatelog cascade'],
    ['the tables of the model', 'drop schema requests_v3_b1 cascade'],
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

  test('two workers beside each other count nothing twice; when the owner ends, the other goes on', async () => {
    const log = testLog(2)
    const senders = [sender('ins_1'), sender('ins_2')]
    const lost: number[] = []
    const diagnostics = {
      ...silent,
      info: (event: string) => void (event === 'projection_ownership_lost' && lost.push(1)),
    }
    const workers = ['a', 'b'].map((worker) => startWorker({ log, databaseUrl: database.url, worker, diagnostics }))
    for (let at = 0; at < 150; at++) {
      for (const partition of [0, 1])
        await log.append(REQUESTS, partition, senders[partition]!.both(`req_${partition}_${at}`))
      if (at % 10 === 0) await Bun.sleep(1)
    }
    await applied(sql, 'requests', 300, 0)
    const schema = await applied(sql, 'requests', 300, 1)
    expect((await rowsOf(schema)).length).toBe(300)
    expect(lost.length).toBeGreaterThan(0) // else they never met, and this shows nothing
    await workers[0]!.stop()
    for (const partition of [0, 1])
      await log.append(REQUESTS, partition, senders[partition]!.both(`req_${partition}_last`))
    await applied(sql, 'requests', 302, 0)
    await applied(sql, 'requests', 302, 1)
    expect((await rowsOf(schema)).length).toBe(302)
    await workers[1]!.stop()
  })

  test('a log that was truncated, or replaced by another, ends the worker with one clear line', async () => {
    const log = testLog()
    const one = sender()
    await log.append(REQUESTS, 0, [...one.both('req_1'), ...one.both('req_2')])
    const first = startWorker({ log, databaseUrl: database.url })
    await applied(sql, 'requests', 4)
    await first.stop()
    log.truncate(REQUESTS, 0, 2)
    await expect(startWorker({ log, databaseUrl: database.url }).ended).rejects.toThrow(LogReplaced)
    const other = testLog()
    const strangers = sender('ins_9')
    await other.append(
      REQUESTS,
      0,
      ['a', 'b', 'c'].flatMap((name) => strangers.both(`req_${name}`)),
    )
    await expect(startWorker({ log: other, databaseUrl: database.url }).ended).rejects.toThrow(
      /gateway rebuild requests/,
    )
  })

  test('segments may be trimmed only below what is durably applied', async () => {
    const log = testLog()
    const told: number[] = []
    const worker = startWorker({
      log,
      databaseUrl: database.url,
      onProjected: (topic, _, next) => void (topic === REQUESTS && told.push(next)),
    })
    const one = sender()
    await log.append(REQUESTS, 0, one.both('req_1'))
    await log.append(REQUESTS, 0, one.both('req_2'))
    await eventually('told of offset 4', async () => (told.at(-1) === 4 ? true : null))
    expect(told).toEqual([...told].sort((a, b) => a - b))
    await worker.stop()
  })

  test('rows arriving for any day find their table', async () => {
    const log = testLog()
    const { record } = sender()
    const days = [-400, -1, 0, 1, 30].map((day) => NOON_MS + day * 86_400_000)
    await log.append(
      REQUESTS,
      0,
      days.map((at_ms) => record('request.settled', settled(`req_${at_ms}`, { at_ms }))),
    )
    const worker = startWorker({ log, databaseUrl: database.url })
    const schema = await applied(sql, 'requests', 5)
    expect((await rowsOf(schema)).length).toBe(5)
    await worker.stop()
  })
})

const rebuildAll = (log: ReturnType<typeof testLog>, print: (line: string) => void = () => {}) =>
  rebuild({
    projections: readModels(MAC_KEY),
    log,
    databaseUrl: database.url,
    signal: new AbortController().signal,
    diagnostics: silent,
    print,
  })

const digests = async (schema: string) => [
  await tableDigest(sql, schema, 'request', 'at_ms, id'),
  await tableDigest(sql, schema, 'admission', 'at_ms, id'),
]

describe('a rebuild', () => {
  test('gives the same tables byte for byte, from batches cut otherwise', async () => {
    const log = testLog(3)
    const senders = [0, 1, 2].map((at) => sender(`ins_${at}`))
    for (let at = 0; at < 200; at++) {
      const partition = at % 3
      await log.append(
        REQUESTS,
        partition,
        senders[partition]!.both(`req_${at}`, { latency_ms: at, outcome: at % 7 ? 'success' : 'error' }),
      )
      if (at % 20 === 0)
        await log.append(REQUESTS, (at + 1) % 3, [
          sender('ins_9', `e${at}`).record('request.settled', settled(`req_${at}`, { outcome: 'orphaned' })),
        ])
    }
    const worker = startWorker({ log, databaseUrl: database.url })
    let schema = ''
    for (const partition of [0, 1, 2])
      schema = await applied(sql, 'requests', log.records(REQUESTS, partition).length, partition)
    await worker.stop()
    const before = await digests(schema)
    expect((await rowsOf(schema)).length).toBe(200)
    const lines: string[] = []
    await rebuildAll(log, (line) => lines.push(line))
    const after = await applied(sql, 'requests', log.records(REQUESTS, 0).length)
    expect(after).not.toBe(schema)
    expect(await digests(after)).toEqual(before)
    expect(lines.filter((line) => /^requests: 410 of 410 records, \d+\/s: done/.test(line))).toHaveLength(1)
    const left = await sql`select 1 from pg_namespace where nspname = ${schema}`
    expect(left.length).toBe(0)
  })

  test('keeps what the log no longer holds', async () => {
    const log = testLog()
    const one = sender()
    for (let at = 0; at < 50; at++) await log.append(REQUESTS, 0, one.both(`req_${at}`, { latency_ms: at }))
    const worker = startWorker({ log, databaseUrl: database.url })
    const schema = await applied(sql, 'requests', 100)
    await worker.stop()
    const before = await digests(schema)
    log.trim(REQUESTS, 0, 61)
    await rebuildAll(log)
    expect(await digests(await applied(sql, 'requests', 100))).toEqual(before)
  })

  test('beside a running worker and new records: readers never see a row go, and the worker goes on with the new tables', async () => {
    const log = testLog()
    const one = sender()
    let written = 0
    const write = async (count: number) => {
      for (let at = 0; at < count; at++) await log.append(REQUESTS, 0, one.both(`req_${written++}`))
    }
    await write(500)
    const worker = startWorker({ log, databaseUrl: database.url })
    const schema = await applied(sql, 'requests', 1_000)
    const done = { it: false }
    const counts: number[] = []
    const writing = (async () => {
      while (!done.it) {
        await write(5)
        await Bun.sleep(2)
      }
    })()
    const watching = (async () => {
      while (!done.it) {
        const [active] = await sql<
          { name: string }[]
        >`select schema_name as name from gatelog.build where model = 'requests' and state = 'active'`
        const rows = await sql<
          { count: number }[]
        >`select count(*) as count from ${sql(`${active!.name}.request`)}`.catch(() => [])
        if (rows.length > 0) counts.push(rows[0]!.count)
      }
    })()
    await rebuildAll(log)
    done.it = true
    await Promise.all([writing, watching])
    expect(counts).toEqual([...counts].sort((a, b) => a - b))
    const after = await applied(sql, 'requests', 2 * written)
    expect(after).not.toBe(schema)
    expect((await rowsOf(after)).length).toBe(written)
    await worker.stop()
  })

  test('is refused while another one is under way, and what a killed one left is removed', async () => {
    const log = testLog()
    await log.append(REQUESTS, 0, sender().both('req_1'))
    const worker = startWorker({ log, databaseUrl: database.url })
    await applied(sql, 'requests', 2)
    await applied(sql, 'audit', 0)
    await worker.stop()
    const holder = await sql.reserve()
    await holder`select pg_advisory_lock(hashtextextended('gatelog rebuild requests', 0))`
    await expect(rebuildAll(log)).rejects.toThrow('another process is rebuilding requests')
    await holder`select pg_advisory_unlock(hashtextextended('gatelog rebuild requests', 0))`
    holder.release()
    await sql`
      insert into gatelog.build (model, build, version, topic, schema_name, state)
      values ('requests', 7, 3, ${REQUESTS}, 'requests_v3_b7', 'building')`
    await rebuildAll(log)
    const builds = await sql<{ build: number; state: string }[]>`
      select build, state from gatelog.build where model = 'requests'`
    expect(builds.map(({ state }) => state)).toEqual(['active'])
  })
})
