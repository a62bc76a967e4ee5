import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { isoMs, isoText } from '../../../src/lib/time/iso-time.ts'

const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

test('times are what the platform makes of them, both ways', () => {
  const moments = fc.oneof(
    fc.integer({ min: 0, max: LAST_MS }),
    // The days around the ends of months, years and centuries.
    fc
      .tuple(fc.integer({ min: 1970, max: 9999 }), fc.nat(11), fc.integer({ min: -1, max: 1 }))
      .map(([year, month, day]) => Math.min(LAST_MS, Math.max(0, Date.UTC(year, month + 1, day)))),
  )
  fc.assert(
    fc.property(moments, (atMs) => {
      const text = new Date(atMs).toISOString()
      expect(isoText(atMs)).toBe(text)
      expect(isoMs(text)).toBe(atMs)
    }),
    { numRuns: 2_000 },
  )
})

test('what is not spelled so, or is no time, is none', () => {
  const part = (most: number, digits: number) =>
    fc.integer({ min: 0, max: most }).map((one) => String(one).padStart(digits, '0'))
  const like = fc
    .tuple(part(9999, 4), part(13, 2), part(32, 2), part(25, 2), part(61, 2), part(61, 2), part(999, 3))
    .map(
      ([year, month, day, hour, minute, second, rest]) =>
        `${year}-${month}-${day}T${hour}:${minute}:${second}.${rest}Z`,
    )
  const broken = fc
    .tuple(like, fc.nat(23), fc.constantFrom('x', ' ', '/', ':', 'é', '-', '٣'))
    .map(([text, at, with_]) => text.slice(0, at) + with_ + text.slice(at + 1))
  fc.assert(
    fc.property(fc.oneof(like, broken, fc.string()), (text) => {
      const atMs = Date.parse(text)
      const isOne =
        /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text) && atMs >= 0 && new Date(atMs).toISOString() === text
      expect(isoMs(text)).toBe(isOne ? atMs : Number.NaN)
    }),
    { numRuns: 5_000 },
  )
  for (const outside of [-1, LAST_MS + 1]) expect(isoText(outside)).toBe(new Date(outside).toISOString())
})
