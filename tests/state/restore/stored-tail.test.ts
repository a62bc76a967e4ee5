// A start while the log does not respond: it serves all that the data folder holds, the records behind the snapshot
// too, and is compared with the log once that is back.
import { describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import type { MemoryLog } from '../../../src/log/memory.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { writeSnapshot } from '../../../src/state/history/snapshot.ts'
import type { LiveDeps } from '../../../src/state/live-chain.ts'
import { readConfirmed, writeConfirmed, writePosition } from '../../../src/state/position-witness.ts'
import { readStoredRecords, recordFiles, recordFrame } from '../../../src/state/restore/kept-records.ts'
import { storeRecords } from '../../../src/state/restore/record-keeper.ts'
import { folded, liveWorld, logOf } from '../live-world.ts'
import { createTenant, deleteTenant, listening, nowMs, quiet } from '../support.ts'

const { folder, opened } = liveWorld()
const slugs = (live: {
  control: { table(name: 'tenants'): { rows(): Iterable<readonly [string, { slug: string }]> } }
}) => [...live.control.table('tenants').rows()].map(([, { slug }]) => slug).sort()

/** A folder with a snapshot of two tenants, when it has one, and what was folded and stored since. */
const used = async (withSnapshot = true) => {
  const log = await logOf(2)
  const dataDir = folder()
  if (withSnapshot) writeSnapshot(dataDir, await folded(log), nowMs())
  const instance = await opened('a', log.view(), { dataDir })
  const stored = storeRecords({ live: instance.live, dataDir, diagnostics: quiet })
  await instance.live.ready()
  await instance.queue.commit(createTenant('since'))
  await instance.queue.commit(deleteTenant('t0'))
  // As after `kill -9`: nothing is written any more.
  const { next, tip } = instance.live
  expect(stored.next).toBe(next)
  return { log, dataDir, next, tip }
}

/** A start on the folder while the log does not respond. */
const away = async (log: MemoryLog, dataDir: string, more: Partial<LiveDeps> = {}) => {
  let down = true
  const instance = await opened('b', log.view({ down: () => down }), { dataDir, graceMs: 10, ...more })
  const back = async () => {
    down = false
    log.wake()
    await instance.live.condition.until(() => instance.live.status().phase === 'live', 20_000)
  }
  return { ...instance, back }
}

// docs/behaviour.md: "Starting"
describe('a start while the log does not respond', () => {
  test.each([true, false])('forgets nothing that was folded before it, with a snapshot: %p', async (withSnapshot) => {
    const { log, dataDir, next, tip } = await used(withSnapshot)
    const { live, back } = await away(log, dataDir)
    await live.ready()
    expect(live.status()).toMatchObject({ phase: 'starting', serves: true, offset: next, tip, degradation: 'starting' })
    expect(slugs(live)).toEqual(['since', 't1'])
    expect(await live.reached(tip, 0)).toBe(true)
    await back()
    expect(live.status()).toMatchObject({ phase: 'live', offset: next, tip, degraded: null })
    expect(live.status().digest).toBe((await folded(log)).state.digest())
  })

  test('goes on from there with what was decided meanwhile', async () => {
    const { log, dataDir, next } = await used()
    const { live, back } = await away(log, dataDir)
    await live.ready()
    const other = await opened('c', log.view())
    await other.live.ready()
    await other.queue.commit(createTenant('meanwhile'))
    await back()
    expect(live.next).toBe(next + 1)
    expect(slugs(live)).toEqual(['meanwhile', 'since', 't1'])
    expect(live.status().digest).toBe(other.live.status().digest)
  })

  test('serves the snapshot alone when the records do not follow it', async () => {
    const { log, dataDir } = await used()
    const { newer } = recordFiles(dataDir)
    const records = readStoredRecords(dataDir)
    writeFileSync(newer, Buffer.concat(records.slice(-1).map(recordFrame)))
    const { live } = await away(log, dataDir)
    await live.ready()
    expect(slugs(live)).toEqual(['t0', 't1'])
  })

  test('does not use frames of an earlier build, which have no time', async () => {
    const { log, dataDir } = await used()
    const records = readStoredRecords(dataDir).map((record) => ({ ...record, atMs: null }))
    writeFileSync(recordFiles(dataDir).newer, Buffer.concat(records.map(recordFrame)))
    const { live } = await away(log, dataDir)
    await live.ready()
    expect(slugs(live)).toEqual(['t0', 't1'])
  })

  test('folds up to the first torn or changed frame', async () => {
    const { log, dataDir, next } = await used()
    const { newer } = recordFiles(dataDir)
    const bytes = readFileSync(newer)
    bytes[bytes.length - 3]! ^= 1
    writeFileSync(newer, bytes)
    const { live, back } = await away(log, dataDir)
    await live.ready()
    expect(slugs(live)).toEqual(['since', 't0', 't1'])
    await back()
    expect(live.next).toBe(next)
    expect(slugs(live)).toEqual(['since', 't1'])
  })

  test('reads the log again from the start when a stored time is another one in the log', async () => {
    const { log, dataDir } = await used()
    const records = readStoredRecords(dataDir).map((record, at, all) =>
      at === all.length - 1 ? { ...record, atMs: record.atMs! + 60_000 } : record,
    )
    writeFileSync(recordFiles(dataDir).newer, Buffer.concat(records.map(recordFrame)))
    const { said, diagnostics } = listening()
    const { live, back } = await away(log, dataDir, { diagnostics })
    await live.ready()
    await back()
    expect(said.map(({ event }) => event)).toContain('control_log_read_again')
    expect(live.status().digest).toBe((await folded(log)).state.digest())
  })

  test('is refused by a log that lacks what was stored', async () => {
    const { log, dataDir, next } = await used()
    log.truncate(CONTROL, 0, next - 1)
    const { live, back } = await away(log, dataDir)
    await live.ready()
    expect(slugs(live)).toEqual(['since', 't1'])
    void back()
    await live.condition.until(() => live.status().phase === 'stopped', 20_000)
    expect(live.refusal()).toContain(`ends at ${next - 1}, but data.dir has seen ${next} records`)
  })
})

// docs/behaviour.md: "Starting"
describe('how old its state is', () => {
  test('is that of the newest decision where no confirmation is recorded', async () => {
    const { log, dataDir } = await used()
    const { live } = await away(log, dataDir, { nowMs: () => nowMs() + 500_000 })
    await live.ready()
    const { staleMs, degraded } = live.status()
    expect(staleMs).toBeGreaterThan(499_000)
    expect(degraded).toMatch(/last confirmed at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, and is not folded yet$/)
    expect(readConfirmed(dataDir)).toBeNull()
  })

  test('counts from a recorded confirmation that is newer', async () => {
    const { log, dataDir } = await used()
    const atMs = nowMs() + 200_000
    writeConfirmed(dataDir, atMs)
    const { live } = await away(log, dataDir, { nowMs: () => atMs + 90_000 })
    await live.ready()
    const { staleMs, degraded } = live.status()
    expect(Math.abs(staleMs - 90_000)).toBeLessThan(2_000)
    expect(degraded).toContain(new Date(Math.round(atMs / 1_000) * 1_000).toISOString().slice(0, 17))
  })

  test('counts from a recorded confirmation, whatever the clock of the brokers gives its decisions', async () => {
    const { log, dataDir } = await used()
    const atMs = nowMs() - 200_000
    writeConfirmed(dataDir, atMs)
    const { live } = await away(log, dataDir, { nowMs: () => atMs + 90_000 })
    await live.ready()
    expect(Math.abs(live.status().staleMs - 90_000)).toBeLessThan(2_000)
  })

  test('counts from its last decision where the folder lacks records of what was folded', async () => {
    const { log, dataDir, next, tip } = await used()
    writeFileSync(recordFiles(dataDir).newer, '')
    writePosition(dataDir, { next, tip })
    const atMs = nowMs() + 200_000
    writeConfirmed(dataDir, atMs)
    const { said, diagnostics } = listening()
    const { live } = await away(log, dataDir, { nowMs: () => atMs + 90_000, diagnostics })
    await live.ready()
    expect(said).toContainEqual(
      expect.objectContaining({ event: 'stored_records_missing', fields: { from: live.next, to: next } }),
    )
    expect(live.next).toBe(next - 2)
    expect(live.status().staleMs).toBeGreaterThan(285_000)
  })

  test('is that of the confirmation where only records that did not count are behind the last decision', async () => {
    const { log, dataDir, next, tip } = await used()
    writePosition(dataDir, { next: next + 3, tip })
    const { said, diagnostics } = listening()
    const { live } = await away(log, dataDir, { diagnostics })
    await live.ready()
    expect(said.map(({ event }) => event)).not.toContain('stored_records_missing')
  })
})
