// The window of a read: `from`, `to` and their defaults.
import { describe, expect, test } from 'bun:test'
import { openWindowOf, windowOf } from '../../../../src/http/admin/window.ts'
import type { GatewayError } from '../../../../src/wire/errors.ts'

const HOUR_MS = 3_600_000
const NOW_MS = Date.UTC(2026, 10, 20, 12)

const iso = ({ fromMs, toMs }: { fromMs: number; toMs: number }) =>
  [fromMs, toMs].map((ms) => new Date(ms).toISOString())
const refused = (query: { from?: string; to?: string }): GatewayError => {
  try {
    windowOf(query, NOW_MS)
  } catch (error) {
    return error as GatewayError
  }
  throw new Error(`accepted: ${JSON.stringify(query)}`)
}

// docs/behaviour.md: "Time and windows"
describe('from and to', () => {
  test('the last 24 hours by default', () => {
    const { fromMs, toMs } = windowOf({}, NOW_MS)
    expect([toMs - fromMs, toMs > NOW_MS, toMs - NOW_MS < 10]).toEqual([24 * HOUR_MS, true, true])
    expect(openWindowOf({}, NOW_MS)).toEqual({ fromMs: null, toMs: null })
  })

  test('durations count back from now, hours and below', () => {
    expect(iso(windowOf({ from: '168h', to: '1h30m' }, NOW_MS))).toEqual([
      '2026-11-13T12:00:00.000Z',
      '2026-11-20T10:30:00.000Z',
    ])
    expect(windowOf({ from: '90m' }, NOW_MS).fromMs).toBe(NOW_MS - 1.5 * HOUR_MS)
  })

  test('dates are UTC midnights, times carry their zone', () => {
    expect(iso(windowOf({ from: '2026-11-01', to: '2026-11-02' }, NOW_MS))).toEqual([
      '2026-11-01T00:00:00.000Z',
      '2026-11-02T00:00:00.000Z',
    ])
    for (const text of [
      '2026-11-01T02:00:00+02:00',
      '2026-11-01T02:00:00 02:00',
      '2026-10-31T23:30:00.0-00:30',
      '2026-11-01t00:00:00z',
    ])
      expect([text, windowOf({ from: text }, NOW_MS).fromMs]).toEqual([text, Date.UTC(2026, 10, 1)])
    expect(windowOf({ from: '2026-11-01T00:00:00.123456789Z' }, NOW_MS).fromMs).toBe(Date.UTC(2026, 10, 1) + 123)
  })

  test('to alone reaches 24 hours back from there', () => {
    expect(iso(windowOf({ to: '2026-11-02' }, NOW_MS))).toEqual([
      '2026-11-01T00:00:00.000Z',
      '2026-11-02T00:00:00.000Z',
    ])
  })

  test('a day unit is refused with what to write instead', () => {
    const error = refused({ from: '7d' })
    expect([error.status, error.param, error.message]).toEqual([
      400,
      'from',
      '"from": durations have no day unit; write 168h',
    ])
  })

  test('what is no time is refused and the parameter named', () => {
    for (const text of [
      '',
      'yesterday',
      '2026-02-30',
      '2026-13-01',
      '2026-11-01T25:00:00Z',
      '2026-11-01T00:00:00',
      '24',
      '-1h',
      '1w',
    ])
      expect([text, refused({ to: text }).param]).toEqual([text, 'to'])
    expect(refused({ from: '2026-11-02', to: '2026-11-01' })).toMatchObject({ status: 400, param: 'from' })
  })
})
