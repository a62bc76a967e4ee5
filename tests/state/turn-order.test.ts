import { beforeEach, describe, expect, test } from 'bun:test'
import { memoryLog } from '../../src/log/memory.ts'
import type { EventLog } from '../../src/log/port.ts'
import { TurnOrder } from '../../src/state/turn-order.ts'
import { begin, createTenant, nowMs, openInstance } from './support.ts'

let now = 0
let rotation: TurnOrder

beforeEach(() => {
  now = 1_000
  rotation = new TurnOrder(() => now)
})

/** An append of that instance whose decisions count. */
const append = (instance: string) => {
  now += 5
  rotation.wrote(instance, now, true)
}
const waiting = (...instances: string[]) => instances.map((instance) => rotation.holdMs(instance) > 0)

describe('the order among instances that write at once', () => {
  test('who writes alone never waits', () => {
    for (let n = 0; n < 5; n++) append('a')
    expect(waiting('a')).toEqual([false])
  })

  test('those who go on writing come one after the other, by name', () => {
    for (let n = 0; n < 2; n++) for (const instance of ['a', 'b', 'c']) append(instance)
    expect(waiting('a', 'b', 'c')).toEqual([false, true, true])
    append('a')
    expect(waiting('a', 'b', 'c')).toEqual([true, false, true])
    append('b')
    expect(waiting('a', 'b', 'c')).toEqual([true, true, false])
    expect(rotation.holdMs('b')).toBeGreaterThan(rotation.holdMs('a')) // two are before it
  })

  test('who has nothing to write is waited for once', () => {
    for (let n = 0; n < 2; n++) for (const instance of ['a', 'b']) append(instance)
    append('a')
    now += rotation.holdMs('a')
    expect(waiting('a')).toEqual([false])
    append('a')
    expect(waiting('a')).toEqual([false])
  })

  test('who writes now and then is not waited for', () => {
    append('b')
    now += 5_000
    append('b')
    append('a')
    append('a')
    expect(waiting('a')).toEqual([false])
  })

  test('who wrote much and stopped is not waited for', () => {
    for (let n = 0; n < 3; n++) append('b')
    now += 5_000
    append('a')
    expect(waiting('a')).toEqual([false])
  })

  test('many decisions of one append are no sign that there will be another', () => {
    append('a')
    for (let n = 0; n < 9; n++) rotation.wrote('b', now, false)
    append('a')
    expect(waiting('a')).toEqual([false])
  })

  test('appends that lose are a sign that there will be another', () => {
    for (let n = 0; n < 2; n++) {
      append('a')
      rotation.wrote('b', now + 1, false)
    }
    expect(waiting('a', 'b')).toEqual([true, false])
  })

  test('a thousand instances that come and go leave it small and willing', () => {
    for (let n = 0; n < 1_000; n++) append(`instance ${n}`)
    now += 1_000
    expect(waiting('instance 5', 'another')).toEqual([false, false])
  })
})

test('two instances that write at once seldom beat each other', async () => {
  const log = memoryLog({ nowMs })
  await begin(log)
  /** The way to the log takes a moment: whoever decides meanwhile decides on a state that is about to change. */
  const distant = (): EventLog => {
    const view = log.view()
    return { ...view, append: (...rest) => Bun.sleep(2).then(() => view.append(...rest)) }
  }
  const instances = await Promise.all(['a', 'b'].map((name) => openInstance(name, distant())))
  await Promise.all(instances.map(({ live }) => live.ready()))
  const lane = async (at: number, lane: number) => {
    for (let n = 0; n < 60; n++) await instances[at]!.queue.commit(createTenant(`t-${at}-${lane}-${n}`))
  }
  await Promise.all([lane(0, 0), lane(0, 1), lane(1, 0), lane(1, 1)])
  const losses = instances.reduce((sum, { queue }) => sum + queue.status().losses, 0)
  expect(losses).toBeLessThan(25) // 48 when nobody waits for the other, 3 to 6 so
  for (const instance of instances) await instance.close()
  await log.close()
})
