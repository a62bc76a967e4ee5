// The records of one request name a bounded number of accounts: beyond it, budgets that spend from leases refuse the
// request, and budgets that only count are left out.
import { expect, test } from 'bun:test'
import { budgetRow, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const worldOf = worldsClosedAfterEach()

test('a request under more budgets than its records may name is refused at once, over all of its attempts', async () => {
  const hours = (count: number, more = {}) =>
    Array.from({ length: count }, (_, n) => budgetRow({ id: `bud_${n}`, window: `${n + 1}h`, ...more }))
  const ofModel = (id: string) => budgetRow({ id: `bud_${id}`, scope: { type: 'model', id } })
  const world = worldOf(...hours(63), ofModel('one'), ofModel('two'))
  const bound = { nanoUsd: 1, tokens: 1 }
  const request = world.open('i').of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'one', bound)).toBeNull()
  request.endAttempt({ nanoUsd: 1, tokens: 1, exact: true })
  expect(request.reserve('prov_1', 'two', bound)).toMatchObject({
    reason: 'too_many',
    open: { budget: { row: ofModel('two') } },
  })
  expect(await request.reserve('prov_2', 'one', bound)).toBeNull()
  const more = worldOf(...hours(65))
  const tooMany = more.open('i').of(TENANT, 'key_1', null, more.nowMs)!
  expect(tooMany.reserve('prov_1', 'm', bound)).toMatchObject({ reason: 'too_many' })
})

test('windows that end between the attempts of a request count twice in its records, which take no more than they may', async () => {
  const rows = Array.from({ length: 40 }, (_, n) => budgetRow({ id: `bud_${n}`, window: 'hour' }))
  const world = worldOf(...rows)
  const budgets = world.open('i')
  const bound = { nanoUsd: 1, tokens: 1 }
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', bound)).toBeNull()
  request.endAttempt({ nanoUsd: 1, tokens: 1, exact: true })
  world.nowMs += 3_600_000
  world.skipMs += 120_000
  expect(await request.reserve('prov_2', 'm', bound)).toMatchObject({ reason: 'too_many' })
  expect(request.parts()).toHaveLength(40)
})

test('budgets that only count refuse nothing where records have no room for all: they stand back', async () => {
  const counted = (count: number, scope?: { type: string; id: string }) =>
    Array.from({ length: count }, (_, n) =>
      budgetRow({
        id: `bud_${scope?.id ?? 'all'}_${n}`,
        enforcement: n % 2 === 0 ? 'soft' : 'shadow',
        ...(scope && { scope }),
      }),
    )
  const bound = { nanoUsd: 1, tokens: 1 }
  const hard = (id: string) => budgetRow({ id: `bud_hard_${id}`, scope: { type: 'model', id } })
  const world = worldOf(...counted(70), hard('one'), hard('two'))
  const request = world.open('i').of(TENANT, 'key_1', null, world.nowMs)!
  for (const model of ['one', 'two']) {
    expect(await request.reserve('prov_1', model, bound)).toBeNull()
    expect(request.parts()).toHaveLength(64)
    expect(
      request
        .parts()!
        .filter(({ leased }) => leased)
        .at(-1)!.account,
    ).toStartWith(`bud_hard_${model}/`)
    request.recorded()
    request.endAttempt({ nanoUsd: 1, tokens: 1, exact: true })
  }
  const charges = request.settle()
  request.outcomeWas('recorded')
  expect(charges).toHaveLength(64)
  expect(charges.filter(({ leased }) => leased)).toHaveLength(2)
})

test('a further attempt asks its accounts in the order in which a first one does, and hears of the same one why not', async () => {
  const hard = (type: 'provider' | 'model', id: string) =>
    budgetRow({ id: `bud_${id}`, scope: { type, id }, limit_nano_usd: 100 })
  const world = worldOf(hard('provider', 'prov_2'), hard('model', 'one'))
  const budgets = world.open('i')
  const request = () => budgets.of(TENANT, 'key_1', null, world.nowMs)!
  const [again, first] = [request(), request()]
  // Both accounts are already in the log, so that no answer of the log is needed.
  expect(await request().reserve('prov_2', 'two', { nanoUsd: 1, tokens: 1 })).toBeNull()
  expect(await again.reserve('prov_1', 'one', { nanoUsd: 60, tokens: 1 })).toBeNull()
  again.endAttempt({ nanoUsd: 60, tokens: 1, exact: true })
  const dear = { nanoUsd: 200, tokens: 1 }
  const refused = [await again.reserve('prov_2', 'one', dear), await first.reserve('prov_2', 'one', dear)]
  expect(refused.map((each) => each?.open.budget.row.id)).toEqual(['bud_prov_2', 'bud_prov_2'])
})

test('a request that ended while it waited is not made again in the window that the log is in', async () => {
  const world = worldOf(budgetRow({ window: 'hour' }))
  const HOUR_MS = 3_600_000
  const budgets = world.open('i', undefined, { nowMs: () => world.nowMs - HOUR_MS })
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs - HOUR_MS)!
  const waiting = request.reserve('prov_1', 'one', { nanoUsd: 1, tokens: 1 })
  expect(waiting).toBeInstanceOf(Promise)
  expect(request.settle()).toEqual([])
  request.outcomeWas('recorded')
  expect(await waiting).toMatchObject({ reason: 'ended' })
  expect([...budgets.leases.opens.values()].map(({ isIdle }) => isIdle)).toEqual([true])
})
