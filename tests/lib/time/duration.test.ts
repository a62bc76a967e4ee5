import { expect, test } from 'bun:test'
import { durationMs } from '../../../src/lib/time/duration.ts'

test.each([
  ['30s', 30_000],
  ['1h30m', 5_400_000],
  ['250ms', 250],
  ['0.5s', 500],
  ['168h', 604_800_000],
  ['0s', 0],
])('%s is %d ms', (text, ms) => expect(durationMs(text)).toBe(ms))

test.each([['7d'], ['5'], [''], ['s'], ['-1s'], ['1 h'], ['1h '], ['1w'], ['1e3s']])('%p is no duration', (text) =>
  expect(durationMs(text)).toBeNull(),
)
