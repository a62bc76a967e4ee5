// Which instances hold something of budgets, by the accounts that this process reads.
import { type Amount, minus, NO_AMOUNT, plus } from '../../domain/budgets/amount.ts'
import type { BudgetLedger } from './ledger.ts'

/** One instance, over all accounts. */
export interface HoldingInstance {
  readonly id: string
  /** Of its leases, what it was not seen to spend or to give back. */
  readonly held: Amount
  /** Accounts in which it is not closed. */
  readonly accounts: number
  /** Log time of the last that it said of a budget. */
  readonly lastAtMs: number
}

/** Those that are not closed in some account, of all tenants or of one. */
export const holdingInstances = (ledger: BudgetLedger): HoldingInstance[] => {
  const found = new Map<string, { held: Amount; accounts: number; lastAtMs: number }>()
  for (const tenantId of ledger.tenants())
    for (const { holders } of ledger.accounts(tenantId)?.all() ?? [])
      for (const { instance, granted, returned, spent, at_ms, closed } of holders.values()) {
        if (closed) continue
        const sum = found.get(instance) ?? { held: NO_AMOUNT, accounts: 0, lastAtMs: 0 }
        found.set(instance, sum)
        sum.held = plus(sum.held, minus(minus(granted, returned), spent))
        sum.accounts++
        sum.lastAtMs = Math.max(sum.lastAtMs, at_ms)
      }
  return [...found].map(([id, sum]) => ({ id, ...sum })).sort((a, b) => b.lastAtMs - a.lastAtMs)
}
