import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EVENT_VERSION } from '../../src/domain/control.ts'
import { decisionMacKey, type EventRecord, GENESIS, writeDecision } from '../../src/domain/decision.ts'
import { type MemoryLog, memoryLog } from '../../src/log/memory.ts'
import { LogDamaged } from '../../src/log/port.ts'
import { readChainWitness, writeChainWitness } from '../../src/state/chain-witness.ts'
import { ChainFold, CONTROL, foldAgain } from '../../src/state/fold.ts'
import { openLiveState } from '../../src/state/live.ts'
import type { LiveDeps } from '../../src/state/live-chain.ts'
import { notePositions, readPosition, writePosition } from '../../src/state/position-witness.ts'
import { writeSnapshot } from '../../src/state/snapshot.ts'
import {
  actor,
  begin,
  createTenant,
  deleteTenant,
  type Instance,
  listening,
  macKey,
  nowMs,
  openInstance,
  quiet,
} from './support.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

const folder = async () => {
  const path = await mkdtemp(join(tmpdir(), 'gatelog-live-'))
  closing.push(() => rm(path, { recursive: true }))
  return path
}
const opened = async (
  name: string,
  log: Parameters<typeof openInstance>[1],
  more: Partial<LiveDeps> = {},
): Promise<Instance> => {
  const instance = await openInstance(name, log, more)
  closing.push(() => instance.close())
  return instance
}
const tenantCreated = (slug: string): EventRecord => ({
  type: 'tenant.created',
  data: { id: `ten_${slug}`, slug, name: slug, plan: null, managed_by: 'api' },
})
/** Appends a decision by hand, on any parent. */
const decide = async (log: MemoryLog, parent: string, events: EventRecord[], key = macKey) => {
  const written = writeDecision({ parent, at: new Date(nowMs()).toISOString(), actor, cause: null, v: 1, events }, key)
  await log.append(CONTROL, 0, [{ key: null, value: written.bytes }])
  return written
}
/** A log with a chain and so many tenants. */
const logOf = async (tenants: number) => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const writer = await openInstance('writer', log.view())
  await writer.live.ready()
  for (let index = 0; index < tenants; index += 256) {
    const batch = Array.from({ length: Math.min(256, tenants - index) }, (_, at) => createTenant(`t${index + at}`))
    await Promise.all(batch.map((command) => writer.queue.commit(command)))
  }
  await writer.close()
  return log
}
const folded = (log: MemoryLog) => foldAgain(log, macKey, new AbortController().signal)
const atEnd = ({ live }: Instance, log: MemoryLog) =>
  live.changed.until(() => live.next === log.records(CONTROL).length, 2_000)
const refusalOf = async (log: Parameters<typeof openInstance>[1], more: Partial<LiveDeps>) => {
  const live = await openLiveState({ log, macKey, dataDir: null, nowMs, diagnostics: quiet, ...more })
  closing.push(() => live.close())
  return live.ready().then(
    () => 'ready',
    (error) => error as Error,
  )
}

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
    const dataDir = await folder()
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
    const dataDir = await folder()
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
    const dataDir = await folder()
    writeSnapshot(dataDir, await folded(log), nowMs())
    log.truncate(CONTROL, 0, 3)
    expect(await refusalOf(log, { dataDir })).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringMatching(/truncated, recreated or replaced.*restore it from a backup/),
    })
  })

  test('a recreated log stops the start, whether it is empty, shorter or longer', async () => {
    const dataDir = await folder()
    writeSnapshot(dataDir, await folded(await logOf(5)), nowMs())
    expect(await refusalOf(memoryLog({ nowMs }), { dataDir })).toMatchObject({ name: 'ControlLogRefused' })
    expect(await refusalOf(await logOf(2), { dataDir })).toMatchObject({ name: 'ControlLogRefused' })
    expect(await refusalOf(await logOf(9), { dataDir })).toMatchObject({ name: 'ControlLogRefused' })
  })

  test('a folder knows its chain without a snapshot: an empty log, or another chain, stops the start', async () => {
    const dataDir = await folder()
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
    const dataDir = await folder()
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
    const dataDir = await folder()
    writeSnapshot(dataDir, await folded(log), nowMs())
    let down = true
    const instance = await opened('a', log.view({ down: () => down }), { dataDir, graceMs: 20 })
    await instance.live.ready()
    expect(instance.live.status()).toMatchObject({ phase: 'starting', serves: true })
    expect(instance.live.status().degraded).toContain('snapshot')
    expect(instance.live.control.table('tenants').size).toBe(5)
    down = false
    log.wake()
    await instance.live.changed.until(() => instance.live.status().phase === 'live', 2_000)
    expect(instance.live.status().degraded).toBeNull()
  })

  test('with the log away and no snapshot it waits', async () => {
    const log = await logOf(5)
    let down = true
    const instance = await opened('a', log.view({ down: () => down }), { graceMs: 20 })
    const ready = instance.live.ready().then(() => 'ready')
    expect(await Promise.race([ready, Bun.sleep(100).then(() => 'waiting')])).toBe('waiting')
    expect(instance.live.status()).toMatchObject({ phase: 'starting', serves: false })
    down = false
    log.wake()
    expect(await ready).toBe('ready')
  })
})

describe('the fold', () => {
  test('poison changes nothing, stops nobody, and is counted and shown', async () => {
    const log = await logOf(2)
    const instance = await opened('a', log.view())
    await instance.live.ready()
    const { tip } = instance.live
    const before = instance.live.status()
    const valid = writeDecision(
      { parent: tip, at: new Date().toISOString(), actor, cause: null, v: 1, events: [tenantCreated('x')] },
      macKey,
    )
    const poison = [
      Buffer.alloc(0),
      Buffer.from('{}'),
      crypto.getRandomValues(new Uint8Array(500)),
      Buffer.alloc(65_537, 'a'),
      Buffer.from('['.repeat(60_000)),
      valid.bytes.map((byte, at) => (at === 80 ? byte ^ 1 : byte)), // a changed byte: the MAC no longer fits
    ]
    for (const value of poison) await log.append(CONTROL, 0, [{ key: null, value }])
    await log.append(CONTROL, 0, [{ key: null, value: null }])
    await atEnd(instance, log)
    const after = instance.live.status()
    expect(after).toMatchObject({ tip, digest: before.digest, phase: 'live', degraded: null })
    expect(after.counts.unreadable + after.counts.forged).toBe(poison.length + 1)
    expect(instance.live.poison()).toHaveLength(poison.length + 1)
    expect((await instance.queue.commit(createTenant('after'))).changed).toBe(true)
  })

  test('a decision whose event its schema refuses counts, changes nothing at all, and is told', async () => {
    const log = await logOf(0)
    const { said, diagnostics } = listening()
    const instance = await opened('a', log.view(), { diagnostics })
    await instance.live.ready()
    const written = await decide(log, instance.live.tip, [
      tenantCreated('ok'),
      { type: 'tenant.created', data: { id: 3 } },
    ])
    await instance.live.reached(written.id, 1_000)
    expect(instance.live.tip).toBe(written.id)
    expect(instance.live.control.table('tenants').size).toBe(0)
    expect(instance.live.status().counts.malformed).toBe(1)
    expect(said.map(({ event }) => event)).toContain('decision_malformed')
  })

  test('an unknown event type: no writes, the row it names is refused, everything else is served', async () => {
    const log = await logOf(2)
    const instance = await opened('a', log.view())
    await instance.live.ready()
    const refused: string[] = []
    instance.live.subscribe((batch) => void refused.push(...batch.refused))
    const written = await decide(log, instance.live.tip, [{ type: 'tenant.frozen', data: { id: 'ten_t0' } }])
    await instance.live.reached(written.id, 1_000)
    expect(instance.live.status().degraded).toContain('tenant.frozen')
    expect(refused).toEqual(['ten_t0'])
    expect(instance.live.control.table('tenants').size).toBe(2)
    await expect(instance.queue.commit(createTenant('x'))).rejects.toMatchObject({
      name: 'CommitFailure',
      kind: 'refused',
    })
    // And no snapshot is made of what this build cannot know.
    expect(writeSnapshot(await folder(), await folded(log), nowMs())).toBe(false)
  })

  test('subscribers hear nothing first, then each decision with its changes', async () => {
    const instance = await opened('a', await logOf(0))
    await instance.live.ready()
    const heard: number[] = []
    const stop = instance.live.subscribe(({ changes }) => void heard.push(changes.length))
    await instance.queue.commit(createTenant('a'))
    stop()
    await instance.queue.commit(createTenant('b'))
    expect(heard).toEqual([0, 1])
  })

  test('a gap is read again, not jumped over', async () => {
    const log = await logOf(3)
    let gaps = 0
    const view = log.view()
    const instance = await opened('a', {
      ...view,
      // The reader skips a record once: what follows must not be folded as if nothing was missing.
      read: (topic, partition, from, signal) =>
        topic === CONTROL && gaps++ === 0
          ? skipping(view.read(topic, partition, from, signal))
          : view.read(topic, partition, from, signal),
    })
    await instance.live.ready()
    expect(instance.live.status().digest).toBe((await folded(log)).state.digest())
  })
})

async function* skipping<Batch extends readonly unknown[]>(batches: AsyncIterable<Batch>) {
  for await (const batch of batches) yield batch.filter((_, index) => index !== 1) as unknown as Batch
}

describe('a log that loses its tail while it is followed', () => {
  test('an orphan stops the fold and the writes; a restored tail counts again', async () => {
    const log = await logOf(3)
    const behind = await opened('behind', log.view())
    await behind.live.ready()
    const kept = log.records(CONTROL).length
    // Two decisions that one instance has seen and the log then loses, and one decided on top of them.
    const first = await decide(log, behind.live.tip, [tenantCreated('lost1')])
    const second = await decide(log, first.id, [tenantCreated('lost2')])
    const lost = log.records(CONTROL).slice(kept)
    await behind.close()
    closing.pop()
    log.truncate(CONTROL, 0, kept)
    const reader = await opened('reader', log.view())
    await reader.live.ready()
    const digest = reader.live.status().digest
    await decide(log, second.id, [tenantCreated('after')])
    await reader.live.changed.until(() => reader.live.refusal()?.includes('lost records') === true, 2_000)
    expect(reader.live.status()).toMatchObject({ phase: 'stopped', digest })
    expect(reader.live.control.table('tenants').size).toBe(3)
    await expect(reader.queue.commit(createTenant('x'))).rejects.toMatchObject({ kind: 'refused' })
    // A fresh start does not serve from it either.
    expect(await refusalOf(log, {})).toMatchObject({
      name: 'ControlLogRefused',
      message: expect.stringContaining('lost records'),
    })
    // Restored: the bytes unchanged, at the end.
    await log.append(
      CONTROL,
      0,
      lost.map(({ key, value }) => ({ key, value })),
    )
    const healed = await opened('healed', log.view())
    await healed.live.ready()
    expect(healed.live.status().tip).toBe(second.id)
    expect(healed.live.control.table('tenants').size).toBe(5)
    expect((await healed.queue.commit(createTenant('x'))).changed).toBe(true)
  })

  test('a log that stays shorter than what was folded: no writes, what was known is served on', async () => {
    const log = await logOf(3)
    const instance = await opened('a', log.view(), { confirmEveryMs: 10 })
    await instance.live.ready()
    log.truncate(CONTROL, 0, 2)
    await instance.live.changed.until(() => instance.live.refusal()?.includes('no longer holds') === true, 2_000)
    expect(instance.live.control.table('tenants').size).toBe(3)
    expect(instance.live.status().phase).toBe('stopped')
  })

  test('keeps the raw records, so that a lost tail can be appended again', async () => {
    const log = await logOf(3)
    const instance = await opened('a', log.view())
    await instance.live.ready()
    expect([...instance.live.recentRecords()].map(({ value }) => Buffer.from(value!).toString('hex'))).toEqual(
      log.records(CONTROL).map(({ value }) => Buffer.from(value!).toString('hex')),
    )
  })
})

describe('staleness', () => {
  test('10 s without a confirmed end is degraded, and over when the log answers again', async () => {
    const log = await logOf(1)
    let skewMs = 0
    let down = false
    const instance = await opened('a', log.view({ down: () => down }), {
      confirmEveryMs: 5,
      nowMs: () => nowMs() + skewMs,
    })
    await instance.live.ready()
    down = true
    await Bun.sleep(20)
    skewMs = 11_000
    expect(instance.live.status().staleMs).toBeGreaterThan(10_000)
    expect(instance.live.status().degraded).toContain('stale')
    down = false
    log.wake()
    while (instance.live.status().degraded !== null) await Bun.sleep(5)
    expect(instance.live.status().staleMs).toBeLessThan(1_000)
  })
})

describe('replay', () => {
  test('incremental, whole, and from a snapshot at any point: one digest', async () => {
    const log = await logOf(30)
    const records = log.records(CONTROL)
    const whole = await folded(log)
    const dataDir = await folder()
    for (const cut of [1, 2, 17, records.length]) {
      const part = new ChainFold(macKey)
      for (const record of records.slice(0, cut)) part.take(record)
      writeSnapshot(dataDir, part, nowMs())
      const instance = await openInstance('a', log.view(), { dataDir })
      await instance.live.ready()
      await atEnd(instance, log)
      expect(instance.live.status()).toMatchObject({ tip: whole.tip, digest: whole.state.digest() })
      await instance.close()
    }
  })

  test('the first decision names the chain and activates every event type of this build, and its parent is the genesis', async () => {
    const log = await logOf(0)
    const decision = JSON.parse(Buffer.from(log.records(CONTROL)[0]!.value!).toString())
    expect(decision.parent).toBe(GENESIS)
    expect(decision.events).toEqual([
      { type: 'chain.started', data: { chain_id: 'chain_test', partitions: { 'gateway.requests.v1': 3 } } },
      { type: 'schema.activated', data: { version: EVENT_VERSION } },
    ])
  })
})
