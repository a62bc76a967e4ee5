import { afterEach, describe, expect, test } from 'bun:test'
import type { ControlReader } from '../../../src/domain/control.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { type MemoryFaults, memoryLog } from '../../../src/log/memory.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { CommitFailure } from '../../../src/state/port.ts'
import { begin, createTenant, deleteTenant, type Instance, nowMs, openInstance, renameTenant } from '../support.ts'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})

const setUp = async (faults: MemoryFaults[] = [{}], limitMs?: number, lookMs?: number) => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const instances: Instance[] = []
  for (const [index, fault] of faults.entries()) {
    const instance = await openInstance(`i${index}`, log.view(fault), { limitMs, lookMs })
    await instance.live.ready()
    open.push(instance)
    instances.push(instance)
  }
  return { log, instances, first: instances[0]! }
}

describe('a commit', () => {
  test('returns when this process has folded its own record', async () => {
    const { first } = await setUp()
    const result = await first.queue.commit(createTenant('a'))
    expect(result).toMatchObject({ changed: true, repeated: false, removed: {} })
    expect(first.live.tip).toBe(result.revision)
    expect(first.live.control.table('tenants').get('ten_a')?.revision).toBe(result.revision)
    expect(result.changes.map(({ table, id }) => [table, id])).toEqual([['tenants', 'ten_a']])
  })

  test('commands that wait are chained into one append, decided one on top of the other', async () => {
    const appends: number[] = []
    const { first } = await setUp([
      { beforeAppend: ({ records }) => (appends.push(records.length) > 0 ? 'none' : 'refused') },
    ])
    const results = await Promise.all([
      first.queue.commit(createTenant('a')),
      first.queue.commit(renameTenant('a', 'Anna')),
      first.queue.commit(createTenant('b')),
    ])
    expect(results.every(({ changed }) => changed)).toBe(true)
    expect(first.live.control.table('tenants').get('ten_a')?.name).toBe('Anna')
    expect(appends).toEqual([3])
  })

  test('a refusal that rests on an uncommitted predecessor is answered only once that one has counted', async () => {
    const held = Promise.withResolvers<void>()
    const { first } = await setUp([{ afterAppend: () => held.promise }])
    const order: string[] = []
    const creation = first.queue.commit(createTenant('a')).then(() => order.push('created'))
    const refusal = first.queue.commit(createTenant('a')).catch((error) => {
      order.push('refused')
      return error
    })
    held.resolve()
    await creation
    const error = await refusal
    expect(error).toBeInstanceOf(Rejection)
    expect(error).toMatchObject({ reason: 'conflict', param: 'slug' })
    expect(order).toEqual(['created', 'refused'])
  })

  test('a refusal is answered only after what the log held when the command came in is folded', async () => {
    let deliver = Promise.withResolvers<void>()
    deliver.resolve()
    let asked = Promise.withResolvers<void>()
    const { instances } = await setUp([
      {},
      {
        beforeDeliver: async ({ available }) => deliver.promise.then(() => available),
        beforeEnd: () => asked.resolve(),
      },
    ])
    const [writer, late] = instances as [Instance, Instance]
    await writer.queue.commit(createTenant('a'))
    await late.live.reached(writer.live.tip, 20_000)
    deliver = Promise.withResolvers<void>()
    await writer.queue.commit(deleteTenant('a'))
    asked = Promise.withResolvers<void>()
    // The late one has not seen the deletion: on its own state the creation would be refused, and the renaming a no-op.
    const again = late.queue.commit(createTenant('a'))
    await asked.promise
    await new Promise((resolve) => setImmediate(resolve)) // where the log ends is heard by then
    expect(Bun.peek.status(again)).toBe('pending')
    deliver.resolve()
    expect((await again).changed).toBe(true)
  })

  test('a no-op answers the tip, after the barrier', async () => {
    const { first } = await setUp()
    await first.queue.commit(createTenant('a'))
    const result = await first.queue.commit(renameTenant('a', 'a'))
    expect(result).toEqual({ revision: first.live.tip, changed: false, repeated: false, changes: [], removed: {} })
  })

  test('the same cause and body repeats the first result; another body is a conflict on Idempotency-Key', async () => {
    const { first } = await setUp()
    const cause = { id: 'c1', body: 'b1' }
    const once = await first.queue.commit(createTenant('a', { cause }))
    const twice = await first.queue.commit(createTenant('a', { cause }))
    expect(twice).toMatchObject({ revision: once.revision, repeated: true, changed: true })
    expect(twice.changes[0]).toMatchObject({ id: 'ten_a', before: null, after: { slug: 'a' } })
    const other = await first.queue
      .commit(createTenant('z', { cause: { id: 'c1', body: 'b2' } }))
      .catch((error) => error)
    expect(other).toMatchObject({ name: 'Rejection', reason: 'conflict', param: 'Idempotency-Key' })
    expect(first.live.control.table('tenants').get('ten_z')).toBeUndefined()
  })

  test('a no-op with a cause is remembered by every instance, and by one that starts later', async () => {
    const { instances, log } = await setUp([{}, {}])
    const [one, two] = instances as [Instance, Instance]
    await one.queue.commit(createTenant('a'))
    const keyed = (body: string, name = 'a') => ({
      ...renameTenant('a', name),
      cause: { id: 'c1', body },
      about: (state: ControlReader) => state.table('tenants').get('ten_a'),
    })
    const noop = await one.queue.commit(keyed('b1'))
    expect(noop).toMatchObject({ revision: one.live.tip, changed: false, repeated: false, changes: [] })
    await two.queue.commit(renameTenant('a', 'b'))
    const later = await openInstance('later', log)
    await later.live.reached(two.live.tip, 20_000)
    for (const { queue } of [one, two, later]) {
      const repeat = await queue.commit(keyed('b1'))
      expect(repeat).toMatchObject({ revision: noop.revision, repeated: true })
      expect(repeat.changes).toMatchObject([{ table: 'tenants', id: 'ten_a', before: null, after: { name: 'a' } }])
      const other = await queue.commit(keyed('b2', 'c')).catch((error) => error)
      expect(other).toMatchObject({ name: 'Rejection', reason: 'conflict', param: 'Idempotency-Key' })
    }
    expect(later.live.control.table('tenants').get('ten_a')?.name).toBe('b')
    await later.close()
  })

  test('the same cause twice at once on two instances: one decision', async () => {
    const { instances, log } = await setUp([{}, {}])
    const cause = { id: 'c1', body: 'b1' }
    const results = await Promise.all(instances.map(({ queue }) => queue.commit(createTenant('a', { cause }))))
    expect(new Set(results.map(({ revision }) => revision)).size).toBe(1)
    expect(results.filter(({ repeated }) => repeated)).toHaveLength(1)
    await Promise.all(
      instances.map(({ live }) => live.condition.until(() => live.next === log.records(CONTROL).length, 20_000)),
    )
    expect(instances.map(({ live }) => live.status().counts.counted)).toEqual([2, 2])
  })

  test('an append whose answer was lost is found in the log, not written twice', async () => {
    const { first } = await setUp([{ beforeAppend: () => 'lost_answer' }])
    const result = await first.queue.commit(createTenant('a'))
    expect(result.changed).toBe(true)
    expect(first.live.status().counts).toMatchObject({ counted: 2, lost: 0 })
  })

  test('an append that never arrived is decided again', async () => {
    let tries = 0
    const { first } = await setUp([{ beforeAppend: () => (++tries === 1 ? 'lost_request' : 'none') }])
    expect((await first.queue.commit(createTenant('a'))).changed).toBe(true)
    expect(first.live.status().counts).toMatchObject({ counted: 2, lost: 0 })
  })

  describe('sent on top of a creation whose time is over, a renaming', () => {
    /** Nothing of what the first instance sends is known to have arrived. */
    const sent = async (limitMs: number) => {
      const { instances } = await setUp([{ beforeAppend: () => 'lost_request' }, {}], limitMs, 10)
      const [first, second] = instances as [Instance, Instance]
      const creation = first.queue.commit(createTenant('a')).catch((failure) => failure)
      await Bun.sleep(limitMs / 2) // the renaming has the other half when the creation has none
      const renaming = first.queue.commit(renameTenant('a', 'b')).catch((failure) => failure)
      expect(await creation).toMatchObject({ name: 'CommitFailure', kind: 'unknown' })
      return { second, renaming }
    }

    test('is not refused for want of it while both may count yet', async () => {
      const { renaming } = await sent(400)
      expect(await renaming).toMatchObject({ name: 'CommitFailure', kind: 'unknown' })
    })

    test('is refused once another decision counts in their place', async () => {
      const { second, renaming } = await sent(2_000)
      await second.queue.commit(createTenant('c'))
      expect(await renaming).toBeInstanceOf(Rejection)
    })
  })

  test('a close within a time waits for what is under way, and takes no more', async () => {
    const held = Promise.withResolvers<void>()
    const sent = Promise.withResolvers<void>()
    const { first } = await setUp([
      {
        beforeAppend: async () => {
          sent.resolve()
          await held.promise
          return 'none' as const
        },
      },
    ])
    const creation = first.queue.commit(createTenant('a'))
    await sent.promise
    const closed = first.queue.close(4_000)
    const late = await first.queue.commit(createTenant('b')).catch((error) => error)
    expect(late).toMatchObject({ kind: 'stopping', message: 'the gateway is stopping' })
    held.resolve()
    expect((await creation).changed).toBe(true)
    await closed
    expect(first.queue.status().waiting).toBe(0)
  })

  test('with the log away it fails as unavailable, and nothing is sent for it afterwards', async () => {
    let down = false
    let sent = 0
    const { first, log } = await setUp(
      [{ down: () => down, beforeAppend: () => (++sent > 0 ? 'none' : 'refused') }],
      300,
    )
    down = true
    const error = await first.queue.commit(createTenant('a')).catch((failure) => failure)
    expect(error).toBeInstanceOf(CommitFailure)
    expect(error.kind).toBe('unavailable')
    down = false
    log.wake()
    const before = sent
    await first.queue.commit(createTenant('b'))
    expect(sent).toBe(before + 1)
    expect(first.live.control.table('tenants').get('ten_a')).toBeUndefined()
  })

  test('a refusal with the log away is not given on what may be stale: unavailable', async () => {
    let down = false
    const { first } = await setUp([{ down: () => down }], 300)
    await first.queue.commit(createTenant('a'))
    down = true
    const error = await first.queue.commit(createTenant('a')).catch((failure) => failure)
    expect(error).toMatchObject({ name: 'CommitFailure', kind: 'unavailable' })
  })

  test('an append that hangs is unknown after its time, and stopped', async () => {
    let aborted = false
    const { first } = await setUp([{ beforeAppend: () => new Promise(() => {}) }], 200)
    const error = await first.queue.commit(createTenant('a')).catch((failure) => failure)
    expect(error).toMatchObject({ name: 'CommitFailure', kind: 'unknown' })
    aborted = first.queue.status().waiting === 0
    expect(aborted).toBe(true)
  })

  test('a record that is too large fails alone; those beside it are written', async () => {
    const { first } = await setUp()
    const large = createTenant('big', {
      decide: () =>
        Array.from({ length: 300 }, (_, index) => ({
          type: 'tenant.created',
          data: { id: `ten_${index}`, slug: `s${index}`, name: 'n'.repeat(250), plan: null, managed_by: 'api' },
        })),
    })
    const [bad, good] = await Promise.allSettled([first.queue.commit(large), first.queue.commit(createTenant('a'))])
    expect(bad).toMatchObject({ status: 'rejected', reason: { name: 'CommitFailure', kind: 'too_large' } })
    expect(good.status).toBe('fulfilled')
  })

  test('a batch that the log refuses is sent one by one, and only the culprit fails', async () => {
    const { first } = await setUp([
      {
        beforeAppend: ({ records }) =>
          records.some(({ value }) => Buffer.from(value!).includes('culprit')) ? 'refused' : 'none',
      },
    ])
    const slugs = ['a', 'culprit', 'b', 'c']
    const results = await Promise.allSettled(slugs.map((slug) => first.queue.commit(createTenant(slug))))
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
    expect(results[1]).toMatchObject({ reason: { kind: 'too_large' } })
  })

  test('an event that its schema refuses is never written', async () => {
    const { first, log } = await setUp()
    const before = log.records(CONTROL).length
    const bad = createTenant('x', { decide: () => [{ type: 'tenant.created', data: { id: 7 } }] })
    await expect(first.queue.commit(bad)).rejects.toThrow('does not match its own schema')
    expect(log.records(CONTROL).length).toBe(before)
  })

  test('of two instances that decide at once one wins, and the other decides again on what it then sees', async () => {
    const { instances, log } = await setUp([{}, {}])
    const outcomes = await Promise.allSettled(instances.map(({ queue }) => queue.commit(createTenant('same'))))
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    await Promise.all(
      instances.map(({ live }) => live.condition.until(() => live.next === log.records(CONTROL).length, 20_000)),
    )
    expect(instances[0]!.live.status().digest).toBe(instances[1]!.live.status().digest)
  })

  test('a writer that lost and then has nothing to write asks for no turn: the others would hold for nothing', async () => {
    let late = 0
    const overtaken = async () => {
      const { queue } = instances[0]!
      await queue.commit(createTenant(late++ < 2 ? `other-${late}` : 'wanted'))
      return 'none' as const
    }
    const { instances } = await setUp([{}, { beforeAppend: overtaken }])
    const { queue } = instances[1]!
    await expect(queue.commit(createTenant('wanted'))).rejects.toThrow(Rejection)
    expect(queue.status()).toMatchObject({ losses: 3, turns: 0 })
  })

  test('a writer that keeps losing gets its turn', async () => {
    // The appends of the far writer are too late for their offset: without turns, the near writer, which never pauses,
    // always wins.
    const { instances } = await setUp([{}, { beforeAppend: () => Bun.sleep(60).then(() => 'none' as const) }])
    const [near, far] = instances as [Instance, Instance]
    let stop = false
    const flood = (async () => {
      for (let index = 0; !stop; index++) await near.queue.commit(createTenant(`near-${index}`))
    })()
    const result = await far.queue.commit(createTenant('far'))
    stop = true
    await flood
    expect(result.changed).toBe(true)
    expect(far.queue.status().turns).toBeGreaterThan(0)
    expect(far.queue.status().losses).toBeLessThan(10)
    expect(near.live.status().counts.unreadable).toBe(0)
  })
})
