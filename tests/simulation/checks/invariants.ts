// What must hold once a run has healed, drained and stopped.

import type { Run } from '../run.ts'
import { checkBudgets } from './check-budgets.ts'
import { checkChain } from './check-chain.ts'
import { checkOutcomes } from './check-outcomes.ts'

export const checkRun = (run: Run): void => {
  checkChain(run)
  const read = checkOutcomes(run)
  checkBudgets(run, read)
}
