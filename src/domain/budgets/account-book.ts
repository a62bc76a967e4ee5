// All accounts of one tenant, as far as a reader has read. A reader that begins in the middle of the partition has all
// accounts after it has read a statement of them.
import { type Account, type Accounts, type Evolved, evolveAccounts, statedAccount, stateOf } from './account.ts'
import type { AccountStated, BudgetEvent } from './budget-events.ts'
import { MOST_HOLDERS } from './holder.ts'

/** Bound of the records between the offset of a statement and the statement itself; with more, it is not used. */
const MOST_RECENT = 1_024
/**
 * An account is dropped when it ended longer ago than its window lasted plus this time: nothing is charged to it any
 * more, and no window of its budget overlaps it.
 */
const DROPPED_AFTER_MS = 48 * 3_600_000
/**
 * Bound of the statements that are read at the same time, and the time to wait for the next record of one (log time):
 * its writer may have stopped.
 */
const MOST_COLLECTED = 64
const COLLECTED_MS = 600_000

interface Recent {
  readonly offset: number
  readonly event: BudgetEvent
  readonly atMs: number
}

/** The records of one statement so far. */
interface Collected {
  readonly offset: number
  /**
   * By account and part, so that a copy does not count; null where the account is complete already and only the number
   * of records matters.
   */
  readonly records: Map<string, AccountStated | null>
  atMs: number
}

const NOTHING: Evolved = { accounts: [], verdict: null }

export class AccountBook implements Accounts {
  #accounts = new Map<string, Account>()
  readonly #ofBudget = new Map<string, Set<string>>()
  #recent: Recent[] = []
  #trimmed = false
  #wasStated = false
  /** Statements in progress by writer: several writers state at the same time, and their records interleave. */
  readonly #collected = new Map<string, Collected>()
  /** Log time of the last complete statement, or of the first record. */
  statedMs = 0

  constructor(
    /** Whether no account is missing. */
    public isComplete: boolean,
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

  /** Takes the next record of this tenant. `writer`: the process that wrote it. */
  take(offset: number, event: BudgetEvent, atMs: number, writer: string): Evolved {
    if (this.statedMs === 0) this.statedMs = atMs
    if (event.type === 'account.stated') return this.#stated(event.data, atMs, writer)
    if (!this.isComplete) {
      this.#recent.push({ offset, event, atMs })
      if (this.#recent.length > 2 * MOST_RECENT) {
        this.#recent = this.#recent.slice(-MOST_RECENT)
        this.#trimmed = true
      }
    }
    return this.#evolve(event, atMs)
  }

  /** Drops accounts that ended long ago. */
  dropEnded(atMs: number): void {
    for (const { account, budget_id, window_start_ms, window_end_ms } of this.#accounts.values()) {
      if (window_end_ms === null) continue
      if (window_end_ms + (window_end_ms - window_start_ms) + DROPPED_AFTER_MS > atMs) continue
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

  /** Adds the part of an account from one record to its parts from other records. */
  #putPart(part: Account): void {
    const { holders } = this.#accounts.get(part.account) ?? part
    this.#put(holders === part.holders ? part : { ...part, holders: new Map([...holders, ...part.holders]) })
  }

  /**
   * A statement of all accounts, in several records. An account that was folded already is newer than its statement.
   */
  #stated(stated: AccountStated, atMs: number, writer: string): Evolved {
    const { records } = this.#collect(stated, atMs, writer)
    if (records.size < stated.of) return NOTHING
    // A complete statement replaces statements of earlier states that are still incomplete.
    for (const [each, { offset }] of this.#collected) if (offset <= stated.offset) this.#collected.delete(each)
    this.statedMs = atMs
    this.#wasStated = true
    if (this.isComplete) return NOTHING
    if (stated.offset < (this.#trimmed ? this.#recent[0]!.offset : this.from)) return NOTHING
    this.isComplete = true
    this.#accounts = new Map()
    this.#ofBudget.clear()
    for (const each of records.values()) this.#putPart(statedAccount(each!, atMs))
    const recent = this.#recent
    this.#recent = []
    for (const { offset, event, atMs: at } of recent) if (offset >= stated.offset) this.#evolve(event, at)
    return { accounts: [...this.#accounts.values()], verdict: null }
  }

  /** All parts of its writer's statement so far, with this record. */
  #collect(stated: AccountStated, atMs: number, writer: string): Collected {
    const before = this.#collected.get(writer)
    const continues = before !== undefined && before.offset === stated.offset
    const set: Collected = continues ? before : { offset: stated.offset, records: new Map(), atMs }
    set.records.set(`${stated.account} ${stated.part ?? 0}`, this.isComplete ? null : stated)
    set.atMs = atMs
    // The writer that was silent longest comes first.
    this.#collected.delete(writer)
    this.#collected.set(writer, set)
    for (const [each, { atMs: last }] of this.#collected) {
      if (last >= atMs - COLLECTED_MS && this.#collected.size <= MOST_COLLECTED) break
      this.#collected.delete(each)
    }
    return set
  }
}

/**
 * A statement of all accounts of a tenant, as they are before this offset: one record for each account, or as many as
 * its holders need.
 */
export const statedIn = (accounts: readonly Account[], offset: number): AccountStated[] => {
  const records = accounts.flatMap((account) => partsOf(stateOf(account, offset, 1)))
  return records.map((record) => ({ ...record, of: records.length }))
}

const partsOf = (stated: AccountStated): readonly AccountStated[] => {
  const { holders } = stated
  if (holders.length <= MOST_HOLDERS) return [stated]
  return Array.from({ length: Math.ceil(holders.length / MOST_HOLDERS) }, (_, part) => {
    const from = part * MOST_HOLDERS
    return { ...stated, part, holders: holders.slice(from, from + MOST_HOLDERS) }
  })
}
