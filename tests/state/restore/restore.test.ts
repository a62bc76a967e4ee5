// A log that lost its tail gets it back from the copy that an instance keeps: the same bytes, so the same ids, so the
// log is valid again.
import { describe, expect, test } from 'bun:test'
import { appendFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { GENESIS } from '../../../src/domain/kernel/decision.ts'
import { type MemoryFaults, type MemoryLog, memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { writeSnapshot } from '../../../src/state/history/snapshot.ts'
import type { LiveDeps } from '../../../src/state/live-chain.ts'
import { readStoredRecords, recordFiles, recordFrame, storedPosition } from '../../../src/state/restore/kept-records.ts'
import { RECENT_RECORDS } from '../../../src/state/restore/recent-records.ts'
import { storeRecords } from '../../../src/state/restore/record-keeper.ts'
import { appendTail, planRestore } from '../../../src/state/restore/restore.ts'
import { writeTurn } from '../../../src/state/write-turns.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { begin, createTenant, listening, macKey, nowMs, openInstance, quiet } from '../support.ts'

const closing = closedAfterEach()
const { folder } = closing
const forEver = () => new AbortController().signal
const withChain = async (): Promise<MemoryLog> => {
  const log = memoryLog({ nowMs })
  await begin(log)
  return log
}

/** An instance that keeps what it folds. */
const keeping = async (log: EventLog, dataDir: string, more: Partial<LiveDeps> & { records?: number } = {}) => {
  const { records, ...rest } = more
  const instance = await openInstance('a', log, { dataDir, confirmEveryMs: 10, ...rest })
  const stored = storeRecords({
    live: instance.live,
    dataDir,
    diagnostics: quiet,
    records,
    snapshotEnd: () => Infinity,
  })
  let open = true
  const close = async () => {
    if (!open) return
    open = false
    stored.stop()
    await instance.close()
  }
  closing.push(close)
  await instance.live.ready()
  return { ...instance, close }
}
const made = async (
  instance: { queue: { commit: Awaited<ReturnType<typeof keeping>>['queue']['commit'] } },
  slugs: string[],
) => {
  for (const slug of slugs) await instance.queue.commit(createTenant(slug))
}
const bytesOf = (records: Iterable<{ value: Uint8Array | null }>) =>
  [...records].map(({ value }) => (value === null ? null : Buffer.from(value).toString('hex')))
const restored = async (log: EventLog, dataDir: string) => {
  const deps = { log, macKey, stored: readStoredRecords(dataDir), signal: forEver() }
  const plan = await planRestore(deps)
  if (plan.kind === 'lost') await appendTail(deps, plan.tail)
  return plan
}

describe('what is kept', () => {
  test('every record, before anybody is told that it counted', async () => {
    const log = await withChain()
    const dataDir = folder()
    const instance = await keeping(log.view(), dataDir)
    for (const slug of ['a', 'b', 'c']) {
      const { revision } = await instance.queue.commit(createTenant(slug))
      expect(storedPosition(dataDir)).toEqual({ next: log.records(CONTROL).length, tip: revision })
    }
    expect(bytesOf(readStoredRecords(dataDir))).toEqual(bytesOf(log.records(CONTROL)))
  })

  test('goes on after a start, also after a torn frame, and begins anew after rubbish', async () => {
    const log = await withChain()
    const dataDir = folder()
    const first = await keeping(log.view(), dataDir)
    await made(first, ['a', 'b'])
    await first.close()
    const { newer } = recordFiles(dataDir)
    const whole = readFileSync(newer)
    appendFileSync(
      newer,
      recordFrame({ offset: 3, atMs: 1, counted: true, value: Buffer.alloc(90, 1) }).subarray(0, 50),
    )
    const second = await keeping(log.view(), dataDir)
    await made(second, ['c'])
    await second.close()
    expect(readFileSync(newer).subarray(0, whole.length)).toEqual(whole)
    expect(bytesOf(readStoredRecords(dataDir))).toEqual(bytesOf(log.records(CONTROL)))
    writeFileSync(newer, 'rubbish')
    const third = await keeping(log.view(), dataDir)
    await made(third, ['d'])
    expect(bytesOf(readStoredRecords(dataDir))).toEqual(bytesOf(log.records(CONTROL)))
  })

  test('the newest records, in two files', async () => {
    const log = await withChain()
    const dataDir = folder()
    const instance = await keeping(log.view(), dataDir, { records: 4 })
    await made(instance, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'])
    const kept = bytesOf(readStoredRecords(dataDir))
    expect(kept.length).toBeLessThanOrEqual(8)
    expect(kept.length).toBeGreaterThanOrEqual(4)
    expect(bytesOf(log.records(CONTROL)).slice(-kept.length)).toEqual(kept)
    expect(RECENT_RECORDS).toBe(10_000)
  })

  test('a disk that fails is said, and serving goes on', async () => {
    const log = await withChain()
    const dataDir = folder()
    const { said, diagnostics } = listening()
    const instance = await openInstance('a', log.view())
    closing.push(() => instance.close())
    const stored = storeRecords({ live: instance.live, dataDir: join(dataDir, 'missing'), diagnostics })
    closing.push(() => stored.stop())
    await instance.live.ready()
    await made(instance, ['a'])
    expect(said.map(({ event }) => event)).toEqual(['control_records_not_kept'])
  })
})

describe('a restored tail', () => {
  test('counts again, with what stood between its decisions; a second time changes nothing', async () => {
    const log = await withChain()
    const dataDir = folder()
    const instance = await keeping(log.view(), dataDir)
    await made(instance, ['a'])
    const cut = log.records(CONTROL).length
    await made(instance, ['b'])
    await log.append(CONTROL, 0, [
      { key: null, value: Buffer.from('poison') },
      { key: null, value: writeTurn({ instance: 'x', nonce: 'n' }, macKey) },
      { key: null, value: null },
    ])
    await made(instance, ['c'])
    const before = { tip: instance.live.tip, bytes: bytesOf(log.records(CONTROL)) }
    await instance.close()
    log.truncate(CONTROL, 0, cut)

    const deps = { log, macKey, stored: readStoredRecords(dataDir), signal: forEver() }
    expect(await planRestore(deps)).toMatchObject({ kind: 'lost', end: cut, decisions: 2, newTip: before.tip })
    expect(log.records(CONTROL)).toHaveLength(cut) // a plan writes nothing
    expect(await restored(log, dataDir)).toMatchObject({ kind: 'lost' })
    expect(bytesOf(log.records(CONTROL))).toEqual(before.bytes)
    expect(await restored(log, dataDir)).toMatchObject({ kind: 'whole', tip: before.tip })
    expect(bytesOf(log.records(CONTROL))).toEqual(before.bytes)
    const again = await keeping(log.view(), dataDir)
    expect(again.live.tip).toBe(before.tip)
    expect((await again.queue.commit(createTenant('d'))).changed).toBe(true)
  })

  test('is found by an instance that is up, which goes on with it', async () => {
    const log = await withChain()
    const dataDir = folder()
    const instance = await keeping(log.view(), dataDir)
    await made(instance, ['a', 'b', 'c'])
    const { tip, digest } = instance.live.status()
    log.truncate(CONTROL, 0, 2)
    await instance.live.condition.until(() => instance.live.refusal()?.includes('no longer holds') === true, 20_000)
    expect(instance.live.status()).toMatchObject({ degradation: 'suspected', phase: 'stopped' })
    expect(instance.live.refusal()).toContain('gateway log restore')
    expect(storedPosition(dataDir)?.tip).toBe(tip) // what was lost is not forgotten
    await restored(log, dataDir)
    const replay = await foldAgain(log, macKey, forEver())
    expect({ tip: replay.tip, tenants: replay.state.table('tenants').size }).toEqual({ tip, tenants: 3 })
    expect(replay.state.digest()).toBe(digest)
  })

  test('of an empty log is the whole chain, when the whole chain is kept', async () => {
    const log = await withChain()
    const dataDir = folder()
    const instance = await keeping(log.view(), dataDir)
    await made(instance, ['a', 'b'])
    const before = bytesOf(log.records(CONTROL))
    await instance.close()
    const recreated = memoryLog({ nowMs })
    expect(await restored(recreated, dataDir)).toMatchObject({ kind: 'lost', tip: GENESIS, decisions: 3 })
    expect(bytesOf(recreated.records(CONTROL))).toEqual(before)
  })

  test('is appended although answers are lost on the way', async () => {
    const log = await withChain()
    const dataDir = folder()
    const instance = await keeping(log.view(), dataDir)
    await made(instance, ['a', 'b', 'c'])
    const { tip } = instance.live
    await instance.close()
    log.truncate(CONTROL, 0, 1)
    const faults = ['lost_answer', 'unavailable', 'lost_request', 'none'] as const
    let at = 0
    const beforeAppend: MemoryFaults['beforeAppend'] = () => faults[at++] ?? 'none'
    await restored(log.view({ beforeAppend }), dataDir)
    expect((await foldAgain(log, macKey, forEver())).tip).toBe(tip)
    expect(at).toBe(4)
  })

  test('a snapshot from before the loss is not gone on with: its times are others', async () => {
    const dataDir = folder()
    let clock = Date.parse('2026-01-01T00:00:00Z')
    const log = memoryLog({ nowMs: () => clock })
    await begin(log)
    const instance = await keeping(log.view(), dataDir)
    await instance.queue.commit(createTenant('a'))
    await instance.queue.commit(createTenant('b', { cause: { id: 'c'.repeat(64), body: 'd'.repeat(64) } }))
    await instance.close()
    writeSnapshot(dataDir, await foldAgain(log, macKey, forEver()), nowMs())
    log.truncate(CONTROL, 0, 1)
    clock += 3_600_000
    await restored(log, dataDir)
    const again = await keeping(log.view(), dataDir)
    expect(again.live.status().digest).toBe((await foldAgain(log, macKey, forEver())).state.digest())
  })
})

describe('nothing is appended', () => {
  const refusal = async (log: EventLog, dataDir: string) => {
    const plan = await planRestore({ log, macKey, stored: readStoredRecords(dataDir), signal: forEver() })
    return plan.kind === 'refused' ? plan.reason : plan.kind
  }
  const lost = async (more: { records?: number } = {}) => {
    const log = await withChain()
    const dataDir = folder()
    const instance = await keeping(log.view(), dataDir, more)
    await made(instance, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'])
    await instance.close()
    return { log, dataDir }
  }

  test('when nothing is kept', async () => {
    expect(await refusal(await withChain(), folder())).toContain('keeps no records')
  })

  test('when the log went another way after the loss', async () => {
    const { log, dataDir } = await lost()
    log.truncate(CONTROL, 0, 4)
    const other = await openInstance('b', log.view())
    closing.push(() => other.close())
    await other.live.ready()
    await other.queue.commit(createTenant('other'))
    expect(await refusal(log, dataDir)).toContain('went another way')
  })

  test('when more was lost than is kept, or it is another chain', async () => {
    const { log, dataDir } = await lost({ records: 2 })
    log.truncate(CONTROL, 0, 2)
    expect(await refusal(log, dataDir)).toContain('lost more than that, or is another chain')
    expect(await refusal(memoryLog({ nowMs }), dataDir)).toContain('restore a backup of the topic first')
    const strange = memoryLog({ nowMs })
    await begin(strange, 'chain_other')
    expect(await refusal(strange, dataDir)).toContain('another chain')
  })

  test('when the tail does not chain on: a record of it is not what it was', async () => {
    const { log, dataDir } = await lost()
    log.truncate(CONTROL, 0, 4)
    const { newer } = recordFiles(dataDir)
    const kept = readStoredRecords(dataDir).map((record) => ({ ...record, value: Buffer.from(record.value!) }))
    kept[6]!.value[30]! ^= 1
    writeFileSync(newer, Buffer.concat(kept.map(recordFrame)))
    expect(await refusal(log, dataDir)).toContain('do not chain on')
    // A flipped bit on the disk ends what is kept before it: less is restored, nothing wrong.
    truncateSync(newer, 0)
    writeFileSync(newer, Buffer.concat(kept.slice(0, 6).map(recordFrame)))
    appendFileSync(newer, Buffer.alloc(60, 7))
    expect(await restored(log, dataDir)).toMatchObject({ kind: 'lost', decisions: 2 })
  })

  test('when the head of the log is gone', async () => {
    const { log, dataDir } = await lost()
    log.trim(CONTROL, 0, 2)
    await expect(refusal(log, dataDir)).rejects.toMatchObject({ name: 'LogReplaced' })
  })
})
