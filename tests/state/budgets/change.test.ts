// A budget that only counted becomes hard, or gets a further limit: the instances report all that they have counted
// before anything is granted.
import { expect, test } from 'bun:test'
import { spentOf } from '../../../src/domain/budgets/account.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const worldOf = worldsClosedAfterEach()

const COST = { nanoUsd: 0, tokens: 1, exact: true }
/** A clock that stands still: each report has a cause of its own, never the time that it has waited. */
const STANDING = { monotonicMs: () => 100_000 }

const begin = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number, tokens = 1) => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  const refused = await request.reserve('prov_1', 'm', { nanoUsd, tokens })
  return refused === null ? request : refused.reason
}

const end = (request: RequestBudgets, nanoUsd: number, tokens = 1) => {
  request.endAttempt({ ...COST, nanoUsd, tokens })
  request.settle()
  request.outcomeWas('recorded')
}

const spend = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number, tokens = 1) => {
  const request = await begin(world, budgets, nanoUsd, tokens)
  if (typeof request === 'string') return request
  end(request, nanoUsd, tokens)
  return 'spent it'
}

const toldOf = (budgets: OpenBudgets): number => {
  const [account] = budgets.leases.ledger.accounts(TENANT)?.all() ?? []
  return account === undefined ? 0 : spentOf(account).nano_usd
}

/** All instances have the account open and have reported their spending so far: 1 each. */
const open = async (world: BudgetWorld, ...all: OpenBudgets[]) => {
  for (const each of all) expect(await spend(world, each, 1)).toBe('spent it')
  for (const each of all) for (const account of each.leases.opens.values()) each.leases.report(account)
  for (const each of all) await eventually('all have told', () => toldOf(each) === all.length)
}

const SOFT = budgetRow({ limit_nano_usd: 100, enforcement: 'soft' })
const HARD = budgetRow({ limit_nano_usd: 100, enforcement: 'hard', height: 2 })

test.each(['soft', 'shadow'] as const)(
  'what instances have counted under %s and not told is told as soon as it is hard',
  async (mode) => {
    const world = worldOf({ ...SOFT, enforcement: mode })
    const [i, j] = [world.open('i', world.log.view(), STANDING), world.open('j', world.log.view(), STANDING)]
    await open(world, i, j)
    expect(await spend(world, i, 2)).toBe('spent it')
    expect(await spend(world, j, 80)).toBe('spent it')
    expect(toldOf(i)).toBe(2)
    world.put(HARD)
    await eventually('both have told', () => toldOf(i) === 84)
  },
)

test('the first leases are asked for when others have had the time to tell', async () => {
  const world = worldOf(SOFT)
  let held = Promise.resolve()
  const [i, j] = [world.open('i'), world.open('j', world.log.view({ beforeAppend: () => held.then(() => 'none') }))]
  await open(world, i, j)
  expect(await spend(world, j, 80)).toBe('spent it')
  const { promise, resolve: resumeDeadlines } = Promise.withResolvers<void>()
  held = promise
  world.put(HARD)
  const answers = [spend(world, i, 90), spend(world, i, 15)]
  // Long enough for a request to be written and granted.
  for (let turn = 0; turn < 5; turn++) await new Promise<void>((resolve) => setImmediate(resolve))
  resumeDeadlines()
  expect(await Promise.all(answers)).toEqual(['spent', 'spent it'])
  expect(i.standing(HARD)!.spent.nano_usd).toBe(97)
})

test('what was begun before is told when it ends, not seconds later', async () => {
  const world = worldOf(SOFT)
  const [i, j] = [world.open('i'), world.open('j', world.log.view(), STANDING)]
  await open(world, i, j)
  const request = (await begin(world, j, 80)) as RequestBudgets
  world.put(HARD)
  end(request, 80)
  await eventually('told', () => toldOf(i) === 82)
  expect(await spend(world, i, 90)).toBe('spent')
})

test('a hard budget of tokens that gets a limit of money too', async () => {
  const tokens = budgetRow({ limit_nano_usd: null, limit_tokens: 1_000 })
  const world = worldOf(tokens)
  const [i, j] = [world.open('i'), world.open('j', world.log.view(), STANDING)]
  await open(world, i, j)
  expect(await spend(world, j, 80, 10)).toBe('spent it')
  world.put({ ...tokens, limit_nano_usd: 100, height: 2 })
  expect(await spend(world, i, 90, 10)).toBe('spent')
  expect(await spend(world, i, 18, 10)).toBe('spent it')
})

test('a budget that was switched off and on again waits for what was counted before, too', async () => {
  const world = worldOf(SOFT)
  const [i, j] = [world.open('i'), world.open('j', world.log.view(), STANDING)]
  await open(world, i, j)
  expect(await spend(world, j, 80)).toBe('spent it')
  world.put({ ...HARD, enabled: false })
  world.put({ ...HARD, height: 3 })
  expect(await spend(world, i, 90)).toBe('spent')
})

test('what was asked for ahead of need under a higher limit, and is granted behind a lower one, goes back', async () => {
  const high = budgetRow({ limit_nano_usd: 100_000 })
  const world = worldOf(high)
  const [asked, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let holds = false
  const beforeAppend = async () => {
    if (holds) asked.resolve()
    if (holds) await written.promise
    return 'none' as const
  }
  const i = world.open('i', world.log.view({ beforeAppend }), STANDING)
  expect(await spend(world, i, 1)).toBe('spent it')
  holds = true
  const waiting = begin(world, i, 10_000)
  await asked.promise
  world.put({ ...high, limit_nano_usd: 5_000, height: 2 })
  written.resolve()
  const request = (await waiting) as RequestBudgets
  const [open] = i.leases.opens.values()
  expect(open!.lease.granted.nano_usd).toBeGreaterThan(10_001)
  await eventually('it goes back', () => (open!.lease.free().nano_usd === 0 ? true : null))
  end(request, 10_000)
  expect(await spend(world, i, 1)).toBe('spent')
})
