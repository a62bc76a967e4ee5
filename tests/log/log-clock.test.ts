// How far the clock of a process is from the log's, and what follows from that.
import { afterEach, describe, expect, test } from 'bun:test'
import { followLogClock } from '../../projections/worker-clock.ts'
import { newIdentity } from '../../src/http/request-context.ts'
import { correctWallClock, wallMs } from '../../src/lib/time/wall-clock.ts'
import { clockProblem, correctsWallClock, LogClock } from '../../src/log/log-clock.ts'
import { memoryLog } from '../../src/log/memory.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { listening, quiet } from '../state/support.ts'

const HOUR_MS = 3_600_000
const measured = () => {
  const applied: number[] = []
  return { applied, clock: new LogClock((aheadMs) => applied.push(aheadMs)) }
}
afterEach(() => correctWallClock(0))

// docs/behaviour.md: "Time and windows"
describe('a clock is measured', () => {
  test('by own records, whatever a reply takes', () => {
    const { clock, applied } = measured()
    expect(clock.aheadMs).toBeNull()
    clock.own(1_000, 1_100, 9_000) // slow replies are no distance
    expect(clock.aheadMs).toBe(0)
    clock.own(HOUR_MS + 1_000, 1_040, HOUR_MS + 6_000)
    expect(clock.aheadMs).toBe(HOUR_MS - 40)
    clock.own(1_000, HOUR_MS + 1_040, 1_100)
    expect(clock.aheadMs).toBe(1_100 - HOUR_MS - 1_040)
    clock.own(1_000, 1_040, 1_100)
    expect(applied).toEqual([HOUR_MS - 40, 60 - HOUR_MS, 0])
  })

  test('by the least distance of records of others', () => {
    const { clock, applied } = measured()
    // Each is an upper bound: a few slow replies are no clock that is ahead.
    for (const lateMs of [900, 300, 700, 800, 800, 800, 800]) clock.other(1_000, 1_000 + HOUR_MS + lateMs)
    expect([clock.aheadMs, applied]).toEqual([null, []])
    clock.other(1_000, 1_000 + HOUR_MS + 900)
    expect(clock.aheadMs).toBe(HOUR_MS + 300)
    expect(applied).toEqual([HOUR_MS + 300])
  })

  test('by the first record of another that is of the future', () => {
    const { clock, applied } = measured()
    clock.other(1_000 + HOUR_MS, 1_000)
    expect([clock.aheadMs, applied]).toEqual([-HOUR_MS, [-HOUR_MS]])
  })

  test('and a distance of more than a day is reported, never applied', () => {
    const { clock, applied } = measured()
    const farMs = 24 * HOUR_MS + 1
    clock.own(farMs, 0, farMs + 50)
    expect([clock.aheadMs, applied]).toEqual([farMs, []])
    expect(clockProblem(clock.aheadMs, 'the brokers')).toContain('86400 s ahead of the brokers')
    clock.own(0, farMs + 50, 50)
    expect([clock.aheadMs, applied]).toEqual([-farMs, []])
    clock.own(24 * HOUR_MS, 0, 24 * HOUR_MS + 50)
    expect(applied).toEqual([24 * HOUR_MS])
  })

  test('and a small distance, or one that hardly moves, corrects nothing', () => {
    const { clock, applied } = measured()
    clock.own(2_000, 0, 2_100)
    expect(applied).toEqual([])
    clock.own(5_000, 0, 5_100)
    clock.own(5_200, 0, 5_300)
    expect(applied).toEqual([5_000])
  })

  test('is named with what to do', () => {
    expect(clockProblem(null, 'the brokers')).toBeNull()
    expect(clockProblem(2_000, 'the brokers')).toBeNull()
    expect(clockProblem(3_602_000, 'the brokers')).toMatch(
      /^the clock of this machine is 3602 s ahead of the brokers: /,
    )
    expect(clockProblem(-HOUR_MS, 'its own log')).toContain('3600 s behind its own log: set it by NTP')
  })
})

// docs/behaviour.md: "Time and windows"
describe('a wrong clock', () => {
  test('does not date what is recorded in the future', () => {
    const { said, diagnostics } = listening()
    const clock = new LogClock(correctsWallClock(diagnostics))
    const logMs = Date.now() - HOUR_MS
    clock.own(Date.now(), logMs, Date.now())
    expect(Math.abs(newIdentity(new Headers()).atMs - logMs)).toBeLessThan(1_000)
    expect(said).toMatchObject([{ event: 'clock_wrong', fields: { ahead_ms: expect.any(Number) } }])
  })

  test('of a worker is corrected by what gateways announce', async () => {
    const behindMs = -HOUR_MS
    const log = memoryLog({ nowMs: () => Date.now() + behindMs })
    const corrected = Promise.withResolvers<void>()
    const clock = new LogClock((aheadMs) => {
      correctWallClock(aheadMs)
      corrected.resolve()
    })
    const stopping = new AbortController()
    const following = followLogClock({ log, signal: stopping.signal, diagnostics: quiet, clock })
    const announce = () => log.append(TOPICS.instances.name, 0, [{ key: 'a', value: Buffer.from('{}') }])
    const timer = setInterval(() => void announce(), 5)
    await corrected.promise
    clearInterval(timer)
    expect(Math.abs(wallMs() - (Date.now() + behindMs))).toBeLessThan(1_000)
    stopping.abort()
    await following
  })
})
