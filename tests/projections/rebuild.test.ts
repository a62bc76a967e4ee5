// A rebuild gives the same tables, beside those in use.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Sql } from '../../projections/database.ts'
import { rebuild } from '../../projections/rebuild.ts'
import { readModels } from '../../projections/worker.ts'
import { sharedPostgres, silent, type TestDatabase } from '../services/postgres.ts'
import { applied, MAC_KEY, openSql, REQUESTS, sender, settled, startWorker, tableDigest, testLog } from './support.ts'

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

const rebuildAll = (log: ReturnType<typeof testLog>, print: (line: string) => void = () => {}) =>
  rebuild({
    projections: readModels(MAC_KEY),
    log,
    databaseUrl: database.url,
    signal: new AbortController().signal,
    diagnostics: silent,
    print,
  })

/** Of every table of a build. */
const digests = async (schema: string) => {
  const usage = 'tier, dimension, tenant_id, bucket_ms, name, model'
  const keys = { request: 'at_ms, id', detail: 'at_ms, id', pending: 'at_ms, id', newest_day: 'day' }
  const tables = { ...keys, usage }
  const found: Record<string, string> = {}
  for (const [table, key] of Object.entries(tables)) found[table] = await tableDigest(sql, schema, table, key)
  return found
}

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
      values ('requests', 7, 8, ${REQUESTS}, 'requests_v8_b7', 'building')`
    await rebuildAll(log)
    const builds = await sql<{ build: number; state: string }[]>`
      select build, state from gatelog.build where model = 'requests'`
    expect(builds.map(({ state }) => state)).toEqual(['active'])
  })
})
