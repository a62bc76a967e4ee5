// The accounts of a budget, folded anew from the first record of its partition, not through a gateway.
import type { Account } from '../../../src/domain/budgets/account.ts'
import { AccountBook } from '../../../src/domain/budgets/account-book.ts'
import type { BudgetEvent } from '../../../src/domain/budgets/budget-events.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { Rig } from './rig.ts'

export interface ReadAccounts {
  /** Of every window. */
  readonly accounts: readonly Account[]
  readonly records: number
  /** Records that stand there more than once. */
  readonly repeated: number
}

/** `untilMs`: as they stood when the log had taken what it took until then. */
export const readAccounts = async (
  rig: Rig,
  budgetId: string,
  untilMs = Number.POSITIVE_INFINITY,
): Promise<ReadAccounts> => {
  const log = kafkaLog({ brokers: rig.kafka.bootstrap, clientId: 'gatelog-test' })
  const accounts: Account[] = []
  const seen = new Set<string>()
  let records = 0
  for (const partition of await log.partitions(TOPICS.budgets.name)) {
    const end = await log.end(TOPICS.budgets.name, partition)
    if (end === 0) continue
    const book = new AccountBook(true, 0)
    let logAtMs = 0
    for await (const batch of log.read(TOPICS.budgets.name, partition, 0, new AbortController().signal)) {
      for (const { offset, atMs, value } of batch) {
        if (atMs > untilMs) continue
        const { id, type, data } = readEnvelope(value!)!
        records++
        seen.add(id)
        logAtMs = Math.max(logAtMs, atMs)
        book.take(offset, { type, data } as BudgetEvent, logAtMs, 'any')
      }
      if (batch.at(-1)!.offset + 1 >= end) break
    }
    accounts.push(...book.ofBudget(budgetId))
  }
  await log.close()
  return { accounts, records, repeated: records - seen.size }
}
