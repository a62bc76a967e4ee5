// Histograms that add up: whatever they are split into, and written and read again, their percentiles stay within 9 % of the true ones.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  addAll,
  addWritten,
  binOf,
  newHistogram,
  newSum,
  percentileOf,
  writtenHistogram,
} from '../../projections/usage/histogram.ts'

const histogramOf = (times: readonly number[]) => {
  const histogram = newHistogram()
  for (const ms of times) histogram[binOf(ms)]! += 1
  return histogram
}

test('percentiles are near the true ones, and the same from parts as from the whole', () => {
  const times = fc.array(fc.oneof(fc.nat(12), fc.nat(5_000_000)), { minLength: 1, maxLength: 300 })
  fc.assert(
    fc.property(times, fc.nat(300), fc.constantFrom(0.5, 0.95, 0.99), (all, cut, share) => {
      const sorted = [...all].sort((a, b) => a - b)
      const truth = sorted[Math.max(1, Math.ceil(share * all.length)) - 1]!
      const whole = histogramOf(all)
      const found = percentileOf(whole, share)!
      expect(Math.abs(found - truth)).toBeLessThanOrEqual(truth < 12 ? 0 : truth * 0.0905)
      const parts = newSum()
      const texts = [all.slice(0, cut), all.slice(cut)].map((part) => writtenHistogram(histogramOf(part)))
      addWritten(parts, texts.filter((text) => text !== '').join(' '))
      expect(writtenHistogram(parts)).toBe(writtenHistogram(whole))
      const copied = newSum()
      addAll(copied, whole)
      expect(percentileOf(copied, share)).toBe(found)
    }),
  )
})

test('nothing has no percentile, and times beyond the last bin fall into it', () => {
  expect(percentileOf(newHistogram(), 0.5)).toBeNull()
  expect(writtenHistogram(newHistogram())).toBe('')
  expect(binOf(2 ** 23)).toBe(binOf(Number.MAX_SAFE_INTEGER))
})
