import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import {
  type PlanRecord,
  type RequestAdmitted,
  type RequestAttempted,
  type RequestExtended,
  RequestSettled,
} from '../../../src/domain/events/request.ts'
import { settlementOf } from '../../../src/domain/events/request-reading.ts'
import { Value } from '../../../src/lib/schema/schema.ts'
import { adoptFreeSpools, type LocalSpool } from '../../../src/log/spool/open.ts'
import { REFUSABLE, SpoolClosed } from '../../../src/log/spool/port.ts'
import { orphanOf, settleOrphans } from '../../../src/upkeep/budgets/orphans.ts'
import { appended } from '../../log/appended.ts'
import { openTestSpool, readAll, temporaryFolder } from '../../log/support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())

const plan: PlanRecord = {
  ...{ revision: 'r', seed: 7, digest: 1, text_bytes: 1, messages: 1, prompt_bytes: 1 },
}
const priced = (reserved: number | null) => (reserved === null ? {} : { reserved_nano_usd: reserved })
const admitted = (id: string, reserved: number | null = 500): RequestAdmitted => ({
  id,
  request_id: 'the client says',
  trace_id: 'trace',
  at_ms: 1_700_000_000_000,
  key_id: 'key_1',
  requested_model: 'fast',
  policy_id: 'pol_1',
  stream: true,
  plan,
  provider: 'first',
  provider_id: 'prov_1',
  model: 'gpt',
  model_id: 'mod_1',
  ...priced(reserved),
})
const attempted = (id: string, n: number, reserved: number | null = 300): RequestAttempted => ({
  id,
  n,
  provider: 'second',
  provider_id: 'prov_2',
  model: 'claude',
  model_id: 'mod_2',
  ...priced(reserved),
})
const open = (data: unknown, attempts: unknown[] = []) => ({
  recordId: 'ins_1.e.3',
  subject: 'ten_1/ins_1',
  atMs: 1,
  data: JSON.stringify(data),
  attempts: attempts.map((attempt) => JSON.stringify(attempt)),
})

/** In the form of its readers. */
const orphanFrom = (...args: Parameters<typeof open>) => {
  const record = orphanOf(open(...args), WRITER)
  if (record === null) return null
  expect([...Value.Errors(RequestSettled, record)]).toEqual([])
  return settlementOf(record, WRITER)
}
const WRITER = 'ins_1.later'

// docs/behaviour.md: "Outcomes"
test('an orphan costs the worst case of every attempt that was recorded', () => {
  const orphan = orphanFrom(admitted('req_1'), [attempted('req_1', 2), attempted('req_1', 3)])!
  expect(orphan).toMatchObject({
    id: 'req_1',
    admission: 'ins_1.e.3',
    outcome: 'orphaned',
    status: 500,
    error_code: 'internal_error',
    provider: 'second',
    routed_model: 'claude',
    fallback_used: true,
    cost_nano_usd: 1_100,
    cost_basis: 'estimated',
  })
  expect(orphan.attempts.map((attempt) => [attempt.n, attempt.provider, attempt.outcome])).toEqual([
    [1, 'first', 'orphaned'],
    [2, 'second', 'orphaned'],
    [3, 'second', 'orphaned'],
  ])
})

test('of a stream that went on beyond its reservation what was reserved last is charged, and not what was reserved first', () => {
  const part = (nano_usd: number) => [{ account: 'bud_1/0-', holder: 'ins_1.e', leased: true, nano_usd, tokens: 0 }]
  const extended = (n: number, reserved: number): RequestExtended => ({
    ...{ id: 'req_1', n, reserved_nano_usd: reserved, budget: part(reserved) },
  })
  const first = { ...admitted('req_1'), budget: part(500) }
  const once = orphanFrom(first, [extended(1, 625), extended(1, 800)])!
  expect(once).toMatchObject({ cost_nano_usd: 800, provider: 'first', fallback_used: false, budget: part(800) })
  expect(once.attempts.map(({ n }) => n)).toEqual([1])
  const second = orphanFrom(first, [{ ...attempted('req_1', 2), budget: part(800) }, extended(2, 400)])!
  expect(second).toMatchObject({ cost_nano_usd: 900, provider: 'second', budget: part(400) })
  expect(second.attempts.map(({ n }) => n)).toEqual([1, 2])
})

test('without a price it is unpriced; what is no admission is left alone', () => {
  expect(orphanFrom(admitted('req_1', null))).toMatchObject({ cost_nano_usd: null, cost_basis: 'unpriced' })
  expect(orphanFrom(admitted('req_1'), [attempted('req_1', 2, null)])).toMatchObject({
    cost_nano_usd: null,
    cost_basis: 'unpriced',
  })
  expect(orphanFrom(admitted('req_1'))).toMatchObject({
    cost_nano_usd: 500,
    fallback_used: false,
    provider: 'first',
  })
  expect(orphanFrom({ id: 'req_1' })).toBeNull()
})

test('at a restart what was open is settled once, behind its admission, under its subject, and never again', async () => {
  const dataDir = join(folder.path, 'data')
  const dead = [await openTestSpool(dataDir), await openTestSpool(dataDir)]
  for (const [index, spool] of dead.entries()) {
    await spool.append(
      'requests',
      'request.admitted',
      `ten_${index}`,
      JSON.stringify(admitted(`req_open_${index}`)),
      REFUSABLE,
    )
    await spool.append(
      'requests',
      'request.attempted',
      `ten_${index}`,
      JSON.stringify(attempted(`req_open_${index}`, 2)),
    )
    const admission = await spool.append(
      'requests',
      'request.admitted',
      'ten_x',
      JSON.stringify(admitted(`req_${index}`)),
      REFUSABLE,
    )
    await spool.append(
      'requests',
      'request.settled',
      'ten_x',
      JSON.stringify({ id: `req_${index}`, admission: admission.id }),
    )
    await spool.close()
  }
  for (const expected of [1, 0]) {
    const own = await openTestSpool(dataDir)
    const adopted = await adoptFreeSpools({
      dataDir,
      durability: 'process',
      keeping: { until: 'shipped' },
      nowMs: Date.now,
    })
    expect(adopted.length).toBe(1)
    for (const spool of [own, ...adopted]) {
      expect(await settleOrphans(spool)).toEqual({ settled: expected, unreadable: 0 })
      expect(spool.status().openAdmissions).toBe(0)
      await spool.close()
    }
  }
  for (const [index, spool] of dead.entries()) {
    const { records } = readAll(spool.directory)
    const orphans = records.filter((record) => record.data.includes('"orphaned"'))
    expect(orphans.length).toBe(1)
    const settled = JSON.parse(orphans[0]!.data) as RequestSettled
    expect([orphans[0]!.subject, settled.id, settled.cost_nano_usd]).toEqual([`ten_${index}`, `req_open_${index}`, 800])
    expect(settled.admission).toBe(`${spool.instance}.${spool.epoch}.0`)
    expect(orphans[0]!.epoch).not.toBe(spool.epoch)
  }
})

test('where the log is away what stands in the spool is settled, so that the start goes on; what was not written is not', async () => {
  const spoolThat = (error: SpoolClosed) => {
    const append = () => Promise.reject(error)
    return { openAtStart: [open(admitted('req_1'))], append } as unknown as LocalSpool
  }
  const late = new SpoolClosed('the log has not taken what was written 5 s ago', appended('ins_1.f.0'))
  expect(await settleOrphans(spoolThat(late))).toEqual({ settled: 1, unreadable: 0 })
  const full = new SpoolClosed('full')
  await expect(settleOrphans(spoolThat(full))).rejects.toBe(full)
  // A disk that has no room is asked again, as long as the process goes on.
  let tries = 0
  const append = () => (++tries < 2 ? Promise.reject(full) : Promise.resolve(appended('ins_1.f.0')))
  const filling = { openAtStart: [open(admitted('req_1'))], append } as unknown as LocalSpool
  const going = new AbortController()
  expect(await settleOrphans(filling, going.signal)).toEqual({ settled: 1, unreadable: 0 })
  const ended = settleOrphans(spoolThat(full), going.signal)
  going.abort()
  await expect(ended).rejects.toBe(full)
  // A disk that refuses to sync is waited for, as long as the process goes on.
  const disk = Promise.withResolvers<void>()
  const unsynced = spoolThat(new SpoolClosed('the disk fails', appended('ins_1.f.0'), disk.promise))
  let isSettled = false
  const settling = settleOrphans(unsynced).then((report) => {
    isSettled = true
    return report
  })
  const stopping = new AbortController()
  const stopped = settleOrphans(unsynced, stopping.signal)
  stopping.abort()
  await expect(stopped).rejects.toThrow('the disk fails')
  expect(isSettled).toBe(false)
  disk.resolve()
  expect(await settling).toEqual({ settled: 1, unreadable: 0 })
})
