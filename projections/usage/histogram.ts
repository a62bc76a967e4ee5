// Histograms of milliseconds that add up: the same bins for ever, each at most 9 % wide, so that percentiles survive
// every rollup.

/**
 * Lower bounds of the bins: every millisecond up to 11, then eight bins for each doubling, up to 2^23 ms (2.3 hours).
 * Stored data depends on them.
 */
const BOUNDS: readonly number[] = [
  0,
  ...new Set(Array.from({ length: 8 * 23 + 1 }, (_, step) => Math.ceil(2 ** (step / 8) - 1e-9))),
]

/** The count of each bin. */
export type Histogram = Float64Array
export const newHistogram = (): Histogram => new Float64Array(BOUNDS.length)

/** Bins that are not empty, each followed by its count, in order: most buckets have a few. */
export type Bins = number[]

/** The bin of a time. */
export const binOf = (ms: number): number => {
  let low = 0
  let high = BOUNDS.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (BOUNDS[middle]! <= ms) low = middle
    else high = middle - 1
  }
  return low
}

/** Counts a bin; one whose count comes to 0 is removed. */
export const addBin = (bins: Bins, bin: number, count: number): void => {
  let low = 0
  let high = bins.length >> 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (bins[2 * middle]! < bin) low = middle + 1
    else high = middle
  }
  const at = 2 * low
  if (bins[at] !== bin) bins.splice(at, 0, bin, count)
  else if (bins[at + 1]! + count === 0) bins.splice(at, 2)
  else bins[at + 1]! += count
}

/** Adds the counts of others. */
export const addBins = (bins: Bins, others: Bins): void => {
  for (let at = 0; at < others.length; at += 2) addBin(bins, others[at]!, others[at + 1]!)
}

/** As they are stored: `bin count bin count ...`. */
export const writtenBins = (bins: Bins): string => bins.join(' ')

export const readBins = (text: string): Bins => (text === '' ? [] : text.split(' ').map(Number))

const SPACE = 32
const ZERO = 48

/** Adds what is stored: of one, or of several put end to end with a space between. */
export const addWritten = (histogram: Histogram, text: string): void => {
  let bin = -1
  let number = 0
  for (let at = 0; at <= text.length; at++) {
    const code = at < text.length ? text.charCodeAt(at) : SPACE
    if (code !== SPACE) number = number * 10 + code - ZERO
    else if (bin === -1) {
      bin = number
      number = 0
    } else {
      histogram[bin]! += number
      bin = -1
      number = 0
    }
  }
}

/**
 * The time that a share (0 to 1) of all lies at or below, in whole milliseconds; null when there is none. Exact below
 * 12 ms, beyond at most 9 % from the true one: the place within the bin is that of evenly spread times.
 */
export const percentileOf = (histogram: Histogram, share: number): number | null => {
  let total = 0
  for (const count of histogram) total += count
  if (total === 0) return null
  const rank = Math.max(1, Math.ceil(share * total))
  let before = 0
  for (let bin = 0; bin < histogram.length; bin++) {
    const count = histogram[bin]!
    if (before + count >= rank) {
      const from = BOUNDS[bin]!
      const to = (BOUNDS[bin + 1] ?? from + 1) - 1
      return Math.round(from + ((to - from) * (rank - before - 0.5)) / count)
    }
    before += count
  }
  return null
}
