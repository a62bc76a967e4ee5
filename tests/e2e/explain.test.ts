// What `/requests/{requestID}/explain` computes is what was decided. The long run: `bun tests/faults/explain.ts`.
import { expect, test } from 'bun:test'
import { explainRandomRequests } from '../faults/explained/run.ts'

test('of 300 random requests in a random world that changes, each is explained as it was decided', async () => {
  const run = await explainRandomRequests(300, 7)
  expect(run.flaws).toEqual([])
  expect(run).toMatchObject({ planned: 300, equal: 300 })
  // The world was not a still one.
  expect(run.said).toBeGreaterThan(200)
  expect(run.revisions).toBeGreaterThan(10)
  expect(run.frames).toBeGreaterThan(1)
  expect(Object.keys(run.strategies).length).toBeGreaterThan(4)
  expect(Object.keys(run.reasons).length).toBeGreaterThan(3)
}, 120_000)
