// Accounts of budgets: what is granted when a record follows given records, and which rules hold in any order, with
// repeated and lost records.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { accountId, committed, overrunOf, roomOf, spentOf, stateOf } from '../../../src/domain/budgets/account.ts'
import { AccountBook } from '../../../src/domain/budgets/account-book.ts'
import type { BudgetEvent } from '../../../src/domain/budgets/budget-events.ts'

const A = accountId('bud_1', 0, 1_000_000)
const B = accountId('bud_2', 0, null)
const usd = (nano_usd: number, tokens = 0) => ({ nano_usd, tokens })

const opened = (account = A, limit = 100, more: Record<string, unknown> = {}): BudgetEvent =>
  ({
    type: 'account.opened',
    data: {
      ...{
        account,
        budget_id: account.slice(0, 5),
        window_start_ms: 0,
        window_end_ms: account === A ? 1_000_000 : null,
      },
      ...{ height: 1, limit_nano_usd: limit, limit_tokens: null, enforcement: 'hard', ...more },
    },
  }) as BudgetEvent

const asks = (
  holder: string,
  sequence: number,
  need: number,
  want = need,
  { accounts = [A], height = 1 }: { readonly accounts?: readonly string[]; readonly height?: number } = {},
): BudgetEvent => ({
  type: 'lease.requested',
  data: {
    ...{ holder, instance: holder.split('.')[0]!, sequence },
    accounts: accounts.map((account) => ({ account, height, need: usd(need), want: usd(want) })),
  },
})

const tells = (
  holder: string,
  sums: { spent?: number; returned?: number; counted?: number; overrun?: number },
  type: 'lease.settled' | 'lease.closed' = 'lease.settled',
): BudgetEvent => {
  const { spent = 0, returned = 0, counted = 0, overrun = 0 } = sums
  const told = { account: A, spent: usd(spent), counted: usd(counted), overrun_nano_usd: overrun }
  const who = { holder, instance: holder.split('.')[0]! }
  return type === 'lease.closed'
    ? { type, data: { ...who, accounts: [told] } }
    : { type, data: { ...who, accounts: [{ ...told, returned: usd(returned) }] } }
}

/** A reader from the first record on. */
const reader = (from = 0, known = true) => {
  const book = new AccountBook(known, from)
  let offset = from
  const take = (event: BudgetEvent, atMs = 1_000 + offset) => book.take(offset++, event, atMs, 'writer').verdict
  return { book, take, room: () => roomOf(book.get(A)!).nano_usd, next: () => offset }
}

const granted = (...amounts: number[]) => ({ kind: 'granted' as const, amounts: amounts.map((each) => usd(each)) })

describe('a request for a lease', () => {
  test('is granted what it wants while that is there, and at least what it needs or nothing', () => {
    const { take, room } = reader()
    take(opened())
    expect(take(asks('i.1', 1, 10, 60))).toEqual(granted(60))
    expect(take(asks('j.1', 1, 10, 60))).toEqual(granted(40))
    expect(take(asks('k.1', 1, 1, 60))).toMatchObject({ kind: 'refused', reason: 'spent', account: A })
    expect(room()).toBe(0)
  })

  test('is granted of all its accounts or of none', () => {
    const { take, book } = reader()
    take(opened(A, 100))
    take(opened(B, 5))
    expect(take(asks('i.1', 1, 10, 10, { accounts: [A, B] }))).toMatchObject({
      kind: 'refused',
      reason: 'spent',
      account: B,
    })
    expect(committed(book.get(A)!)).toEqual(usd(0))
    expect(take(asks('i.1', 2, 5, 8, { accounts: [A, B] }))).toEqual(granted(8, 5))
  })

  test('counts once, also when it was refused', () => {
    const { take, room } = reader()
    take(opened())
    take(asks('i.1', 1, 70))
    expect(take(asks('i.1', 1, 70))).toEqual({ kind: 'repeat' })
    expect(take(asks('j.1', 1, 50))).toMatchObject({ reason: 'spent' })
    take(tells('i.1', { returned: 70 }))
    expect(take(asks('j.1', 1, 50))).toEqual({ kind: 'repeat' })
    expect(room()).toBe(100)
  })

  test('is refused by another height than the account’s, after the window’s end, and of an account that nobody opened', () => {
    const { take } = reader()
    expect(take(asks('i.1', 1, 1))).toMatchObject({ reason: 'unknown' })
    take(opened())
    take({
      type: 'account.limited',
      data: { account: A, height: 2, limit_nano_usd: 5, limit_tokens: null, enforcement: 'hard' },
    })
    expect(take(asks('i.1', 2, 1))).toMatchObject({ reason: 'height' })
    expect(take(asks('i.1', 3, 6, 6, { height: 2 }))).toMatchObject({ reason: 'spent' })
    expect(take(asks('i.1', 4, 5, 5, { height: 2 }), 1_000_000)).toMatchObject({ reason: 'ended' })
  })

  test('of a height the first copy counts, and an older one none', () => {
    const { take, book } = reader()
    take(opened())
    const limited = (height: number, limit_nano_usd: number): BudgetEvent => ({
      type: 'account.limited',
      data: { account: A, height, limit_nano_usd, limit_tokens: null, enforcement: 'hard' },
    })
    for (const event of [limited(3, 30), limited(3, 99), limited(2, 20), opened(A, 7)]) take(event)
    expect(book.get(A)).toMatchObject({ height: 3, limit_nano_usd: 30 })
  })
})

describe('what is told', () => {
  test('counts once whatever its order: sums only grow', () => {
    const { take, book } = reader()
    take(opened())
    take(asks('i.1', 1, 80))
    for (const sums of [{ spent: 30 }, { spent: 50, returned: 20 }, { spent: 30 }, { spent: 50, returned: 20 }])
      take(tells('i.1', sums))
    expect([spentOf(book.get(A)!).nano_usd, committed(book.get(A)!).nano_usd]).toEqual([50, 60])
  })

  test('a holder that is closed gives back what it did not spend, and is granted nothing more', () => {
    const { take, room } = reader()
    take(opened())
    take(asks('i.1', 1, 80))
    take(tells('i.1', { spent: 30 }, 'lease.closed'))
    expect(room()).toBe(70)
    expect(take(asks('i.1', 2, 10))).toMatchObject({ reason: 'closed' })
    take(tells('i.1', { spent: 20 }))
    expect(room()).toBe(70)
  })

  test('an overrun is booked and closes the account until its limits are set again', () => {
    const { take, book } = reader()
    take(opened())
    take(asks('i.1', 1, 10))
    take(tells('i.1', { spent: 10, counted: 3, overrun: 3 }))
    expect([spentOf(book.get(A)!).nano_usd, overrunOf(book.get(A)!)]).toEqual([13, 3])
    expect(take(asks('j.1', 1, 1))).toMatchObject({ reason: 'overrun' })
    const again = { account: A, height: 2, limit_nano_usd: 100, limit_tokens: null, enforcement: 'hard' } as const
    take({ type: 'account.limited', data: again })
    expect(take(asks('j.1', 2, 87, 87, { height: 2 }))).toEqual(granted(87))
  })

  test('edits that set no limits leave it closed, whichever copies of its terms stand in the log', () => {
    const { take } = reader()
    const limited = (height: number, limits_height?: number): BudgetEvent => {
      const terms = { height, limit_nano_usd: 100, limit_tokens: null, enforcement: 'hard' as const }
      return { type: 'account.limited', data: { account: A, ...terms, ...(limits_height && { limits_height }) } }
    }
    const asked = (sequence: number, height: number) => take(asks('j.1', sequence, 1, 1, { height }))
    take(opened())
    take(tells('i.1', { counted: 3, overrun: 3 }))
    take(limited(2, 1))
    expect(asked(1, 2)).toMatchObject({ reason: 'overrun' })
    take(limited(4, 1))
    expect(asked(2, 4)).toMatchObject({ reason: 'overrun' })
    take(limited(6, 5)) // limits were set in between, without a copy
    expect(asked(3, 6)).toEqual(granted(1))
    take(tells('i.1', { counted: 5, overrun: 5 }))
    expect(asked(4, 6)).toMatchObject({ reason: 'overrun' })
    take(limited(7)) // as an earlier build wrote it
    expect(asked(5, 7)).toEqual(granted(1))
  })

  test('what was only counted takes room, and no lease covers it', () => {
    const { take, room } = reader()
    take(opened())
    take(tells('i.1', { counted: 40 }))
    take(asks('i.1', 1, 30))
    expect(room()).toBe(30)
  })

  test('a change of how windows are cut carries over what was spent', () => {
    const { take, book } = reader()
    take(opened())
    take(asks('i.1', 1, 40))
    take(tells('i.1', { spent: 25, returned: 5 }))
    const other = accountId('bud_1', 500, 2_000_000)
    take(opened(other, 100, { window_start_ms: 500, window_end_ms: 2_000_000 }))
    expect(spentOf(book.get(other)!).nano_usd).toBe(35)
    const later = accountId('bud_1', 2_000_000, 3_000_000)
    take(opened(later, 100, { window_start_ms: 2_000_000, window_end_ms: 3_000_000 }))
    expect(spentOf(book.get(later)!).nano_usd).toBe(0)
  })
})

describe('retirement', () => {
  test('frees what a silent instance holds, but for what it told and what it left open', () => {
    const { take, room } = reader()
    take(opened(), 1)
    take(asks('i.1', 1, 60), 2)
    take(tells('i.1', { spent: 10 }), 3)
    take(asks('j.1', 1, 20), 500)
    const orphaned = [{ account: A, holder: 'i.1', spent: usd(7) }]
    take({ type: 'instance.retired', data: { instance: 'i', before_ms: 100, reason: 'silence', orphaned } }, 600)
    expect(room()).toBe(100 - 17 - 20)
    take({ type: 'instance.retired', data: { instance: 'j', before_ms: 100, reason: 'silence', orphaned: [] } }, 601)
    expect(room()).toBe(100 - 17 - 20)
  })
})

describe('an instance that comes back after its retirement', () => {
  const retire = (spent?: number): BudgetEvent => {
    const orphaned = spent === undefined ? [] : [{ account: A, holder: 'i.1', spent: usd(spent) }]
    return { type: 'instance.retired', data: { instance: 'i', before_ms: 100, reason: 'operator', orphaned } }
  }
  const HOURS_MS = 3 * 3_600_000
  const retired = (orphaned?: number) => {
    const { take, book } = reader()
    take(opened(A, 100, { window_end_ms: 10 * HOURS_MS }), 1)
    take(asks('i.1', 1, 60), 2)
    take(tells('i.1', { spent: 10 }), 3)
    take(retire(orphaned), 600)
    take(asks('j.1', 1, 1), HOURS_MS) // those that were closed long ago are forgotten now
    return { take, sums: () => [spentOf(book.get(A)!).nano_usd, committed(book.get(A)!).nano_usd - 1] }
  }

  test('what it left open counts as taken until it is known, and then what it was', () => {
    const { take, sums } = retired(20)
    expect(sums()).toEqual([10, 30])
    take(tells('i.1', { spent: 25 }, 'lease.closed'), HOURS_MS + 1)
    expect(sums()).toEqual([25, 25])
  })

  test('what it tells late is of what it left open, and counts once', () => {
    const { take, sums } = retired(20)
    take(tells('i.1', { spent: 25 }), HOURS_MS + 1)
    expect(sums()).toEqual([25, 30])
    take(tells('i.1', { spent: 40 }), HOURS_MS + 2)
    expect(sums()).toEqual([40, 40])
  })

  test('what nobody knew to be open counts all the same', () => {
    const { take, sums } = retired()
    expect(sums()).toEqual([10, 10])
    take(tells('i.1', { spent: 35 }, 'lease.closed'), HOURS_MS + 1)
    expect(sums()).toEqual([35, 35])
    take(tells('i.1', { spent: 12 }), HOURS_MS + 2) // a late copy
    expect(sums()).toEqual([35, 35])
  })
})

describe('windows', () => {
  test('one that is far away by log time is not spent from, the next one is', () => {
    const { take } = reader()
    const later = accountId('bud_1', 1_000_000, 2_000_000)
    take(opened(later, 100, { window_start_ms: 1_000_000, window_end_ms: 2_000_000 }), 1)
    expect(take(asks('i.1', 1, 10, 10, { accounts: [later] }), 600_000)).toMatchObject({ reason: 'early' })
    expect(take(asks('i.1', 2, 10, 10, { accounts: [later] }), 800_000)).toEqual(granted(10))
  })

  test('what is carried over does not hang on who has forgotten what', () => {
    const DAY_MS = 86_400_000
    const month = (fromDay: number) => {
      const bounds = { window_start_ms: fromDay * DAY_MS, window_end_ms: (fromDay + 31) * DAY_MS }
      return opened(accountId('bud_1', bounds.window_start_ms, bounds.window_end_ms), 100, bounds)
    }
    const sums = [false, true].map((forgets) => {
      const { take, book } = reader()
      take(month(0), 1)
      const [first] = book.all()
      take(asks('i.1', 1, 40, 40, { accounts: [first!.account] }), 2)
      const nowMs = 35 * DAY_MS
      if (forgets) book.dropEnded(nowMs)
      take(month(15), nowMs)
      return committed([...book.all()].at(-1)!).nano_usd
    })
    expect(sums).toEqual([40, 40])
  })

  test('an account that very many have spent from is stated in one record that the log takes', () => {
    const { take, book } = reader()
    take(opened())
    for (let i = 0; i < 500; i++)
      take(tells(`ins_0190a000000070008000000000000${i}.0123456789abcdef`, { spent: i }, 'lease.closed'))
    const all = book.get(A)!
    expect(spentOf(all).nano_usd).toBe((499 * 500) / 2)
    expect(JSON.stringify(stateOf(all, 9_999_999, 64)).length).toBeLessThan(60_000)
  })
})

describe('a reader that begins in the middle', () => {
  const arbitraryEvent: fc.Arbitrary<BudgetEvent> = fc.oneof(
    fc
      .tuple(fc.constantFrom('i.1', 'j.1', 'k.1'), fc.integer({ min: 1, max: 12 }), fc.integer({ min: 0, max: 40 }))
      .map(([holder, sequence, need]) => asks(holder, sequence, need, need + 5)),
    fc
      .tuple(fc.constantFrom('i.1', 'j.1', 'k.1'), fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 30 }))
      .map(([holder, spent, returned]) => tells(holder, { spent, returned })),
    fc.constantFrom('i.1', 'j.1').map((holder) => tells(holder, { spent: 9 }, 'lease.closed')),
  )

  test('has the same accounts from the first complete statement on, though other records stand before it', () => {
    fc.assert(
      fc.property(
        fc.array(arbitraryEvent, { maxLength: 30 }),
        fc.array(arbitraryEvent, { maxLength: 6 }),
        fc.array(arbitraryEvent, { maxLength: 20 }),
        (before, between, after) => {
          const whole = reader()
          whole.take(opened())
          whole.take(opened(B, 50))
          for (const event of before) whole.take(event)
          const late = reader(whole.next(), false)
          const offset = whole.next()
          const stated = [A, B].map((id): BudgetEvent => {
            return { type: 'account.stated', data: stateOf(whole.book.get(id)!, offset, 2) }
          })
          for (const event of [...between, ...stated, ...after]) {
            const atMs = 1_000 + whole.next()
            late.take(event, atMs)
            whole.take(event, atMs)
          }
          for (const id of [A, B]) {
            const { stated_ms: _, ...own } = late.book.get(id)!
            const { stated_ms: __, ...theirs } = whole.book.get(id)!
            expect(own).toEqual(theirs)
          }
        },
      ),
      { numRuns: 300 },
    )
  })
})
