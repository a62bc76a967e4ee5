// Histograms that are kept as plain numbers and passed to the registry on a scrape. The library's histograms build a
// text of the labels for each observation.
import type { Metric, Registry } from '@prometheus-io/client'

interface Series {
  readonly labels: Readonly<Record<string, string>>
  /** Count of each bound by itself, and of values above all bounds. */
  readonly counts: Float64Array
  sum: number
}

/** Counts a value under its label's value; without a label, in the one series. */
export type Observe = (value: number, labelled?: string) => void

export interface Described {
  readonly name: string
  readonly help: string
  /** At most one, with few values. */
  readonly label?: string
  readonly buckets: readonly number[]
}

/** Its exposition equals that of the library's `Histogram` (`tests/http/distribution.test.ts`). */
export const distribution = (
  registers: readonly Registry[],
  { name, help, label, buckets: bounds }: Described,
): Observe => {
  const series = new Map<string, Series>()
  const added = (labelled: string): Series => {
    const labels = label === undefined ? {} : { [label]: labelled }
    const made = { labels, counts: new Float64Array(bounds.length + 1), sum: 0 }
    series.set(labelled, made)
    return made
  }
  if (label === undefined) added('') // exposed before the first value too
  const metric = {
    name,
    help,
    type: 'histogram',
    aggregator: 'sum',
    labelNames: label === undefined ? [] : [label],
    get: async () => ({ ...metric, values: [...series.values()].flatMap((each) => valuesOf(name, bounds, each)) }),
  }
  for (const register of registers) register.registerMetric(metric as unknown as Metric)
  return (value, labelled = '') => {
    const of = series.get(labelled) ?? added(labelled)
    of.sum += value
    let at = 0
    while (at < bounds.length && value > bounds[at]!) at++
    of.counts[at]! += 1
  }
}

const valuesOf = (name: string, bounds: readonly number[], { labels, counts, sum }: Series) => {
  let count = 0
  const buckets = [...counts].map((own, i) => {
    count += own
    return { metricName: `${name}_bucket`, labels: { le: bounds[i] ?? '+Inf', ...labels }, value: count }
  })
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ]
}
