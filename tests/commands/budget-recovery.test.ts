// How a start gives back what the process before it held of budgets: when, on what, and what an orderly stop leaves to be read.
import { afterEach, expect, test } from 'bun:test'
import { openBudgetParts } from '../../src/commands/budgets.ts'
import type { ControlPlane } from '../../src/commands/control-plane.ts'
import { openOutcomes, type StartOptions } from '../../src/commands/outcomes.ts'
import { loadConfig } from '../../src/config.ts'
import { ControlState } from '../../src/domain/control.ts'
import { memoryLog } from '../../src/log/memory.ts'
import { Changed } from '../../src/state/changed.ts'
import { neededFrom } from '../../src/upkeep/spool-spending.ts'
import { temporaryFolder } from '../log/support.ts'
import { eventually } from '../services/eventually.ts'
import { budgetRow, TENANT } from '../state/budget-world.ts'
import { quiet } from '../state/support.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

const configOf = (dir: string) => loadConfig({ file: { name: 'test', text: `data:\n  dir: ${dir}\n` }, env: {} }).config

const folder = (): string => {
  const { path, remove } = temporaryFolder()
  closing.push(remove)
  return path
}

/** A control state that is served from a snapshot until it is said to be live. */
const fromSnapshot = () => {
  const control = new ControlState()
  const changed = new Changed()
  let phase = 'starting'
  const live = {
    ...{ control, changed, subscribe: () => () => {}, ready: () => Promise.resolve(), status: () => ({ phase }) },
  } as unknown as ControlPlane['live']
  const becomesLive = () => {
    phase = 'live'
    changed.tell()
  }
  return { control, live, becomesLive }
}

test('while the control state is that of a snapshot nothing is given back: it may not know the budget that was spent from', async () => {
  const config = configOf(folder())
  const log = memoryLog({ nowMs: Date.now })
  const outcomes = await openOutcomes(config, quiet)
  const { control, live, becomesLive } = fromSnapshot()
  const parts = openBudgetParts(config, { live }, outcomes, quiet, { log })
  closing.push(
    () => outcomes.spool.close(),
    () => parts.close(),
  )
  const stopping = new AbortController()
  closing.push(() => stopping.abort())
  let isDone: boolean | null = null
  const recovery = parts.recover(outcomes.spool, stopping.signal, true).then((answer) => {
    isDone = answer
  })
  const table = control.table('budgets')
  let hasAsked = false
  table.rows = () => {
    hasAsked = true
    return new Map([['bud_1', budgetRow({ tenant_id: TENANT })]]).entries()
  }
  await new Promise<void>((resolve) => setImmediate(resolve))
  expect([isDone, hasAsked]).toEqual([null, false])
  becomesLive()
  await recovery
  expect([isDone, hasAsked] as unknown[]).toEqual([true, true])
})

/** A process with its spool, whose dead predecessors are said to be recovered. */
const started = async (dir: string) => {
  const outcomes = await openOutcomes(configOf(dir), quiet)
  const asked: boolean[] = []
  const recover: StartOptions['recover'] = (_spool, _signal, isSettled) => {
    asked.push(isSettled)
    return Promise.resolve(true)
  }
  outcomes.start(fromSnapshot().live, { adopt: false, recover })
  await eventually('recovered', () => asked.length > 0)
  return { outcomes, asked }
}

test('an orderly stop notes that what was told needs not be read again, however short ago the last note was', async () => {
  const dir = folder()
  const { outcomes } = await started(dir)
  const { spool } = outcomes
  outcomes.needFrom(3)
  expect(neededFrom(spool)).toBe(3)
  outcomes.needFrom(9)
  expect(neededFrom(spool)).toBe(3) // noted a moment ago
  await outcomes.stop()
  expect(neededFrom(spool)).toBe(9)
  await spool.close()
})

test('what was left open and cannot be read is said to whoever gives back leases', async () => {
  const dir = folder()
  const first = await started(dir)
  expect(first.asked).toEqual([true])
  const { spool } = first.outcomes
  await spool.append('requests', 'request.admitted', `${TENANT}/x`, '{"id":"of another build"}', true, null)
  await first.outcomes.stop()
  await spool.close()
  const second = await started(dir)
  expect(second.asked).toEqual([false])
  await second.outcomes.stop()
  await second.outcomes.spool.close()
})
