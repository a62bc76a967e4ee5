// After an overrun no request is admitted until limits are set again: not from the remaining lease of the instance that
// detected it, and not on any instance that has read the overrun.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { closedFor, closedUpTo, limitsHeightOf } from '../../../src/domain/budgets/account-closing.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, budgetWorld, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const worldOf = worldsClosedAfterEach()

const requestOf = (world: BudgetWorld, budgets: OpenBudgets): RequestBudgets =>
  budgets.of(TENANT, 'key_1', null, world.nowMs)!
const reserve = (request: RequestBudgets, nanoUsd: number) => request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })
const begin = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number) => {
  const request = requestOf(world, budgets)
  const refused = await reserve(request, nanoUsd)
  return refused === null ? request : refused.reason
}
const end = (request: RequestBudgets, nanoUsd: number) => {
  request.endAttempt({ nanoUsd, tokens: 1, exact: true })
  request.settle()
  request.outcomeWas('recorded')
}
const spend = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number, reserved = nanoUsd) => {
  const request = await begin(world, budgets, reserved)
  if (typeof request === 'string') return request
  end(request, nanoUsd)
  return 'spent it'
}
const accountOf = (budgets: OpenBudgets) => [...(budgets.leases.ledger.accounts(TENANT)?.all() ?? [])][0]
const freeOf = (budgets: OpenBudgets): number => [...budgets.leases.opens.values()][0]!.lease.free().nano_usd

test('the instance that sees it lets nobody in any more, though its lease holds enough', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const budgets = world.open('i')
  const request = (await begin(world, budgets, 10)) as RequestBudgets
  const others = [await begin(world, budgets, 10), await begin(world, budgets, 10)] as RequestBudgets[]
  expect(freeOf(budgets)).toBeGreaterThan(10)
  // Before the outcome stands anywhere; nor may the request itself try another provider.
  request.endAttempt({ nanoUsd: 25, tokens: 1, exact: true })
  expect(reserve(requestOf(world, budgets), 5)).toMatchObject({ reason: 'overrun' })
  expect(reserve(request, 5)).toMatchObject({ reason: 'overrun' })
  request.settle()
  request.outcomeWas('recorded')
  for (const other of others) end(other, 1)
  expect(reserve(requestOf(world, budgets), 5)).toMatchObject({ reason: 'overrun' })
  // What is not spent goes back, and what was billed is booked.
  await eventually('told', () =>
    accountOf(budgets)?.holders.values().next().value?.spent.nano_usd === 12 ? true : null,
  )
  expect(budgets.standing(budgetRow())).toMatchObject({
    spent: { nano_usd: 27 },
    reserved: { nano_usd: 0 },
    closed: true,
  })
})

test('whoever waits for a lease is sent away at once', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 100 }))
  let held = Promise.resolve()
  const budgets = world.open('i', world.log.view({ beforeAppend: () => held.then(() => 'none') }))
  const request = (await begin(world, budgets, 10)) as RequestBudgets
  const { promise, resolve: resumeDeadlines } = Promise.withResolvers<void>()
  held = promise
  const waiting = begin(world, budgets, 90)
  request.endAttempt({ nanoUsd: 25, tokens: 1, exact: true })
  expect(await waiting).toBe('overrun')
  resumeDeadlines()
})

test('the others let nobody in once they have read of it, though their leases hold enough', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const [i, j, k] = [world.open('i'), world.open('j'), world.open('k')]
  for (const each of [i, j, k]) expect(await spend(world, each, 1, 10)).toBe('spent it')
  expect(freeOf(j)).toBeGreaterThan(0)
  expect(await spend(world, i, 25, 5)).toBe('spent it')
  for (const each of [i, j, k]) {
    await eventually('read', () => (closedFor(accountOf(each)!) === 'overrun' ? true : null))
    for (const nanoUsd of [1, 0]) expect(reserve(requestOf(world, each), nanoUsd)).toMatchObject({ reason: 'overrun' })
    expect(freeOf(each)).toBe(0)
  }
})

test('limits that are set again open it, other edits do not', async () => {
  const row = budgetRow({ limit_nano_usd: 1_000, limits_height: 1 })
  const world = worldOf(row)
  const [i, j] = [world.open('i'), world.open('j')]
  const underWay = (await begin(world, j, 10)) as RequestBudgets
  expect(await spend(world, i, 25, 5)).toBe('spent it')
  await eventually('read', () => (closedFor(accountOf(j)!) === 'overrun' ? true : null))
  world.put({ ...row, alert_thresholds: [0.5], height: 2 })
  // With what it gives back the account follows the row.
  end(underWay, 1)
  for (const each of [i, j]) {
    await eventually('the account follows', () => (accountOf(each)!.height === 2 ? true : null))
    expect(reserve(requestOf(world, each), 1)).toMatchObject({ reason: 'overrun' })
  }
  const again = { ...row, height: 3, limits_height: 3 }
  world.put(again)
  for (const each of [i, j]) expect(await spend(world, each, 1, 10)).toBe('spent it')
  expect(i.standing(again)!.closed).toBe(false)
})

test('one whose outcome could not be written closes the account for everybody, until limits are set again', async () => {
  const row = budgetRow({ limit_nano_usd: 1_000, limits_height: 1 })
  const world = worldOf(row)
  const [i, j] = [world.open('i'), world.open('j')]
  const request = (await begin(world, i, 50)) as RequestBudgets
  request.endAttempt({ nanoUsd: 60, tokens: 1, exact: true })
  request.settle()
  request.outcomeWas('lost')
  for (const each of [i, j]) {
    await each.caughtUp(TENANT, 2_000)
    await eventually('read', () => (closedFor(accountOf(each)!) === 'overrun' ? true : null))
    // What it cost is charged by the next start: until then it is held.
    expect(each.standing(row)).toMatchObject({ closed: true, spent: { nano_usd: 0 }, overrunNanoUsd: 10 })
    expect(await begin(world, each, 1)).toBe('overrun')
  }
  await eventually('what is free went back', () => (i.standing(row)!.reserved.nano_usd === 50 ? true : null))
  const again = { ...row, height: 2, limits_height: 2 }
  world.put(again)
  for (const each of [i, j]) expect(await spend(world, each, 1, 10)).toBe('spent it')
})

test('of a limit that is lowered below what was spent nothing is let in on a lease that is out', async () => {
  const row = budgetRow({ limit_nano_usd: 1_000 })
  const world = worldOf(row)
  const budgets = world.open('i')
  expect(await spend(world, budgets, 80)).toBe('spent it')
  const underWay = (await begin(world, budgets, 60)) as RequestBudgets
  world.put({ ...row, limit_nano_usd: 100, height: 2, limits_height: 2 })
  await eventually('the account follows', () => (accountOf(budgets)!.limit_nano_usd === 100 ? true : null))
  end(underWay, 30)
  // What it did not spend is not spent by the next one here.
  expect(freeOf(budgets)).toBe(0)
  expect(await begin(world, budgets, 20)).toBe('spent')
})

/** What instances have admitted and not settled, and what they have settled of it. */
class Taken {
  readonly underWay: { readonly request: RequestBudgets; readonly bound: number }[] = []
  spent = 0
  /** The height of the budget at which it has seen an overrun of its own. */
  overranAt = -1
  get all(): number {
    return this.underWay.reduce((sum, { bound }) => sum + bound, this.spent)
  }
}

const LIMIT = 500
const step = fc.record({
  instance: fc.integer({ min: 0, max: 2 }),
  act: fc.constantFrom('begin', 'begin', 'begin', 'end', 'overrun', 'turn', 'turn', 'set', 'edit'),
  n: fc.integer({ min: 1, max: 120 }),
})

test('three instances: each spends at most what it was granted, all together at most the limit, and none lets anybody in that knows of an overrun', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60, size: 'max' }), async (steps) => {
      let row = budgetRow({ limit_nano_usd: LIMIT, limits_height: 1 })
      const world = budgetWorld(row)
      const instances = ['i', 'j', 'k'].map((name) => ({ budgets: world.open(name), taken: new Taken() }))
      const waiting: Promise<void>[] = []
      const closedAt = ({ budgets, taken }: (typeof instances)[number]): number => {
        const account = accountOf(budgets)
        return Math.max(taken.overranAt, account === undefined ? -1 : closedUpTo(account))
      }
      for (const { instance, act, n } of steps) {
        const own = instances[instance]!
        const { budgets, taken } = own
        if (act === 'turn') await new Promise<void>((resolve) => setImmediate(resolve))
        else if (act === 'begin') {
          const request = requestOf(world, budgets)
          const closed = closedAt(own)
          const opened = limitsHeightOf(accountOf(budgets) ?? { height: -1 })
          const answer = reserve(request, n)
          // Limits that were set since may open it, but nothing is let in on what was held before.
          if (closed >= row.limits_height!) expect(answer).toMatchObject({ reason: 'overrun' })
          else if (closed >= opened) expect(answer).toBeInstanceOf(Promise)
          if (answer === null) taken.underWay.push({ request, bound: n })
          if (!(answer instanceof Promise)) continue
          waiting.push(
            answer.then((refused) => {
              if (refused === null) taken.underWay.push({ request, bound: n })
            }),
          )
        } else if (act === 'end' || act === 'overrun') {
          const ended = taken.underWay.shift()
          if (ended === undefined) continue
          const { request, bound } = ended
          taken.spent += act === 'end' ? Math.min(bound, n) : bound
          if (act === 'overrun') taken.overranAt = row.height
          end(request, act === 'end' ? Math.min(bound, n) : bound + n)
        } else {
          const height = row.height + 1
          row = { ...row, height, ...(act === 'set' ? { limits_height: height } : {}) }
          world.put(row)
        }
        expect(instances.reduce((sum, { taken: each }) => sum + each.all, 0)).toBeLessThanOrEqual(LIMIT)
        for (const { budgets: each, taken: of } of instances) {
          const open = [...each.leases.opens.values()][0]
          if (open !== undefined) expect(of.all).toBeLessThanOrEqual(open.lease.granted.nano_usd)
        }
      }
      await world.close()
      await Promise.all(waiting)
    }),
    { numRuns: 40 },
  )
})
