// A start: from the log, from a snapshot, with the log away; and the logs that it refuses.
import { describe, expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decisionMacKey } from '../../../src/domain/kernel/decision.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { LogDamaged } from '../../../src/log/port.ts'
import { readChainWitness, writeChainWitness } from '../../../src/state/chain-witness.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { writeSnapshot } from '../../../src/state/history/snapshot.ts'
import { notePositions, readPosition, writePosition } from '../../../src/state/position-witness.ts'
import { atEnd, folded, liveWorld, logOf } from '../live-world.ts'
import { createTenant, deleteTenant, listening, nowMs, openInstance, quiet } from '../support.ts'

const { folder, opened, refusalOf } = liveWorld()

describe('the start', () => {
  test('goes live once the end that was seen is folded', async () => {
    const log = await logOf(300)
    const instance = await opened('a', log.view())
    expect(instance.live.status()).toMatchObject({ phase: 'starting', serves: false })
    await instance.live.ready()
    expect(instance.live.status()).toMatchObject({ phase: 'live', serves: true, degraded: null, chainId: 'chain_test' })
    expect(instance.live.control.table('tenants').size).toBe(300)
  })

  test('an empty control topic is refused, with what to do; unless it is asked for', async () => {
    const error = await refusalOf(memoryLog({ nowMs }), {})
    expect(error).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringContaining('gateway topics --init'),
    })
    expect(await refusalOf(memoryLog({ nowMs }), { allowEmpty: true })).toBe('ready')
  })

  test('another master key is named as what it is', async () => {
    const log = await logOf(1)
    const error = await refusalOf(log, { macKey: decisionMacKey(new Uint8Array(32).fill(9)) })
    expect(error).toMatchObject({ name: 'ControlLogRefused', message: expect.stringContaining('security.master_key') })
  })

  test('another chain than the one that the settings name is refused', async () => {
    const error = await refusalOf(await logOf(1), { expectedChain: 'chain_other' })
    expect(error).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringMatching(/chain_test.*chain_other/),
    })
    expect(await refusalOf(await logOf(1), { expectedChain: 'chain_test' })).toBe('ready')
  })

  test('from a snapshot: the same state as from the start, and only the tail is folded', async () => {
    const log = await logOf(40)
    const dataDir = folder()
    const early = await folded(log)
    writeSnapshot(dataDir, early, nowMs())
    const writer = await opened('writer', log.view())
    await writer.queue.commit(deleteTenant('t7'))
    await writer.queue.commit(createTenant('late'))
    const instance = await opened('a', log.view(), { dataDir })
    expect(instance.live.status()).toMatchObject({ serves: true, offset: early.next })
    await instance.live.ready()
    await atEnd(instance, log)
    const whole = await folded(log)
    expect(instance.live.status()).toMatchObject({ tip: whole.tip, digest: whole.state.digest(), counts: whole.counts })
    // What was decided before the snapshot is known to have counted too.
    expect(await instance.live.reached(early.tip, 0)).toBe(true)
    expect(instance.live.offsetOf(whole.tip)).toBe(log.records(CONTROL).length - 1)
  })

  test.each([
    ['a flipped byte', (bytes: Buffer) => bytes.fill(bytes[200]! ^ 1, 200, 201)],
    ['a lost end', (bytes: Buffer) => bytes.subarray(0, bytes.length / 2)],
    ['nothing in it', () => Buffer.alloc(0)],
  ])('a snapshot with %s is not used, and said; the log is folded from the start', async (_, damage) => {
    const log = await logOf(5)
    const dataDir = folder()
    writeSnapshot(dataDir, await folded(log), nowMs())
    const path = join(dataDir, 'control.snapshot')
    await writeFile(path, damage(await readFile(path)))
    const { said, diagnostics } = listening()
    const instance = await opened('a', log.view(), { dataDir, diagnostics })
    await instance.live.ready()
    expect(instance.live.control.table('tenants').size).toBe(5)
    expect(said.map(({ event }) => event)).toContain('snapshot_not_used')
  })

  test('a log that lost its tail stops the start', async () => {
    const log = await logOf(5)
    const dataDir = folder()
    writeSnapshot(dataDir, await folded(log), nowMs())
    log.truncate(CONTROL, 0, 3)
    expect(await refusalOf(log, { dataDir })).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringMatching(
        /truncated, recreated or replaced.*restore it from a backup \(embedded: log\/gateway\.control\.v1\.\* in data\.dir/,
      ),
    })
  })

  test('a recreated log stops the start, whether it is empty, shorter or longer', async () => {
    const dataDir = folder()
    writeSnapshot(dataDir, await folded(await logOf(5)), nowMs())
    expect(await refusalOf(memoryLog({ nowMs }), { dataDir })).toMatchObject({ name: 'ControlLogRefused' })
    expect(await refusalOf(await logOf(2), { dataDir })).toMatchObject({ name: 'ControlLogRefused' })
    expect(await refusalOf(await logOf(9), { dataDir })).toMatchObject({ name: 'ControlLogRefused' })
  })

  test('a folder knows its chain without a snapshot: an empty log, or another chain, stops the start', async () => {
    const dataDir = folder()
    const first = await openInstance('a', (await logOf(1)).view(), { dataDir })
    await first.live.ready()
    await first.close()
    expect(readChainWitness(dataDir)).toBe('chain_test')
    expect(await refusalOf(memoryLog({ nowMs }), { dataDir })).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringMatching(/is empty, but data\.dir belongs to the chain chain_test: restore it/),
    })
    expect(await refusalOf(await logOf(1), { dataDir })).toBe('ready')
    writeChainWitness(dataDir, 'chain_before')
    expect(await refusalOf(await logOf(1), { dataDir })).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringMatching(/holds the chain chain_test, but data\.dir belongs to chain_before/),
    })
  })

  test('a log that was cut since the folder saw it, or went another way, stops the start', async () => {
    const dataDir = folder()
    const log = await logOf(300)
    const first = await openInstance('a', log.view(), { dataDir })
    await first.live.ready()
    const stop = notePositions(first.live, dataDir, quiet)
    stop()
    await first.close()
    const seen = readPosition(dataDir)!
    expect(seen).toEqual({ next: first.live.next, tip: first.live.tip })
    const shorter = await logOf(1)
    expect(await refusalOf(shorter, { dataDir })).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringMatching(/ends at \d+, but data\.dir has seen \d+ records of it: it was cut/),
    })
    writePosition(dataDir, { next: seen.next, tip: 'f'.repeat(64) })
    expect(await refusalOf(log, { dataDir })).toMatchObject({
      message: expect.stringContaining('no longer holds the decision ffff'),
    })
    writePosition(dataDir, seen)
    expect(await refusalOf(log, { dataDir })).toBe('ready')
  })

  test('a log that is damaged stops the start, it is not waited for', async () => {
    const error = new LogDamaged('the file is damaged')
    const view = { ...(await logOf(1)).view(), end: () => Promise.reject(error) }
    const instance = await opened('a', view)
    expect(await instance.live.ready().catch((reason: unknown) => reason)).toMatchObject({
      name: 'ControlLogRefused',
      message: 'the file is damaged',
    })
  })

  test('a log that lost its head, as retention would take it, stops the start', async () => {
    const log = await logOf(5)
    log.trim(CONTROL, 0, 2)
    expect(await refusalOf(log, {})).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringContaining('kept for ever'),
    })
  })

  test('with the log away it serves from the snapshot, and goes on when the log is back', async () => {
    const log = await logOf(5)
    const dataDir = folder()
    writeSnapshot(dataDir, await folded(log), nowMs())
    let down = true
    const instance = await opened('a', log.view({ down: () => down }), { dataDir, graceMs: 20 })
    await instance.live.ready()
    expect(instance.live.status()).toMatchObject({ phase: 'starting', serves: true })
    expect(instance.live.status().degraded).toContain('serves what this instance had stored')
    expect(instance.live.control.table('tenants').size).toBe(5)
    down = false
    log.wake()
    await instance.live.condition.until(() => instance.live.status().phase === 'live', 20_000)
    expect(instance.live.status().degraded).toBeNull()
  })

  test('with the log away and no snapshot it waits', async () => {
    const log = await logOf(5)
    const askedAgain = Promise.withResolvers<void>()
    let down = true
    let asked = 0
    const isDown = () => {
      if (++asked === 2) askedAgain.resolve()
      return down
    }
    const instance = await opened('a', log.view({ down: isDown }), { graceMs: 20 })
    const ready = instance.live.ready().then(() => 'ready')
    await askedAgain.promise // half a second after the first time, and so behind the grace
    expect(Bun.peek.status(ready)).toBe('pending')
    expect(instance.live.status()).toMatchObject({ phase: 'starting', serves: false })
    down = false
    log.wake()
    expect(await ready).toBe('ready')
  })
})
