// Compares what gateways report about their budgets once no requests come any more with what the log says. `GET
// /budgets` reads the same.
import { type Amount, NO_AMOUNT, plus } from '../../../src/domain/budgets/amount.ts'
import type { BudgetStanding } from '../../../src/state/budgets/budgets.ts'
import type { Run } from '../run.ts'

export interface Said {
  readonly process: string
  readonly budget: string
  readonly standing: BudgetStanding | null
}

/** Of each gateway, every budget that is in use. */
export const standingsOf = ({ machines, scheduler }: Run): Said[] => {
  const said: Said[] = []
  for (const { gateway } of machines) {
    if (gateway === null) continue
    const { process, live, budgetParts } = gateway
    scheduler.as(process, () => {
      for (const [budget, row] of live.control.table('budgets').rows())
        if (row.enabled) said.push({ process: process.name, budget, standing: budgetParts.budgets.standing(row) })
    })
  }
  return said
}

interface Window {
  readonly budget: string
  readonly startMs: number
  readonly endMs: number
}

const windowOf = (account: string): Window => {
  const [budget = '', bounds = ''] = account.split('/')
  const [startMs, endMs] = bounds.split('-')
  return { budget, startMs: Number(startMs), endMs: endMs === '' ? Number.POSITIVE_INFINITY : Number(endMs) }
}

const overlap = (one: Window, other: Window): boolean =>
  one.budget === other.budget && one.startMs < other.endMs && other.startMs < one.endMs

/** All instances are idle: no living one reserves anything. */
export const checkIdle = (run: Run): void => {
  // An outcome that could not be written holds its reservation until the next start settles it.
  if (run.damaged.size > 0 || run.clients.lostOutcomes) return
  // A lease that a late copy requests in the name of a closed process is free at the next start.
  const { late, twice } = run.scenario.network
  if (run.clients.someDied && late + twice > 0) return
  // What a dead process held comes back with its spool.
  if (run.hasLeftSpools) return
  for (const { process, budget, standing } of standingsOf(run)) {
    const { nano_usd, tokens } = standing?.reserved ?? NO_AMOUNT
    if (nano_usd > 0 || tokens > 0)
      run.violated(
        `${process} says that ${nano_usd} nano-USD and ${tokens} tokens of ${budget} are reserved, and nobody asks`,
      )
  }
}

/** More was counted of it than was reserved. */
export const checkClosed = (run: Run, budget: string): void => {
  for (const { process, budget: id, standing } of standingsOf(run))
    if (id === budget && standing?.closed === false)
      run.violated(`${process} says that ${budget} is open, and more was counted of it than was reserved`)
}

/** `charged`: by account, what its outcomes cost. */
export const checkStandings = (run: Run, charged: ReadonlyMap<string, Amount>): void => {
  if (run.damaged.size > 0) return
  for (const { process, budget, standing } of run.said) {
    if (standing === null) {
      run.violated(`${process} does not know how ${budget} stands`)
      continue
    }
    const { account, spent, reserved } = standing
    if (reserved.nano_usd > 0 || reserved.tokens > 0)
      run.violated(
        `${process} says that ${reserved.nano_usd} nano-USD and ` +
          `${reserved.tokens} tokens of ${account} are reserved in the end`,
      )
    // A window that got no request yet does not report what overlaps it.
    if (!charged.has(account)) continue
    let sum = NO_AMOUNT
    for (const [other, amount] of charged) if (overlap(windowOf(account), windowOf(other))) sum = plus(sum, amount)
    if (spent.nano_usd !== sum.nano_usd || spent.tokens !== sum.tokens)
      run.violated(
        `${process} says that ${spent.nano_usd} nano-USD and ${spent.tokens} tokens of ` +
          `${account} are spent, outcomes cost ${sum.nano_usd} and ${sum.tokens}`,
      )
  }
}
