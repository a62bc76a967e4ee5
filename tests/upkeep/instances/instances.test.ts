import { describe, expect, test } from 'bun:test'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { writeEnvelope } from '../../../src/log/envelope.ts'
import { type MemoryFaults, type MemoryLog, memoryLog } from '../../../src/log/memory.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { FailedLogins } from '../../../src/state/indexes/failed-logins.ts'
import { type Instances, type InstancesDeps, openInstances } from '../../../src/upkeep/instances/instances.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { eventually } from '../../services/eventually.ts'
import {
  actor,
  begin,
  createTenant,
  deleteTenant,
  type Instance,
  listening,
  nowMs,
  openInstance,
  quiet,
} from '../../state/support.ts'

const closing = closedAfterEach()

const open = async (
  log: MemoryLog,
  name: string,
  { faults = {}, ...deps }: Partial<InstancesDeps> & { readonly faults?: MemoryFaults } = {},
) => {
  const instance: Instance = await openInstance(name, log.view(faults))
  closing.push(() => instance.close())
  await instance.live.ready()
  const instances: Instances = openInstances({
    log: log.view(),
    live: instance.live,
    instance: name,
    build: 'b1',
    nowMs,
    diagnostics: quiet,
    everyMs: 20,
    behindMs: 40,
    ...deps,
  })
  closing.push(() => instances.close())
  return { ...instance, instances }
}
const announced = (name: string, data: string) =>
  Buffer.from(writeEnvelope({ instance: name, epoch: 'e', sequence: 0 }, 'instance.announced', name, nowMs(), data))

const knowing = async (instances: Instances, count: number) => {
  await eventually(`${count} instances are known`, () => instances.list().length >= count)
}

describe('instances', () => {
  test('alone: 1 of 1, at once', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const one = await open(log, 'a')
    const { revision } = await one.queue.commit(createTenant('t'))
    expect(await one.instances.appliedBy(revision, 0)).toEqual({ applied: 1, instances: 1 })
  })

  test('one that hears another process speak in its name says so once: a data folder was copied', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const { said, diagnostics } = listening()
    const told = () => said.filter(({ event }) => event === 'instance_name_shared').length
    const one = await open(log, 'a', { diagnostics })
    const beside = () =>
      openInstances({
        ...{ log: log.view(), live: one.live, instance: 'a', build: 'b1', nowMs },
        diagnostics: quiet,
        everyMs: 20,
      })
    const copy = beside()
    closing.push(() => copy.close())
    await eventually('it is said', () => told() === 1)
    expect(one.instances.nameShared()).toContain('another process announces itself as a: data.dir was copied')
    expect(one.instances.counts().nameShared).toBe(1)
    await copy.close()
    // A start says a word or two late: that is no copy.
    await log.append(TOPICS.instances.name, 0, [{ key: 'a', value: announced('a', JSON.stringify(copy.list()[0])) }])
    const { instances } = await open(log, 'b')
    await knowing(instances, 2)
    expect(told()).toBe(1)
  })

  // docs/behaviour.md: "Admin writes"
  test('count as having applied a decision once it is stored, not before', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const stored = { next: 0, advance: () => {} }
    const onAdvance = (listener: () => void) => {
      stored.advance = listener
    }
    const storing = {
      onAdvance,
      get next() {
        return stored.next
      },
    }
    const [one, two] = [await open(log, 'a', { everyMs: 60_000 }), await open(log, 'b', { stored: storing })]
    await Promise.all([knowing(one.instances, 2), knowing(two.instances, 2)])
    const { revision } = await one.queue.commit(createTenant('t'))
    await two.live.reached(revision, 20_000)
    expect(await one.instances.appliedBy(revision, 60)).toEqual({ applied: 1, instances: 2 })
    expect((await two.instances.appliedBy(revision, 0)).applied).toBeLessThan(2)
    stored.next = two.live.next
    stored.advance()
    expect(await one.instances.appliedBy(revision, 20_000)).toEqual({ applied: 2, instances: 2 })
    expect(one.instances.standings().map(({ announced }) => announced.stored)).toEqual([undefined, stored.next])
  })

  // docs/behaviour.md: "Time and windows"
  test('measure their clock against the log and announce it', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const aheadMs = 3_600_000
    const one = await open(log, 'a', { clockMs: () => nowMs() + aheadMs })
    const two = await open(log, 'b', { startedAtMs: 0 })
    await eventually('it is measured', () => one.instances.clockProblem() !== null)
    expect(one.instances.clockProblem()).toMatch(/is 3(600|599) s ahead of the brokers/)
    expect(Math.abs(one.instances.counts().clockAheadMs - aheadMs)).toBeLessThan(2_000)
    const told = () => two.instances.standings().find(({ announced }) => announced.instance === 'a')?.announced
    await eventually('the other one is told', () => Math.abs((told()?.clock_ahead_ms ?? 0) - aheadMs) < 2_000)
    expect(two.instances.clockProblem()).toBeNull()
    expect(two.instances.standings()[0]).toMatchObject({
      announced: { instance: 'b', started_at: '1970-01-01T00:00:00.000Z' },
      lagRecords: 0,
    })
  })

  // docs/behaviour.md: "Time and windows"
  test('compare it with their own log where that has no clock of its own', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const one = await open(log, 'a', { clockMs: () => nowMs() - 60_000, everyMs: 60_000 })
    expect(one.instances.clockProblem()).toMatch(/is \d+ s behind (its own log|the brokers)/)
  })

  test('hear which breakers the others have open, not of their own', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const heard = Promise.withResolvers<readonly string[]>()
    const own: unknown[] = []
    const openBreakers = () => ['mod_1']
    await open(log, 'a', { openBreakers, onOpenBreakers: (ids) => own.push(ids) })
    await open(log, 'b', { onOpenBreakers: heard.resolve })
    expect(await heard.promise).toEqual(['mod_1'])
    expect(own).toEqual([])
  })

  test('hear of breakers that were cleared elsewhere at once, and who had them cleared hears that they know', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const opened = async (name: string) => {
      const known = { ms: 0, heard: [] as number[] }
      const told: Partial<InstancesDeps> = {
        breakersCleared: () => known.ms,
        onBreakersCleared(atMs) {
          const isNews = atMs > known.ms
          if (isNews) known.heard.push(atMs)
          known.ms = Math.max(known.ms, atMs)
          return isNews
        },
      }
      return { known, ...(await open(log, name, { everyMs: 60_000, ...told })) }
    }
    const [one, two] = [await opened('a'), await opened('b')]
    await Promise.all([knowing(one.instances, 2), knowing(two.instances, 2)])
    one.known.ms = 7
    expect(await one.instances.clearedBy(7, 20_000)).toEqual({ applied: 2, instances: 2 })
    expect([one.known.heard, two.known.heard]).toEqual([[], [7]])
  })

  test('hear of logins that failed elsewhere, within moments', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const [here, there] = [new FailedLogins(), new FailedLogins()]
    const heard = Promise.withResolvers<void>()
    const one = await open(log, 'a', { everyMs: 60_000, failedLogins: () => here.announced(nowMs()) })
    const two = await open(log, 'b', {
      everyMs: 60_000,
      onFailedLogins(instance, told) {
        there.merge(instance, told, nowMs())
        if (there.lockedUntil(['u:ada'], nowMs()) !== null) heard.resolve()
      },
    })
    await Promise.all([knowing(one.instances, 2), knowing(two.instances, 2)])
    for (let i = 0; i < 5; i++) here.failed(['u:ada'], nowMs())
    one.instances.scheduleAnnouncement()
    await heard.promise
    expect(there.lockedUntil(['u:bob'], nowMs())).toBeNull()
  })

  test('hear of each other, and of a decision once it is folded there', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    let held = Promise.withResolvers<void>()
    held.resolve()
    const one = await open(log, 'a')
    const two = await open(log, 'b', {
      faults: { beforeDeliver: ({ available }) => held.promise.then(() => available) },
    })
    await Promise.all([knowing(one.instances, 2), knowing(two.instances, 2)])
    held = Promise.withResolvers<void>()
    const { revision } = await one.queue.commit(createTenant('t'))
    expect(await one.instances.appliedBy(revision, 60)).toEqual({ applied: 1, instances: 2 })
    held.resolve()
    expect(await one.instances.appliedBy(revision, 20_000)).toEqual({ applied: 2, instances: 2 })
  })

  test('an urgent decision is announced at once, not with the next second', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const one = await open(log, 'a', { everyMs: 60_000 })
    const two = await open(log, 'b', { everyMs: 60_000 })
    await Promise.all([knowing(one.instances, 2), knowing(two.instances, 2)])
    await one.queue.commit(createTenant('t'))
    const { revision } = await one.queue.commit(deleteTenant('t'))
    expect(await one.instances.appliedBy(revision, 20_000)).toEqual({ applied: 2, instances: 2 })
  })

  test('another state at the same offset raises the alarm; the same state does not', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const { said, diagnostics } = listening()
    const one = await open(log, 'a', { diagnostics })
    const two = await open(log, 'b')
    await Promise.all([knowing(one.instances, 2), knowing(two.instances, 2)])
    await one.queue.commit(createTenant('t'))
    const { revision } = await two.queue.commit(createTenant('u'))
    await one.instances.appliedBy(revision, 20_000)
    expect(one.instances.alarm()).toBeNull()
    const truth = two.instances.list()[0]!
    const lie = JSON.stringify({ ...truth, instance: 'c', digest: 'f'.repeat(64) })
    await log.append(TOPICS.instances.name, 0, [
      { key: 'c', value: announced('c', lie) },
      { key: 'c', value: Buffer.from('rubbish') },
    ])
    await eventually('the alarm', () => one.instances.alarm() !== null)
    expect(one.instances.alarm()).toContain('another state of the control topic than this one has: c at offset')
    expect(one.instances.counts()).toMatchObject({ live: 3, diverged: 1 })
    expect(said.filter(({ event }) => event === 'states_differ')).toHaveLength(1)
    const mended = JSON.stringify({ ...truth, instance: 'c' })
    await log.append(TOPICS.instances.name, 0, [{ key: 'c', value: announced('c', mended) }])
    await eventually('the end of the alarm', () => one.instances.alarm() === null)
    expect(one.instances.counts().diverged).toBe(0)
  })

  test('one that another has left behind says so, until it has caught up', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    let held = Promise.withResolvers<void>()
    held.resolve()
    const one = await open(log, 'a')
    const two = await open(log, 'b', {
      faults: { beforeDeliver: ({ available }) => held.promise.then(() => available) },
    })
    await Promise.all([knowing(one.instances, 2), knowing(two.instances, 2)])
    held = Promise.withResolvers<void>()
    for (const slug of ['t', 'u', 'v']) await one.queue.commit(createTenant(slug))
    await eventually('it is behind', () => two.instances.behind() !== null)
    await eventually('by three records', () => two.instances.counts().behindRecords >= 3)
    expect(two.instances.behind()).toBe('this instance is 3 records of the control topic behind another')
    expect(one.instances.behind()).toBeNull()
    held.resolve()
    await eventually('it has caught up', () => two.instances.behind() === null)
  })

  test('one that could not hear forgets nobody for it; one that is gone is forgotten', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    let held = Promise.withResolvers<void>()
    held.resolve()
    const late = log.view({ beforeDeliver: ({ available }) => held.promise.then(() => available) })
    const [liveMs, everyMs] = [400, 20]
    const one = await open(log, 'a', { everyMs, liveMs, log: late })
    const two = await open(log, 'b', { everyMs, liveMs })
    await knowing(one.instances, 2)
    held = Promise.withResolvers<void>()
    const heldAt = performance.now()
    await eventually('it has heard nothing for long', () => performance.now() - heldAt > 2 * liveMs)
    expect(one.instances.list()).toHaveLength(2)
    held.resolve()
    await two.instances.close()
    await eventually('it is forgotten', () => one.instances.list().length === 1)
  })

  test('answers wait for what takes away from a caller and for a new credential, not for other writes', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const one = await open(log, 'a')
    const made = await one.queue.commit(createTenant('t'))
    const commit = (events: readonly EventRecord[]) => one.queue.commit({ actor, decide: () => events })
    const issued = await commit([
      {
        type: 'api_key.issued',
        data: {
          id: 'key_1',
          tenant_id: 'ten_t',
          name: 'k',
          scopes: ['inference', 'usage:read'],
          digest: 'a'.repeat(64),
          expires_at: null,
          routing_policy_id: null,
          rate_limits: null,
          managed_by: 'api',
        },
      },
    ])
    const renamed = await commit([{ type: 'api_key.changed', data: { id: 'key_1', name: 'other' } }])
    const narrowed = await commit([{ type: 'api_key.changed', data: { id: 'key_1', scopes: ['inference'] } }])
    const rotated = await commit([{ type: 'api_key.rotated', data: { id: 'key_1', digest: 'b'.repeat(64) } }])
    const revoked = await commit([{ type: 'api_key.revoked', data: { id: 'key_1' } }])
    const written = [made, issued, renamed, narrowed, rotated, revoked]
    const awaited = written.map(({ revision }) => one.instances.awaited(revision))
    expect(awaited).toEqual([false, true, false, true, true, true])
  })
})
