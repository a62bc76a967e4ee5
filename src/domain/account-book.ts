// All accounts of one tenant, as far as a reader has come. A reader that begins in the middle of the partition knows them from a statement of all of them on.
import { type Account, type Accounts, type Evolved, evolveAccounts, statedAccount } from './account.ts'
import type { AccountStated, BudgetEvent } from './budget-events.ts'

/** Records between the offset that a statement is of and the statement itself: more than this and it is not used. */
const MOST_RECENT = 1_024
/** Accounts that ended longer ago than their window lasted, and this, are forgotten: nothing is charged to them any more, and no window of their budget overlaps them. */
const FORGOTTEN_MS = 48 * 3_600_000

interface Recent {
  readonly offset: number
  readonly event: BudgetEvent
  readonly atMs: number
}

interface Collected {
  readonly writer: string
  readonly offset: number
  readonly of: number
  readonly accounts: AccountStated[]
}

const NOTHING: Evolved = { accounts: [], verdict: null }

export class AccountBook implements Accounts {
  #accounts = new Map<string, Account>()
  readonly #ofBudget = new Map<string, Set<string>>()
  #recent: Recent[] = []
  #trimmed = false
  #wasStated = false
  #collected: Collected | null = null
  /** Log time of the last complete statement, or of the first record. */
  statedMs = 0

  constructor(
    /** Whether nothing is missing. */
    public known: boolean,
    /** The first offset that was read. */
    private readonly from: number,
  ) {}

  get(id: string): Account | undefined {
    return this.#accounts.get(id)
  }

  *ofBudget(budgetId: string): Iterable<Account> {
    for (const id of this.#ofBudget.get(budgetId) ?? []) yield this.#accounts.get(id)!
  }

  all(): Iterable<Account> {
    return this.#accounts.values()
  }

  get size(): number {
    return this.#accounts.size
  }

  /** A complete statement was read. */
  get isStated(): boolean {
    return this.#wasStated
  }

  /** Takes the next record of this tenant. `writer`: whose statement it is. */
  take(offset: number, event: BudgetEvent, atMs: number, writer: string): Evolved {
    if (this.statedMs === 0) this.statedMs = atMs
    if (event.type === 'account.stated') return this.#stated(event.data, atMs, writer)
    if (!this.known) {
      this.#recent.push({ offset, event, atMs })
      if (this.#recent.length > 2 * MOST_RECENT) {
        this.#recent = this.#recent.slice(-MOST_RECENT)
        this.#trimmed = true
      }
    }
    return this.#evolve(event, atMs)
  }

  /** Forgets what ended long ago. */
  forget(atMs: number): void {
    for (const { account, budget_id, window_start_ms, window_end_ms } of this.#accounts.values()) {
      if (window_end_ms === null) continue
      if (window_end_ms + (window_end_ms - window_start_ms) + FORGOTTEN_MS > atMs) continue
      this.#accounts.delete(account)
      const others = this.#ofBudget.get(budget_id)
      others?.delete(account)
      if (others?.size === 0) this.#ofBudget.delete(budget_id)
    }
  }

  #evolve(event: BudgetEvent, atMs: number): Evolved {
    const evolved = evolveAccounts(this, event, atMs)
    for (const account of evolved.accounts) this.#put(account)
    return evolved
  }

  #put(account: Account): void {
    this.#accounts.set(account.account, account)
    const others = this.#ofBudget.get(account.budget_id)
    if (others === undefined) this.#ofBudget.set(account.budget_id, new Set([account.account]))
    else others.add(account.account)
  }

  /** A statement of all accounts, in several records: what is known already knows better. */
  #stated(stated: AccountStated, atMs: number, writer: string): Evolved {
    const before = this.#collected
    const goes = before !== null && before.writer === writer && before.offset === stated.offset
    const set = goes ? before : { writer, offset: stated.offset, of: stated.of, accounts: [] }
    this.#collected = set
    set.accounts.push(stated)
    if (set.accounts.length < set.of) return NOTHING
    this.#collected = null
    this.statedMs = atMs
    this.#wasStated = true
    if (this.known) return NOTHING
    if (stated.offset < (this.#trimmed ? this.#recent[0]!.offset : this.from)) return NOTHING
    this.known = true
    this.#accounts = new Map()
    this.#ofBudget.clear()
    for (const each of set.accounts) this.#put(statedAccount(each, atMs))
    const recent = this.#recent
    this.#recent = []
    for (const { offset, event, atMs: at } of recent) if (offset >= stated.offset) this.#evolve(event, at)
    return { accounts: [...this.#accounts.values()], verdict: null }
  }
}
