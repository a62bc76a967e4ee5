// Money that is free and leased to others: whoever is short of it gets it, also where the log is slow.
import { expect, test } from 'bun:test'
import { sleep } from '../../../src/lib/event-loop/sleep.ts'
import type { MemoryFaults } from '../../../src/log/memory.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const worldOf = worldsClosedAfterEach()
/** A record takes so long: more than half of the half second that others have at least. */
const SLOW_MS = 350
const SLOW: MemoryFaults = { beforeAppend: () => sleep(SLOW_MS, new AbortController().signal).then(() => 'none') }

const reserve = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number) => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  const refused = await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })
  return refused === null ? request : refused.reason
}

/** An instance that holds so much, all of it free. */
const holds = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number) => {
  const request = (await reserve(world, budgets, nanoUsd)) as RequestBudgets
  request.endAttempt({ nanoUsd: 0, tokens: 1, exact: true })
  request.settle()
  request.outcomeWas('recorded')
}

const openOf = ({ leases }: OpenBudgets) => [...leases.opens.values()][0]!

test('who is short waits as long as the log takes to hear of it and to say what others give back', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const [first, second] = ['i', 'j'].map((name) => world.open(name, world.log.view(SLOW))) as [OpenBudgets, OpenBudgets]
  await holds(world, first, 900)
  expect(typeof (await reserve(world, second, 800))).toBe('object')
}, 20_000)

test('a request that comes behind a refusal is not refused before others could give back', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const [first, second] = ['i', 'j'].map((name) => world.open(name, world.log.view(SLOW))) as [OpenBudgets, OpenBudgets]
  await holds(world, first, 900)
  await second.caughtUp(TENANT, 5_000)
  const before = reserve(world, second, 400)
  await eventually('the refusal is read', () => (openOf(second).contendedUntilMs > 0 ? true : null))
  const behind = reserve(world, second, 400)
  expect([typeof (await before), typeof (await behind)]).toEqual(['object', 'object'])
}, 20_000)

test('of two that wait for what the other holds, one is served', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const [first, second] = [world.open('i'), world.open('j')]
  await holds(world, first, 400)
  await holds(world, second, 400)
  const both = await Promise.all([reserve(world, first, 900), reserve(world, second, 900)])
  expect(both.map((each) => typeof each).sort()).toEqual(['object', 'string'])
}, 20_000)

test('what is granted when nobody waits for it any more goes back where others are short', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const read = Promise.withResolvers<void>()
  let isHeld = false
  const late: MemoryFaults = { beforeDeliver: ({ available }) => (isHeld ? read.promise.then(() => 1) : available) }
  const [first, second] = [world.open('i', world.log.view(late)), world.open('j')]
  await holds(world, first, 10)
  isHeld = true
  expect(await reserve(world, first, 900)).toBe('unreachable')
  openOf(first).contend(performance.now())
  await second.caughtUp(TENANT, 5_000)
  read.resolve()
  await eventually('given back', () =>
    openOf(first).lease.granted.nano_usd >= 900 && openOf(first).lease.free().nano_usd === 0 ? true : null,
  )
  expect(typeof (await reserve(world, second, 900))).toBe('object')
}, 30_000)

test('who stands behind what the log takes slowly waits on, as who was heard by it does', async () => {
  const scope = { type: 'key', id: 'key_1' } as const
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }), budgetRow({ id: 'bud_2', scope, limit_nano_usd: 1_000 }))
  const slow: MemoryFaults = { beforeAppend: () => sleep(2_600, new AbortController().signal).then(() => 'none') }
  const budgets = world.open('i', world.log.view(slow))
  const ask = async (key: string) => {
    const request = budgets.of(TENANT, key, null, world.nowMs)!
    return await request.reserve('prov_1', 'm', { nanoUsd: 10, tokens: 1 })
  }
  const first = ask('key_1')
  await eventually('the first is under way', () => ([...budgets.leases.opens.values()][0]?.requesting ? true : null))
  expect(await Promise.all([first, ask('key_2')])).toEqual([null, null])
}, 20_000)

test('who asks before the log could be read is told so in the usual time: nothing is taken there', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const budgets = world.open('i', world.log.view({ down: () => true }))
  const startedAt = performance.now()
  expect(await reserve(world, budgets, 10)).toBe('unreachable')
  expect(performance.now() - startedAt).toBeLessThan(4_500)
}, 20_000)

test('what is on its way back is no reason to refuse', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const budgets = world.open('i', world.log.view(SLOW))
  await holds(world, budgets, 900)
  budgets.leases.giveBack(openOf(budgets), performance.now())
  expect(typeof (await reserve(world, budgets, 900))).toBe('object')
}, 20_000)

test('so many wait for what others may give back; those that come on top are refused at once', async () => {
  const MOST = 256
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const [first, second] = [world.open('i'), world.open('j')]
  const [going] = [await reserve(world, first, 950), await second.caughtUp(TENANT, 5_000)]
  expect(typeof going).toBe('object')
  const asked = [reserve(world, second, 400)]
  await eventually('the refusal is read', () => (openOf(second).parked === 1 ? true : null))
  for (let n = 1; n < MOST; n++) asked.push(reserve(world, second, 400))
  expect(second.leases.waiting).toBe(MOST)
  expect(await reserve(world, second, 400)).toBe('spent')
  expect(second.leases.waiting).toBe(MOST)
  expect(new Set(await Promise.all(asked))).toEqual(new Set(['spent']))
}, 20_000)
