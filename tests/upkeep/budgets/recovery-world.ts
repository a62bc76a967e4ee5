// Processes with a spool that spend from budgets, die and start again, and one that looks on.
import { expect } from 'bun:test'
import { committed, spentOf } from '../../../src/domain/budgets/account.ts'
import type { BudgetRow } from '../../../src/domain/budgets/budget.ts'
import { ControlState } from '../../../src/domain/control.ts'
import type { EventLog } from '../../../src/log/port.ts'
import type { LocalSpool } from '../../../src/log/spool/open.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import {
  deadOf,
  type FindDead,
  othersOf,
  type RecoveryDeps,
  recoverLeases,
} from '../../../src/upkeep/budgets/lease-recovery.ts'
import { writersOf } from '../../../src/upkeep/budgets/spool-spending.ts'
import { openTestSpool } from '../../log/support.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, budgetWorld, TENANT } from '../../state/budgets/world.ts'
import { quiet } from '../../state/support.ts'

export const HOURS_MS = 2 * 3_600_000
const never = new AbortController().signal
let epochs = 0

export interface Started {
  readonly spool: LocalSpool
  readonly budgets: OpenBudgets
}
/** While it is on, the log takes nothing of this process. */
interface Silence {
  isOn: boolean
}

/** Of a world of this budget, unless others are given. Call it once, at the top of a test file. */
export const recoveryWorlds = () => {
  const closing = closedAfterEach()
  const openSpool = async (path: string, world?: BudgetWorld): Promise<LocalSpool> => {
    const spool = await openTestSpool(path, world === undefined ? {} : { nowMs: () => world.nowMs })
    closing.push(() => spool.close())
    return spool
  }
  return {
    openSpool,
    async worldOf(row: BudgetRow = budgetRow({ window: 'lifetime' })) {
      const world = budgetWorld(row)
      const path = closing.folder()
      closing.push(() => world.close())
      const other = world.open('other')
      await other.caughtUp(TENANT, 5_000)
      return { row, world, path, other }
    },
    async start(world: BudgetWorld, path: string): Promise<Started & { readonly silence: Silence }> {
      const spool = await openSpool(path, world)
      const silence = { isOn: false }
      const log = world.log.view({ beforeAppend: () => (silence.isOn ? 'unavailable' : 'none') })
      const budgets = world.open(spool.instance, log, { epoch: spool.epoch, spoolEnd: () => spool.end })
      await budgets.caughtUp(TENANT, 5_000)
      return { spool, budgets, silence }
    },
    /** As the control state is once all budgets were deleted. */
    async startWithoutBudgets(world: BudgetWorld, path: string): Promise<Started & { readonly reads: string[] }> {
      const spool = await openSpool(path, world)
      const log = world.log.view()
      const reads: string[] = []
      const watched: EventLog = {
        ...log,
        read(topic, ...rest) {
          reads.push(topic)
          return log.read(topic, ...rest)
        },
      }
      const live = { control: new ControlState(), subscribe: () => () => true }
      const budgets = world.open(spool.instance, watched, { epoch: spool.epoch, spoolEnd: () => spool.end, live })
      return { spool, budgets, reads }
    },
  }
}

export const depsOf = (
  world: BudgetWorld,
  { spool, budgets }: Started,
  rows: readonly BudgetRow[],
  log: EventLog = world.log,
): RecoveryDeps => ({
  ...{ log, instance: spool.instance, nowMs: () => world.nowMs, diagnostics: quiet, budgets },
  budgetRow: (id: string) => rows.find((row) => row.id === id),
  newEpoch: () => `recovery-${epochs++}`,
})

export const recover = (
  world: BudgetWorld,
  started: Started,
  rows: readonly BudgetRow[],
  isSettled = true,
  log?: EventLog,
): Promise<boolean> => recoverLeases(started.spool, depsOf(world, started, rows, log), never, isSettled)

/**
 * Returns what dead holders of a spool held, in the process that has adopted the spool. The process releases the spool
 * after this. Returns a function that finds these dead holders.
 */
export const recoverAdopted = async (
  world: BudgetWorld,
  started: Started,
  rows: readonly BudgetRow[],
): Promise<FindDead> => {
  const writers = writersOf(started.spool)
  expect(await recover(world, started, rows)).toBe(true)
  const names = deadOf(started.spool, writers, started)
  return () => (name) => names.has(name)
}

/** Of a spool that is not given up. */
export const othersIn =
  ({ spool, budgets }: Started): FindDead =>
  () =>
    othersOf(spool, budgets)

/** Reserves so much, which has to be granted. */
export const reserve = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number): Promise<RequestBudgets> => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })).toBeNull()
  return request
}

const append = (spool: LocalSpool, budget: unknown) => {
  const outcome = JSON.stringify({ id: 'req', tenant_id: TENANT, budget })
  return spool.append('requests', 'request.settled', `${TENANT}/${spool.instance}`, outcome)
}

/** Its outcome stands in the spool. */
export const settle = async (spool: LocalSpool, request: RequestBudgets, nanoUsd: number): Promise<void> => {
  request.endAttempt({ nanoUsd, tokens: 1, exact: true })
  await append(spool, request.settle())
  request.outcomeWas('recorded')
}

export const spend = async (world: BudgetWorld, { budgets, spool }: Started, nanoUsd: number): Promise<void> =>
  settle(spool, await reserve(world, budgets, nanoUsd), nanoUsd)

/** A request that its process leaves open when it dies. Returns a function that settles it in a later owner's spool. */
export const leaveOpen = async (world: BudgetWorld, { budgets }: Started, nanoUsd: number) => {
  const parts = (await reserve(world, budgets, nanoUsd)).parts()!
  return (spool: LocalSpool) => append(spool, parts)
}

export const accountOf = (budgets: OpenBudgets) => [...budgets.leases.ledger.accounts(TENANT)!.all()][0]!

export const figures = (budgets: OpenBudgets) => {
  const account = accountOf(budgets)
  return { spent: spentOf(account).nano_usd, committed: committed(account).nano_usd }
}

/** Once this instance has read all that stands there. */
export const settledFigures = async (world: BudgetWorld, budgets: OpenBudgets) => {
  const end = world.log.records(TOPICS.budgets.name).length
  await eventually('read', () => budgets.leases.ledger.place(TENANT).next >= end)
  return figures(budgets)
}
