// A spool whose process crashed: its spending is reported once, whatever changed in the budget meanwhile, and its
// reservations are released.
import { expect, test } from 'bun:test'
import { TOPICS } from '../../../src/log/topics.ts'
import { neededFrom, noteNeeded, spentIn } from '../../../src/upkeep/budgets/spool-spending.ts'
import { eventually } from '../../services/eventually.ts'
import { budgetRow, TENANT } from '../../state/budgets/world.ts'
import {
  accountOf,
  figures,
  HOURS_MS,
  recover,
  recoveryWorlds,
  reserve,
  settle,
  settledFigures,
  spend,
} from './recovery-world.ts'

const { worldOf, start, startWithoutBudgets, openSpool } = recoveryWorlds()
const never = new AbortController().signal
/** Beyond so many holders an account forgets those that are closed. */
const MANY = 128

test('what it spent and never told is told, though nobody knows the budget any more, and what it held beyond is free', async () => {
  const { world, path, other } = await worldOf()
  const first = await start(world, path)
  const request = await reserve(world, first.budgets, 900)
  first.silence.isOn = true
  await settle(first.spool, request, 800)
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
  await spend(world, first, 300)
  await first.spool.close()
  const second = await start(world, path)
  expect(await recover(world, second, [])).toBe(true)
  expect(await settledFigures(world, other)).toEqual({ spent: 300, committed: 300 })
  expect(accountOf(other)).toMatchObject({ height: 0, limit_nano_usd: null })
  // It comes back, and is hard.
  world.put(budgetRow({ window: 'lifetime', height: 8 }))
  const tooMuch = other.of(TENANT, 'key_1', null, world.nowMs)!
  expect((await tooMuch.reserve('prov_1', 'm', { nanoUsd: 701, tokens: 1 }))?.reason).toBe('spent')
  await reserve(world, other, 700)
})

test('what was closed so long ago that it is forgotten is not told again', async () => {
  const { row, world, path, other } = await worldOf()
  const first = await start(world, path)
  await spend(world, first, 300)
  await first.budgets.close(2_000)
  await first.spool.close()
  world.nowMs += HOURS_MS
  const beside = await openSpool(`${path}/beside`)
  await spend(world, { budgets: other, spool: beside }, 10)
  for (const open of other.leases.opens.values()) other.leases.report(open)
  await eventually('told', () => figures(other).spent === 310)
  expect([...accountOf(other)!.holders.keys()].some((name) => name.startsWith(first.spool.instance))).toBe(false)
  const second = await start(world, path)
  expect((await spentIn(second.spool, never)).size).toBe(1) // no note marks it as not needed
  expect(await recover(world, second, [row])).toBe(true)
  expect((await settledFigures(world, other)).spent).toBe(310)
})

test('where so many hold something that what is closed is forgotten at once, it is not told again either', async () => {
  const { row, world, path, other } = await worldOf(budgetRow({ window: 'lifetime', limit_nano_usd: 1_000_000 }))
  const first = await start(world, path)
  await spend(world, first, 300)
  await first.budgets.close(2_000)
  await first.spool.close()
  for (let n = 0; n <= MANY; n++) await reserve(world, world.open(`many-${n}`), 1)
  const names = () => [...accountOf(other)!.holders.keys()]
  await eventually('read', () => names().length > MANY)
  expect(names().some((name) => name.startsWith(first.spool.instance))).toBe(false)
  const second = await start(world, path)
  expect((await spentIn(second.spool, never)).size).toBe(1)
  expect(await recover(world, second, [row])).toBe(true)
  for (const open of other.leases.opens.values()) other.leases.report(open)
  expect(figures(second.budgets).spent).toBe(300)
})

test('where the log has lost its newest records, what was spent from a lease that it does not know any more is told', async () => {
  const before = await worldOf()
  const first = await start(before.world, before.path)
  await spend(before.world, first, 800)
  await first.budgets.close(2_000)
  await first.spool.close()
  // Of that log there is the account, and no word of this holder.
  const { row, world, other } = await worldOf()
  world.nowMs = before.world.nowMs
  const beside = await openSpool(`${before.path}/beside`)
  await spend(world, { budgets: other, spool: beside }, 10)
  const second = await start(world, before.path)
  expect(await recover(world, second, [row])).toBe(true)
  await eventually('told', () => figures(other).spent >= 800)
  noteNeeded(second.spool, 0)
  expect(await recover(world, second, [row])).toBe(true)
  for (const open of other.leases.opens.values()) other.leases.report(open)
  await eventually('told', () => figures(other).spent === 810)
})

test('nothing is said of what is closed with all that it spent', async () => {
  const { row, world, path, other } = await worldOf()
  const first = await start(world, path)
  await spend(world, first, 300)
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

test('what it held of a tenant who has no budget any more is free, though nothing that this process serves needs his accounts', async () => {
  const { world, path, other } = await worldOf()
  const first = await start(world, path)
  await spend(world, first, 300)
  await reserve(world, first.budgets, 500)
  for (const open of first.budgets.leases.opens.values()) first.budgets.leases.report(open)
  await eventually('told', () => figures(other).spent === 300)
  first.silence.isOn = true
  noteNeeded(first.spool, first.spool.end)
  await first.spool.close()
  expect((await settledFigures(world, other)).committed).toBeGreaterThanOrEqual(800)
  const second = await startWithoutBudgets(world, path)
  expect(await recover(world, second, [])).toBe(true)
  expect(await settledFigures(world, other)).toEqual({ spent: 300, committed: 300 })
})

test('nobody who has no budgets reads anything of them while there is nothing', async () => {
  const { world, path } = await worldOf()
  const started = await startWithoutBudgets(world, path)
  expect(await recover(world, started, [])).toBe(true)
  expect(started.reads).toEqual([])
})

test('whoever closes in order says behind his last words that none of his outcomes is needed', async () => {
  const { world, path } = await worldOf()
  const spool = await openSpool(path, world)
  const needed: number[] = []
  const more = { epoch: spool.epoch, spoolEnd: () => spool.end, onNeeded: (record: number) => needed.push(record) }
  const budgets = world.open(spool.instance, world.log.view(), more)
  await spend(world, { budgets, spool }, 300)
  expect(budgets.leases.neededFrom()).toBe(0)
  await budgets.close(2_000)
  expect([needed.at(-1), spool.end]).toEqual([1, 1])
})
