// The rare records of the budget log, one of each: every reason to refuse, repeats, records of earlier builds, a
// retirement in parts, a statement in parts.
import { accountId } from '../../src/domain/budgets/account.ts'
import { AccountBook, statedIn } from '../../src/domain/budgets/account-book.ts'
import type { AccountLimited, BudgetEvent, LeaseTally } from '../../src/domain/budgets/budget-events.ts'
import { writeEnvelope } from '../../src/log/envelope.ts'
import type { GoldenRecord } from '../fixtures/golden-log.ts'

const TENANT = 'ten_1'
const HOUR_MS = 3_600_000
/** Midnight. */
const START_MS = Date.UTC(2026, 10, 20)
/** More than one record states. */
const MANY_HOLDERS = 130

const amount = (nano_usd: number, tokens = 0) => ({ nano_usd, tokens })

/** An account, and the height of its terms that a holder knows. */
interface Terms {
  readonly account: string
  readonly height: number
}

class Writing {
  readonly records: GoldenRecord[] = []
  readonly #book = new AccountBook(true, 0)
  #sequence = 0
  atMs = START_MS

  say(event: BudgetEvent, instance = 'one'): void {
    const offset = this.records.length
    const origin = { instance, epoch: 'life', sequence: this.#sequence++ }
    const text = writeEnvelope(origin, event.type, TENANT, this.atMs, JSON.stringify(event.data))
    this.records.push({ at: this.atMs, value: Buffer.from(text).toString('base64') })
    this.#book.take(offset, event, this.atMs, `${instance}.life`)
    this.atMs += 1_000
  }

  /** Terms as builds wrote them before they recorded the height of limits: there is no `limits_height`. */
  open(
    budgetId: string,
    window: readonly [number, number | null],
    terms: Partial<AccountLimited>,
    forgotten?: true,
  ): string {
    const account = accountId(budgetId, ...window)
    const [window_start_ms, window_end_ms] = window
    const budget = { account, budget_id: budgetId, window_start_ms, window_end_ms }
    this.say({
      type: 'account.opened',
      data: { ...budget, ...termsOf(terms), ...(forgotten === true ? { forgotten } : {}) },
    })
    return account
  }

  limit(account: string, terms: Partial<AccountLimited>): void {
    this.say({ type: 'account.limited', data: { account, ...termsOf(terms) } })
  }

  ask(holder: string, sequence: number, { account, height }: Terms, need: number, want = need): void {
    const [instance = ''] = holder.split('.')
    const accounts = [{ account, height, need: amount(need, 1), want: amount(want, 1) }]
    this.say({ type: 'lease.requested', data: { holder, instance, sequence, accounts } }, instance)
  }

  tell(type: 'lease.settled' | 'lease.closed', holder: string, account: string, tally: Partial<LeaseTally>): void {
    const [instance = ''] = holder.split('.')
    const { returned = amount(0), ...sums } = tally
    const all = { spent: amount(0), counted: amount(0), overrun_nano_usd: 0, ...sums, account }
    if (type === 'lease.closed') this.say({ type, data: { holder, instance, accounts: [all] } }, instance)
    else this.say({ type, data: { holder, instance, accounts: [{ ...all, returned }] } }, instance)
  }

  state(): void {
    for (const data of statedIn([...this.#book.all()], this.records.length)) this.say({ type: 'account.stated', data })
  }
}

const termsOf = (terms: Partial<AccountLimited>) => ({
  ...{ height: 1, limit_nano_usd: null, limit_tokens: null, enforcement: 'hard' as const },
  ...terms,
})

/** Grants, refusals and repeats of one account that never ends, and an overrun that closes it. */
const refusals = (log: Writing): string => {
  const limits = { limit_nano_usd: 10_000, limit_tokens: 100, soft_limit_nano_usd: 1_500 }
  const account = log.open('bud_a', [0, null], { ...limits, height: 1, limits_height: 1 })
  log.ask('one.1', 1, { account, height: 1 }, 1_000, 4_000)
  log.ask('one.1', 1, { account, height: 1 }, 1_000, 4_000) // a repeat
  log.ask('two.1', 1, { account, height: 2 }, 100) // another height
  log.ask('two.1', 2, { account: 'bud_unknown/0-', height: 1 }, 100)
  log.ask('two.1', 3, { account, height: 1 }, 7_000) // more than is left
  log.ask('two.1', 4, { account, height: 1 }, 100, 9_000) // as much as is left
  log.tell('lease.settled', 'two.1', account, { returned: amount(3_000), spent: amount(2_000, 2) })
  log.tell('lease.settled', 'two.1', account, { returned: amount(1_000), spent: amount(500, 1) }) // older than that
  log.say({
    type: 'account.alerted',
    data: {
      account,
      budget_id: 'bud_a',
      tenant_id: TENANT,
      threshold: 0,
      spent: amount(2_000, 2),
      limit_nano_usd: 10_000,
      limit_tokens: 100,
    },
  })
  log.tell('lease.closed', 'two.1', account, { spent: amount(2_500, 3) })
  log.tell('lease.settled', 'two.1', account, { spent: amount(500, 1) }) // a late copy
  log.ask('two.1', 5, { account, height: 1 }, 100) // closed
  log.tell('lease.settled', 'one.1', account, {
    spent: amount(4_000, 4),
    counted: amount(500, 5),
    overrun_nano_usd: 500,
    overrun_tokens: 5,
  })
  log.ask('three.1', 1, { account, height: 1 }, 100) // after an overrun
  log.limit(account, { ...limits, height: 2, limits_height: 1 }) // other edits open nothing
  log.ask('three.1', 2, { account, height: 2 }, 100)
  log.limit(account, { ...limits, height: 3, limits_height: 3, limit_nano_usd: 20_000 })
  log.limit(account, { ...limits, height: 2, limits_height: 2 }) // late
  log.ask('three.1', 3, { account, height: 2 }, 100) // by terms that were
  log.ask('three.1', 4, { account, height: 3 }, 100, 2_000)
  return account
}

/** Windows that begin later, are over, overlap, or may have been spent from by what has expired. */
const windows = (log: Writing): void => {
  const day = 24 * HOUR_MS
  const terms = { limit_nano_usd: 5_000, height: 1 }
  const early = log.open('bud_b', [START_MS + day, START_MS + 2 * day], terms)
  log.ask('one.1', 2, { account: early, height: 1 }, 100)
  const ended = log.open('bud_b', [START_MS - day, START_MS], terms)
  log.ask('one.1', 3, { account: ended, height: 1 }, 100)
  const cut = log.open('bud_c', [START_MS, START_MS + day], terms)
  log.ask('one.1', 4, { account: cut, height: 1 }, 1_000)
  const otherwise = log.open('bud_c', [START_MS - 9 * HOUR_MS, START_MS + 15 * HOUR_MS], terms)
  log.ask('two.2', 1, { account: otherwise, height: 1 }, 4_001) // what the other one holds counts
  log.ask('two.2', 2, { account: otherwise, height: 1 }, 4_000)
  log.ask('one.1', 5, { account: cut, height: 1 }, 1)
  const forgotten = log.open('bud_d', [0, null], { ...terms, height: 4 }, true)
  log.ask('one.1', 6, { account: forgotten, height: 4 }, 100)
  log.limit(forgotten, { ...terms, height: 5 }) // of an earlier build: every edit opens
  log.ask('one.1', 7, { account: forgotten, height: 5 }, 100)
  const soft = log.open('bud_e', [0, null], { ...terms, enforcement: 'soft', soft_limit_nano_usd: null })
  log.tell('lease.settled', 'one.1', soft, { counted: amount(700, 7) })
}

/** An instance that is given up, in parts, and its late records about it. */
const retirement = (log: Writing, account: string): void => {
  const other = log.open('bud_f', [0, null], { limit_nano_usd: 5_000, height: 1 })
  log.ask('gone.1', 1, { account, height: 3 }, 1_000)
  log.ask('gone.2', 1, { account, height: 3 }, 2_000)
  log.ask('gone.2', 2, { account: other, height: 1 }, 3_000)
  log.atMs += 2 * HOUR_MS
  const [before_ms, reason] = [log.atMs - HOUR_MS, 'operator'] as const
  const orphaned = [{ account, holder: 'gone.1', spent: amount(600, 1) }]
  log.say({ type: 'instance.retired', data: { instance: 'gone', before_ms, reason, orphaned, accounts: [account] } })
  log.say({ type: 'instance.retired', data: { instance: 'gone', before_ms, reason, orphaned: [] } })
  log.tell('lease.settled', 'gone.1', account, { spent: amount(400, 1) })
  log.state()
  log.tell('lease.closed', 'gone.1', account, { spent: amount(500, 1) })
  log.say({ type: 'instance.retired', data: { instance: 'two', before_ms, reason: 'silence', orphaned: [] } })
}

/** More holders than a record states, and closed ones that are forgotten. */
const crowd = (log: Writing): void => {
  const account = log.open('bud_g', [0, null], { limit_nano_usd: 1_000_000, height: 1, limits_height: 1 })
  for (let n = 0; n < MANY_HOLDERS; n++) log.ask(`many.${n}`, 1, { account, height: 1 }, 1_000)
  log.tell('lease.closed', 'many.0', account, { spent: amount(10), counted: amount(5), overrun_nano_usd: 5 })
  log.limit(account, { limit_nano_usd: 1_000_000, height: 2, limits_height: 2 })
  log.state()
  for (let n = 1; n < 20; n++) log.tell('lease.closed', `many.${n}`, account, { spent: amount(100) })
  log.atMs += 2 * HOUR_MS
  log.ask('many.again', 1, { account, height: 2 }, 1_000)
  log.state()
  log.ask('last.1', 1, { account, height: 2 }, 900_000) // more than is left
  log.ask('last.1', 2, { account, height: 2 }, 800_000)
}

export const budgetEdges = (): readonly GoldenRecord[] => {
  const log = new Writing()
  const account = refusals(log)
  windows(log)
  retirement(log, account)
  crowd(log)
  return log.records
}
