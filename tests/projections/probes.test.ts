// Probes in Postgres: the newest of each provider, from any instance and in whatever order they come.
import { describe, expect, test } from 'bun:test'
import { foldProbeRecord } from '../../projections/probes/project.ts'
import { probeQueries } from '../../projections/probes/query.ts'
import { MOST_PROBES, type ProbeRecorded } from '../../src/domain/events/health.ts'
import { memoryLog } from '../../src/log/memory.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { testStore } from './store.ts'
import { NOON_MS, sender, tableDigest } from './support.ts'

const OPERATIONS = TOPICS.operations.name
const DAY_MS = 86_400_000
const store = testStore()
const recent = async (provider: string) =>
  (await probeQueries(store.sql).recent(provider)).map(({ at_ms }) => at_ms - NOON_MS)

const probe = (atMs: number, more: Partial<ProbeRecorded> = {}): ProbeRecorded => ({
  at_ms: NOON_MS + atMs,
  ...{ provider_id: 'prov_1', provider: 'one', trigger: 'manual', ok: true },
  ...{ latency_ms: 3, error_code: null, upstream_status: null, models: 2 },
  ...more,
})
const record = (one: ReturnType<typeof sender>, data: ProbeRecorded) => one.record('probe.recorded', data)
const newest = (count: number, from: number): number[] => Array.from({ length: count }, (_, i) => from - i)
const digest = (schema: string) =>
  tableDigest(store.sql, schema, 'probe', 'provider_id, at_ms, instance, epoch, sequence')

const twoPartitions = (nowMs = () => NOON_MS) =>
  memoryLog({ nowMs, partitionCount: (topic) => (topic === OPERATIONS ? 2 : 1) })

describe('the probes read model', () => {
  test('reads the newest of a provider, of every instance, and sets aside invalid records', async () => {
    const log = twoPartitions()
    const [one, two] = [sender('ins_1'), sender('ins_2')]
    const failed = probe(9, { trigger: 'scheduled', ok: false, error_code: 'upstream_error', upstream_status: 503 })
    await log.append(OPERATIONS, 0, [
      one.record('frame.taken', { note: 'a "type":"probe.recorded" in a text' }),
      record(one, probe(1)),
      record(one, { ...failed, models: null }),
      record(one, probe(5, { provider_id: 'prov_2' })),
      one.record('probe.recorded', { ...probe(6), ok: 'yes' }),
      // The same record once more: its sender lost the first acknowledgement.
      one.record('probe.recorded', probe(1), 1),
    ])
    await log.append(OPERATIONS, 1, [record(two, probe(4)), record(two, probe(1))])
    await store.fold(log, { model: 'probes' })
    expect(await recent('prov_1')).toEqual([9, 4, 1, 1])
    expect(await recent('prov_2')).toEqual([5])
    expect(await recent('prov_9')).toEqual([])
    const { provider_id: _, provider: __, ...told } = { ...failed, models: null }
    expect((await probeQueries(store.sql).recent('prov_1'))[0]).toEqual(told)
    expect(await store.setAside('probes')).toEqual([
      { log_offset: 4, reason: expect.stringContaining('not a valid probe.recorded') },
    ])
  })

  test('keeps so many of each provider, the newest, though they come in another order; a rebuild and a shorter log change nothing', async () => {
    const log = twoPartitions()
    const [one, two] = [sender('ins_1'), sender('ins_2')]
    const late = Array.from({ length: 40 }, (_, i) => record(one, probe(100 + i)))
    await log.append(OPERATIONS, 0, [...late, record(one, probe(7, { provider_id: 'prov_2' }))])
    const early = Array.from({ length: 40 }, (_, i) => record(two, probe(i)))
    await log.append(OPERATIONS, 1, early)
    const schema = await store.fold(log, { model: 'probes' })
    const expected = [...newest(40, 139), ...newest(10, 39)]
    expect(expected).toHaveLength(MOST_PROBES)
    expect(await recent('prov_1')).toEqual(expected)
    const [{ rows } = { rows: 0 }] = await store.sql<{ rows: number }[]>`
      select count(*) as rows from ${store.sql(`${schema}.probe`)}`
    expect(rows).toBe(MOST_PROBES + 1)
    const before = await digest(schema)
    await store.rebuild(log, { models: ['probes'] })
    const again = await store.schemaOf('probes')
    expect([again === schema, await digest(again)]).toEqual([false, before])
    log.trim(OPERATIONS, 0, 20)
    await store.rebuild(log, { models: ['probes'] })
    const later = await store.schemaOf('probes')
    expect([later === again, await digest(later)]).toEqual([false, before])
  })

  test('those of a provider that is no longer probed are erased after the days for which requests are kept', async () => {
    let nowMs = NOON_MS
    const log = memoryLog({ nowMs: () => nowMs, partitionCount: () => 1 })
    const one = sender()
    await log.append(OPERATIONS, 0, [record(one, probe(0, { provider_id: 'prov_gone' }))])
    const shared = { model: 'probes', requestDays: 3 }
    await store.fold(log, shared)
    expect(await recent('prov_gone')).toEqual([0])
    nowMs += 4 * DAY_MS
    await log.append(OPERATIONS, 0, [record(one, probe(4 * DAY_MS))])
    await store.fold(log, shared)
    expect(await recent('prov_gone')).toEqual([])
  })

  test('takes nothing from a record that only mentions it', () => {
    const { value } = sender().record('frame.taken', { note: { type: 'probe.recorded' } })
    const mentions = { offset: 0, atMs: NOON_MS, key: 'ten_1', value }
    expect(foldProbeRecord(mentions, NOON_MS, 0)).toEqual({ origin: null, rows: [], problem: null })
  })
})
