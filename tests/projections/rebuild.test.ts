// A rebuild gives the same tables, beside those in use.
import { describe, expect, test } from 'bun:test'
import { rebuild } from '../../projections/rebuild.ts'
import { requestsProjection } from '../../projections/requests/project.ts'
import { silent } from '../services/postgres.ts'
import { testStore } from './store.ts'
import { REQUESTS, sender, settled, tableDigest, testLog } from './support.ts'

const store = testStore()

/** Of every table of a build. */
const digests = async (schema: string) => {
  const keys = { request: 'at_ms, id', detail: 'at_ms, id', pending: 'at_ms, id', newest_day: 'day' }
  const found: Record<string, string> = { usage: await store.usageDigest(schema) }
  for (const [table, key] of Object.entries(keys)) found[table] = await tableDigest(store.sql, schema, table, key)
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
    const schema = await store.fold(log)
    const before = await digests(schema)
    expect((await store.requests(schema)).length).toBe(200)
    const lines: string[] = []
    await store.rebuild(log, { print: (line) => lines.push(line) })
    const after = await store.schemaOf('requests')
    expect(after).not.toBe(schema)
    expect(await digests(after)).toEqual(before)
    expect(lines.filter((line) => /^requests: 410 of 410 records, \d+\/s: done/.test(line))).toHaveLength(1)
    const left = await store.sql`select 1 from pg_namespace where nspname = ${schema}`
    expect(left.length).toBe(0)
  })

  test('keeps what the log no longer holds', async () => {
    const log = testLog()
    const one = sender()
    for (let at = 0; at < 50; at++) await log.append(REQUESTS, 0, one.both(`req_${at}`, { latency_ms: at }))
    const schema = await store.fold(log)
    const before = await digests(schema)
    log.trim(REQUESTS, 0, 61)
    await store.rebuild(log)
    expect(await digests(await store.schemaOf('requests'))).toEqual(before)
  })

  test('beside a running worker and new records: readers never see a row go, and the worker goes on with the new tables', async () => {
    const log = testLog()
    const one = sender()
    let written = 0
    const write = async (count: number) => {
      for (let at = 0; at < count; at++) await log.append(REQUESTS, 0, one.both(`req_${written++}`))
    }
    await write(500)
    store.follow(log)
    const schema = await store.applied('requests', 1_000)
    const done = { it: false }
    const counts: number[] = []
    const watching = (async () => {
      while (!done.it) {
        const active = await store.schemaOf('requests')
        const rows = await store.sql<
          { count: number }[]
        >`select count(*) as count from ${store.sql(`${active}.request`)}`.catch(() => [])
        if (rows.length > 0) counts.push(rows[0]!.count)
        await write(5)
      }
    })()
    await store.rebuild(log)
    done.it = true
    await watching
    expect(counts).toEqual([...counts].sort((a, b) => a - b))
    const after = await store.applied('requests', 2 * written)
    expect(after).not.toBe(schema)
    expect((await store.requests(after)).length).toBe(written)
  })

  test('is refused while another one is under way, and what a killed one left is removed', async () => {
    const log = testLog()
    await log.append(REQUESTS, 0, sender().both('req_1'))
    const worker = store.follow(log)
    await store.applied('requests', 2)
    await store.applied('audit', 0)
    await worker.stop()
    const holder = await store.sql.reserve()
    await holder`select pg_advisory_lock(hashtextextended('gatelog rebuild requests', 0))`
    await expect(store.rebuild(log)).rejects.toThrow('another process is rebuilding requests')
    await holder`select pg_advisory_unlock(hashtextextended('gatelog rebuild requests', 0))`
    holder.release()
    await store.sql`
      insert into gatelog.build (model, build, version, topic, schema_name, state)
      values ('requests', 7, ${requestsProjection.version}, ${REQUESTS}, 'requests_left_b7', 'building')`
    await store.rebuild(log)
    const builds = await store.sql<{ build: number; state: string }[]>`
      select build, state from gatelog.build where model = 'requests'`
    expect(builds.map(({ state }) => state)).toEqual(['active'])
  })

  test('ends in one line where Postgres does not answer', async () => {
    const asked = rebuild({
      projections: [],
      log: testLog(),
      databaseUrl: 'postgres://gatelog@127.0.0.1:1/gatelog',
      signal: new AbortController().signal,
      diagnostics: silent,
      print: () => {},
      postgresWithinMs: 300,
    })
    await expect(asked).rejects.toThrow('Postgres cannot be used: nothing listens at that address')
  }, 20_000)
})
