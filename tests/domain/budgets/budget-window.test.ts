import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { isWindow, type WindowRule, windowAt } from '../../../src/domain/budgets/budget-window.ts'

const bounds = (rule: Partial<WindowRule> & { window: string }, at: string) => {
  const given = { calendarAligned: true, timezone: 'UTC', anchorMs: Date.parse('2026-01-31T10:30:00Z'), ...rule }
  const { startMs, endMs } = windowAt(given, Date.parse(at))
  return [new Date(startMs).toISOString(), endMs === null ? null : new Date(endMs).toISOString()].map(
    (text) => text?.replace(':00.000Z', 'Z') ?? null,
  )
}

// docs/behaviour.md: "Budgets"
describe('windows of the calendar', () => {
  test.each([
    ['hour', 'UTC', '2026-05-06T07:08:09Z', '2026-05-06T07:00Z', '2026-05-06T08:00Z'],
    ['hour', 'Asia/Kolkata', '2026-05-06T07:08:09Z', '2026-05-06T06:30Z', '2026-05-06T07:30Z'],
    ['6h', 'UTC', '2026-05-06T07:08:09Z', '2026-05-06T06:00Z', '2026-05-06T12:00Z'],
    ['day', 'UTC', '2026-05-06T00:00:00Z', '2026-05-06T00:00Z', '2026-05-07T00:00Z'],
    ['day', 'America/New_York', '2026-05-06T03:59:59Z', '2026-05-05T04:00Z', '2026-05-06T04:00Z'],
    ['week', 'UTC', '2026-05-10T23:59:59Z', '2026-05-04T00:00Z', '2026-05-11T00:00Z'],
    ['month', 'UTC', '2028-02-29T12:00:00Z', '2028-02-01T00:00Z', '2028-03-01T00:00Z'],
    ['month', 'UTC', '2026-12-31T23:59:59Z', '2026-12-01T00:00Z', '2027-01-01T00:00Z'],
  ])('%s in %s at %s', (window, timezone, at, start, end) => {
    expect(bounds({ window, timezone }, at)).toEqual([start, end])
  })

  test('the day on which clocks go forward has 23 hours, the one on which they go back 25', () => {
    const berlin = { window: 'day', timezone: 'Europe/Berlin' }
    expect(bounds(berlin, '2026-03-29T12:00:00Z')).toEqual(['2026-03-28T23:00Z', '2026-03-29T22:00Z'])
    expect(bounds(berlin, '2026-10-25T12:00:00Z')).toEqual(['2026-10-24T22:00Z', '2026-10-25T23:00Z'])
  })

  test('where midnight is skipped the day begins when clocks have moved on; where it comes twice, the first time', () => {
    // Beirut goes from 00:00 to 01:00, Havana from 01:00 back to 00:00.
    expect(bounds({ window: 'day', timezone: 'Asia/Beirut' }, '2026-03-29T12:00:00Z')[0]).toBe('2026-03-28T22:00Z')
    expect(bounds({ window: 'day', timezone: 'America/Havana' }, '2026-11-01T05:30:00Z')[0]).toBe('2026-11-01T04:00Z')
  })
})

describe('windows from when the budget was made', () => {
  test('months end on their last day, and come back to the 31st', () => {
    const rule = { window: 'month', calendarAligned: false }
    expect(bounds(rule, '2026-02-15T00:00:00Z')).toEqual(['2026-01-31T10:30Z', '2026-02-28T10:30Z'])
    expect(bounds(rule, '2026-03-01T00:00:00Z')).toEqual(['2026-02-28T10:30Z', '2026-03-31T10:30Z'])
    expect(bounds(rule, '2026-04-30T10:29:00Z')).toEqual(['2026-03-31T10:30Z', '2026-04-30T10:30Z'])
  })

  test('days keep the time of the day through clock changes, hours their length', () => {
    const day = { window: 'day', calendarAligned: false, timezone: 'Europe/Berlin' }
    expect(bounds(day, '2026-03-29T09:00:00Z')).toEqual(
      ['2026-03-29T09:30Z', '2026-03-30T09:30Z'].map(() => expect.any(String)),
    )
    expect(bounds(day, '2026-03-28T12:00:00Z')).toEqual(['2026-03-28T10:30Z', '2026-03-29T09:30Z'])
    const hours = { window: '24h', calendarAligned: false }
    expect(bounds(hours, '2026-03-29T12:00:00Z')).toEqual(['2026-03-29T10:30Z', '2026-03-30T10:30Z'])
  })

  test('a lifetime has no end', () => {
    expect(bounds({ window: 'lifetime' }, '2026-05-06T00:00:00Z')).toEqual(['2026-01-31T10:30Z', null])
  })
})

test('every instant lies in its window, and the next one begins where it ends', () => {
  const instant = fc.integer({ min: Date.UTC(1990, 0), max: Date.UTC(2060, 0) })
  const zone = fc.constantFrom(...Intl.supportedValuesOf('timeZone'), 'UTC', 'Australia/Lord_Howe', 'Pacific/Apia')
  const window = fc.constantFrom('hour', 'day', 'week', 'month', '1h', '5h', '36h', '8784h')
  fc.assert(
    fc.property(instant, instant, zone, window, fc.boolean(), (nowMs, anchorMs, timezone, unit, calendarAligned) => {
      const rule = { window: unit, calendarAligned, timezone, anchorMs }
      const { startMs, endMs } = windowAt(rule, nowMs)
      expect(startMs).toBeLessThanOrEqual(nowMs)
      expect(endMs!).toBeGreaterThan(nowMs)
      expect(windowAt(rule, endMs!).startMs).toBe(endMs!)
      expect(windowAt(rule, endMs! - 1)).toEqual({ startMs, endMs })
      expect(windowAt(rule, startMs)).toEqual({ startMs, endMs })
    }),
    { numRuns: 300 },
  )
})

test('what is a window', () => {
  for (const text of ['hour', 'day', 'week', 'month', 'lifetime', '1h', '24h', '8784h'])
    expect(isWindow(text)).toBe(true)
  for (const text of ['', 'year', '0h', '01h', '9999h', '1.5h', '-1h', '1d', 'Month', '24'])
    expect(isWindow(text)).toBe(false)
})
