// Alerts: a threshold is told once, and once more when a limit was raised beyond it in between.
import { expect, test } from 'bun:test'
import { accountId } from '../../../src/domain/budgets/account.ts'
import { AccountBook } from '../../../src/domain/budgets/account-book.ts'
import { reached } from '../../../src/domain/budgets/budget-alerts.ts'
import type { BudgetEvent } from '../../../src/domain/budgets/budget-events.ts'

const A = accountId('bud_1', 0, null)
const usd = (nano_usd: number) => ({ nano_usd, tokens: 0 })

test('a threshold that a raised limit is far from is told again once it is reached', () => {
  const book = new AccountBook(true, 0)
  let offset = 0
  const take = (event: BudgetEvent) => book.take(offset++, event, 1_000, 'writer')
  const limited = (height: number, limit_nano_usd: number, soft_limit_nano_usd?: number): BudgetEvent => {
    const terms = { height, limit_nano_usd, limit_tokens: null, enforcement: 'hard' as const }
    return {
      type: 'account.limited',
      data: { account: A, ...terms, ...(soft_limit_nano_usd && { soft_limit_nano_usd }) },
    }
  }
  const alerted = (threshold: number, limit_nano_usd: number): BudgetEvent => {
    const said = { threshold, spent: usd(85), limit_nano_usd, limit_tokens: null }
    return { type: 'account.alerted', data: { account: A, budget_id: 'bud_1', tenant_id: 't', ...said } }
  }
  const due = (spent: number, softNanoUsd: number) => reached(book.get(A)!, usd(spent), [0.5, 0.8], softNanoUsd)
  take({
    type: 'account.opened',
    data: {
      ...{ account: A, budget_id: 'bud_1', window_start_ms: 0, window_end_ms: null, height: 1 },
      ...{ limit_nano_usd: 100, limit_tokens: null, enforcement: 'hard' },
    },
  })
  const told = { account: A, returned: usd(0), spent: usd(0), counted: usd(85), overrun_nano_usd: 0 }
  take({ type: 'lease.settled', data: { holder: 'i.1', instance: 'i', accounts: [told] } })
  expect(due(85, 40)).toEqual([0.5, 0.8, 0])
  for (const threshold of [0.5, 0.8, 0]) take(alerted(threshold, 100))
  expect(due(85, 40)).toEqual([])
  take(limited(2, 160, 40)) // a half is reached still, and so is the soft limit
  expect([due(85, 40), due(130, 40)]).toEqual([[], [0.8]])
  take(alerted(0.8, 100)) // of the former limit
  expect(due(130, 40)).toEqual([0.8])
  take(limited(3, 160, 90))
  expect([due(85, 90), due(95, 90)]).toEqual([[], [0]])
  take(limited(4, 80, 90))
  expect(due(85, 90)).toEqual([0.8])
})
