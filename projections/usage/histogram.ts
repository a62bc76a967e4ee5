// Histograms of milliseconds that add up: the same bins for ever, each at most 9 % wide, so that percentiles survive every rollup.

/** Lower bounds of the bins: every millisecond up to 11, then eight bins for each doubling, up to 2^23 ms (2.3 hours). Stored data depends on them. */
const BOUNDS: readonly number[] = [
  0,
  ...new Set(Array.from({ length: 8 * 23 + 1 }, (_, step) => Math.ceil(2 ** (step / 8) - 1e-9))),
]

/** Bin -> count. */
export type Histogram = Map<number, number>

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

export const addTo = (histogram: Histogram, bin: number, count: number): void => {
  const sum = (histogram.get(bin) ?? 0) + count
  if (sum === 0) histogram.delete(bin)
  else histogram.set(bin, sum)
}

export const addAll = (histogram: Histogram, other: Histogram): void => {
  for (const [bin, count] of other) addTo(histogram, bin, count)
}

/** As it is stored: `bin count bin count ...`, by bin. */
export const writtenHistogram = (histogram: Histogram): string => {
  if (histogram.size === 1) for (const [bin, count] of histogram) return `${bin} ${count}`
  return [...histogram]
    .sort(([a], [b]) => a - b)
    .map(([bin, count]) => `${bin} ${count}`)
    .join(' ')
}

/** Adds what is stored. */
export const addWritten = (histogram: Histogram, text: string): void => {
  if (text === '') return
  const numbers = text.split(' ')
  for (let at = 0; at < numbers.length; at += 2) addTo(histogram, Number(numbers[at]), Number(numbers[at + 1]))
}

/**
 * The time that a share (0 to 1) of all lies at or below, in whole milliseconds; null when there is none. Exact below 12 ms, beyond at most 9 % from
 * the true one: the place within the bin is that of evenly spread times.
 */
export const percentileOf = (histogram: Histogram, share: number): number | null => {
  const bins = [...histogram].sort(([a], [b]) => a - b)
  const total = bins.reduce((sum, [, count]) => sum + count, 0)
  if (total === 0) return null
  const rank = Math.max(1, Math.ceil(share * total))
  let before = 0
  for (const [bin, count] of bins) {
    if (before + count >= rank) {
      const from = BOUNDS[bin]!
      const to = (BOUNDS[bin + 1] ?? from + 1) - 1
      return Math.round(from + ((to - from) * (rank - before - 0.5)) / count)
    }
    before += count
  }
  return null
}
