// Instances that share a log in memory and spend from the budgets of one tenant: real leases, an injected clock for log
// time and windows.
import { BUDGET_DEFAULTS, type BudgetRow } from '../../../src/domain/budgets/budget.ts'
import { CHAIN_ROW } from '../../../src/domain/chain.ts'
import { type ControlReader, ControlState, EVENT_VERSION } from '../../../src/domain/control.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { type BudgetsDeps, type OpenBudgets, openBudgets } from '../../../src/state/budgets/budgets.ts'
import type { FoldedBatch } from '../../../src/state/port.ts'
import { quiet } from '../support.ts'

export const TENANT = 'ten_1'
/** Noon of a day. */
export const NOON_MS = Date.UTC(2026, 10, 20, 12)

export const budgetRow = (fields: Partial<BudgetRow> = {}): BudgetRow => {
  const { limit_usd: _, soft_limit_usd: __, hard_cap_usd: ___, ...rest } = BUDGET_DEFAULTS
  return {
    ...rest,
    ...{ id: 'bud_1', tenant_id: TENANT, scope: { type: 'tenant', id: TENANT }, window: 'day', managed_by: 'api' },
    ...{ limit_nano_usd: 1_000, soft_limit_nano_usd: null, hard_cap_nano_usd: null, height: 1 },
    ...{ created_at: '2026-11-01T00:00:00.000Z', updated_at: '2026-11-01T00:00:00.000Z', revision: 'a'.repeat(64) },
    ...fields,
  }
}

export interface BudgetWorld {
  readonly log: ReturnType<typeof memoryLog>
  nowMs: number
  /** Adds to the monotonic clock of all instances. */
  skipMs: number
  /** A decision about a budget, seen by all instances at once. */
  put(row: BudgetRow): void
  /** Which events all instances understand, by the chain; the newest at first. */
  understand(schemaVersion: number): void
  open(instance: string, view?: EventLog, more?: Partial<BudgetsDeps>): OpenBudgets
  close(): Promise<void>
}

export const budgetWorld = (...rows: BudgetRow[]): BudgetWorld => {
  const state = new ControlState()
  const listeners = new Set<(batch: FoldedBatch) => void>()
  const opened: OpenBudgets[] = []
  const put = (row: BudgetRow) => {
    const before = state.table('budgets').get(row.id) ?? null
    const changes = [{ table: 'budgets', id: row.id, before, after: row }]
    state.apply(changes)
    for (const listener of listeners) listener({ changes, refused: [] })
  }
  const understand = (schemaVersion: number) => {
    const before = state.table('chain').get(CHAIN_ROW) ?? null
    const after = { chain_id: 'chain', partitions: {}, schema_version: schemaVersion }
    state.apply([{ table: 'chain', id: CHAIN_ROW, before, after }])
  }
  understand(EVENT_VERSION)
  for (const row of rows) put(row)
  const live = {
    control: state as ControlReader,
    subscribe(listener: (batch: FoldedBatch) => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  let epochs = 0
  const world: BudgetWorld = {
    log: memoryLog({ nowMs: () => world.nowMs }),
    nowMs: NOON_MS,
    skipMs: 0,
    put,
    understand,
    open(instance, view = world.log.view(), more = {}) {
      const budgets = openBudgets({
        ...{ log: view, instance, epoch: String(epochs++), partitions: () => 1, live },
        nowMs: () => world.nowMs,
        monotonicMs: () => performance.now() + world.skipMs,
        newEpoch: () => `again-${epochs++}`,
        spoolEnd: () => 0,
        diagnostics: quiet,
        ...more,
      })
      opened.push(budgets)
      return budgets
    },
    async close() {
      await Promise.all(opened.map((budgets) => budgets.close(100)))
      await world.log.close()
    },
  }
  return world
}
