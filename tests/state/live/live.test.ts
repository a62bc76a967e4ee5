// An instance that follows the log: what it folds, what it refuses, and how it reacts when the log loses records or
// stops answering.
import { describe, expect, test } from 'bun:test'
import { EVENT_VERSION } from '../../../src/domain/control.ts'
import { GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { ChainFold, CONTROL } from '../../../src/state/fold.ts'
import { writeSnapshot } from '../../../src/state/history/snapshot.ts'
import { eventually } from '../../services/eventually.ts'
import { atEnd, decide, folded, liveWorld, logOf, tenantCreated } from '../live-world.ts'
import { actor, createTenant, listening, macKey, nowMs, openInstance } from '../support.ts'

const { folder, opened, refusalOf } = liveWorld()

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
    await instance.live.reached(written.id, 20_000)
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
    await instance.live.reached(written.id, 20_000)
    expect(instance.live.status().degraded).toContain('tenant.frozen')
    expect(refused).toEqual(['ten_t0'])
    expect(instance.live.control.table('tenants').size).toBe(2)
    await expect(instance.queue.commit(createTenant('x'))).rejects.toMatchObject({
      name: 'CommitFailure',
      kind: 'refused',
    })
    // And no snapshot is made of what this build cannot know.
    expect(writeSnapshot(folder(), await folded(log), nowMs())).toBe(false)
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
    const behind = await openInstance('behind', log.view())
    await behind.live.ready()
    const kept = log.records(CONTROL).length
    // Two decisions that one instance has seen and the log then loses, and one decided on top of them.
    const first = await decide(log, behind.live.tip, [tenantCreated('lost1')])
    const second = await decide(log, first.id, [tenantCreated('lost2')])
    const lost = log.records(CONTROL).slice(kept)
    await behind.close()
    log.truncate(CONTROL, 0, kept)
    const reader = await opened('reader', log.view())
    await reader.live.ready()
    const digest = reader.live.status().digest
    await decide(log, second.id, [tenantCreated('after')])
    await reader.live.condition.until(() => reader.live.refusal()?.includes('lost records') === true, 20_000)
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
    await instance.live.condition.until(() => instance.live.refusal()?.includes('no longer holds') === true, 20_000)
    expect(instance.live.control.table('tenants').size).toBe(3)
    expect(instance.live.status().phase).toBe('stopped')
  })

  test('an end that was asked for before more was folded does not make the log shorter', async () => {
    const log = await logOf(3)
    const view = log.view()
    let asked = 0
    let folds: ((end: number) => Promise<unknown>) | null = null
    const end: EventLog['end'] = async (topic, partition) => {
      const answer = await view.end(topic, partition)
      await folds?.(answer)
      return answer
    }
    const { live } = await opened('a', { ...view, end }, { confirmEveryMs: 1 })
    await live.ready()
    const enough = Promise.withResolvers<void>()
    folds = async (answer) => {
      await log.append(CONTROL, 0, [{ key: null, value: Buffer.from('no decision') }])
      await live.condition.until(() => live.next > answer, 20_000)
      if (++asked === 6) enough.resolve()
    }
    await enough.promise
    expect([live.refusal(), live.status().phase]).toEqual([null, 'live'])
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
      monotonicMs: () => performance.now() + skewMs,
    })
    await instance.live.ready()
    down = true
    skewMs = 11_000
    expect(instance.live.status().staleMs).toBeGreaterThan(10_000)
    expect(instance.live.status().degraded).toContain('stale')
    down = false
    log.wake()
    await eventually('the end is confirmed', () => instance.live.status().degraded === null)
    expect(instance.live.status().staleMs).toBeLessThan(1_000)
  })
})

describe('replay', () => {
  test('incremental, whole, and from a snapshot at any point: one digest', async () => {
    const log = await logOf(30)
    const records = log.records(CONTROL)
    const whole = await folded(log)
    const dataDir = folder()
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
