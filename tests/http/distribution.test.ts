// The exposition is the one that the library's own histogram would give.
import { expect, test } from 'bun:test'
import { Histogram, Registry } from '@prometheus-io/client'
import { distribution } from '../../src/http/metrics/distribution.ts'

const BOUNDS = [0.005, 0.01, 0.1, 1, 10]
const VALUES = [0, 0.005, 0.0051, 0.01, 3, 10, 20]

test('a labelled distribution reads like a histogram of the registry', async () => {
  const [ours, theirs] = [new Registry(), new Registry()]
  const described = { name: 'seconds', help: 'From here to "there".', buckets: BOUNDS }
  const histogram = new Histogram({ ...described, labelNames: ['provider'], registers: [theirs] })
  const observe = distribution([ours], { ...described, label: 'provider' })
  expect(await ours.metrics()).toBe(await theirs.metrics())
  for (const value of VALUES) {
    for (const provider of ['one', 'an "other"']) {
      observe(value, provider)
      histogram.labels(provider).observe(value)
    }
  }
  expect(await ours.metrics()).toBe(await theirs.metrics())
})

test('a plain one too, before its first value and after', async () => {
  const [ours, theirs] = [new Registry(), new Registry()]
  const described = { name: 'seconds', help: 'From here to there.', buckets: BOUNDS }
  const histogram = new Histogram({ ...described, registers: [theirs] })
  const observe = distribution([ours], described)
  expect(await ours.metrics()).toBe(await theirs.metrics())
  for (const value of VALUES) {
    observe(value)
    histogram.observe(value)
  }
  expect(await ours.metrics()).toBe(await theirs.metrics())
})
