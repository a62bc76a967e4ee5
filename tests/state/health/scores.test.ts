import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { headroomOf } from '../../../src/state/health/call.ts'
import { type Signals, UNOBSERVED } from '../../../src/state/health/frame.ts'
import { preparedScores, ranks, type ScoreWeights, scores } from '../../../src/state/health/scores.ts'

const signals = fc.record({
  breaker: fc.constantFrom('closed' as const, 'open' as const, 'half_open' as const),
  ejected: fc.boolean(),
  coolingDown: fc.boolean(),
  health: fc.double({ min: 0, max: 1, noNaN: true }),
  ttftMs: fc.option(fc.integer({ min: 0, max: 600_000 })),
  e2eMs: fc.option(fc.integer({ min: 0, max: 600_000 })),
  tokensPerSecond: fc.option(fc.integer({ min: 0, max: 10_000 })),
  inFlight: fc.nat(100),
  headroom: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
  feedback: fc.option(fc.double({ min: -1, max: 1, noNaN: true })),
})
const scored = fc.record({
  cost: fc.option(fc.double({ min: 0, max: 1e12, noNaN: true })),
  priority: fc.integer({ min: -1_000, max: 100_000 }),
  signals,
})
/** Made by the build of `71cb43c`. */
const RANKS = JSON.parse(readFileSync(join(import.meta.dir, '../../fixtures/ranks.json'), 'utf8')) as {
  metric: 'ttft' | 'e2e'
  weights: ScoreWeights
  candidates: [number | null, number, Signals['breaker'], number, number | null, number | null, number | null][]
  ranks: number[]
}[]
const weight = fc.double({ min: 0, max: 1e6, noNaN: true })
const weights = fc.record({ cost: weight, latency: weight, health: weight, priority: weight, feedback: weight })

const metric = fc.constantFrom('ttft' as const, 'e2e' as const)
type Compared = typeof scored extends fc.Arbitrary<infer T> ? T : never

/** Of whatever is compared. */
const holds = (promise: (all: readonly Compared[], by: ScoreWeights, metric: 'ttft' | 'e2e') => void) =>
  fc.assert(fc.property(fc.array(scored, { maxLength: 24 }), weights, metric, promise))

test('every component and every rank lies in [0, 1], whatever is compared', () => {
  holds((all, by, metric) => {
    for (const { components, rank } of scores(all, by, metric)) {
      for (const value of [...Object.values(components), rank]) {
        expect(value).toBeGreaterThanOrEqual(0)
        expect(value).toBeLessThanOrEqual(1)
      }
    }
  })
})

test('ranks by what is known beside the costs are those of the scores, exactly', () => {
  holds((all, by, metric) => {
    const costs = all.map(({ cost }) => cost)
    expect(ranks(costs, preparedScores(all, metric), by)).toEqual(scores(all, by, metric).map(({ rank }) => rank))
  })
})

test('ranks are those that builds before recorded: a plan of the past is made again with them', () => {
  for (const { metric, weights, candidates, ranks: recorded } of RANKS) {
    const all = candidates.map(([cost, priority, breaker, health, ttftMs, e2eMs, feedback]) => ({
      cost,
      priority,
      signals: { ...UNOBSERVED, breaker, health, ttftMs, e2eMs, feedback },
    }))
    const costs = all.map(({ cost }) => cost)
    expect(ranks(costs, preparedScores(all, metric), weights)).toEqual(recorded)
    expect(scores(all, weights, metric).map(({ rank }) => rank)).toEqual(recorded)
  }
})

test('cheaper, faster, healthier, first and better liked each ranks higher, all else being equal', () => {
  const base = { cost: 2, priority: 100, signals: { ...UNOBSERVED, ttftMs: 500, health: 0.8, feedback: 0 } }
  const better = [
    { ...base, cost: 1 },
    { ...base, priority: 50 },
    { ...base, signals: { ...base.signals, ttftMs: 200 } },
    { ...base, signals: { ...base.signals, health: 0.9 } },
    { ...base, signals: { ...base.signals, feedback: 0.5 } },
  ]
  for (const one of better) {
    const [left, right] = scores([one, base])
    expect(left!.rank).toBeGreaterThan(right!.rank)
  }
})

test('headroom is the smallest share of any limit that is told', () => {
  const of = (headers: Record<string, string>) => headroomOf(new Headers(headers))
  expect(
    of({
      'x-ratelimit-remaining-requests': '50',
      'x-ratelimit-limit-requests': '100',
      'x-ratelimit-remaining-tokens': '10',
      'x-ratelimit-limit-tokens': '100',
    }),
  ).toBe(0.1)
  expect(of({ 'anthropic-ratelimit-output-tokens-remaining': '0' })).toBe(0)
  expect(of({ 'x-ratelimit-remaining-requests': '50' })).toBeNull()
  expect(of({ 'x-ratelimit-remaining-requests': '-1', 'x-ratelimit-limit-requests': 'many' })).toBeNull()
  expect(of({})).toBeNull()
})
