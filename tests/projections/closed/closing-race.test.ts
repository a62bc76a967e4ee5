// A day that is closed while an outcome of it is written: what the writer could not know of is published all the same.
import { afterEach, expect, test } from 'bun:test'
import type { Sql } from '../../../projections/database.ts'
import { closeDays } from '../../../projections/usage/close.ts'
import type { UsageClosed } from '../../../src/domain/events/usage-closed.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { type AppendFault, type MemoryLog, memoryLog } from '../../../src/log/memory.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { eventually } from '../../services/eventually.ts'
import { silent } from '../../services/postgres.ts'
import { testStore } from '../store.ts'
import { openSql, REQUESTS, sender, settled } from '../support.ts'

const USAGE = TOPICS.usage.name
/** Far ahead: the worker's own closing, which goes by the clock, leaves it alone. */
const DAY_START_MS = Date.UTC(2090, 0, 1)
const LATER_MS = Date.UTC(2090, 0, 5)
const OUTCOMES = 3
const store = testStore()
const connections: Sql[] = []
afterEach(() => Promise.all(connections.splice(0).map((sql) => sql.end({ timeout: 1 }))))

/** Separate connections, for callers that hold one for long. */
const opened = (): Sql => {
  const sql = openSql(store.databaseUrl)
  connections.push(sql)
  return sql
}

/** A log whose time is days later, with outcomes of one day, all of which are in the tables. */
const world = async () => {
  const log = memoryLog({ nowMs: () => LATER_MS, partitionCount: () => 1 })
  const one = sender()
  const settle = (id: string) =>
    log.append(REQUESTS, 0, [one.record('request.settled', settled(id, { at_ms: DAY_START_MS + 1_000 }))])
  for (let at = 0; at < OUTCOMES; at++) await settle(`r${at}`)
  store.follow(log)
  const schema = await store.applied('requests', OUTCOMES)
  return { log, settle, schema }
}

/**
 * Closes days. `atFirst` runs once the published sets are read and before the first write to the topic. Returns a
 * function that ends the closing.
 */
const closing = (log: MemoryLog, atFirst: () => Promise<void>) => {
  let first = true
  const view = log.view({
    async beforeAppend({ topic }): Promise<AppendFault> {
      const isFirst = first && topic === USAGE
      if (isFirst) first = false
      if (isFirst) await atFirst()
      return 'none'
    },
  })
  const stopping = new AbortController()
  const sql = opened()
  const options = { sql, signal: stopping.signal, diagnostics: silent, pollMs: 20, nowMs: () => LATER_MS }
  const ended = closeDays({ ...options, log: view })
  return async () => {
    stopping.abort()
    await ended
  }
}

const nothingIsLeft = (schema: string) =>
  eventually('nothing is left to be closed', async () => {
    const rows = await store.sql`
      select 1 from ${store.sql(`${schema}.closed_day`)} closed left join ${store.sql(`${schema}.late_day`)} late using (day_ms)
      where closed.late = coalesce(late.changes, 0)`
    return rows.length === 1
  })

/** How many requests the newest set of the topic has. */
const published = (log: MemoryLog): number => {
  const sets = log.records(USAGE).map(({ value }) => readEnvelope(value!)!.data as UsageClosed)
  const newest = Math.max(...sets.map(({ sequence }) => sequence))
  const cells = sets.filter(({ sequence }) => sequence === newest).flatMap((set) => set.cells)
  return cells.find(({ dimension, tenant_id }) => dimension === 'total' && tenant_id === '*')?.requests ?? 0
}

test('what is written between the reading of a day and its closing is published', async () => {
  const { log, settle, schema } = await world()
  const end = closing(log, async () => {
    await settle('late')
    await store.applied('requests', OUTCOMES + 1)
  })
  await nothingIsLeft(schema)
  await end()
  expect(published(log)).toBe(OUTCOMES + 1)
})

test('what was begun before the closing and is still under way when the day is looked at again is published', async () => {
  const { log, settle, schema } = await world()
  const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  // Usage is written last, when it is known which days are closed.
  const holding = opened().begin(async (transaction) => {
    await transaction`lock table ${transaction(`${schema}.usage`)} in share row exclusive mode`
    held.resolve()
    await release.promise
  })
  await held.promise
  const waits = (kind: string) => async () =>
    (
      await store.sql`
      select 1 from pg_locks where not granted and locktype = ${kind}
        and database = (select oid from pg_database where datname = current_database())`
    ).length > 0
  const end = closing(log, async () => {
    await settle('late')
    await eventually('the writer waits', waits('relation'))
  })
  await eventually('the day was closed, and is looked at again or will be', async () => {
    const [closed] = await store.sql<{ late: number }[]>`select late from ${store.sql(`${schema}.closed_day`)}`
    return closed !== undefined && (closed.late === 0 || (await waits('advisory')()))
  })
  release.resolve()
  await holding
  await store.applied('requests', OUTCOMES + 1)
  await nothingIsLeft(schema)
  await end()
  expect(published(log)).toBe(OUTCOMES + 1)
})
