import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Value } from '../../../src/lib/schema/schema.ts'
import { AnnouncedList, FailedLogins } from '../../../src/state/indexes/failed-logins.ts'

const MINUTE_MS = 60_000
const T = Date.UTC(2026, 10, 20)
const fail = (failures: FailedLogins, subject: string, atMs: number) => {
  expect(failures.begin([subject], atMs)).toBe(true)
  return failures.failed([subject], atMs)
}

describe('failed logins', () => {
  test('count for 15 minutes; the fifth locks', () => {
    const failures = new FailedLogins()
    for (const minute of [0, 1, 2, 3]) expect(fail(failures, 'a', T + minute * MINUTE_MS)).toEqual([])
    expect(fail(failures, 'a', T + 15 * MINUTE_MS)).toEqual([]) // the first is forgotten
    const [locked] = fail(failures, 'a', T + 15.5 * MINUTE_MS)
    expect(locked).toEqual({ subject: 'a', level: 1, untilMs: T + 30.5 * MINUTE_MS })
    expect(failures.lockedUntil(['b', 'a'], T + 16 * MINUTE_MS)).toBe(T + 30.5 * MINUTE_MS)
    expect(failures.lockedUntil(['a'], T + 30.5 * MINUTE_MS)).toBeNull()
  })

  test('each lockout in a row lasts twice as long, up to a day; a day without one begins anew', () => {
    const failures = new FailedLogins()
    let now = T
    const next = () => {
      for (let i = 0; i < 4; i++) fail(failures, 'a', ++now)
      const { untilMs } = fail(failures, 'a', ++now)[0]!
      const minutes = (untilMs - now) / MINUTE_MS
      now = untilMs
      return minutes
    }
    expect(Array.from({ length: 9 }, next)).toEqual([15, 30, 60, 120, 240, 480, 960, 1440, 1440])
    now += 25 * 60 * MINUTE_MS
    expect(next()).toBe(15)
  })

  test('no more attempts are under way than failures are left', () => {
    const failures = new FailedLogins()
    fail(failures, 'a', T + 1)
    for (let i = 0; i < 4; i++) expect(failures.begin(['a'], T + 2)).toBe(true)
    expect(failures.begin(['a'], T + 2)).toBe(false)
    failures.abandoned(['a'], T + 2)
    expect(failures.begin(['a'], T + 2)).toBe(true)
    failures.succeeded(['a'], 'a', T + 2)
    for (let i = 0; i < 2; i++) expect(failures.begin(['a'], T + 3)).toBe(true)
  })

  test('of all instances count together, however often they are told', () => {
    const [one, two, three] = [new FailedLogins(), new FailedLogins(), new FailedLogins()]
    fail(one, 'a', T + 1)
    fail(one, 'a', T + 2)
    fail(two, 'a', T + 3)
    fail(two, 'a', T + 4)
    for (let i = 0; i < 3; i++) {
      three.merge('one', one.announced(T + 5), T + 5)
      three.merge('two', two.announced(T + 5), T + 5)
    }
    expect(fail(three, 'a', T + 6)).toMatchObject([{ subject: 'a', level: 1 }])
    one.merge('three', three.announced(T + 7), T + 7)
    expect(one.lockedUntil(['a'], T + 7)).toBe(T + 6 + 15 * MINUTE_MS)
    // What was counted for that lockout is not counted again after it.
    expect(fail(one, 'a', T + 16 * MINUTE_MS)).toEqual([])
  })

  test('what another says of the far future or in madness is not believed, and never throws', () => {
    const told = fc.record({
      subject: fc.constantFrom('a', 'b'),
      at_ms: fc.array(fc.maxSafeInteger(), { maxLength: 5 }),
      settled_ms: fc.maxSafeInteger(),
      locked_until_ms: fc.maxSafeInteger(),
      level: fc.integer({ min: 0, max: 64 }),
    })
    fc.assert(
      fc.property(fc.array(told, { maxLength: 8 }), (list) => {
        const failures = new FailedLogins()
        failures.merge('mad', list, T)
        expect(failures.lockedUntil(['a', 'b'], T) ?? T).toBeLessThanOrEqual(T + 1_441 * MINUTE_MS + MINUTE_MS)
        expect(Value.Check(AnnouncedList, failures.announced(T))).toBe(true)
      }),
    )
  })

  test('memory and what is told are bounded; a locked name outlives a flood of others', () => {
    const failures = new FailedLogins()
    for (let i = 0; i < 5; i++) fail(failures, 'victim', T + i)
    for (let i = 0; i < 20_000; i++) fail(failures, `u${i}`, T + 10 + i)
    expect(failures.size).toBe(10_000)
    expect(failures.lockedUntil(['victim'], T + 30_010)).not.toBeNull()
    const told = failures.announced(T + 30_010)
    expect(told).toHaveLength(64)
    expect(JSON.stringify(told).length).toBeLessThan(16_384)
  })
})
