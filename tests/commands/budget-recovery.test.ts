// How a start returns what the previous process held of budgets: when, under which conditions, and what an orderly stop
// leaves for the next start to read.

import { expect, test } from 'bun:test'
import { openBudgetParts } from '../../src/composition/budgets.ts'
import type { ControlPlane } from '../../src/composition/control-plane.ts'
import { openOutcomes, type StartOptions } from '../../src/composition/outcomes.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { ControlState } from '../../src/domain/control.ts'
import { nodeFiles } from '../../src/log/files.ts'
import { memoryLog } from '../../src/log/memory.ts'
import type { Sender } from '../../src/log/sender/thread.ts'
import { REFUSABLE } from '../../src/log/spool/port.ts'
import { Condition } from '../../src/state/condition.ts'
import { neededFrom } from '../../src/upkeep/budgets/spool-spending.ts'
import { diskError } from '../log/small-disk.ts'
import { closedAfterEach } from '../services/closing.ts'
import { MASTER_KEY } from '../services/cluster.ts'
import { eventually } from '../services/eventually.ts'
import { TENANT } from '../state/budgets/world.ts'
import { quiet } from '../state/support.ts'

const closing = closedAfterEach()

const configOf = (dir: string) => loadConfig({ file: { name: 'test', text: `data:\n  dir: ${dir}\n` }, env: {} }).config

/** A control state that is served from a snapshot until `becomesLive` is called. */
const fromSnapshot = () => {
  const control = new ControlState()
  const condition = new Condition()
  let phase = 'starting'
  const live = {
    ...{ control, condition, subscribe: () => () => {}, ready: () => Promise.resolve(), status: () => ({ phase }) },
  } as unknown as ControlPlane['live']
  const becomesLive = () => {
    phase = 'live'
    condition.notify()
  }
  return { live, becomesLive }
}

test('while the control state is that of a snapshot nothing is given back: it may not know the budget that was spent from', async () => {
  const config = configOf(closing.folder())
  let hasAsked = false
  const beforeEnd = () => {
    hasAsked = true
  }
  const log = memoryLog({ nowMs: Date.now, faults: { beforeEnd } })
  const outcomes = await openOutcomes(config, quiet)
  const { live, becomesLive } = fromSnapshot()
  const parts = openBudgetParts(config, { live }, outcomes, quiet, { log })
  closing.push(() => outcomes.spool.close())
  closing.push(() => parts.close())
  const stopping = new AbortController()
  closing.push(() => stopping.abort())
  let isDone: boolean | null = null
  const recovery = parts.recover(outcomes.spool, stopping.signal, true).then((answer) => {
    isDone = answer.isDone
  })
  await new Promise<void>((resolve) => setImmediate(resolve))
  expect([isDone, hasAsked]).toEqual([null, false])
  becomesLive()
  await recovery
  expect([isDone, hasAsked] as unknown[]).toEqual([true, true])
})

/** A process with its spool. The recovery of its dead predecessors reports success. */
const started = async (dir: string, adopt = false, files = nodeFiles) => {
  const outcomes = await openOutcomes(configOf(dir), quiet, { spool: { files } })
  const asked: boolean[] = []
  const recover: StartOptions['recover'] = (_spool, _signal, isSettled) => {
    asked.push(isSettled)
    return Promise.resolve({ isDone: true, late: Promise.resolve(true) })
  }
  outcomes.start(fromSnapshot().live, { adopt, recover })
  await eventually('recovered', () => asked.length > (adopt ? 1 : 0))
  return { outcomes, asked }
}

test('an orderly stop notes that what was told needs not be read again, however short ago the last note was', async () => {
  const dir = closing.folder()
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
  const dir = closing.folder()
  const first = await started(dir)
  expect(first.asked).toEqual([true])
  const { spool } = first.outcomes
  await spool.append('requests', 'request.admitted', `${TENANT}/x`, '{"id":"of another build"}', REFUSABLE)
  await first.outcomes.stop()
  await spool.close()
  const second = await started(dir)
  expect(second.asked).toEqual([false])
  await second.outcomes.stop()
  await second.outcomes.spool.close()
})

test('a disk that fails while spools of dead processes are adopted is asked again', async () => {
  const dir = closing.folder()
  const dead = [await openOutcomes(configOf(dir), quiet), await openOutcomes(configOf(dir), quiet)]
  for (const { spool } of dead) await spool.close()
  let failures = 1
  const list = (path: string) => {
    if (path === dead[1]!.spool.directory && failures-- > 0) throw diskError('EIO')
    return nodeFiles.list(path)
  }
  const { outcomes, asked } = await started(dir, true, { ...nodeFiles, list })
  expect([asked, failures < 0]).toEqual([[true, true], true])
  await outcomes.stop()
  await outcomes.spool.close()
})

test('a spool that holds what cannot be read is not removed when it was adopted and shipped: a build that can read it may come', async () => {
  const dir = closing.folder()
  const text = `data:\n  dir: ${dir}\nlog:\n  kafka:\n    brokers: [127.0.0.1:9]\n`
  const env = { GATEWAY_SECURITY_MASTER_KEY: MASTER_KEY }
  const { config } = loadConfig({ file: { name: 'test', text }, env })
  const drained: { readonly number: number; readonly isOver: Promise<boolean> | undefined }[] = []
  const drain: Sender['drain'] = ({ number }, isOver) => void drained.push({ number, isOver })
  const status = () => ({ spools: [], problem: null, restarts: 0 })
  const startSender = () => ({ wake: () => {}, drain, status, stop: () => Promise.resolve() })
  const outcomes = await openOutcomes(config, quiet, { startSender })
  closing.push(() => outcomes.spool.close())
  const { spool: left } = await openOutcomes(config, quiet)
  await left.append('requests', 'request.admitted', `${TENANT}/x`, '{"id":"of another build"}', REFUSABLE)
  await left.close()
  const { live, becomesLive } = fromSnapshot()
  becomesLive()
  const parts = openBudgetParts(config, { live }, outcomes, quiet, { log: memoryLog({ nowMs: Date.now }) })
  closing.push(() => parts.close())
  outcomes.start(live, { adopt: true, recover: parts.recover })
  closing.push(() => outcomes.stop())
  await eventually('it is shipped', () => drained.length === 1)
  expect([drained[0]!.number, await drained[0]!.isOver]).toEqual([left.number, false])
})
