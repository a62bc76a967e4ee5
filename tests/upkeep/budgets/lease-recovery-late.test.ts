// What comes to the log once the leases of a dead process were closed, and who is dead then.
import { expect, test } from 'bun:test'
import { BudgetWriter } from '../../../src/state/budgets/writer.ts'
import { closeLate, deadOf } from '../../../src/upkeep/budgets/lease-recovery.ts'
import { writersOf } from '../../../src/upkeep/budgets/spool-spending.ts'
import { eventually } from '../../services/eventually.ts'
import { TENANT } from '../../state/budgets/world.ts'
import {
  accountOf,
  depsOf,
  othersIn,
  recover,
  recoverAdopted,
  recoveryWorlds,
  reserve,
  settledFigures,
  spend,
} from './recovery-world.ts'

const { worldOf, start, openSpool } = recoveryWorlds()
const never = new AbortController().signal

test('a lease that a dead process had asked for, and that comes once it was closed, is closed too', async () => {
  const { row, world, path, other } = await worldOf()
  const first = await start(world, path)
  await first.spool.append('requests', 'request.settled', `${TENANT}/x`, '{"id":"req"}')
  await first.spool.close()
  const second = await start(world, path)
  const dead = await recoverAdopted(world, second, [row])
  // Of the former process: it was under way.
  await reserve(world, first.budgets, 900)
  await reserve(world, second.budgets, 50)
  first.silence.isOn = true
  await closeLate(second.spool, dead, depsOf(world, second, [row]), never, 0)
  const { committed: taken } = await settledFigures(world, other)
  expect([taken >= 50, taken < 900]).toEqual([true, true])
})

test('so is one of a process that died before it had written anything into its spool', async () => {
  const { row, world, path, other } = await worldOf()
  const first = await start(world, path)
  await first.spool.close()
  const second = await start(world, path)
  expect(await recover(world, second, [row])).toBe(true)
  await reserve(world, first.budgets, 900)
  await reserve(world, second.budgets, 50)
  first.silence.isOn = true
  await closeLate(second.spool, othersIn(second), depsOf(world, second, [row]), never, 0)
  const { committed: taken } = await settledFigures(world, other)
  expect([taken >= 50, taken < 900]).toEqual([true, true])
  expect(second.budgets.leases.opens.size).toBe(1)
  expect(accountOf(other).holders.get(second.budgets.leases.holder)?.closed).toBe(false)
})

test('a process that claims an adopted spool, and so speaks in the name of its dead, keeps its leases', async () => {
  const { row, world, path, other } = await worldOf()
  const dead = await start(world, path)
  await spend(world, dead, 100)
  dead.silence.isOn = true
  await dead.spool.close()
  const main = await start(world, `${path}/main`)
  const adopted = await openSpool(path, world)
  const names = await recoverAdopted(world, { ...main, spool: adopted }, [row])
  await adopted.close()
  const sibling = await start(world, path)
  expect(sibling.spool.instance).toBe(dead.spool.instance)
  await reserve(world, sibling.budgets, 850)
  const { holder } = sibling.budgets.leases
  await closeLate(adopted, names, depsOf(world, main, [row]), never, 0)
  const { spent, committed: taken } = await settledFigures(world, other)
  expect([spent, taken >= 950]).toEqual([100, true])
  expect([sibling.budgets.leases.holder, accountOf(other).holders.get(holder)?.closed]).toEqual([holder, false])
})

test('of its own spool a process takes neither itself nor what it was retired under for dead', async () => {
  const { row, world, path } = await worldOf()
  const started = await start(world, path)
  const { spool, budgets } = started
  await spend(world, started, 100)
  await reserve(world, budgets, 50)
  const { holder } = budgets.leases
  const deps = depsOf(world, started, [row])
  const writers = writersOf(spool)
  expect([[...writers], [...deadOf(spool, writers, deps)]]).toEqual([[holder], []])
  const retired = { instance: spool.instance, before_ms: world.nowMs + 1, reason: 'operator' as const, orphaned: [] }
  const writer = new BudgetWriter(deps, 'retiring')
  await writer.append(TENANT, [{ type: 'instance.retired', data: retired }], budgets.leases.ledger)
  await eventually('under another name', () => budgets.leases.holder !== holder)
  expect([...deadOf(spool, writers, deps)]).toEqual([])
})
