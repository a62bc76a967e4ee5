// Where a reader of budgets starts: at the last hours, since accounts are stated. Also its answer when the log no
// longer holds what was spent.
import { expect, test } from 'bun:test'
import { spentOf } from '../../../src/domain/budgets/account.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import { BudgetLedger } from '../../../src/state/budgets/ledger.ts'
import { BudgetWriter, statementOf } from '../../../src/state/budgets/writer.ts'
import { quiet } from '../support.ts'
import { type BudgetWorld, budgetRow, NOON_MS, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const BUDGETS = TOPICS.budgets.name
const MINUTE_MS = 60_000
const row = (fields: Parameters<typeof budgetRow>[0] = {}) => budgetRow({ window: 'lifetime', ...fields })
const worldOf = worldsClosedAfterEach()

const refused = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number): Promise<string | null> => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  const refusal = await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })
  if (refusal === null) {
    request.endAttempt({ nanoUsd, tokens: 1, exact: true })
    request.settle()
    request.outcomeWas('recorded')
  }
  return refusal?.reason ?? null
}

/** 600 of 1,000 are spent, by an instance that has stopped. */
const spent = async () => {
  const world = worldOf(row())
  const first = world.open('i')
  expect(await refused(world, first, 600)).toBeNull()
  await first.close(1_000)
  return world
}

const state = async (world: BudgetWorld, budgets: OpenBudgets): Promise<void> => {
  const scribe = new BudgetWriter({ log: world.log, instance: 's', nowMs: () => world.nowMs }, String(world.nowMs))
  await scribe.append(TENANT, statementOf(budgets.leases.ledger, TENANT), budgets.leases.ledger)
}

/** What the account has spent, and the first record that was read for it. */
const opened = async (world: BudgetWorld) => {
  let from = Number.POSITIVE_INFINITY
  const beforeDeliver = (call: { readonly from: number; readonly available: number }) => {
    from = Math.min(from, call.from)
    return call.available
  }
  const budgets = world.open('j', world.log.view({ beforeDeliver }))
  await budgets.caughtUp(TENANT, 5_000)
  const [account] = budgets.leases.ledger.accounts(TENANT)!.all()
  return { budgets, from, spent: account === undefined ? null : spentOf(account).nano_usd }
}

test('begins at the last hours where accounts were stated there, and at the first record where they were not', async () => {
  const world = await spent()
  expect(await opened(world)).toMatchObject({ from: 0, spent: 600 })
  const { budgets } = await opened(world)
  for (let hours = 1; hours <= 4; hours++) {
    world.nowMs += 70 * MINUTE_MS
    await state(world, budgets)
    await budgets.leases.ledger.follow(TENANT)
  }
  const late = await opened(world)
  expect(late.spent).toBe(600)
  expect(late.from).toBeGreaterThan(2)
  world.nowMs += 600 * MINUTE_MS // no record for ten hours
  expect(await opened(world)).toMatchObject({ from: 0, spent: 600 })
})

for (const [name, kept] of [
  ['all of it has expired', 0],
  ['what is left does not say', 1],
] as const)
  test(`an account whose spend may have expired is closed until its limits are set again: ${name}`, async () => {
    const world = await spent()
    world.nowMs += 8 * 24 * 60 * MINUTE_MS
    world.log.trim(BUDGETS, 0, world.log.records(BUDGETS).length - kept)
    const { budgets } = await opened(world)
    expect(await refused(world, budgets, 1)).toBe('forgotten')
    expect(budgets.standing(row())).toMatchObject({ closed: true })
    // Each instance reads the same.
    const other = world.open('k')
    expect(await refused(world, other, 1)).toBe('forgotten')
    world.put(row({ height: 2, limit_nano_usd: 400 }))
    expect(await refused(world, budgets, 399)).toBeNull()
    expect(await refused(world, other, 2)).toBe('spent')
  })

test('a budget that nobody ever drew from is open while others of its partition are stated, however much has expired', async () => {
  const world = await spent()
  const unused = row({ id: 'bud_2', scope: { type: 'model', id: 'other' } })
  const { budgets: writer } = await opened(world)
  for (let hours = 1; hours <= 4; hours++) {
    world.nowMs += 70 * MINUTE_MS
    await state(world, writer)
    await writer.leases.ledger.follow(TENANT)
  }
  world.log.trim(BUDGETS, 0, world.log.records(BUDGETS).length - 3)
  world.put(unused)
  const { budgets } = await opened(world)
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'other', { nanoUsd: 10, tokens: 1 })).toBeNull()
})

test('a budget that was made since, and a window that began since, are open', async () => {
  const world = await spent()
  world.nowMs += 8 * 24 * 60 * MINUTE_MS
  world.log.trim(BUDGETS, 0, world.log.records(BUDGETS).length)
  const { budgets } = await opened(world)
  world.nowMs += MINUTE_MS
  world.put(row({ id: 'bud_1', enabled: false, height: 2 }))
  world.put(row({ id: 'bud_2', created_at: new Date(world.nowMs).toISOString() }))
  expect(await refused(world, budgets, 10)).toBeNull()
})

test('who needs all that is kept reads each partition that holds something, and none of the others', async () => {
  const log = memoryLog({ nowMs: () => NOON_MS, partitionCount: () => 8 })
  const reads: number[] = []
  const watched: EventLog = {
    ...log,
    read(topic, partition, ...rest) {
      reads.push(partition)
      return log.read(topic, partition, ...rest)
    },
  }
  const partitions = () => 8
  const ledger = new BudgetLedger({
    ...{ log: watched, partitions, diagnostics: quiet, nowMs: () => NOON_MS, onFolded: () => {} },
  })
  const scribe = new BudgetWriter({ log, instance: 'gone', nowMs: () => NOON_MS }, 'once')
  const window = { budget_id: 'bud_1', window_start_ms: 0, window_end_ms: null }
  const terms = { height: 1, limit_nano_usd: 1_000, limit_tokens: null, enforcement: 'hard' } as const
  const data = { account: 'bud_1/0-', ...window, ...terms }
  const tenants = ['ten_1', 'ten_2', 'ten_3']
  for (const tenantId of tenants) await scribe.append(tenantId, [{ type: 'account.opened', data }], ledger)
  await ledger.followAll()
  expect([...ledger.tenants()].sort()).toEqual(tenants)
  expect([...reads].sort()).toEqual([...new Set(tenants.map((tenantId) => ledger.partitionOf(tenantId)))].sort())
  await ledger.close()
  await log.close()
})
