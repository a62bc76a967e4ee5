// Budgets: no hard limit is overspent, no account loses what was spent, and once everything is published nothing is
// held any more.
import { type Account, committed, spentOf } from '../../../src/domain/budgets/account.ts'
import { AccountBook } from '../../../src/domain/budgets/account-book.ts'
import { type Amount, isEqual, minus, NO_AMOUNT, plus } from '../../../src/domain/budgets/amount.ts'
import type { BudgetEvent } from '../../../src/domain/budgets/budget-events.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { Run } from '../run.ts'
import { PARTITIONS } from '../scenario/beginning.ts'
import type { Read } from './check-outcomes.ts'
import { checkStandings } from './standings.ts'

/** The accounts of all tenants, folded from the first records of their partitions. */
const foldAccounts = (run: Run): AccountBook[] => {
  const books = new Map<string, AccountBook>()
  const { name } = TOPICS.budgets
  for (let partition = 0; partition < PARTITIONS[name]!; partition++) {
    let logAtMs = 0
    for (const { offset, atMs, value } of run.broker.log.records(name, partition)) {
      logAtMs = Math.max(logAtMs, atMs)
      const { type, data, subject, instance, epoch } = readEnvelope(value!)!
      const book = books.get(subject) ?? new AccountBook(true, 0)
      books.set(subject, book)
      const { accounts } = book.take(offset, { type, data } as BudgetEvent, logAtMs, `${instance}.${epoch}`)
      for (const { budget_id } of accounts) checkTaken(run, book, budget_id, offset)
    }
  }
  return [...books.values()]
}

/**
 * The amount taken of a budget that was always hard is within its limit after every record, over all of its overlapping
 * windows.
 */
const checkTaken = (run: Run, book: AccountBook, budget: string, offset: number): void => {
  const { spending } = run
  if (spending === null || !spending.wasAlwaysHard || !budget.startsWith('bud_c')) return
  let sum = 0
  for (const account of book.ofBudget(budget)) {
    sum += spending.limited(minus(committed(account), account.carried))
    for (const { overrun_nano_usd, overrun_tokens = 0 } of account.holders.values())
      sum -= spending.limited({ nano_usd: overrun_nano_usd, tokens: overrun_tokens })
  }
  if (sum > spending.mostAllowed + run.tolerated)
    run.violated(`${budget} has ${sum} of ${spending.mostAllowed} taken behind record ${offset}`)
}

/** What outcomes charge to each account: the first of each admission. */
const chargedOf = ({ settled }: Read): Map<string, Amount> => {
  const sums = new Map<string, Amount>()
  for (const [first] of settled.values())
    for (const { account, nano_usd, tokens, overrun_nano_usd = 0 } of first!.data.budget ?? [])
      sums.set(account, plus(sums.get(account) ?? NO_AMOUNT, { nano_usd: nano_usd + overrun_nano_usd, tokens }))
  return sums
}

export const checkBudgets = (run: Run, read: Read): void => {
  const charged = chargedOf(read)
  const accounts = foldAccounts(run).flatMap((book) => [...book.all()])
  const known = new Set(accounts.map(({ account }) => account))
  for (const [account, { nano_usd }] of charged) {
    const limit = run.truth.limitOf(account)
    if (limit !== null && nano_usd > limit + run.tolerated)
      run.violated(`${account} is overspent by its outcomes: ${nano_usd} of ${limit} nano-USD`)
    if (!known.has(account)) run.violated(`${account} was charged and is not known`)
  }
  for (const account of accounts) checkAccount(run, account, charged.get(account.account) ?? NO_AMOUNT)
  checkStandings(run, charged)
}

const checkAccount = (run: Run, account: Account, cost: Amount): void => {
  const { account: id, carried, holders } = account
  const taken = committed(account)
  const limit = run.truth.limitOf(id)
  if (limit !== null && taken.nano_usd > limit + run.tolerated)
    run.violated(`${id} has ${taken.nano_usd} of ${limit} nano-USD taken`)
  for (const { holder, granted, returned, spent, closed } of holders.values()) {
    if (!closed && !isEqual(minus(minus(granted, returned), spent), NO_AMOUNT))
      run.violated(
        `${holder} still holds of ${id}: granted ${granted.nano_usd}, returned ` +
          `${returned.nano_usd}, spent ${spent.nano_usd}`,
      )
    if (limit !== null && spent.nano_usd > granted.nano_usd + run.tolerated)
      run.violated(`${holder} spent ${spent.nano_usd} of ${granted.nano_usd} that ${id} granted it`)
  }
  const told = minus(spentOf(account), carried)
  if (run.damaged.size > 0 || run.changes?.deleted.has(account.budget_id) === true) return
  if (!isEqual(told, cost))
    run.violated(
      `${id} was told of ${told.nano_usd} nano-USD and ${told.tokens} tokens, its ` +
        `outcomes cost ${cost.nano_usd} and ${cost.tokens}`,
    )
  if (!isEqual(taken, plus(spentOf(account), NO_AMOUNT)) && limit !== null)
    run.violated(
      `${id} has ${taken.nano_usd} nano-USD taken and ${spentOf(account).nano_usd} spent, and nobody works any more`,
    )
}
