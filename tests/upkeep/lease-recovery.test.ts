// A spool whose process died: what it spent is told once, whatever the budget has become meanwhile, and what it held is free.
import { afterEach, expect, test } from 'bun:test'
import { committed, spentOf } from '../../src/domain/account.ts'
import type { BudgetRow } from '../../src/domain/budget.ts'
import type { LocalSpool } from '../../src/log/spool.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { BudgetScribe } from '../../src/state/budget-scribe.ts'
import type { OpenBudgets } from '../../src/state/budgets.ts'
import { closeLate, deadOf, recoverLeases } from '../../src/upkeep/lease-recovery.ts'
import { neededFrom, noteNeeded, spentIn, writersOf } from '../../src/upkeep/spool-spending.ts'
import { openTestSpool, temporaryFolder } from '../log/support.ts'
import { eventually } from '../services/eventually.ts'
import { type BudgetWorld, budgetRow, budgetWorld, TENANT } from '../state/budget-world.ts'
import { quiet } from '../state/support.ts'

const HOURS_MS = 2 * 3_600_000
const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})
const never = new AbortController().signal

/** One instance with a spool, which dies and starts again, and another one beside it. */
const worldOf = async (...rows: BudgetRow[]) => {
  const world = budgetWorld(...rows)
  const folder = temporaryFolder()
  closing.push(
    () => folder.remove(),
    () => world.close(),
  )
  const other = world.open('other')
  await other.caughtUp(TENANT, 5_000)
  return { world, path: folder.path, other }
}

const start = async (world: BudgetWorld, path: string) => {
  const spool = await openTestSpool(path, { nowMs: () => world.nowMs })
  closing.push(() => spool.close())
  const silence = { isOn: false }
  const log = world.log.view({ beforeAppend: () => (silence.isOn ? 'unavailable' : 'none') })
  const budgets = world.open(spool.instance, log, { epoch: spool.epoch, spoolEnd: () => spool.end })
  await budgets.caughtUp(TENANT, 5_000)
  return { spool, budgets, silence }
}

let epochs = 0
type Started = { readonly spool: LocalSpool; readonly budgets: OpenBudgets }

const depsOf = (world: BudgetWorld, { spool, budgets }: Started, rows: BudgetRow[]) => ({
  ...{ log: world.log, instance: spool.instance, nowMs: () => world.nowMs, diagnostics: quiet, budgets },
  tenants: () => new Set(rows.map((row) => row.tenant_id)),
  budgetRow: (id: string) => rows.find((row) => row.id === id),
  newEpoch: () => `recovery-${epochs++}`,
})

const recover = (world: BudgetWorld, started: Started, rows: BudgetRow[], isSettled = true) =>
  recoverLeases(started.spool, depsOf(world, started, rows), never, isSettled)

/** Gives back what the dead of a spool held, in the process that has it now: their names. */
const recoverFor = async (world: BudgetWorld, { budgets }: Started, spool: LocalSpool, rows: BudgetRow[]) => {
  const writers = writersOf(spool)
  expect(await recover(world, { spool, budgets }, rows)).toBe(true)
  return deadOf(spool, writers, depsOf(world, { spool, budgets }, rows))
}

const spend = async (world: BudgetWorld, budgets: OpenBudgets, spool: LocalSpool, nanoUsd: number): Promise<void> => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })).toBeNull()
  request.endAttempt({ nanoUsd, tokens: 1, exact: true })
  const outcome = { id: 'req', tenant_id: TENANT, budget: request.settle() }
  await spool.append('requests', 'request.settled', `${TENANT}/${spool.instance}`, JSON.stringify(outcome))
  request.outcomeWas('recorded')
}

const accountOf = (budgets: OpenBudgets, budgetId = 'bud_1') =>
  [...budgets.leases.ledger.accounts(TENANT)!.all()].find(({ budget_id }) => budget_id === budgetId)
const figures = (budgets: OpenBudgets, budgetId?: string) => {
  const account = accountOf(budgets, budgetId)!
  return { spent: spentOf(account).nano_usd, committed: committed(account).nano_usd }
}
/** Once the other instance has read all that stands there. */
const settledFigures = async (world: BudgetWorld, other: OpenBudgets, budgetId?: string) => {
  const end = world.log.records(TOPICS.budgets.name).length
  await eventually('read', () => other.leases.ledger.place(TENANT).next >= end)
  return figures(other, budgetId)
}

test('what it spent and never told is told, though nobody knows the budget any more, and what it held beyond is free', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const { world, path, other } = await worldOf(row)
  const first = await start(world, path)
  const request = first.budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 900, tokens: 1 })).toBeNull()
  first.silence.isOn = true
  request.endAttempt({ nanoUsd: 800, tokens: 1, exact: true })
  const outcome = { id: 'req', tenant_id: TENANT, budget: request.settle() }
  await first.spool.append('requests', 'request.settled', `${TENANT}/x`, JSON.stringify(outcome))
  request.outcomeWas('recorded')
  await first.spool.close()
  const second = await start(world, path)
  expect(await recover(world, second, [])).toBe(true)
  expect(await settledFigures(world, other)).toEqual({ spent: 800, committed: 800 })
  expect(neededFrom(second.spool)).toBe(second.spool.end)
})

test('of a budget that is gone and of which the log never heard, what was counted waits for it to come back', async () => {
  const row = budgetRow({ window: 'lifetime', enforcement: 'soft', height: 7 })
  const { world, path, other } = await worldOf(row)
  const first = await start(world, path)
  first.silence.isOn = true
  await spend(world, first.budgets, first.spool, 300)
  await first.spool.close()
  const second = await start(world, path)
  expect(await recover(world, second, [])).toBe(true)
  expect(await settledFigures(world, other)).toEqual({ spent: 300, committed: 300 })
  expect(accountOf(other)).toMatchObject({ height: 0, limit_nano_usd: null })
  // It comes back, and is hard.
  world.put(budgetRow({ window: 'lifetime', height: 8 }))
  const refused = () =>
    other.of(TENANT, 'key_1', null, world.nowMs)!.reserve('prov_1', 'm', { nanoUsd: 701, tokens: 1 })
  expect((await refused())?.reason).toBe('spent')
  const fits = other.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await fits.reserve('prov_1', 'm', { nanoUsd: 700, tokens: 1 })).toBeNull()
})

test('what was closed so long ago that it is forgotten is not told again', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const { world, path, other } = await worldOf(row)
  const first = await start(world, path)
  await spend(world, first.budgets, first.spool, 300)
  await first.budgets.close(2_000)
  await first.spool.close()
  world.nowMs += HOURS_MS
  const beside = await openTestSpool(`${path}/beside`)
  closing.push(() => beside.close())
  await spend(world, other, beside, 10)
  for (const open of other.leases.opens.values()) other.leases.tell(open)
  await eventually('told', () => figures(other).spent === 310)
  expect([...accountOf(other)!.holders.keys()].some((name) => name.startsWith(first.spool.instance))).toBe(false)
  const second = await start(world, path)
  expect((await spentIn(second.spool, never)).size).toBe(1) // nobody has noted that it is not needed
  expect(await recover(world, second, [row])).toBe(true)
  expect((await settledFigures(world, other)).spent).toBe(310)
})

test('where the log has lost its newest records, what was spent from a lease that it does not know any more is told', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const before = await worldOf(row)
  const first = await start(before.world, before.path)
  await spend(before.world, first.budgets, first.spool, 800)
  await first.budgets.close(2_000)
  await first.spool.close()
  // Of that log there is the account, and no word of this holder.
  const { world, other } = await worldOf(row)
  world.nowMs = before.world.nowMs
  const beside = await openTestSpool(`${before.path}/beside`)
  closing.push(() => beside.close())
  await spend(world, other, beside, 10)
  const second = await start(world, before.path)
  expect(await recover(world, second, [row])).toBe(true)
  await eventually('told', () => figures(other).spent >= 800)
  noteNeeded(second.spool, 0)
  expect(await recover(world, second, [row])).toBe(true)
  for (const open of other.leases.opens.values()) other.leases.tell(open)
  await eventually('told', () => figures(other).spent === 810)
})

test('nothing is said of what is closed with all that it spent', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const { world, path, other } = await worldOf(row)
  const first = await start(world, path)
  await spend(world, first.budgets, first.spool, 300)
  await first.budgets.close(2_000)
  await first.spool.close()
  const second = await start(world, path)
  const before = world.log.records(TOPICS.budgets.name).length
  expect(await recover(world, second, [row])).toBe(true)
  noteNeeded(second.spool, 0)
  expect(await recover(world, second, [row])).toBe(true)
  expect(world.log.records(TOPICS.budgets.name).length).toBe(before)
  expect(await settledFigures(world, other)).toEqual({ spent: 300, committed: 300 })
})

test('where something that was left open cannot be read, what is known is told, the lease is held, and is free once it can', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const { world, path, other } = await worldOf(row)
  const first = await start(world, path)
  const request = first.budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 600, tokens: 1 })).toBeNull()
  const open = request.parts()!
  await spend(world, first.budgets, first.spool, 300)
  first.silence.isOn = true
  await first.spool.close()
  const second = await start(world, path)
  expect(await recover(world, second, [row], false)).toBe(true)
  const held = await settledFigures(world, other)
  expect([held.spent, held.committed >= 900]).toEqual([300, true])
  // A build that can read it settles it.
  const outcome = { id: 'req_2', tenant_id: TENANT, budget: open }
  await second.spool.append('requests', 'request.settled', `${TENANT}/x`, JSON.stringify(outcome))
  await second.budgets.close(1_000)
  await second.spool.close()
  const third = await start(world, path)
  expect(await recover(world, third, [row])).toBe(true)
  expect(await settledFigures(world, other)).toEqual({ spent: 900, committed: 900 })
})

test('whoever closes in order says behind his last words that none of his outcomes is needed', async () => {
  const { world, path } = await worldOf(budgetRow({ window: 'lifetime' }))
  const spool = await openTestSpool(path, { nowMs: () => world.nowMs })
  closing.push(() => spool.close())
  const needed: number[] = []
  const more = { epoch: spool.epoch, spoolEnd: () => spool.end, onNeeded: (record: number) => needed.push(record) }
  const budgets = world.open(spool.instance, world.log.view(), more)
  await spend(world, budgets, spool, 300)
  expect(budgets.leases.neededFrom()).toBe(0)
  await budgets.close(2_000)
  expect([needed.at(-1), spool.end]).toEqual([1, 1])
})

test('a lease that a dead process had asked for, and that comes once it was closed, is closed too', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const { world, path, other } = await worldOf(row)
  const first = await start(world, path)
  await first.spool.append('requests', 'request.settled', `${TENANT}/x`, '{"id":"req"}')
  await first.spool.close()
  const second = await start(world, path)
  const dead = await recoverFor(world, second, second.spool, [row])
  // Of the former process: it was under way.
  const late = first.budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await late.reserve('prov_1', 'm', { nanoUsd: 900, tokens: 1 })).toBeNull()
  const own = second.budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await own.reserve('prov_1', 'm', { nanoUsd: 50, tokens: 1 })).toBeNull()
  first.silence.isOn = true
  await closeLate(second.spool, dead, depsOf(world, second, [row]), never, 0)
  const { committed: taken } = await settledFigures(world, other)
  expect([taken >= 50, taken < 900]).toEqual([true, true])
})

test('a process that claims an adopted spool, and so speaks in the name of its dead, keeps its leases', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const { world, path, other } = await worldOf(row)
  const dead = await start(world, path)
  await spend(world, dead.budgets, dead.spool, 100)
  dead.silence.isOn = true
  await dead.spool.close()
  const main = await start(world, `${path}/main`)
  const adopted = await openTestSpool(path, { nowMs: () => world.nowMs })
  const names = await recoverFor(world, main, adopted, [row])
  await adopted.close()
  const sibling = await start(world, path)
  expect(sibling.spool.instance).toBe(dead.spool.instance)
  const request = sibling.budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 850, tokens: 1 })).toBeNull()
  const { holder } = sibling.budgets.leases
  await closeLate(adopted, names, depsOf(world, main, [row]), never, 0)
  const { spent, committed: taken } = await settledFigures(world, other)
  expect([spent, taken >= 950]).toEqual([100, true])
  expect([sibling.budgets.leases.holder, accountOf(other)!.holders.get(holder)?.closed]).toEqual([holder, false])
})

test('of its own spool a process takes neither itself nor what it was retired under for dead', async () => {
  const row = budgetRow({ window: 'lifetime' })
  const { world, path } = await worldOf(row)
  const { spool, budgets } = await start(world, path)
  await spend(world, budgets, spool, 100)
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 50, tokens: 1 })).toBeNull()
  const { holder } = budgets.leases
  const deps = depsOf(world, { spool, budgets }, [row])
  const writers = writersOf(spool)
  expect([[...writers], [...deadOf(spool, writers, deps)]]).toEqual([[holder], []])
  const retired = { instance: spool.instance, before_ms: world.nowMs + 1, reason: 'operator' as const, orphaned: [] }
  const scribe = new BudgetScribe(deps, 'retiring')
  await scribe.append(TENANT, [{ type: 'instance.retired', data: retired }], budgets.leases.ledger)
  await eventually('under another name', () => budgets.leases.holder !== holder)
  expect([...deadOf(spool, writers, deps)]).toEqual([])
})
