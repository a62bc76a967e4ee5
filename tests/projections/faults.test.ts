// The worker killed again and again while outcomes stream in, and Postgres stopped under it: nothing is lost and nothing counted twice.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rebuild } from '../../projections/rebuild.ts'
import { readModels } from '../../projections/worker.ts'
import { embeddedLog } from '../../src/log/embedded.ts'
import { openSpool } from '../../src/log/spool.ts'
import { eventually } from '../services/eventually.ts'
import { type PostgresService, silent, startPostgres } from '../services/postgres.ts'
import {
  admitted,
  applied,
  MAC_KEY,
  openSql,
  REQUESTS,
  sender,
  settled,
  startWorker,
  tableDigest,
  testLog,
} from './support.ts'

const KILLS = 8

let postgres: PostgresService

beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.remove(), 60_000)

describe('exactly once', () => {
  test(`over ${KILLS} kills of the worker while outcomes stream in`, async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-kills-'))
    const spool = await openSpool({
      dataDir,
      durability: 'process',
      keeping: { until: 'projected', consumers: { requests: ['projection'], operations: [] }, retentionMs: null },
      nowMs: Date.now,
      ballastBytes: 0,
    })
    const sql = openSql(postgres.url)
    let requests = 0
    const streaming = { on: true }
    const stream = (async () => {
      while (streaming.on) {
        for (let at = 0; at < 8; at++) {
          const id = `req_${requests++}`
          void spool.append('requests', 'request.admitted', id, JSON.stringify(admitted(id)))
          await spool.append('requests', 'request.settled', id, JSON.stringify(settled(id, { latency_ms: requests })))
        }
        await Bun.sleep(4)
      }
    })()
    const spawn = () =>
      Bun.spawn([process.execPath, join(import.meta.dir, 'worker-process.ts'), dataDir, postgres.url], {
        stdio: ['ignore', 'ignore', 'inherit'],
      })
    const position = async () => {
      const rows = await sql<{ next: number }[]>`
        select next_offset as next from gatelog.position where model = 'requests'`.catch(() => [])
      return rows[0]?.next ?? 0
    }
    let killedWhileApplying = 0
    for (let kill = 0; kill < KILLS; kill++) {
      const before = await position()
      const worker = spawn()
      // It has begun to apply; then it goes at any moment of a batch.
      await eventually('the worker applies', async () => (await position()) > before)
      await Bun.sleep((kill * 7) % 23)
      const [busy] = await sql<{ busy: number }[]>`
        select count(*)::int as busy from pg_stat_activity where application_name = 'gatelog-worker' and xact_start is not null`
      worker.kill('SIGKILL')
      await worker.exited
      if (busy!.busy > 0) killedWhileApplying++
    }
    streaming.on = false
    await stream
    const last = spawn()
    const schema = await applied(sql, 'requests', 2 * requests)
    const [count] = await sql<{ rows: number; ids: number; latency: number }[]>`
      select count(*)::int as rows, count(distinct id)::int as ids, sum(latency_ms)::bigint as latency from ${sql(`${schema}.request`)}`
    console.log(`${requests} requests, ${KILLS} kills, ${killedWhileApplying} of them seen inside a transaction`)
    expect(count).toEqual({ rows: requests, ids: requests, latency: (requests * (requests + 1)) / 2 })
    last.kill()
    await last.exited

    const before = await tableDigest(sql, schema, 'request', 'at_ms, id')
    const log = embeddedLog({ dataDir, nowMs: Date.now })
    await rebuild({
      projections: readModels(MAC_KEY).filter(({ name }) => name === 'requests'),
      log,
      databaseUrl: postgres.url,
      signal: new AbortController().signal,
      diagnostics: silent,
      print: () => {},
    })
    expect(await tableDigest(sql, await applied(sql, 'requests', 2 * requests), 'request', 'at_ms, id')).toBe(before)
    await log.close()
    await spool.close()
    await sql`drop schema gatelog cascade`
    await sql.end()
    rmSync(dataDir, { recursive: true, force: true })
  }, 60_000)

  test('with Postgres away at the start, and stopped twice while records come: the tables are complete', async () => {
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
    await Bun.sleep(100)
    await postgres.start()
    const sql = openSql(postgres.url)
    await applied(sql, 'requests', 100)
    for (let outage = 0; outage < 2; outage++) {
      const writing = write(200)
      await postgres.stop()
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
  }, 30_000)
})
