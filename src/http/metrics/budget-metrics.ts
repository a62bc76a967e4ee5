// Metrics of budgets: a bounded number of them by id, those nearest to their limits, and the state of their leases in
// this process.
import { Gauge, type Registry } from '@prometheus-io/client'
import type { BudgetFigure, BudgetFigures } from '../../state/budgets/budgets.ts'
import { readOnScrape } from './tally.ts'
import type { Telemetry } from './telemetry.ts'

/** Series of each metric: further budgets are counted and not named. */
const LABELLED = 64
const NONE: BudgetFigures = { nearest: [], inUse: 0, closed: 0, leases: 0, waiting: 0, downMs: 0 }
/** Computed once for all metrics of a scrape. */
const FRESH_MS = 100

export const budgetMetrics = (registers: Registry[], { budgets }: Telemetry): void => {
  let last = NONE
  let takenMs = Number.NEGATIVE_INFINITY
  const figures = (): BudgetFigures => {
    const nowMs = performance.now()
    if (nowMs - takenMs > FRESH_MS) {
      takenMs = nowMs
      last = budgets?.(LABELLED) ?? NONE
    }
    return last
  }
  const each = (name: string, help: string, value: (budget: BudgetFigure) => number | null) =>
    new Gauge({
      name,
      help: `${help} Of the ${LABELLED} that are nearest to their limits.`,
      labelNames: ['budget'],
      registers,
      collect() {
        this.reset()
        for (const budget of figures().nearest) {
          const is = value(budget)
          if (is !== null) this.set({ budget: budget.id }, is)
        }
      },
    })
  each('gateway_budget_limit_usd', 'What a budget allows in its window.', ({ limitNanoUsd }) =>
    limitNanoUsd === null ? null : limitNanoUsd / 1e9,
  )
  each('gateway_budget_spent_usd', 'What was spent of it, by all instances.', ({ spentNanoUsd }) => spentNanoUsd / 1e9)
  each(
    'gateway_budget_reserved_usd',
    'What leases hold of it, for requests under way or ahead of them.',
    (budget) => budget.reservedNanoUsd / 1e9,
  )
  each('gateway_budget_remaining_usd', 'What is neither spent nor reserved.', (budget) =>
    budget.limitNanoUsd === null
      ? null
      : Math.max(0, budget.limitNanoUsd - budget.spentNanoUsd - budget.reservedNanoUsd) / 1e9,
  )
  each(
    'gateway_budget_remaining_ratio',
    'The same as a share of the limit, of money or tokens, whichever is less.',
    (budget) => budget.leftShare,
  )
  readOnScrape(registers, 'gateway_budgets', 'Budgets in use.', () => figures().inUse)
  readOnScrape(
    registers,
    'gateway_budgets_closed',
    'Budgets that an overrun has closed until their limits are set again.',
    () => figures().closed,
  )
  readOnScrape(
    registers,
    'gateway_budget_leases',
    'Accounts of budgets that this process holds a lease of.',
    () => figures().leases,
  )
  readOnScrape(
    registers,
    'gateway_budget_requests_waiting',
    'Requests that wait for a lease now.',
    () => figures().waiting,
  )
  readOnScrape(
    registers,
    'gateway_budget_log_down_seconds',
    'For so long the log has not taken what this process says of budgets; 0: it does.',
    () => figures().downMs / 1_000,
  )
}
