// An account: a budget in one window. What may still be granted follows from the records of its partition alone, so
// every reader computes the same. Pure: `decideLease` computes the result of a request, `evolve` the effect of a
// record; both are total. Log time is handed in as the running maximum of append times.
import { closedFor, withTerms } from './account-closing.ts'
import { type Amount, fits, isEqual, type Limits, minus, most, NO_AMOUNT, plus, within } from './amount.ts'
import { isNewAlert } from './budget-alerts.ts'
import type { AccountOpened, AccountStated, BudgetEvent, InstanceRetired, LeaseRequested } from './budget-events.ts'
import { committedBy, type Holder, MOST_HOLDERS, newHolder } from './holder.ts'
import { overrunIn, overrunSums } from './lease.ts'

export interface Account extends Readonly<AccountOpened> {
  readonly carried: Amount
  readonly past: Amount
  readonly overrun_nano_usd: number
  /** The account is closed by an overrun while its height has this value. */
  readonly overrun_height: number
  readonly alerted: readonly number[]
  readonly holders: ReadonlyMap<string, Holder>
  /** Log time of its opening or its last statement. */
  readonly stated_ms: number
}

/** The accounts of one tenant. */
export interface Accounts {
  get(id: string): Account | undefined
  ofBudget(budgetId: string): Iterable<Account>
  all(): Iterable<Account>
}

/**
 * Why a lease is refused. `spent`: the limit leaves less than is needed. `early`: by log time the window begins much
 * later.
 */
export type LeaseRefusal = 'spent' | 'overrun' | 'forgotten' | 'ended' | 'early' | 'height' | 'unknown' | 'closed'
export type LeaseVerdict =
  | { readonly kind: 'granted'; readonly amounts: readonly Amount[] }
  | { readonly kind: 'refused'; readonly reason: LeaseRefusal; readonly account: string }
  /** A repeated record: it changes nothing. */
  | { readonly kind: 'repeat' }

/** A closed holder is retained for so long, since late copies of its records may still come. */
export const RETAINED_MS = 3_600_000
const MOST_ALERTED = 32
/**
 * No lease is granted of a window that begins later than this: a clock that runs fast must not spend the budget of a
 * later window.
 */
const EARLY_MS = 300_000

export const accountId = (budgetId: string, startMs: number, endMs: number | null): string =>
  `${budgetId}/${startMs}-${endMs ?? ''}`

/** The amount that can no longer be granted. */
export const committed = (account: Account): Amount => {
  let sum = plus(account.carried, account.past)
  for (const holder of account.holders.values()) sum = plus(sum, committedBy(holder))
  return sum
}

/** The cost of settled outcomes, as far as holders have reported it. */
export const spentOf = (account: Account): Amount => {
  let sum = plus(account.carried, account.past)
  for (const { spent, counted } of account.holders.values()) sum = plus(sum, plus(spent, counted))
  return sum
}

/** The amount billed beyond the reservations, as far as holders have reported it. */
export const overrunOf = (account: Account): number => {
  let sum = account.overrun_nano_usd
  for (const { overrun_nano_usd } of account.holders.values()) sum += overrun_nano_usd
  return sum
}

/** The amount that can be granted now; null: no limit. */
export const roomOf = (account: Account): Limits => {
  const taken = committed(account)
  const room = (limit: number | null, own: number): number | null => (limit === null ? null : Math.max(0, limit - own))
  return {
    nano_usd: room(account.limit_nano_usd, taken.nano_usd),
    tokens: room(account.limit_tokens, taken.tokens),
  }
}

/** Why an account refuses a request, before its free amount is considered; null: no reason. */
const refusalOf = (account: Account, height: number, atMs: number): LeaseRefusal | null => {
  if (account.height !== height) return 'height'
  if (account.window_end_ms !== null && atMs >= account.window_end_ms) return 'ended'
  if (account.window_start_ms > atMs + EARLY_MS) return 'early'
  return closedFor(account)
}

/** The verdict on a request if it is the next record. */
export const decideLease = (accounts: Accounts, request: LeaseRequested, atMs: number): LeaseVerdict => {
  const refused = (reason: LeaseRefusal, account: string) => ({ kind: 'refused', reason, account }) as const
  const amounts: Amount[] = []
  let refusal: LeaseVerdict | null = null
  for (const ask of request.accounts) {
    const account = accounts.get(ask.account)
    const holder = account?.holders.get(request.holder)
    if (holder !== undefined && holder.sequence >= request.sequence) return { kind: 'repeat' }
    if (refusal !== null) continue
    if (account === undefined) refusal = refused('unknown', ask.account)
    else if (holder?.closed === true) refusal = refused('closed', ask.account)
    else {
      const reason = refusalOf(account, ask.height, atMs)
      const room = roomOf(account)
      if (reason !== null) refusal = refused(reason, ask.account)
      else if (!fits(ask.need, room)) refusal = refused('spent', ask.account)
      else amounts.push(within(most(ask.want, ask.need), room))
    }
  }
  return refusal ?? { kind: 'granted', amounts }
}

export interface Evolved {
  /** The accounts that changed. */
  readonly accounts: readonly Account[]
  /** Verdict on a lease request; null: the record is not one. */
  readonly verdict: LeaseVerdict | null
}

const NOTHING: Evolved = { accounts: [], verdict: null }
const only = (account: Account | null): Evolved => (account === null ? NOTHING : { accounts: [account], verdict: null })

/** The changes by a record. `atMs`: log time, the running maximum. */
export const evolveAccounts = (accounts: Accounts, event: BudgetEvent, atMs: number): Evolved => {
  const evolved = evolveOwn(accounts, event, atMs)
  return evolved.accounts.length === 0 ? evolved : { ...evolved, accounts: withOverlapping(accounts, evolved.accounts) }
}

const evolveOwn = (accounts: Accounts, { type, data }: BudgetEvent, atMs: number): Evolved => {
  switch (type) {
    case 'account.opened':
      return only(accounts.get(data.account) === undefined ? openedAccount(accounts, data, atMs) : null)
    case 'account.limited': {
      const account = accounts.get(data.account)
      return only(
        account !== undefined && data.height > account.height ? withTerms(account, data, spentOf(account)) : null,
      )
    }
    case 'account.stated': {
      const account = accounts.get(data.account)
      return only(account === undefined ? statedAccount(data, atMs) : { ...account, stated_ms: atMs })
    }
    case 'account.alerted': {
      const account = accounts.get(data.account)
      if (account === undefined || !isNewAlert(account, data)) return NOTHING
      return only({ ...account, alerted: [...account.alerted, data.threshold].slice(-MOST_ALERTED) })
    }
    case 'lease.requested':
      return requested(accounts, data, atMs)
    case 'lease.settled':
    case 'lease.closed':
      return {
        accounts: data.accounts.flatMap((tally) => {
          const account = accounts.get(tally.account)
          return account === undefined
            ? []
            : [reported(account, data, { ...tally, closed: type === 'lease.closed' }, atMs)]
        }),
        verdict: null,
      }
    case 'instance.retired':
      return { accounts: retired(accounts, data, atMs), verdict: null }
  }
}

const openedAccount = (accounts: Accounts, data: AccountOpened, atMs: number): Account => ({
  ...data,
  carried: carriedInto(accounts, data),
  past: NO_AMOUNT,
  overrun_nano_usd: 0,
  overrun_height: data.forgotten === true ? data.height : -1,
  alerted: [],
  holders: new Map(),
  stated_ms: atMs,
})

const NONE: ReadonlyMap<string, Account> = new Map()
type Window = Pick<AccountOpened, 'account' | 'budget_id' | 'window_start_ms' | 'window_end_ms'>

/** Windows of one budget overlap only when their cut was changed. */
const overlaps = (one: Window, other: Window): boolean =>
  one.account !== other.account &&
  (one.window_end_ms === null || other.window_start_ms < one.window_end_ms) &&
  (other.window_end_ms === null || one.window_start_ms < other.window_end_ms)

/**
 * A change of how windows are cut must not clear what was spent: amounts of overlapping windows count in this one too.
 * `changed`: the accounts as this record leaves them.
 */
export const carriedInto = (
  accounts: Accounts,
  window: Window,
  changed: ReadonlyMap<string, Account> = NONE,
): Amount => {
  let sum = NO_AMOUNT
  for (const current of accounts.ofBudget(window.budget_id)) {
    const other = changed.get(current.account) ?? current
    // What the other window carried comes from a third one, which overlaps this window too or is over.
    if (overlaps(window, other)) sum = plus(sum, minus(committed(other), other.carried))
  }
  return sum
}

/**
 * Adds the accounts whose windows overlap those that changed: the cut may be reverted, and a holder that has not read
 * the change yet still spends in the former window.
 */
const withOverlapping = (accounts: Accounts, evolved: readonly Account[]): readonly Account[] => {
  const changed = new Map(evolved.map((account) => [account.account, account]))
  for (const account of evolved) {
    for (const current of accounts.ofBudget(account.budget_id)) {
      if (!overlaps(account, current)) continue
      const other = changed.get(current.account) ?? current
      const carried = carriedInto(accounts, other, changed)
      if (!isEqual(carried, other.carried)) changed.set(other.account, { ...other, carried })
    }
  }
  return changed.size === evolved.length && evolved.every((account) => changed.get(account.account) === account)
    ? evolved
    : [...changed.values()]
}

/** The account of a statement. */
export const statedAccount = (
  { offset: _, of: __, part: ___, holders, ...data }: AccountStated,
  atMs: number,
): Account => ({
  ...data,
  holders: new Map(holders.map((holder) => [holder.holder, holder])),
  stated_ms: atMs,
})

/** An account as a statement records it: the state before `offset`, one of `of` records. */
export const stateOf = (account: Account, offset: number, of: number): AccountStated => {
  const { stated_ms: _, holders, alerted, ...rest } = account
  return { ...rest, alerted: [...alerted], offset, of, holders: [...holders.values()] }
}

const requested = (accounts: Accounts, request: LeaseRequested, atMs: number): Evolved => {
  const verdict = decideLease(accounts, request, atMs)
  if (verdict.kind === 'repeat') return { accounts: [], verdict }
  const changed = request.accounts.flatMap((ask, i) => {
    const account = accounts.get(ask.account)
    if (account === undefined) return []
    const before = account.holders.get(request.holder) ?? newHolder(request, atMs)
    const granted = verdict.kind === 'granted' ? plus(before.granted, verdict.amounts[i]!) : before.granted
    return [withHolder(account, { ...before, sequence: request.sequence, granted, at_ms: atMs }, atMs)]
  })
  return { accounts: changed, verdict }
}

interface Reported {
  readonly returned?: Amount
  readonly spent: Amount
  readonly counted: Amount
  readonly overrun_nano_usd: number
  readonly overrun_tokens?: number
  readonly closed: boolean
}

/** Sums only grow: an older record, or a repeat, changes nothing. */
const reported = (
  account: Account,
  who: { holder: string; instance: string },
  tally: Reported,
  atMs: number,
): Account => {
  const { orphaned, ...before } = account.holders.get(who.holder) ?? newHolder(who, atMs)
  const overrun = most(overrunIn(before), overrunIn(tally))
  const spent = most(before.spent, tally.spent)
  const after: Holder = {
    ...before,
    // What a retired holder reports later is part of the amount that was counted as its open requests.
    ...(orphaned === undefined || tally.closed ? {} : { orphaned: minus(orphaned, minus(spent, before.spent)) }),
    returned: most(before.returned, tally.returned ?? NO_AMOUNT),
    spent,
    counted: most(before.counted, tally.counted),
    ...overrunSums(overrun),
    at_ms: atMs,
    closed: before.closed || tally.closed,
  }
  const overran = !isEqual(overrun, overrunIn(before))
  return withHolder(overran ? { ...account, overrun_height: account.height } : account, after, atMs)
}

const retired = (accounts: Accounts, event: InstanceRetired, atMs: number): Account[] => {
  const { instance, before_ms, orphaned, accounts: named } = event
  const changed: Account[] = []
  for (const account of accounts.all()) {
    if (named !== undefined && !named.includes(account.account)) continue
    let after = account
    for (const holder of account.holders.values()) {
      if (holder.instance !== instance || holder.closed || holder.at_ms >= before_ms) continue
      const open = orphaned.find((each) => each.account === account.account && each.holder === holder.holder)
      after = withHolder(after, { ...holder, orphaned: open?.spent ?? NO_AMOUNT, at_ms: atMs, closed: true }, atMs)
    }
    if (after !== account) changed.push(after)
  }
  return changed
}

/**
 * Puts a holder in, and drops holders that were closed long ago: their spent amounts stay. A retired holder may come
 * back and report more.
 */
const withHolder = (account: Account, holder: Holder, atMs: number): Account => {
  const holders = new Map(account.holders)
  holders.delete(holder.holder)
  holders.set(holder.holder, holder)
  let { past, overrun_nano_usd } = account
  for (const [name, each] of holders) {
    const old = (each.orphaned === undefined && each.at_ms < atMs - RETAINED_MS) || holders.size > MOST_HOLDERS
    if (!each.closed || !old) continue
    holders.delete(name)
    past = plus(past, committedBy(each))
    overrun_nano_usd += each.overrun_nano_usd
  }
  return { ...account, holders, past, overrun_nano_usd }
}
