// Histograms that add up: however they are split, and after a write and a read, their percentiles stay within 9 % of
// the true ones.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  addBin,
  addBins,
  addWritten,
  type Bins,
  binOf,
  newHistogram,
  percentileOf,
  readBins,
  writtenBins,
} from '../../../projections/usage/histogram.ts'

const binsOf = (times: readonly number[]): Bins => {
  const bins: Bins = []
  for (const ms of times) addBin(bins, binOf(ms), 1)
  return bins
}

const percentileIn = (written: string, share: number) => {
  const histogram = newHistogram()
  if (written !== '') addWritten(histogram, written)
  return percentileOf(histogram, share)
}

test('percentiles are near the true ones, and the same from parts as from the whole', () => {
  const times = fc.array(fc.oneof(fc.nat(12), fc.nat(5_000_000)), { minLength: 1, maxLength: 300 })
  fc.assert(
    fc.property(times, fc.nat(300), fc.constantFrom(0.5, 0.95, 0.99), (all, cut, share) => {
      const sorted = [...all].sort((a, b) => a - b)
      const truth = sorted[Math.max(1, Math.ceil(share * all.length)) - 1]!
      const whole = binsOf(all)
      const found = percentileIn(writtenBins(whole), share)!
      expect(Math.abs(found - truth)).toBeLessThanOrEqual(truth < 12 ? 0 : truth * 0.0905)
      const texts = [all.slice(0, cut), all.slice(cut)].map((part) => writtenBins(binsOf(part)))
      expect(percentileIn(texts.filter((text) => text !== '').join(' '), share)).toBe(found)
      const [first, second] = texts.map(readBins)
      addBins(first!, second!)
      expect(first!).toEqual(whole)
    }),
  )
})

test('what is taken back leaves nothing', () => {
  const times = fc.array(fc.nat(5_000), { maxLength: 50 })
  fc.assert(
    fc.property(times, times, (kept, gone) => {
      const bins = binsOf([...kept, ...gone])
      const back: Bins = []
      for (const ms of gone) addBin(back, binOf(ms), -1)
      addBins(bins, back)
      expect(bins).toEqual(binsOf(kept))
    }),
  )
})

test('nothing has no percentile, and times beyond the last bin fall into it', () => {
  expect(percentileIn('', 0.5)).toBeNull()
  expect(writtenBins([])).toBe('')
  expect(binOf(2 ** 23)).toBe(binOf(Number.MAX_SAFE_INTEGER))
})
