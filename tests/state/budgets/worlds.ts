// Worlds of budgets that end with the test that made them.
import { closedAfterEach } from '../../services/closing.ts'
import { type BudgetWorld, budgetWorld } from './world.ts'

/** Call it once, at the top of a test file: what it answers makes a world of these rows. */
export const worldsClosedAfterEach = (): ((...rows: Parameters<typeof budgetWorld>) => BudgetWorld) => {
  const closing = closedAfterEach()
  return (...rows) => {
    const world = budgetWorld(...rows)
    closing.push(() => world.close())
    return world
  }
}
