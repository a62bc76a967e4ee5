// Periodic work of budgets, once a second: reporting what was spent, giving back idle leases, opening the next window,
// alerts, statements.
import { spentOf } from '../../domain/budgets/account.ts'
import { reached } from '../../domain/budgets/budget-alerts.ts'
import type { BudgetEvent } from '../../domain/budgets/budget-events.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable } from '../../log/port.ts'
import type { ApplicableBudgets } from './applicable.ts'
import type { BudgetLeases } from './leases.ts'
import { LEASE_MS, type OpenAccount } from './open-account.ts'
import { BudgetWriter, statementOf } from './writer.ts'

const EVERY_MS = 1_000
/** The longest time between a charge and its report. */
const REPORT_MS = 5_000
/** A lease goes back when no request drew from it for so long. */
const IDLE_MS = 30_000
/** The next window is opened when so much of this one is left, or half of it. */
const NEXT_MS = 60_000
const STATED_MS = 3_600_000
/** Bound of the alerts of one tenant in one append; the next round writes the rest. */
const MOST_STATED = 64

export interface ChoresDeps {
  readonly log: EventLog
  readonly leases: BudgetLeases
  readonly applicable: ApplicableBudgets
  readonly instance: string
  nowMs(): number
  monotonicMs(): number
  newEpoch(): string
  readonly diagnostics: Diagnostics
  spoolEnd(): number
  onNeeded?(record: number): void
}

/** Returns how to stop. */
export const startBudgetChores = (deps: ChoresDeps): (() => void) => {
  const chores = new Chores(deps)
  const timer = setInterval(() => chores.run(), EVERY_MS)
  timer.unref()
  return () => clearInterval(timer)
}

class Chores {
  readonly #writer: BudgetWriter
  #writing = false
  #round = 0
  /** The wall clock before the monotonic one, as of the last round. */
  #aheadMs: number | null = null

  constructor(private readonly deps: ChoresDeps) {
    this.#writer = new BudgetWriter(deps, deps.newEpoch())
  }

  run(): void {
    const { leases, monotonicMs, spoolEnd, onNeeded } = this.deps
    const nowMs = monotonicMs()
    if (this.#slept(nowMs)) for (const open of leases.opens.values()) open.lease.usableUntilMs = 0
    for (const open of [...leases.opens.values(), ...leases.former]) this.#maintain(open, nowMs)
    onNeeded?.(Math.min(spoolEnd(), leases.neededFrom()))
    if (!this.#writing)
      void this.#write().catch((error: unknown) => this.deps.diagnostics.warn('budget_chores', { error }))
  }

  /**
   * Whether the machine slept, and the monotonic clock with it: leases may have expired meanwhile. Also true when the
   * wall clock is set: the leases are then renewed.
   */
  #slept(nowMs: number): boolean {
    const aheadMs = this.deps.nowMs() - nowMs
    const slept = this.#aheadMs !== null && aheadMs - this.#aheadMs > LEASE_MS / 2
    this.#aheadMs = aheadMs
    return slept
  }

  /** One account that this process spends from. */
  #maintain(open: OpenAccount, nowMs: number): void {
    const { leases } = this.deps
    const { lease, endMs, tenantId, budget } = open
    const logMs = leases.ledger.nowMs(tenantId)
    const isOver = endMs !== null && logMs >= endMs
    const idleMs = nowMs - Math.max(lease.usedAtMs, open.grantedAtMs)
    if (isOver || idleMs > IDLE_MS) leases.giveBack(open, nowMs)
    const unreportedMs = lease.unreportedSinceMs === null ? 0 : nowMs - lease.unreportedSinceMs
    const expires = budget.isHard && idleMs <= IDLE_MS && nowMs > lease.usableUntilMs - LEASE_MS / 2
    if (unreportedMs > REPORT_MS || open.isContended(nowMs) || expires) leases.report(open)
    // Only once the fold contains all reports: if a clock goes back, the account is opened again from the fold.
    const isReported = lease.isReported(leases.ledger.account(tenantId, open.account)?.holders.get(lease.holder))
    const done =
      lease.unreportedSinceMs === null && open.neededFrom === null && open.isIdle && !open.requesting && isReported
    if (isOver && done && open.waiting === 0) this.#drop(open)
    else if (!isOver && endMs !== null && budget.isHard && idleMs < IDLE_MS) this.#openNext(open, endMs, logMs)
  }

  #drop(open: OpenAccount): void {
    const { leases } = this.deps
    if (open.budget.account === open) open.budget.account = null
    if (leases.opens.get(open.account) === open) leases.opens.delete(open.account)
    leases.former.delete(open)
  }

  /**
   * A line that is drawn from now will be drawn from in the next window too: its account is opened before the window
   * begins.
   */
  #openNext(open: OpenAccount, endMs: number, logMs: number): void {
    const { leases } = this.deps
    const aheadMs = Math.min(NEXT_MS, (endMs - open.startMs) / 2)
    if (endMs - logMs > aheadMs) return
    const next = open.budget.windowOf(endMs)
    const opened = leases.openWindow(open.tenantId, open.budget, next.startMs, next.endMs)
    if (opened.requesting || opened.lastGrant.nano_usd > 0 || opened.lastGrant.tokens > 0) return
    opened.lastDrawNanoUsd = open.lastDrawNanoUsd
    opened.lastDrawTokens = open.lastDrawTokens
    opened.wantsMore = true
    leases.report(opened)
  }

  /** Writes the records beside the leases. A record that fails is due again with the next round. */
  async #write(): Promise<void> {
    const { leases } = this.deps
    this.#writing = true
    try {
      for (const tenantId of [...leases.ledger.tenants()]) await this.#alert(tenantId)
      if (this.#round++ % 10 !== 0) return
      for (const tenantId of [...leases.ledger.statedBefore(this.deps.nowMs() - STATED_MS)]) await this.#state(tenantId)
    } finally {
      this.#writing = false
    }
  }

  async #alert(tenantId: string): Promise<void> {
    const applicable = this.deps.applicable.of(tenantId)
    if (applicable === null) return
    const events: BudgetEvent[] = []
    for (const account of this.deps.leases.ledger.accounts(tenantId)?.all() ?? []) {
      const budget = applicable.all.get(account.budget_id)
      if (budget === undefined) continue
      const { alert_thresholds, soft_limit_nano_usd } = budget.row
      const spent = spentOf(account)
      for (const threshold of reached(account, spent, alert_thresholds, soft_limit_nano_usd)) {
        const { account: id, budget_id, limit_nano_usd, limit_tokens } = account
        const data = { account: id, budget_id, tenant_id: tenantId, threshold, spent, limit_nano_usd, limit_tokens }
        events.push({ type: 'account.alerted', data })
      }
    }
    await this.#append(tenantId, events.slice(0, MOST_STATED))
  }

  async #state(tenantId: string): Promise<void> {
    await this.#append(tenantId, statementOf(this.deps.leases.ledger, tenantId))
  }

  async #append(tenantId: string, events: readonly BudgetEvent[]): Promise<void> {
    if (events.length === 0) return
    try {
      await this.#writer.append(tenantId, events, this.deps.leases.ledger)
    } catch (error) {
      // Due again in a second; a repeat is harmless.
      if (error instanceof LogUnavailable || error instanceof IndefiniteAppend) return
      throw error
    }
  }
}
