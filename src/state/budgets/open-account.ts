// An account that this process spends from: its budget's line, its window, and the lease.
import { type Account, type Accounts, committed } from '../../domain/budgets/account.ts'
import { type Closing, closedFor, closedUpTo, limitsHeightOf } from '../../domain/budgets/account-closing.ts'
import { type Amount, fits, isNothing, minus, NO_AMOUNT } from '../../domain/budgets/amount.ts'
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import type { AccountOpened } from '../../domain/budgets/budget-events.ts'
import { committedBy } from '../../domain/budgets/holder.ts'
import { Lease } from '../../domain/budgets/lease.ts'
import type { ApplicableBudget } from './applicable.ts'

/** How long a lease is usable after its last record: in log time, and never longer by this process's own clock. */
export const LEASE_MS = 60_000
/** Another holder was refused: for so long, free amounts are given back at once. */
const CONTENDED_MS = 10_000
/** A refusal holds for so long without a new lease request, unless the account changes. */
const REFUSED_MS = 1_000
/** A holder leases at most one part in so many of what is left ahead of need. */
const AHEAD_SHARE = 8
/** The amounts of a request ahead of need: as much as is drawn in this time, or so many reservations like the last. */
const AHEAD_MS = 2_000
const AHEAD_TIMES = 8

/** The account of a budget's window, and the holder that leases of it. `endMs` null: the window never ends. */
export interface AccountOpening {
  readonly tenantId: string
  readonly budget: ApplicableBudget
  readonly account: string
  readonly startMs: number
  readonly endMs: number | null
  readonly holder: string
}

export class OpenAccount {
  readonly tenantId: string
  /** Another object once the budget was switched off and on again. */
  budget: ApplicableBudget
  readonly account: string
  readonly startMs: number
  readonly endMs: number | null
  lease: Lease
  /** Requests that wait for it, and those of them that were refused and wait for other holders to give back. */
  waiting = 0
  parked = 0
  /** Requests that may yet charge it. */
  users = 0
  /** A lease request is under way, or is to be sent. */
  requesting = false
  wantsMore = false
  contendedUntilMs = 0
  /** After a refusal other holders may give back until then (monotonic). */
  returnsUntilMs = Number.NEGATIVE_INFINITY
  /** When the first record was sent that is not folded yet (monotonic); null: there is none. */
  sentAtMs: number | null = null
  /** Time of the last grant (monotonic), and its amount. */
  grantedAtMs = 0
  lastGrant: Amount = NO_AMOUNT
  lastDrawNanoUsd = 0
  lastDrawTokens = 0
  /** Why nothing may be reserved of the lease whatever is left of it; null: it may. */
  closing: Closing | null = null
  /** More is committed of the account than its limits allow. */
  #isOverdrawn = false
  /**
   * The height up to which the account is closed, by the fold and by overruns of this process, which may be unreported.
   */
  #closedUpTo = -1
  #overranUpTo = -1
  /**
   * The first record of the spool whose outcomes charge amounts that are unreported, or reported but not folded. Null:
   * none.
   */
  unreportedFrom: number | null = null
  #reportingFrom: number | null = null
  /** Spool records, in order, of the outcomes that charge the account and are not recorded yet. */
  readonly #unrecorded: number[] = []

  constructor({ tenantId, budget, account, startMs, endMs, holder }: AccountOpening) {
    this.tenantId = tenantId
    this.budget = budget
    this.account = account
    this.startMs = startMs
    this.endMs = endMs
    this.lease = new Lease(account, holder)
  }

  /** Takes over the folded account. */
  followFold(account: Account | undefined): void {
    if (account === undefined) return
    this.#closedUpTo = closedUpTo(account)
    this.closing = closedFor(account) ?? (limitsHeightOf(account) <= this.#overranUpTo ? 'overrun' : null)
    const { limit_nano_usd: nano_usd, limit_tokens: tokens } = account
    this.#isOverdrawn = !fits(committed(account), { nano_usd, tokens })
  }

  /** An attempt was billed more than it had reserved: the account is closed here before the report is written. */
  overran(account: Account | undefined): void {
    this.#overranUpTo = Math.max(this.budget.row.height, account?.height ?? 0)
    this.closing ??= 'overrun'
  }

  /** Continues another account under a new holder of this process. */
  continueFrom(former: OpenAccount, account: Account | undefined): void {
    this.#overranUpTo = former.#overranUpTo
    this.followFold(account)
  }

  /** The free amount of the lease may not be spent. */
  get isStopped(): boolean {
    return this.closing !== null || this.#isOverdrawn
  }

  /** It is closed, and its limits were not set since: no lease request is sent. */
  get isClosed(): boolean {
    return this.closing !== null && this.budget.opensAt <= Math.max(this.#closedUpTo, this.#overranUpTo)
  }

  /** An outcome charges it whose record in the spool is this one, or a later one. */
  charged(record: number): void {
    this.unreportedFrom ??= record
    this.#unrecorded.push(record)
  }

  /** The oldest of these outcomes is recorded, or never will be. */
  recorded(): void {
    this.#unrecorded.shift()
  }

  /** A batch now contains the recorded sums that were unreported. */
  reporting(): void {
    this.#reportingFrom ??= this.unreportedFrom
    this.unreportedFrom = this.#unrecorded[0] ?? null
  }

  /** The batch was written to the log. */
  reported(): void {
    this.#reportingFrom = null
  }

  /** The batch was not written. */
  takeBackMark(): void {
    this.unreportedFrom = this.#reportingFrom ?? this.unreportedFrom
    this.#reportingFrom = null
  }

  /** The first record of the spool that is needed to recover what was spent if this process dies. */
  get neededFrom(): number | null {
    return this.#reportingFrom ?? this.unreportedFrom
  }

  /** Nothing under way will charge it. */
  get isIdle(): boolean {
    return this.users === 0 && this.lease.isIdle
  }

  /** Whether the lease has this amount free now. */
  has(nanoUsd: number, tokens: number, nowMs: number): boolean {
    return this.closing === null && this.lease.has(nanoUsd, tokens, nowMs)
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

  /** The log has refused it, and the time for returns of other holders is over. */
  wasRefused(nowMs: number): boolean {
    return nowMs >= this.returnsUntilMs && nowMs - this.returnsUntilMs < REFUSED_MS
  }

  /** A waiting request may yet be served from what is free here. */
  get isNeeded(): boolean {
    return this.waiting > this.parked || (this.waiting > 0 && this.requesting)
  }

  /** Whether less than half of the last grant is left. */
  isLow(): boolean {
    const { freeNanoUsd, freeTokens } = this.lease
    return 2 * freeNanoUsd < this.lastGrant.nano_usd || 2 * freeTokens < this.lastGrant.tokens
  }

  /** The amount to request beyond the present need. */
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

  /** Takes over the granted sum of the fold. */
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
    const { account, startMs, endMs, budget } = this
    return {
      account,
      budget_id: budget.row.id,
      window_start_ms: startMs,
      window_end_ms: endMs,
      ...termsOf(budget.row, budget.hasLimitsHeight()),
    }
  }
}

/**
 * The terms of a budget for its partition, from its present row. `hasLimitsHeight`: all instances support the height
 * at which limits were set.
 */
export const termsOf = (row: BudgetRow, hasLimitsHeight: boolean) => {
  const { height, limit_nano_usd, limit_tokens, soft_limit_nano_usd, enforcement } = row
  const limits = { limit_nano_usd, limit_tokens, soft_limit_nano_usd }
  return { height, ...(hasLimitsHeight ? { limits_height: limitsHeightOf(row) } : {}), ...limits, enforcement }
}

/** Whether another holder has an unspent amount of an account. */
export const othersHold = (accounts: Accounts | null, id: string, holder: string): boolean => {
  for (const other of accounts?.get(id)?.holders.values() ?? []) {
    if (other.holder === holder || other.closed) continue
    const { nano_usd, tokens } = minus(minus(committedBy(other), other.counted), other.spent)
    if (nano_usd > 0 || tokens > 0) return true
  }
  return false
}
