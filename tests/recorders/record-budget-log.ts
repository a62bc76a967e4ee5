// Records a golden budget log: what the instances of a build wrote in a short life, and the result of this build's
// fold.
// `bun tests/recorders/record-budget-log.ts <name> [source tree]` makes tests/fixtures/budget-logs/<name>.ndjson;
// `--edges <name>` makes one of the rare records.
// Golden logs are kept for ever and never restated: a build that folds them to other verdicts would grant differently
// from a build beside it.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { TOPICS } from '../../src/log/topics.ts'
import { BUDGET_LOGS, type BudgetHeader, budgetLogPath, foldBudgetLog } from '../fixtures/golden-budgets.ts'
import type { GoldenRecord } from '../fixtures/golden-log.ts'
import { budgetEdges } from './budget-edges.ts'
import { type BudgetBuild, liveOnBudgets } from './budget-life.ts'

/** Of a source tree: its own world, so that all that it writes is its own. */
const buildOf = async (root: string): Promise<BudgetBuild> => {
  const paths = ['tests/state/budgets/world.ts', 'src/state/budgets/writer.ts', 'src/upkeep/budgets/retirement.ts']
  const modules = await Promise.all(paths.map((path) => import(join(root, path)) as Promise<Partial<BudgetBuild>>))
  return Object.assign({}, ...modules) as BudgetBuild
}

const keep = (name: string, records: readonly GoldenRecord[]): void => {
  const path = budgetLogPath(name)
  if (existsSync(path)) throw new Error(`${name} is recorded already: golden logs are never changed`)
  const header: BudgetHeader = { recorded_by: name, ...foldBudgetLog(records) }
  mkdirSync(BUDGET_LOGS, { recursive: true })
  writeFileSync(path, [header, ...records].map((line) => `${JSON.stringify(line)}\n`).join(''))
  console.log(`recorded ${name}: ${records.length} records, ${header.verdicts.length} verdicts`)
}

const [first, second] = process.argv.slice(2)
if (first === '--edges' && second !== undefined) keep(second, budgetEdges())
else if (first !== undefined) {
  const world = await liveOnBudgets(await buildOf(resolve(second ?? join(import.meta.dir, '../..'))))
  const written = world.log.records(TOPICS.budgets.name)
  keep(
    first,
    written.map(({ atMs, value }) => ({ at: atMs, value: Buffer.from(value!).toString('base64') })),
  )
  await world.close()
} else console.error('say its name: bun tests/recorders/record-budget-log.ts <name> [source tree]')
process.exit(first === undefined ? 1 : 0)
