// Statements of a tenant's accounts that do not fit into one append: several instances write them at the same time, and
// a reader that starts late needs one complete statement.
import { expect, test } from 'bun:test'
import { accountId, stateOf } from '../../../src/domain/budgets/account.ts'
import { AccountBook, statedIn } from '../../../src/domain/budgets/account-book.ts'
import { AccountStated, type BudgetEvent } from '../../../src/domain/budgets/budget-events.ts'
import { Value } from '../../../src/lib/schema/schema.ts'

const ACCOUNTS = 600
const AT_ONCE = 200
/** Of a reader that begins in the middle. */
const FROM = 10_000

const idOf = (n: number) => accountId(`bud_${n}`, 0, null)

/** A book that knows all accounts. */
const whole = (): AccountBook => {
  const book = new AccountBook(true, 0)
  for (let n = 0; n < ACCOUNTS; n++) {
    const window = { account: idOf(n), budget_id: `bud_${n}`, window_start_ms: 0, window_end_ms: null }
    const terms = { height: 1, limit_nano_usd: 100 + n, limit_tokens: null, enforcement: 'hard' as const }
    book.take(n, { type: 'account.opened', data: { ...window, ...terms } }, 1_000, 'opener')
  }
  return book
}

/** What one instance states of the state before an offset, in the pieces in which it is appended. */
const pieces = (book: AccountBook, offset: number): BudgetEvent[][] => {
  const all = [...book.all()].map(
    (account): BudgetEvent => ({ type: 'account.stated', data: stateOf(account, offset, ACCOUNTS) }),
  )
  return [0, AT_ONCE, 2 * AT_ONCE].map((from) => all.slice(from, from + AT_ONCE))
}

/** Takes what writers append, piece by piece. */
const reader = (book: AccountBook, offset: number) => {
  let next = offset
  return (writer: string, piece: readonly BudgetEvent[], atMs: number) => {
    for (const event of piece) book.take(next++, event, atMs, writer)
  }
}

test('two instances state 600 accounts at the same time, and both statements count', () => {
  const [known, late] = [whole(), new AccountBook(false, FROM)]
  const [ofI, ofJ] = [pieces(known, FROM), pieces(known, FROM + AT_ONCE)]
  const takes = [reader(known, FROM), reader(late, FROM)]
  for (let n = 0; n < 3; n++)
    for (const take of takes) {
      take('i.1', ofI[n]!, 5_000 + n)
      take('j.1', ofJ[n]!, 5_000 + n)
    }
  expect(known.statedMs).toBe(5_002)
  expect([late.isComplete, late.size]).toEqual([true, ACCOUNTS])
  for (const account of known.all()) expect(late.get(account.account)).toEqual({ ...account, stated_ms: 5_002 })
})

test('an account of more holders than one record says is stated in several, each of which its schema and the log take', () => {
  const known = whole()
  const HOLDERS = 300
  const holderOf = (n: number) => `ins_01a2051b-cb0c-7310-80b6-${String(n).padStart(12, '0')}`
  for (let n = 0; n < HOLDERS; n++) {
    const [instance, holder] = [holderOf(n), `${holderOf(n)}.8ce75ec5c836e400`]
    const none = { nano_usd: 0, tokens: 0 }
    const told = {
      account: idOf(7),
      returned: none,
      spent: { nano_usd: n, tokens: n },
      counted: none,
      overrun_nano_usd: 0,
    }
    known.take(ACCOUNTS + n, { type: 'lease.settled', data: { holder, instance, accounts: [told] } }, 2_000, 'i.1')
  }
  const stated = statedIn([...known.all()], FROM)
  expect(stated).toHaveLength(ACCOUNTS + 2)
  for (const record of stated) {
    expect(Value.Check(AccountStated, record)).toBe(true)
    expect(JSON.stringify(record).length).toBeLessThan(60_000)
  }
  const late = new AccountBook(false, FROM)
  const events = stated.map((data): BudgetEvent => ({ type: 'account.stated', data }))
  const take = reader(late, FROM)
  take('i.1', events.slice(0, -1), 5_000)
  expect(late.isComplete).toBe(false)
  take('i.1', events.slice(-1), 5_000)
  expect([late.isComplete, late.get(idOf(7))!.holders.size]).toEqual([true, HOLDERS])
  for (const account of known.all()) expect(late.get(account.account)).toEqual({ ...account, stated_ms: 5_000 })
})

test('a copy of a piece does not stand for one that is missing', () => {
  const late = new AccountBook(false, FROM)
  const [first, second, third] = pieces(whole(), FROM) as [BudgetEvent[], BudgetEvent[], BudgetEvent[]]
  const take = reader(late, FROM)
  for (const piece of [first, second, second]) take('i.1', piece, 5_000)
  expect([late.isComplete, late.isStated]).toEqual([false, false])
  take('i.1', third, 5_001)
  expect([late.isComplete, late.size]).toEqual([true, ACCOUNTS])
})

test('who began a statement and stopped is forgotten, however many they are', () => {
  const late = new AccountBook(false, FROM)
  const take = reader(late, FROM)
  const all = pieces(whole(), FROM)
  take('dead.0', all[0]!, 5_000)
  for (let n = 1; n <= 100; n++) take(`dead.${n}`, all[0]!.slice(0, 1), 5_000)
  // Of the first nothing is kept: it would have to begin again.
  for (const piece of all.slice(1)) take('dead.0', piece, 5_001)
  expect(late.isComplete).toBe(false)
  for (const piece of all) take('i.1', piece, 5_002)
  expect(late.isComplete).toBe(true)
})
