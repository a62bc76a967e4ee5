// How many budgets may be in use, so that the records of no request name more accounts than they may.

import type { ControlReader } from '../control.ts'
import { Rejection } from '../kernel/rejection.ts'
import { MOST_ACCOUNTS } from './budget-events.ts'
import { BUDGET_SCOPES, type BudgetTarget } from './budget-scope.ts'

/** On one tenant, key, model, provider or endpoint scope: a request falls under those of one of each, and under at most `MOST_ACCOUNTS` in all. */
export const MOST_OF_TARGET = Math.floor(MOST_ACCOUNTS / BUDGET_SCOPES.length)

/** Index key of what budgets are about. */
export const targetKey = (tenantId: string, { type, id }: { readonly type: string; readonly id: string }): string =>
  `${tenantId}\0${type}\0${id.toLowerCase()}`

/** Throws where one more may not be in use. */
export const requireFewBudgets = (state: ControlReader, tenantId: string, target: BudgetTarget): void => {
  const budgets = state.table('budgets')
  const inUse = budgets.find('target', targetKey(tenantId, target)).filter((id) => budgets.get(id)!.enabled)
  if (inUse.length < MOST_OF_TARGET) return
  const what = target.type === 'endpoint' ? 'endpoint scope' : target.type
  const message = `this ${what} has ${inUse.length} budgets that are in use, and may have ${MOST_OF_TARGET}: no request may fall under more than ${MOST_ACCOUNTS}`
  throw new Rejection('invalid', message, 'scope')
}
