// Counters that cost a request no string and no allocation.
import { Counter, Gauge, type Registry } from '@prometheus-io/client'

/** Adds an amount to the cell of up to three labels. */
export type Add = (amount: number, first?: string, second?: string, third?: string) => void

/**
 * A counter that adds in plain numbers and passes them to the registry on a scrape. `scale` turns the added unit into
 * the exposed one.
 */
export const tally = (registers: Registry[], name: string, help: string, labelNames: string[], scale = 1): Add => {
  const sums = new Map<string, Map<string, Map<string, { sum: number }>>>()
  new Counter({
    name,
    help,
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const [first, seconds] of sums) {
        for (const [second, thirds] of seconds) {
          for (const [third, { sum }] of thirds) {
            const values = [first, second, third]
            this.inc(Object.fromEntries(labelNames.map((label, i) => [label, values[i]!])), sum * scale)
          }
        }
      }
    },
  })
  return (amount, first = '', second = '', third = '') => {
    // Nested, so that no request has to build a joined key.
    const seconds = sums.get(first) ?? added(sums, first)
    const thirds = seconds.get(second) ?? added(seconds, second)
    const cell = thirds.get(third)
    if (cell === undefined) thirds.set(third, { sum: amount })
    else cell.sum += amount
  }
}

const added = <Value>(map: Map<string, Map<string, Value>>, key: string): Map<string, Value> => {
  const inner = new Map<string, Value>()
  map.set(key, inner)
  return inner
}

/** A value that is read on a scrape: a counter when its name ends in `_total`, which must only grow, else a gauge. */
export const readOnScrape = (registers: Registry[], name: string, help: string, value: () => number): void => {
  if (name.endsWith('_total')) {
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset()
        this.inc(value())
      },
    })
    return
  }
  new Gauge({
    name,
    help,
    registers,
    collect() {
      this.set(value())
    },
  })
}

/** Names of the registry as labels. Names beyond the limit share one label, so that the series stay bounded. */
export const labels = (limit: number): ((name: string) => string) => {
  const known = new Set<string>()
  return (name) => {
    if (known.has(name)) return name
    if (known.size >= limit) return 'other'
    known.add(name)
    return name
  }
}
