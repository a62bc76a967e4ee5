// Budgets: no hard limit is overspent, no account forgets what was spent, and once all is told nothing is held any more.
import { type Account, committed, spentOf } from '../../src/domain/account.ts'
import { AccountBook } from '../../src/domain/account-book.ts'
import { isEqual, minus, NO_AMOUNT, plus } from '../../src/domain/amount.ts'
import type { BudgetEvent } from '../../src/domain/budget-events.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import { partitionOf, TOPICS } from '../../src/log/topics.ts'
import { PARTITIONS, TENANT } from './beginning.ts'
import type { Read } from './check-outcomes.ts'
import type { Run } from './run.ts'

/** The accounts, folded from the first record of their partition. */
const foldAccounts = (run: Run): AccountBook => {
  const book = new AccountBook(true, 0)
  let logAtMs = 0
  const partition = partitionOf(TENANT, PARTITIONS[TOPICS.budgets.name]!)
  for (const { offset, atMs, value } of run.broker.log.records(TOPICS.budgets.name, partition)) {
    logAtMs = Math.max(logAtMs, atMs)
    const { type, data, instance, epoch } = readEnvelope(value!)!
    book.take(offset, { type, data } as BudgetEvent, logAtMs, `${instance}.${epoch}`)
  }
  return book
}

/** What outcomes charge to each account: the first of each admission. */
const chargedOf = ({ settled }: Read): Map<string, number> => {
  const sums = new Map<string, number>()
  for (const [first] of settled.values())
    for (const { account, nano_usd, overrun_nano_usd = 0 } of first!.data.budget ?? [])
      sums.set(account, (sums.get(account) ?? 0) + nano_usd + overrun_nano_usd)
  return sums
}

export const checkBudgets = (run: Run, read: Read): void => {
  const charged = chargedOf(read)
  const book = foldAccounts(run)
  for (const [account, nanoUsd] of charged) {
    const limit = run.truth.limitOf(account)
    if (limit !== null && nanoUsd > limit + run.tolerated)
      run.violated(`${account} is overspent by its outcomes: ${nanoUsd} of ${limit} nano-USD`)
    if (book.get(account) === undefined) run.violated(`${account} was charged and is not known`)
  }
  for (const account of book.all()) checkAccount(run, account, charged.get(account.account) ?? 0)
}

const checkAccount = (run: Run, account: Account, chargedNanoUsd: number): void => {
  const { account: id, carried, holders } = account
  const taken = committed(account)
  const limit = run.truth.limitOf(id)
  if (limit !== null && taken.nano_usd > limit + run.tolerated)
    run.violated(`${id} has ${taken.nano_usd} of ${limit} nano-USD taken`)
  for (const { holder, granted, returned, spent, closed } of holders.values()) {
    if (!closed && !isEqual(minus(minus(granted, returned), spent), NO_AMOUNT))
      run.violated(
        `${holder} still holds of ${id}: granted ${granted.nano_usd}, returned ${returned.nano_usd}, spent ${spent.nano_usd}`,
      )
    if (limit !== null && spent.nano_usd > granted.nano_usd + run.tolerated)
      run.violated(`${holder} spent ${spent.nano_usd} of ${granted.nano_usd} that ${id} granted it`)
  }
  const told = minus(spentOf(account), carried).nano_usd
  if (run.damaged.size > 0) return
  if (told < chargedNanoUsd || told > chargedNanoUsd)
    run.violated(`${id} was told of ${told} nano-USD, its outcomes cost ${chargedNanoUsd}`)
  if (!isEqual(taken, plus(spentOf(account), NO_AMOUNT)) && limit !== null)
    run.violated(
      `${id} has ${taken.nano_usd} nano-USD taken and ${spentOf(account).nano_usd} spent, and nobody works any more`,
    )
}
