// What `/metrics` is told of budgets: the nearest to their limits by name, bounded.
import { afterAll, expect, test } from 'bun:test'
import { budgetRow, budgetWorld, TENANT } from './world.ts'

const scope = (id: string, limit_nano_usd: number | null, limit_tokens: number | null) =>
  budgetRow({ id, scope: { type: 'provider', id }, limit_nano_usd, limit_tokens })
const world = budgetWorld(
  ...[scope('bud_free', 1_000, null), scope('bud_near', 1_000, null), scope('bud_tokens', null, 100)],
)
afterAll(() => world.close())

test('those that have the least left come first, money or tokens, and no more than were asked for', async () => {
  const budgets = world.open('i')
  await budgets.caughtUp(TENANT, 5_000)
  for (const [provider, nanoUsd, tokens] of [
    ['bud_near', 900, 1],
    ['bud_tokens', 1, 70],
  ] as const) {
    const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
    expect(await request.reserve(provider, 'm', { nanoUsd, tokens })).toBeNull()
    request.endAttempt({ nanoUsd, tokens, exact: true })
    request.settle()
    request.outcomeWas('recorded')
  }
  const { nearest, inUse, leases, waiting, closed } = budgets.figures(2)
  expect(nearest.map(({ id }) => id)).toEqual(['bud_near', 'bud_tokens'])
  expect(nearest[0]).toMatchObject({ limitNanoUsd: 1_000, spentNanoUsd: 900 })
  expect(nearest[1]!.leftShare).toBeCloseTo(0.3)
  expect({ inUse, leases, waiting, closed }).toEqual({ inUse: 3, leases: 2, waiting: 0, closed: 0 })
})
