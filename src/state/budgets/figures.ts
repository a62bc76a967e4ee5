// Standing of all budgets for `/metrics`: those that are nearest to their limits by name, the rest as counts.
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import type { ApplicableBudgets } from './applicable.ts'
import type { BudgetStanding } from './budgets.ts'
import type { BudgetLeases } from './leases.ts'

/** One budget in its present window. */
export interface BudgetFigure {
  readonly id: string
  /** Null: it does not limit money. */
  readonly limitNanoUsd: number | null
  readonly spentNanoUsd: number
  readonly reservedNanoUsd: number
  /**
   * The share of the limit that is neither spent nor reserved, of money or of tokens, whichever is less. Null: no
   * limit.
   */
  readonly leftShare: number | null
}

export interface BudgetFigures {
  /** At most the requested number, the nearest to their limits first. */
  readonly nearest: readonly BudgetFigure[]
  readonly inUse: number
  /** Closed by an overrun. */
  readonly closed: number
  /** Accounts with a lease of this process. */
  readonly leases: number
  /** Requests that wait for a lease. */
  readonly waiting: number
  /** How long the log has refused the reports of this process; 0: it takes them. */
  readonly downMs: number
}

const leftOf = (limit: number | null, taken: number): number =>
  limit === null ? 1 : limit === 0 ? 0 : Math.max(0, 1 - taken / limit)

export const budgetFigures = (
  { opens, waiting, downSinceMs, deps }: BudgetLeases,
  applicable: ApplicableBudgets,
  standing: (row: BudgetRow) => BudgetStanding | null,
  most: number,
): BudgetFigures => {
  const nearest: BudgetFigure[] = []
  let inUse = 0
  let closed = 0
  for (const [, { all }] of applicable.tenants())
    for (const { row } of all.values()) {
      inUse++
      const stands = standing(row)
      if (stands === null) continue
      if (stands.closed) closed++
      const { spent, reserved } = stands
      const { limit_nano_usd: limitNanoUsd, limit_tokens: limitTokens } = row
      const leftShare = Math.min(
        leftOf(limitNanoUsd, spent.nano_usd + reserved.nano_usd),
        leftOf(limitTokens, spent.tokens + reserved.tokens),
      )
      nearest.push({
        ...{ id: row.id, limitNanoUsd, spentNanoUsd: spent.nano_usd, reservedNanoUsd: reserved.nano_usd },
        leftShare: limitNanoUsd === null && limitTokens === null ? null : leftShare,
      })
    }
  nearest.sort((a, b) => (a.leftShare ?? 2) - (b.leftShare ?? 2) || (a.id < b.id ? -1 : 1))
  const downMs = downSinceMs === null ? 0 : deps.monotonicMs() - downSinceMs
  return { nearest: nearest.slice(0, most), inUse, closed, leases: opens.size, waiting, downMs }
}
