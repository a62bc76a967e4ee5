// Instances that spend from one budget: their grants together, their returns, and the promises that hold when the log
// is slow or unavailable, or when answers are lost.
import { expect, test } from 'bun:test'
import { committed, spentOf } from '../../../src/domain/budgets/account.ts'
import type { MemoryFaults } from '../../../src/log/memory.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import { BudgetWriter } from '../../../src/state/budgets/writer.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, NOON_MS, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const DAY_MS = 86_400_000
const worldOf = worldsClosedAfterEach()

/** One request of so much; what it was refused for, or the request. */
const reserve = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number) => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  const refused = await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })
  return refused === null ? request : refused.reason
}

const settle = (request: RequestBudgets, nanoUsd: number, exact = true) => {
  request.endAttempt({ nanoUsd, tokens: 1, exact })
  const charges = request.settle()
  request.outcomeWas('recorded')
  return charges
}

// docs/behaviour.md: "Budgets"
test('of many at once on three instances exactly as many are admitted as the limit has room for', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 370 }))
  const instances = ['i', 'j', 'k'].map((name) => world.open(name))
  const all = await Promise.all(
    instances.flatMap((budgets) =>
      Array.from({ length: 60 }, async () => {
        const request = await reserve(world, budgets, 10)
        return typeof request === 'string' ? request : settle(request, 10).length
      }),
    ),
  )
  expect(all.filter((each) => each === 1)).toHaveLength(37)
  expect(all.filter((each) => each === 'spent')).toHaveLength(143)
})

test('what one holds ahead of need goes to whoever is short', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 100 }))
  const [first, second] = [world.open('i'), world.open('j')]
  const request = (await reserve(world, first, 10)) as RequestBudgets
  settle(request, 1)
  // It holds an unused 9, and perhaps some ahead of need.
  const other = (await reserve(world, second, 99)) as RequestBudgets
  expect(settle(other, 99)).toHaveLength(1)
  expect(await reserve(world, first, 1)).toBe('spent')
})

test('a request is charged once, whatever attempts it makes, and lets go of the rest', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 100 }))
  const budgets = world.open('i')
  const request = (await reserve(world, budgets, 60)) as RequestBudgets
  request.recorded()
  request.endAttempt({ nanoUsd: 20, tokens: 5, exact: true })
  expect(await request.reserve('prov_2', 'm', { nanoUsd: 60, tokens: 1 })).toBeNull()
  expect(request.parts()).toMatchObject([{ nano_usd: 80 }])
  request.endAttempt({ nanoUsd: 30, tokens: 5, exact: true })
  expect(request.settle()).toMatchObject([{ nano_usd: 50, total: { spent: { nano_usd: 50 } } }])
  expect(request.settle()).toEqual([])
  request.outcomeWas('recorded')
  expect(settle((await reserve(world, budgets, 50)) as RequestBudgets, 50)).toHaveLength(1)
})

test('an estimate never counts above its reservation; what a provider counts is an overrun that closes the account', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const budgets = world.open('i')
  expect(settle((await reserve(world, budgets, 10)) as RequestBudgets, 25, false)).toMatchObject([{ nano_usd: 10 }])
  const charged = settle((await reserve(world, budgets, 10)) as RequestBudgets, 25)
  expect(charged).toMatchObject([{ nano_usd: 10, overrun_nano_usd: 15 }])
  await eventually('closed', async () => (budgets.standing(budgetRow({ limit_nano_usd: 1_000 }))!.closed ? true : null))
  expect(await reserve(world, budgets, 10_000)).toBe('overrun')
  world.put(budgetRow({ limit_nano_usd: 1_000, height: 2 }))
  expect(typeof (await reserve(world, budgets, 900))).toBe('object')
})

test('soft and shadow budgets count, need no lease and refuse nothing; no price does not hinder them', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 5, enforcement: 'soft' }))
  const budgets = world.open('i')
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(request.reserve('prov_1', 'm', { nanoUsd: null, tokens: 1 })).toBeNull() // without a promise
  expect(settle(request, 50)).toMatchObject([{ leased: false, nano_usd: 50 }])
  const hard = worldOf(budgetRow())
  const refused = hard.open('j').of(TENANT, 'key_1', null, hard.nowMs)!
  expect(refused.reserve('prov_1', 'm', { nanoUsd: null, tokens: 1 })).toMatchObject({ reason: 'no_price' })
})

test('each request falls under the budgets of its tenant, key, endpoint scope, provider and model; all or none is reserved', async () => {
  const scope = (type: string, id: string, limit_nano_usd: number) =>
    budgetRow({ id: `bud_${type}`, scope: { type, id }, limit_nano_usd })
  const world = worldOf(
    ...[scope('tenant', TENANT, 100), scope('key', 'key_1', 50), scope('endpoint', 'support', 40)],
    ...[scope('provider', 'prov_1', 30), scope('model', 'GPT', 20)],
  )
  const budgets = world.open('i')
  const of = (key: string, slug: string | null) => budgets.of(TENANT, key, slug, world.nowMs)!
  const bound = (nanoUsd: number) => ({ nanoUsd, tokens: 1 })
  const refusedBy = async (request: RequestBudgets, provider: string, model: string, nanoUsd: number) =>
    (await request.reserve(provider, model, bound(nanoUsd)))?.open.budget.row.scope.type ?? null
  expect(await refusedBy(of('key_1', 'support'), 'prov_1', 'gpt', 21)).toBe('model')
  expect(await refusedBy(of('key_1', 'support'), 'prov_1', 'other', 31)).toBe('provider')
  expect(await refusedBy(of('key_1', 'support'), 'prov_2', 'other', 41)).toBe('endpoint')
  expect(await refusedBy(of('key_1', null), 'prov_2', 'other', 51)).toBe('key')
  expect(await refusedBy(of('key_2', null), 'prov_2', 'other', 101)).toBe('tenant')
  const whole = of('key_1', 'support')
  expect(await refusedBy(whole, 'prov_1', 'gpt', 20)).toBeNull()
  expect(whole.parts()).toHaveLength(5)
})

test('a window that ends takes its requests with it, and the next one has its whole limit', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 5_000 }))
  const instances = ['i', 'j', 'k'].map((name) => world.open(name))
  const open = async (count: number) =>
    (await Promise.all(Array.from({ length: count }, (_, i) => reserve(world, instances[i % 3]!, 10)))).filter(
      (each) => typeof each !== 'string',
    ) as RequestBudgets[]
  const before = await open(500)
  world.nowMs += DAY_MS
  const after = await open(500)
  expect([before.length, after.length]).toEqual([500, 500])
  for (const request of [...before, ...after]) settle(request, 10)
  await Promise.all(instances.map((budgets) => budgets.close(1_000)))
  const fresh = world.open('l')
  await fresh.caughtUp(TENANT, 5_000)
  const spent = [...fresh.leases.ledger.accounts(TENANT)!.all()].map((account) => spentOf(account).nano_usd)
  expect(spent).toEqual([5_000, 5_000])
}, 20_000)

test('a lease that was not renewed is not spent from, and the log is asked again', async () => {
  const world = worldOf(budgetRow())
  let isDown = false
  const budgets = world.open('i', world.log.view({ down: () => isDown }))
  for (let i = 0; i < 3; i++) settle((await reserve(world, budgets, 10)) as RequestBudgets, 1)
  isDown = true
  expect(typeof (await reserve(world, budgets, 1))).toBe('object')
  world.skipMs += 61_000
  expect(await reserve(world, budgets, 1)).toBe('unreachable')
  isDown = false
  world.log.wake()
  expect(typeof (await reserve(world, budgets, 1))).toBe('object')
})

test('with the log away no more is admitted than was granted', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 100_000 }))
  let isDown = false
  const budgets = world.open('i', world.log.view({ down: () => isDown }))
  settle((await reserve(world, budgets, 10)) as RequestBudgets, 10)
  await eventually('ahead of need', async () =>
    [...budgets.leases.opens.values()][0]!.lease.free().nano_usd > 0 ? true : null,
  )
  isDown = true
  const granted = [...budgets.leases.opens.values()][0]!.lease.granted.nano_usd
  let admitted = 10
  for (;;) {
    const request = await reserve(world, budgets, 10)
    if (typeof request === 'string') {
      expect(request).toBe('unreachable')
      break
    }
    admitted += settle(request, 10)[0]!.nano_usd
  }
  expect(admitted).toBeLessThanOrEqual(granted)
})

test('answers that are lost, records that come twice, appends that fail: in the end the account says what outcomes cost', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 100_000 }))
  let n = 0
  const faults: MemoryFaults = {
    beforeAppend: () => (['none', 'lost_answer', 'lost_request', 'unavailable', 'none'] as const)[n++ % 5]!,
  }
  const instances = ['i', 'j'].map((name) => world.open(name, world.log.view(faults)))
  let spent = 0
  for (let i = 0; i < 120; i++) {
    const request = await reserve(world, instances[i % 2]!, 50)
    if (typeof request === 'string') continue
    spent += settle(request, i % 50)[0]?.nano_usd ?? 0
    const [own] = instances[i % 2]!.leases.opens.values()
    if (i % 10 === 0) instances[i % 2]!.leases.report(own!)
  }
  expect(spent).toBeGreaterThan(0)
  for (const budgets of instances) for (const open of budgets.leases.opens.values()) budgets.leases.report(open)
  const [reader] = [world.open('k')]
  await reader!.caughtUp(TENANT, 5_000)
  await eventually('told', async () => {
    const [account] = reader!.leases.ledger.accounts(TENANT)!.all()
    return spentOf(account!).nano_usd === spent ? true : null
  })
  expect(world.log.records(TOPICS.budgets.name).length).toBeGreaterThan(3)
}, 30_000)

test('thresholds that are reached are told once, the soft limit too', async () => {
  const row = budgetRow({ limit_nano_usd: 100, alert_thresholds: [50, 90], soft_limit_nano_usd: 40 })
  const world = worldOf(row)
  const instances = ['i', 'j'].map((name) => world.open(name))
  settle((await reserve(world, instances[0]!, 60)) as RequestBudgets, 60)
  for (const open of instances[0]!.leases.opens.values()) instances[0]!.leases.report(open)
  await instances[1]!.caughtUp(TENANT, 5_000)
  await eventually('alerted', async () => {
    const [account] = instances[1]!.leases.ledger.accounts(TENANT)!.all()
    return account?.alerted.length === 2 ? true : null
  })
  const [account] = instances[1]!.leases.ledger.accounts(TENANT)!.all()
  expect([...account!.alerted].sort()).toEqual([0, 0.5])
}, 20_000)

test('a budget that is switched off and on again has its new limit', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const budgets = world.open('i')
  settle((await reserve(world, budgets, 10)) as RequestBudgets, 10)
  world.put(budgetRow({ limit_nano_usd: 1_000, height: 2, enabled: false }))
  expect(budgets.of(TENANT, 'key_1', null, world.nowMs)).toBeNull()
  world.put(budgetRow({ limit_nano_usd: 50, height: 3 }))
  expect(await reserve(world, budgets, 60)).toBe('spent')
  expect(typeof (await reserve(world, budgets, 40))).toBe('object')
})

test('whoever waits behind one that there is not enough for is served', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 100 }))
  const [first, second] = [world.open('i'), world.open('j')]
  const held = await reserve(world, first, 60)
  expect(typeof held).toBe('object')
  const [large, small] = await Promise.all([reserve(world, second, 90), reserve(world, second, 10)])
  expect([large, typeof small]).toEqual(['spent', 'object'])
})

test('an instance that is retired while it lives goes on in another name, and the account says what both have spent', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const [budgets, other] = [world.open('i'), world.open('j')]
  settle((await reserve(world, budgets, 100)) as RequestBudgets, 30)
  const open = (await reserve(world, budgets, 100)) as RequestBudgets
  const before = budgets.leases.holder
  const scribe = new BudgetWriter({ log: world.log, instance: 'j', nowMs: () => world.nowMs }, 'scribe')
  const data = { instance: 'i', before_ms: world.nowMs + 1, reason: 'operator' as const, orphaned: [] }
  await scribe.append(TENANT, [{ type: 'instance.retired', data }], other.leases.ledger)
  await eventually('in another name', () => budgets.leases.holder !== before)
  settle((await reserve(world, budgets, 50)) as RequestBudgets, 20)
  settle(open, 40)
  for (const each of budgets.leases.opens.values()) budgets.leases.report(each)
  await eventually('all is told', async () => {
    const [account] = other.leases.ledger.accounts(TENANT)?.all() ?? []
    return account !== undefined && spentOf(account).nano_usd === 90 ? true : null
  })
  await eventually('nothing is held of the old name', () => budgets.leases.former.size === 0)
})

test('an instance that stops closes its leases; what is under way then is told still', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 1_000 }))
  const budgets = world.open('i')
  settle((await reserve(world, budgets, 100)) as RequestBudgets, 30)
  await budgets.close(1_000)
  const reader = world.open('k')
  await reader.caughtUp(TENANT, 5_000)
  const [account] = reader.leases.ledger.accounts(TENANT)!.all()
  expect(committed(account!).nano_usd).toBe(30)
  expect([...account!.holders.values()].map(({ closed }) => closed)).toEqual([true])
})

test('what is only counted is counted in its window, also when it ends after it', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 5, enforcement: 'soft' }))
  let rounds = 0
  const onNeeded = () => void rounds++
  const budgets = world.open('i', world.log.view(), { onNeeded })
  const request = (await reserve(world, budgets, 10)) as RequestBudgets
  const [open] = budgets.leases.opens.values()
  world.nowMs += DAY_MS
  await eventually('what is over is let go of', () => rounds > 1)
  settle(request, 10)
  budgets.leases.report(open!)
  await eventually('told', () => (budgets.leases.ledger.account(TENANT, open!.account) === undefined ? null : true))
  expect(spentOf(budgets.leases.ledger.account(TENANT, open!.account)!).nano_usd).toBe(10)
})

test('a clock that is a day ahead spends of today, and says so once', async () => {
  const world = worldOf(budgetRow({ limit_nano_usd: 100 }))
  const right = world.open('i')
  settle((await reserve(world, right, 60)) as RequestBudgets, 60)
  const ahead = world.open('j', world.log.view(), { nowMs: () => world.nowMs + DAY_MS })
  const request = ahead.of(TENANT, 'key_1', null, world.nowMs + DAY_MS)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 60, tokens: 1 })).toMatchObject({ reason: 'spent' })
  const smaller = ahead.of(TENANT, 'key_1', null, world.nowMs + DAY_MS)!
  expect(await smaller.reserve('prov_1', 'm', { nanoUsd: 40, tokens: 1 })).toBeNull()
  expect(smaller.parts()![0]!.account).toBe([...right.leases.opens.keys()][0]!)
})

test('where no budget applies nothing is made, read or written', () => {
  const world = worldOf()
  const budgets = world.open('i')
  expect(budgets.of(TENANT, 'key_1', null, NOON_MS)).toBeNull()
  expect(world.log.records(TOPICS.budgets.name)).toEqual([])
})
