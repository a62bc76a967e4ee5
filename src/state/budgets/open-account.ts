// An account that this process spends from: its budget's line, its window, and the lease.
import { type Account, type Accounts, committed } from '../../domain/budgets/account.ts'
import { type Closing, closedFor, closedUpTo, limitsHeightOf } from '../../domain/budgets/account-closing.ts'
import { type Amount, fits, isNothing, minus, NO_AMOUNT } from '../../domain/budgets/amount.ts'
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import type { AccountOpened } from '../../domain/budgets/budget-events.ts'
import { committedBy } from '../../domain/budgets/holder.ts'
import { Lease } from '../../domain/budgets/lease.ts'
import type { BudgetLine } from './applicable.ts'

/** How long a lease is usable after its last record: in log time, and never longer by this process's own clock. */
export const LEASE_MS = 60_000
/** Somebody else was refused: what is not needed is given back at once for so long. */
const CONTENDED_MS = 10_000
/** A refusal stands for so long without asking again, unless the account changes. */
const REFUSED_MS = 1_000
/** Of what is left, a holder takes at most this share ahead of need. */
const AHEAD_SHARE = 8
/** And as much as it draws in this time, or as so many reservations like the last. */
const AHEAD_MS = 2_000
const AHEAD_TIMES = 8

export class OpenAccount {
  lease: Lease
  /** Requests that wait for it, and those of them that were refused and wait for what others give back. */
  waiting = 0
  parked = 0
  /** Requests that may yet charge it. */
  users = 0
  /** A request for more is under way, or is to be. */
  asking = false
  wantsMore = false
  contendedUntilMs = 0
  /** After a refusal others may give back what they do not need until then (monotonic). */
  returnsUntilMs = Number.NEGATIVE_INFINITY
  /** When the first record of it was sent that was not seen in the log yet (monotonic); null: there is none. */
  sentAtMs: number | null = null
  /** Monotonic, and how much was granted then. */
  grantedAtMs = 0
  lastGrant: Amount = NO_AMOUNT
  lastDrawNanoUsd = 0
  lastDrawTokens = 0
  /** Why nothing may be taken of the lease whatever is left of it; null: nothing is against it. */
  bar: Closing | null = null
  /** More is taken of the account than its limits say. */
  #isOverdrawn = false
  /** It is closed up to this height, by the fold; and by overruns of this process, which the log may not have been told yet. */
  #closedUpTo = -1
  #overranUpTo = -1
  /** The record of the spool from which on outcomes are charged that the log was not told of, and was not yet seen to take. Null: none. */
  untoldFrom: number | null = null
  #tellingFrom: number | null = null
  /** Of outcomes that charge it and are not recorded yet. */
  readonly #unrecorded: number[] = []

  constructor(
    readonly tenantId: string,
    /** Another one once the budget was switched off and on again. */
    public line: BudgetLine,
    readonly account: string,
    readonly startMs: number,
    readonly endMs: number | null,
    holder: string,
  ) {
    this.lease = new Lease(account, holder)
  }

  /** The account as the fold has it now. */
  seen(account: Account | undefined): void {
    if (account === undefined) return
    this.#closedUpTo = closedUpTo(account)
    this.bar = closedFor(account) ?? (limitsHeightOf(account) <= this.#overranUpTo ? 'overrun' : null)
    const { limit_nano_usd: nano_usd, limit_tokens: tokens } = account
    this.#isOverdrawn = !fits(committed(account), { nano_usd, tokens })
  }

  /** An attempt was billed more than it had reserved: the account is closed here before the log is told. */
  overran(account: Account | undefined): void {
    this.#overranUpTo = Math.max(this.line.row.height, account?.height ?? 0)
    this.bar ??= 'overrun'
  }

  /** Under another name of its process. */
  goesOnFrom(former: OpenAccount, account: Account | undefined): void {
    this.#overranUpTo = former.#overranUpTo
    this.seen(account)
  }

  /** Nothing that is free of the lease may be spent. */
  get isStopped(): boolean {
    return this.bar !== null || this.#isOverdrawn
  }

  /** It is closed, and nobody has set its limits since: there is nothing to ask for. */
  get isClosed(): boolean {
    return this.bar !== null && this.line.opensAt <= Math.max(this.#closedUpTo, this.#overranUpTo)
  }

  /** An outcome charges it that will be this record of the spool, or a later one. */
  charged(record: number): void {
    this.untoldFrom ??= record
    this.#unrecorded.push(record)
  }

  /** The oldest of these outcomes is recorded, or never will be. */
  recorded(): void {
    this.#unrecorded.shift()
  }

  /** What is recorded and untold is in a batch now. */
  telling(): void {
    this.#tellingFrom ??= this.untoldFrom
    this.untoldFrom = this.#unrecorded[0] ?? null
  }

  /** The batch stands in the log. */
  announcedNow(): void {
    this.#tellingFrom = null
  }

  /** It does not. */
  takeBackMark(): void {
    this.untoldFrom = this.#tellingFrom ?? this.untoldFrom
    this.#tellingFrom = null
  }

  /** The first record of the spool that is needed to know what was spent, should this process die. */
  get neededFrom(): number | null {
    return this.#tellingFrom ?? this.untoldFrom
  }

  /** Nothing that is under way will charge it. */
  get isIdle(): boolean {
    return this.users === 0 && this.lease.isIdle
  }

  /** Whether so much can be taken of the lease now. */
  has(nanoUsd: number, tokens: number, nowMs: number): boolean {
    return this.bar === null && this.lease.has(nanoUsd, tokens, nowMs)
  }

  draw(nanoUsd: number, tokens: number, nowMs: number): void {
    this.lease.take(nanoUsd, tokens, nowMs)
    this.lastDrawNanoUsd = nanoUsd
    this.lastDrawTokens = tokens
  }

  isContended(nowMs: number): boolean {
    return nowMs < this.contendedUntilMs
  }

  contend(nowMs: number): void {
    this.contendedUntilMs = nowMs + CONTENDED_MS
  }

  /** The log has refused it, and what others did not need has come back since. */
  wasRefused(nowMs: number): boolean {
    return nowMs >= this.returnsUntilMs && nowMs - this.returnsUntilMs < REFUSED_MS
  }

  /** Somebody waits who may yet be served of what is free here. */
  get isNeeded(): boolean {
    return this.waiting > this.parked || (this.waiting > 0 && this.asking)
  }

  /** Whether less than half of what was granted last is left. */
  isLow(): boolean {
    const { freeNanoUsd, freeTokens } = this.lease
    return 2 * freeNanoUsd < this.lastGrant.nano_usd || 2 * freeTokens < this.lastGrant.tokens
  }

  /** What to ask for beyond what is needed now. */
  ahead(
    nowMs: number,
    account: Account | undefined,
    room: { nano_usd: number | null; tokens: number | null } | null,
  ): Amount {
    if (account === undefined || room === null || this.isContended(nowMs)) return NO_AMOUNT
    const elapsedMs = Math.max(250, nowMs - this.grantedAtMs)
    const share = (limit: number | null, left: number | null, drawn: number, last: number): number =>
      limit === null || left === null
        ? 0
        : Math.floor(Math.min(Math.max((drawn / elapsedMs) * AHEAD_MS, AHEAD_TIMES * last), left / AHEAD_SHARE))
    const { lease, lastDrawNanoUsd, lastDrawTokens } = this
    return {
      nano_usd: share(account.limit_nano_usd, room.nano_usd, lease.drawnNanoUsd, lastDrawNanoUsd),
      tokens: share(account.limit_tokens, room.tokens, lease.drawnTokens, lastDrawTokens),
    }
  }

  /** The fold says how much is granted in all. */
  granted(all: Amount, nowMs: number): void {
    const more = minus(all, this.lease.granted)
    this.lease.granted = all
    if (isNothing(more)) return
    this.lastGrant = more
    this.grantedAtMs = nowMs
    this.lease.drawnNanoUsd = 0
    this.lease.drawnTokens = 0
  }

  opened(): AccountOpened {
    const { account, startMs, endMs, line } = this
    return {
      account,
      budget_id: line.row.id,
      window_start_ms: startMs,
      window_end_ms: endMs,
      ...termsOf(line.row, line.saysLimitsHeight()),
    }
  }
}

/** What the partition has to know of a budget, as its row says it now. `saysLimitsHeight`: all instances understand when its limits were set. */
export const termsOf = (row: BudgetRow, saysLimitsHeight: boolean) => {
  const { height, limit_nano_usd, limit_tokens, soft_limit_nano_usd, enforcement } = row
  const limits = { limit_nano_usd, limit_tokens, soft_limit_nano_usd }
  return { height, ...(saysLimitsHeight ? { limits_height: limitsHeightOf(row) } : {}), ...limits, enforcement }
}

/** Whether anybody else holds of an account what is not spent. */
export const othersHold = (accounts: Accounts | null, id: string, holder: string): boolean => {
  for (const other of accounts?.get(id)?.holders.values() ?? []) {
    if (other.holder === holder || other.closed) continue
    const { nano_usd, tokens } = minus(minus(committedBy(other), other.counted), other.spent)
    if (nano_usd > 0 || tokens > 0) return true
  }
  return false
}
