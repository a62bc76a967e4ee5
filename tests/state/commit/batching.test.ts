import { expect, test } from 'bun:test'
import { Batching } from '../../../src/state/commit/queue.ts'
import { Condition } from '../../../src/state/condition.ts'

/** A `Changed` that says how long it was waited on, and never lets the time run out by itself. */
const patient = () => {
  const changed = new Condition()
  const limits: number[] = []
  const until = (holds: () => boolean, limitMs: number) => {
    limits.push(limitMs)
    return changed.until(holds, 60_000)
  }
  return { limits, gathering: new Batching({ until }), tell: () => changed.notify() }
}

test('an append waits a moment for as many as the last one carried, and no longer than for those', async () => {
  const { limits, gathering, tell } = patient()
  let waiting = 1
  expect(await gathering.waited(() => waiting)).toBe(false) // nobody was just answered
  gathering.carried(3)
  const waited = gathering.waited(() => waiting)
  waiting = 2
  tell()
  await new Promise((resolve) => setImmediate(resolve)) // whoever was let go has gone by then
  expect(Bun.peek.status(waited)).toBe('pending')
  waiting = 3
  tell()
  expect(await waited).toBe(true)
  expect(limits).toEqual([2])
})

test('it waits once for each append, and not at all when enough are there', async () => {
  const { limits, gathering } = patient()
  gathering.carried(2)
  expect(await gathering.waited(() => 2)).toBe(false)
  gathering.carried(1)
  expect(await gathering.waited(() => 5)).toBe(false)
  expect(limits).toEqual([])
})

test('those who do not come are waited for once', async () => {
  const gathering = new Batching(new Condition())
  gathering.carried(9)
  expect(await gathering.waited(() => 1)).toBe(true)
  expect(await gathering.waited(() => 1)).toBe(false)
})
