// What is recorded of a request makes its plan again. The long run: `npm run simulate -- replay`.
import { expect, test } from 'bun:test'
import { STRATEGIES } from '../../../src/domain/steering/policy.ts'
import { replayRequests } from './replay.ts'

// docs/behaviour.md: "Explain"
test('of 6,000 recorded requests each is planned again in the same order, with the same rejections and reasons', () => {
  const run = replayRequests(6_000, 3)
  expect(run.flaws).toEqual([])
  expect(run).toMatchObject({ planned: 6_000, differences: 0 })
  // The world was not a still one.
  expect(Object.keys(run.strategies).sort()).toEqual([...STRATEGIES].sort())
  for (const reason of ['killed', 'blocked', 'breaker_open', 'rate_limited', 'no_adapter', 'cost_cap'])
    expect(run.reasons).toHaveProperty(reason)
  expect(run.skipped).toBeGreaterThan(100)
  expect(run.failingOver).toBeGreaterThan(500)
}, 120_000)
