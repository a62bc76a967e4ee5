// Closed days: requests that the topic no longer holds are still counted, once, whatever part of them is left and in
// whatever order it is read.
import { describe, expect, test } from 'bun:test'
import { type GroupBy, usageQueries } from '../../../projections/usage/query.ts'
import type { Settlement } from '../../../src/domain/events/request-reading.ts'
import type { UsageClosed } from '../../../src/domain/events/usage-closed.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { type MemoryLog, memoryLog } from '../../../src/log/memory.ts'
import { IndefiniteAppend, type LogRecord } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { eventually } from '../../services/eventually.ts'
import { testStore } from '../store.ts'
import { NOON_MS, REQUESTS, sender, settled } from '../support.ts'

const USAGE = TOPICS.usage.name
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** 2026-11-10T00:00:00Z, days before the clock of any machine that runs this. */
const FIRST_MS = NOON_MS - 10 * DAY_MS - 12 * HOUR_MS
const DAYS = 4
const store = testStore()

/** Two partitions whose clock is that of the outcomes. */
const world = () => {
  let now = FIRST_MS
  const log = memoryLog({ nowMs: () => now, partitionCount: (topic) => (topic === REQUESTS ? 2 : 1) })
  const senders = [sender('ins_0'), sender('ins_1')]
  const settle = async (id: string, partition: number, atMs: number, more: Partial<Settlement> = {}) => {
    now = Math.max(now, atMs)
    const outcome = settled(id, { at_ms: atMs, ...more })
    await log.append(REQUESTS, partition, [senders[partition]!.record('request.settled', outcome)])
  }
  return { log, settle }
}

/** Forty requests over four days, of two tenants, providers and keys. */
const fill = async (settle: ReturnType<typeof world>['settle']) => {
  for (let i = 0; i < 40; i++) {
    const provider = i % 3 === 0 ? 'a' : 'b'
    await settle(`r${i}`, i % 2, FIRST_MS + Math.floor((i * DAYS * DAY_MS) / 40), {
      ...{
        tenant_id: i % 5 === 0 ? 'ten_1' : 'ten_2',
        key_id: `key_${i % 4}`,
        provider,
        routed_model: `m-${provider}`,
      },
      ...{ latency_ms: 7 * i, cost_nano_usd: 1_000 + i, prompt_tokens: i, endpoint: 'support' },
    })
  }
}

const closedSets = (log: MemoryLog): UsageClosed[] =>
  log.records(USAGE).map(({ value }: LogRecord) => readEnvelope(value!)!.data as UsageClosed)

/** Runs a worker until the build has all that the log holds and `until` is true. Returns the schema. */
const run = async (log: MemoryLog, until: () => boolean = () => true, workers = 1): Promise<string> => {
  const running = Array.from({ length: workers }, () => store.follow(log, { tuning: { closeMs: 20 } }))
  let schema = ''
  for (const partition of [0, 1]) {
    const end = await log.end(REQUESTS, partition)
    const isTrimmed = log.records(REQUESTS, partition).length === 0
    if (!isTrimmed) schema = await store.applied('requests', end, partition)
  }
  await eventually('the days are there', async () => (await dayRows().catch(() => [])).length > 0)
  await eventually('days are closed', async () => until())
  for (const worker of running) await worker.stop()
  return schema
}

/** Builds anew, one partition whole before the other one. */
const rebuildFrom = async (log: MemoryLog, first: number): Promise<void> => {
  const gate = Promise.withResolvers<void>()
  const view = log.view({
    async beforeDeliver({ topic, partition, available }) {
      if (topic === REQUESTS && partition !== first) await gate.promise
      return available
    },
  })
  const worker = store.follow(view, { tuning: { closeMs: 60_000 } })
  await store.applied('requests', await log.end(REQUESTS, first), first)
  gate.resolve()
  await store.applied('requests', await log.end(REQUESTS, 1 - first), 1 - first)
  await worker.stop()
}

const sequences = (log: MemoryLog) => {
  const last = new Map(closedSets(log).map(({ day, sequence }) => [day, sequence]))
  return [...last.values()]
}
const allClosed = (log: MemoryLog) => () => sequences(log).length === DAYS

const BY: readonly GroupBy[] = ['provider_model', 'tenant', 'key', 'endpoint']
const totalsOf = async () => {
  const usage = usageQueries(store.sql)
  const filter = { tenantId: null, fromMs: FIRST_MS, toMs: FIRST_MS + DAYS * DAY_MS }
  const { window, totals } = await usage.totals(filter)
  const groups = []
  for (const by of BY) groups.push((await usage.groups(filter, by, 100)).groups)
  const days = (await usage.series(filter, DAY_MS)).series
  return { window, totals, groups, days, ofTenant: (await usage.totals({ ...filter, tenantId: 'ten_1' })).totals }
}

const dayRows = async () => {
  const schema = await store.schemaOf('requests')
  const rows = await store.sql.unsafe<{ row: string }[]>(
    `select u::text as row from "${schema}".usage u where tier = 'day' order by 1`,
  )
  return rows.map(({ row }) => row)
}

describe('closed days', () => {
  test('a rebuild after the requests have expired, all of them or some, gives the same totals', async () => {
    const { log, settle } = world()
    await fill(settle)
    const schema = await run(log, allClosed(log))
    expect(sequences(log)).toEqual([1, 1, 1, 1])
    const before = await totalsOf()
    expect(before.totals.requests).toBe(40)
    const [digest, rows] = [await store.usageDigest(schema), await dayRows()]
    await store.empty()
    expect(await store.usageDigest(await run(log))).toBe(digest) // the log has all of it
    for (const kept of [15, 9, 0]) {
      log.trim(REQUESTS, 0, 20 - kept)
      log.trim(REQUESTS, 1, 20 - Math.max(0, kept - 3))
      await store.empty()
      await run(log)
      expect(await totalsOf()).toEqual(before)
      expect(await dayRows()).toEqual(rows)
    }
    expect(sequences(log)).toEqual([1, 1, 1, 1]) // nothing has changed: nothing is closed again
  })

  test('hours that are gone are not shown as empty: such a window is rounded to days', async () => {
    const { log, settle } = world()
    await fill(settle)
    await run(log, allClosed(log))
    log.trim(REQUESTS, 0, 13) // into the third day
    log.trim(REQUESTS, 1, 13)
    await store.empty()
    await run(log)
    const usage = usageQueries(store.sql)
    const ask = (fromMs: number, toMs: number) => usage.totals({ tenantId: null, fromMs, toMs })
    const inside = await ask(FIRST_MS + 2 * DAY_MS + 20 * HOUR_MS, FIRST_MS + 4 * DAY_MS)
    expect(inside.window.fromMs).toBe(FIRST_MS + 2 * DAY_MS)
    expect(inside.totals.requests).toBe(20)
    const after = await ask(FIRST_MS + 3 * DAY_MS + 12 * HOUR_MS, FIRST_MS + 4 * DAY_MS)
    expect(after.window.fromMs).toBe(FIRST_MS + 3 * DAY_MS + 12 * HOUR_MS)
    expect(after.totals.requests).toBe(5)
  })

  test('what comes in late closes its day once more, whole, and is counted once', async () => {
    const { log, settle } = world()
    await fill(settle)
    await run(log, allClosed(log))
    await settle('late', 1, FIRST_MS + 5 * HOUR_MS, { cost_nano_usd: 77, tenant_id: 'ten_1' })
    await store.empty()
    await run(log, () => sequences(log)[0] === 2)
    const before = await totalsOf()
    expect(before.totals.requests).toBe(41)
    expect(sequences(log)).toEqual([2, 1, 1, 1])
    log.trim(REQUESTS, 0, 20)
    log.trim(REQUESTS, 1, 21)
    await store.empty()
    await run(log)
    expect(await totalsOf()).toEqual(before)
  })

  test.each([
    ['that holds', 0, 1, false],
    ['that does not hold', 1, 0, false],
    ['that holds and the one that does not', 1, 0, true],
  ] as const)(
    'a day that has the settlement %s is the same after a rebuild that reads either one first',
    async (_, early, late, both) => {
      const { log, settle } = world()
      await fill(settle)
      // In one millisecond of log time the lower partition holds.
      const twice = { cost_nano_usd: 500, provider: 'a', routed_model: 'm-a' }
      const other = () =>
        settle('twice', late, FIRST_MS + HOUR_MS, { ...twice, cost_nano_usd: 900, outcome: 'orphaned' })
      await settle('twice', early, FIRST_MS + HOUR_MS, twice)
      if (both) await other()
      await run(log, allClosed(log))
      if (!both) await other()
      await run(log)
      const [digest, before] = [await store.usageDigest(await store.schemaOf('requests')), await totalsOf()]
      expect(before.totals.requests).toBe(41)
      for (const first of [0, 1]) {
        await store.empty()
        await rebuildFrom(log, first)
        expect(await totalsOf()).toEqual(before)
        expect(await store.usageDigest(await store.schemaOf('requests'))).toBe(digest)
      }
    },
  )

  test('two workers and a log whose answers get lost write sets again, and none is counted twice', async () => {
    const { log, settle } = world()
    await fill(settle)
    let lost = 0
    const view = log.view({
      afterAppend: ({ topic }) => {
        if (topic === USAGE && lost++ < 3) throw new IndefiniteAppend('the answer was lost')
      },
    })
    const running = [0, 1].map(() => store.follow(view, { tuning: { closeMs: 20 } }))
    for (const partition of [0, 1]) await store.applied('requests', 20, partition)
    await eventually('all are closed', async () => {
      const rows = await store.sql`select 1 from ${store.sql(`${await store.schemaOf('requests')}.closed_day`)}`
      return rows.length === DAYS
    })
    for (const worker of running) await worker.stop()
    expect(closedSets(log).length).toBeGreaterThan(DAYS)
    const before = await totalsOf()
    log.trim(REQUESTS, 0, 20)
    log.trim(REQUESTS, 1, 12)
    await store.empty()
    await run(log)
    expect(await totalsOf()).toEqual(before)
  })
})
