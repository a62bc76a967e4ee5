// The request log in Postgres: exactly once, whatever is repeated or raced.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Sql } from '../../projections/database.ts'
import { LogReplaced } from '../../src/log/port.ts'
import { sharedPostgres, silent, type TestDatabase } from '../services/postgres.ts'
import {
  admitted,
  applied,
  eventually,
  NOON_MS,
  openSql,
  REQUESTS,
  sender,
  settled,
  startWorker,
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
    const days = [-80, -1, 0, 1, 30].map((day) => NOON_MS + day * 86_400_000)
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
