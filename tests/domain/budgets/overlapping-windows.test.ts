// Windows of one budget that overlap after a change of the window setting: spending in one window counts in each window
// that overlaps it.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Account, accountId, committed, roomOf } from '../../../src/domain/budgets/account.ts'
import { AccountBook } from '../../../src/domain/budgets/account-book.ts'
import { isEqual, minus, NO_AMOUNT, plus } from '../../../src/domain/budgets/amount.ts'
import type { BudgetEvent } from '../../../src/domain/budgets/budget-events.ts'

const LIMIT = 100
/** Bounds by name: `utc` and `berlin` overlap each other, `next` overlaps `berlin` alone. */
const WINDOWS = { utc: [0, 24], berlin: [22, 46], next: [24, 48] } as const
type Name = keyof typeof WINDOWS
const HOUR_MS = 3_600_000
const idOf = (name: Name) => accountId('bud_1', WINDOWS[name][0] * HOUR_MS, WINDOWS[name][1] * HOUR_MS)
const usd = (nano_usd: number) => ({ nano_usd, tokens: 0 })

const opened = (name: Name): BudgetEvent => ({
  type: 'account.opened',
  data: {
    ...{ account: idOf(name), budget_id: 'bud_1', height: 1, limit_nano_usd: LIMIT, limit_tokens: null },
    ...{ window_start_ms: WINDOWS[name][0] * HOUR_MS, window_end_ms: WINDOWS[name][1] * HOUR_MS, enforcement: 'hard' },
  },
})
const asks = (holder: string, sequence: number, name: Name, need: number): BudgetEvent => ({
  type: 'lease.requested',
  data: {
    ...{ holder, instance: holder, sequence },
    accounts: [{ account: idOf(name), height: 1, need: usd(need), want: usd(need) }],
  },
})
const tells = (holder: string, names: readonly Name[], spent: number, returned: number): BudgetEvent => ({
  type: 'lease.settled',
  data: {
    ...{ holder, instance: holder },
    accounts: names.map((name) => ({
      ...{ account: idOf(name), spent: usd(spent), counted: NO_AMOUNT, returned: usd(returned), overrun_nano_usd: 0 },
    })),
  },
})

const reader = () => {
  const book = new AccountBook(true, 0)
  let offset = 0
  const take = (event: BudgetEvent) => book.take(offset++, event, 23 * HOUR_MS + offset, 'writer').verdict
  return { book, take, room: (name: Name) => roomOf(book.get(idOf(name))!).nano_usd }
}

test('back in the former cut, what was spent in the other one is spent', () => {
  const { take, room } = reader()
  take(opened('utc'))
  take(asks('i', 1, 'utc', 10))
  take(opened('berlin'))
  expect(room('berlin')).toBe(90)
  take(asks('i', 2, 'berlin', 90))
  expect([room('utc'), room('berlin')]).toEqual([0, 0])
  expect(take(asks('i', 3, 'utc', 1))).toMatchObject({ kind: 'refused', reason: 'spent' })
})

test('one that has not heard of the change spends nothing that the other window has given away', () => {
  const { take, room } = reader()
  take(opened('utc'))
  take(opened('berlin'))
  take(asks('i', 1, 'utc', 60))
  expect(take(asks('j', 1, 'berlin', 50))).toMatchObject({ kind: 'refused', reason: 'spent' })
  take(tells('i', ['utc'], 20, 40))
  expect(room('berlin')).toBe(80)
})

test('a window that overlaps neither is as it was', () => {
  const { take, room } = reader()
  for (const name of ['utc', 'next'] as const) take(opened(name))
  take(asks('i', 1, 'utc', 60))
  expect([room('utc'), room('next')]).toEqual([40, 100])
})

test('whatever comes in whatever order, each window carries what those that overlap it came to by themselves', () => {
  const name = fc.constantFrom<Name>('utc', 'berlin', 'next')
  const holder = fc.constantFrom('i', 'j')
  let sequence = 0
  const event = fc.oneof(
    name.map(opened),
    fc.tuple(holder, name, fc.nat(40)).map(([who, which, need]) => asks(who, ++sequence, which, need)),
    fc
      .tuple(holder, fc.uniqueArray(name, { minLength: 1 }), fc.nat(40), fc.nat(40))
      .map(([who, which, spent, returned]) => tells(who, which, spent, returned)),
  )
  const own = (account: Account) => minus(committed(account), account.carried)
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), (events) => {
      const { take, book } = reader()
      for (const each of events) take(each)
      const [utc, berlin, next] = (['utc', 'berlin', 'next'] as const).map((each) => book.get(idOf(each)))
      const sum = (...others: (Account | undefined)[]) =>
        others.reduce((all, other) => (other === undefined ? all : plus(all, own(other))), NO_AMOUNT)
      expect(utc === undefined || isEqual(utc.carried, sum(berlin))).toBe(true)
      expect(next === undefined || isEqual(next.carried, sum(berlin))).toBe(true)
      expect(berlin === undefined || isEqual(berlin.carried, sum(utc, next))).toBe(true)
    }),
  )
})
