// A spool with records that this build cannot read: the known part is reported once, however often the start that
// reports it is interrupted.
import { expect, test } from 'bun:test'
import type { AppendFault } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { neededFrom, noteNeeded } from '../../../src/upkeep/budgets/spool-spending.ts'
import { leaveOpen, recover, recoveryWorlds, settledFigures, spend } from './recovery-world.ts'

const { worldOf, start } = recoveryWorlds()

test('where something that was left open cannot be read, what is known is told, the lease is held, and is free once it can', async () => {
  const { row, world, path, other } = await worldOf()
  const first = await start(world, path)
  const settleOpen = await leaveOpen(world, first, 600)
  await spend(world, first, 300)
  first.silence.isOn = true
  await first.spool.close()
  const second = await start(world, path)
  expect(await recover(world, second, [row], false)).toBe(true)
  const held = await settledFigures(world, other)
  expect([held.spent, held.committed >= 900]).toEqual([300, true])
  // A build that can read it settles it.
  await settleOpen(second.spool)
  await second.budgets.close(1_000)
  await second.spool.close()
  const third = await start(world, path)
  expect(await recover(world, third, [row])).toBe(true)
  expect(await settledFigures(world, other)).toEqual({ spent: 900, committed: 900 })
})

/** A process that died with requests open, of which each next start can read one more. It has reported 300. */
const leftOpen = async (...nanoUsd: number[]) => {
  const { row, world, path, other } = await worldOf()
  const first = await start(world, path)
  await spend(world, first, 300)
  const open: Awaited<ReturnType<typeof leaveOpen>>[] = []
  for (const each of nanoUsd) open.push(await leaveOpen(world, first, each))
  first.silence.isOn = true
  await first.spool.close()
  const next = async () => {
    const started = await start(world, path)
    const mark = neededFrom(started.spool)
    await open.shift()?.(started.spool)
    return {
      ...started,
      recover: (isSettled: boolean, log?: EventLog) => recover(world, started, [row], isSettled, log),
      /** Ended before it has noted that its report is complete. */
      async dies() {
        noteNeeded(started.spool, mark)
        started.silence.isOn = true
        await started.spool.close()
      },
    }
  }
  return { world, next, spent: async () => (await settledFigures(world, other)).spent }
}

test('what is settled beside it counts once, however often the start that says so is ended before it has noted that', async () => {
  const { next, spent } = await leftOpen(200)
  for (let n = 0; n < 3; n++) {
    const started = await next()
    expect(await started.recover(false)).toBe(true)
    expect(await spent()).toBe(500)
    await started.dies()
  }
  const last = await next()
  expect(await last.recover(true)).toBe(true)
  expect(await spent()).toBe(500)
})

test('what a later start settles is added to that, once', async () => {
  const { next, spent } = await leftOpen(200, 100)
  const first = await next()
  expect(await first.recover(false)).toBe(true)
  await first.dies()
  const second = await next()
  expect(await second.recover(false)).toBe(true)
  expect(await spent()).toBe(600)
  await second.dies()
  const third = await next()
  expect(await third.recover(true)).toBe(true)
  expect(await spent()).toBe(600)
})

test('one that is noted and done with is no matter for what comes behind it', async () => {
  const { next, spent } = await leftOpen(200, 100)
  const first = await next()
  expect(await first.recover(false)).toBe(true)
  first.silence.isOn = true
  await first.spool.close()
  const second = await next()
  expect(await second.recover(true)).toBe(true)
  expect(await spent()).toBe(600)
})

test('where the log does not say whether it took what it was told, that is said again and counts once', async () => {
  const { world, next, spent } = await leftOpen(200)
  const started = await next()
  const faults: AppendFault[] = ['lost_answer']
  expect(await started.recover(false, world.log.view({ beforeAppend: () => faults.shift() ?? 'none' }))).toBe(true)
  expect(faults).toEqual([])
  expect(await spent()).toBe(500)
})
