import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { FeedbackMeans } from '../../../src/state/health/feedback-means.ts'

test('the mean of a model is that of the latest of each request and metric', () => {
  const step = fc.record({
    request: fc.constantFrom('r1', 'r2', 'r3'),
    metric: fc.constantFrom('quality', 'speed'),
    modelId: fc.constantFrom('a', 'b'),
    score: fc.constantFrom(-1, 0, 1),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 30 }), (steps) => {
      const means = new FeedbackMeans()
      const latest = new Map<string, (typeof steps)[number]>()
      for (const [atMs, each] of steps.entries()) {
        means.add(each.request, each.metric, { modelId: each.modelId, score: each.score, atMs })
        latest.set(`${each.request} ${each.metric}`, each)
      }
      const found = means.means()!
      for (const model of ['a', 'b']) {
        const scores = [...latest.values()].filter(({ modelId }) => modelId === model).map(({ score }) => score)
        const mean = scores.reduce((sum: number, score) => sum + score, 0) / scores.length
        if (scores.length === 0) expect(found.has(model)).toBe(false)
        else expect(found.get(model)).toBeCloseTo(mean, 9)
      }
      expect(means.means()).toBeNull()
    }),
  )
})

test('what the read model has seen is counted once, and no more is kept than the bound', () => {
  const means = new FeedbackMeans(2)
  means.add('r1', 'quality', { modelId: 'a', score: 1, atMs: 1 })
  means.add('r2', 'quality', { modelId: 'a', score: -1, atMs: 5 })
  means.rebase(new Map([['a', { sum: 3, count: 3 }]]), 3)
  expect(means.means()?.get('a')).toBe(0.5)
  for (let i = 0; i < 5; i++) means.add(`x${i}`, 'quality', { modelId: 'b', score: i < 3 ? 1 : 0, atMs: 10 + i })
  expect([...means.means()!]).toEqual([
    ['a', 1],
    ['b', 0],
  ])
})
