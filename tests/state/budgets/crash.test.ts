// Promises that hold across a crash: the cost of an outcome is reported, and the rest of its reservation is released,
// only once the outcome is recorded.
import { expect, test } from 'bun:test'
import { committed, spentOf } from '../../../src/domain/budgets/account.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const DAY_MS = 86_400_000
const worldOf = worldsClosedAfterEach()
/** Of one budget with this limit. */
const worldWithLimit = (limit_nano_usd: number): BudgetWorld => worldOf(budgetRow({ limit_nano_usd }))

const reserve = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number): Promise<RequestBudgets | string> => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  const refused = await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })
  return refused === null ? request : refused.reason
}

const settle = (request: RequestBudgets | string, nanoUsd: number): RequestBudgets => {
  if (typeof request === 'string') throw new Error(`refused: ${request}`)
  request.endAttempt({ nanoUsd, tokens: 1, exact: true })
  request.settle()
  return request
}

const accountOf = (budgets: OpenBudgets) => [...budgets.leases.ledger.accounts(TENANT)!.all()][0]!

test('what a request has left over goes to another instance behind its outcome, not before', async () => {
  const world = worldWithLimit(100)
  const [first, second] = [world.open('i'), world.open('j')]
  const ending = settle(await reserve(world, first, 100), 30)
  expect(await reserve(world, second, 50)).toBe('spent')
  expect(spentOf(accountOf(second)).nano_usd).toBe(0)
  ending.outcomeWas('recorded')
  await eventually('it is told', () => (spentOf(accountOf(second)).nano_usd === 30 ? true : null))
  expect(typeof (await reserve(world, second, 50))).toBe('object')
})

test('an outcome that was lost leaves reserved what its admission reserved: the next start settles it at that', async () => {
  const world = worldWithLimit(100)
  const [first, second] = [world.open('i'), world.open('j')]
  const [lost, other] = [await reserve(world, first, 60), await reserve(world, first, 40)]
  settle(lost, 30).outcomeWas('lost')
  settle(other, 40).outcomeWas('recorded')
  expect(await reserve(world, second, 1)).toBe('spent')
  expect(await reserve(world, first, 1)).toBe('spent')
  await first.close(1_000)
  const account = accountOf(second)
  expect([spentOf(account).nano_usd, committed(account).nano_usd]).toEqual([40, 100])
})

test('whoever has lost an outcome does not say that he has told all, though nothing was reserved for it', async () => {
  const world = worldOf(budgetRow({ enforcement: 'soft' }))
  const [first, second] = [world.open('i'), world.open('j')]
  const [lost, other] = [await reserve(world, first, 60), await reserve(world, first, 40)]
  settle(other, 40).outcomeWas('recorded')
  settle(lost, 30).outcomeWas('lost')
  await first.close(1_000)
  const end = world.log.records(TOPICS.budgets.name).length
  await eventually('read', () => second.leases.ledger.place(TENANT).next >= end)
  const [holder] = [...accountOf(second).holders.values()]
  expect(holder).toMatchObject({ counted: { nano_usd: 40 }, closed: false })
})

test('a request that never was admitted leaves nothing behind', async () => {
  const world = worldWithLimit(100)
  const budgets = world.open('i')
  const request = (await reserve(world, budgets, 100)) as RequestBudgets
  request.endAttempt(null)
  request.settle()
  request.outcomeWas('never_admitted')
  expect(typeof (await reserve(world, budgets, 100))).toBe('object')
})

test('a clock that was ahead and goes back finds its window as it left it', async () => {
  const world = worldWithLimit(100)
  let aheadMs = 0
  const budgets = world.open('i', world.log.view(), { nowMs: () => world.nowMs + aheadMs })
  settle(await reserve(world, budgets, 60), 60).outcomeWas('recorded')
  aheadMs = DAY_MS
  await eventually('the window is over by that clock', () => (budgets.leases.opens.size === 0 ? true : null))
  aheadMs = 0
  expect(await reserve(world, budgets, 60)).toBe('spent')
  settle(await reserve(world, budgets, 40), 40).outcomeWas('recorded')
  for (const open of budgets.leases.opens.values()) budgets.leases.report(open)
  await eventually('all is told', () => (spentOf(accountOf(budgets)).nano_usd === 100 ? true : null))
}, 20_000)

test('while a process stops, a request under way goes on with the same sums, though its budget changes', async () => {
  const row = budgetRow({ enforcement: 'soft' })
  const world = worldOf(row)
  const budgets = world.open('i')
  const going = (await reserve(world, budgets, 60)) as RequestBudgets
  settle(await reserve(world, budgets, 40), 40).outcomeWas('recorded')
  await budgets.close(1_000)
  world.put({ ...row, alert_thresholds: [0.5], height: 2 })
  going.endAttempt({ nanoUsd: 30, tokens: 1, exact: true })
  expect(await going.reserve('prov_1', 'm', { nanoUsd: 20, tokens: 1 })).toBeNull()
  going.endAttempt({ nanoUsd: 20, tokens: 1, exact: true })
  expect(going.settle()).toMatchObject([{ nano_usd: 50, total: { counted: { nano_usd: 90 } } }])
})

test('what is charged while a lease is being closed is not taken for told', async () => {
  const world = worldOf(budgetRow({ enforcement: 'soft' }))
  const log = world.log.view()
  const [closing, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let isStopping = false
  const append: typeof log.append = async (...what) => {
    await log.append(...what)
    if (!isStopping) return
    closing.resolve()
    await answered.promise
  }
  const budgets = world.open('i', { ...log, append }, { spoolEnd: () => 7 })
  await budgets.caughtUp(TENANT, 5_000)
  settle(await reserve(world, budgets, 40), 40).outcomeWas('recorded')
  const late = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  isStopping = true
  const stopped = budgets.close(1_000)
  await closing.promise
  expect(await late.reserve('prov_1', 'm', { nanoUsd: 20, tokens: 1 })).toBeNull()
  late.endAttempt({ nanoUsd: 20, tokens: 1, exact: true })
  answered.resolve()
  await stopped
  late.settle()
  late.outcomeWas('recorded')
  // The outcome's record: the next start reads it and says what the log does not know.
  expect(budgets.leases.neededFrom()).toBe(7)
})
