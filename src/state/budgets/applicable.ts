// The budgets of a request: those of its tenant, its key and its endpoint scope with every candidate, and those of a
// candidate's provider and model.
import { opensAt } from '../../domain/budgets/account-closing.ts'
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import { LIMITS_HEIGHT_SINCE } from '../../domain/budgets/budget-events.ts'
import { windowAt } from '../../domain/budgets/budget-window.ts'
import { CHAIN_ROW } from '../../domain/chain.ts'
import type { LiveState } from '../port.ts'
import type { OpenAccount } from './open-account.ts'

/** A budget in use, with the bounds of the window that was requested last. */
export class ApplicableBudget {
  startMs = Number.POSITIVE_INFINITY
  endMs: number | null = Number.NEGATIVE_INFINITY
  /** The account of that window, once it was requested. */
  account: OpenAccount | null = null
  /** No lease is requested before this time (monotonic): other holders have yet to report what they counted. */
  requestsFromMs = 0

  constructor(
    public row: BudgetRow,
    /** Whether copies of its terms may carry the height at which its limits were set: all instances support it. */
    readonly hasLimitsHeight: () => boolean,
  ) {}

  /**
   * The height at which its accounts reopen: an account that was closed below it is open, or will be with the next copy
   * of its terms.
   */
  get opensAt(): number {
    return opensAt(this.row, this.hasLimitsHeight())
  }

  get isHard(): boolean {
    return this.row.enforcement === 'hard'
  }

  get leasesMoney(): boolean {
    return this.isHard && this.row.limit_nano_usd !== null
  }

  get leasesTokens(): boolean {
    return this.isHard && this.row.limit_tokens !== null
  }

  /** Whether money or tokens are spent from leases now that were only counted, or not counted, by the row before. */
  leasesMoreThan(before: BudgetRow): boolean {
    const wasHard = before.enabled && before.enforcement === 'hard'
    const money = wasHard && before.limit_nano_usd !== null
    const tokens = wasHard && before.limit_tokens !== null
    return (this.leasesMoney && !money) || (this.leasesTokens && !tokens)
  }

  /** Finds the window of this moment. True when it differs from the one before. */
  moveTo(nowMs: number): boolean {
    if (nowMs >= this.startMs && (this.endMs === null || nowMs < this.endMs)) return false
    const { startMs, endMs } = this.windowOf(nowMs)
    this.startMs = startMs
    this.endMs = endMs
    return true
  }

  windowOf(nowMs: number): { readonly startMs: number; readonly endMs: number | null } {
    const { window, calendar_aligned: calendarAligned, timezone, created_at } = this.row
    return windowAt({ window, calendarAligned, timezone, anchorMs: Date.parse(created_at) }, nowMs)
  }

  /** The row changed: windows may be cut differently. */
  replace(row: BudgetRow): void {
    this.row = row
    this.account = null
    this.startMs = Number.POSITIVE_INFINITY
    this.endMs = Number.NEGATIVE_INFINITY
  }
}

/** Those of one tenant. */
export class TenantBudgets {
  readonly all = new Map<string, ApplicableBudget>()
  /** `<type>:<id>`, names of models in lower case. */
  readonly #bySubject = new Map<string, ApplicableBudget[]>()
  /** Whether any has a provider or a model as its target. */
  ofCandidates = false
  whole: readonly ApplicableBudget[] = NONE

  constructor(
    readonly tenantId: string,
    private readonly hasLimitsHeight: () => boolean,
  ) {}

  put(row: BudgetRow): ApplicableBudget {
    const present = this.all.get(row.id)
    const budget = present ?? new ApplicableBudget(row, this.hasLimitsHeight)
    if (present === undefined) this.all.set(row.id, budget)
    else budget.replace(row)
    this.#index()
    return budget
  }

  drop(id: string): void {
    this.all.delete(id)
    this.#index()
  }

  of(type: string, id: string): readonly ApplicableBudget[] {
    return this.#bySubject.get(`${type}:${id}`) ?? NONE
  }

  /** Those that apply with every candidate. */
  ofRequest(keyId: string, slug: string | null): readonly ApplicableBudget[] {
    if (this.#bySubject.size === 0) return this.whole
    const ofKey = this.of('key', keyId)
    const ofEndpoint = slug === null ? NONE : this.of('endpoint', slug)
    return ofKey.length === 0 && ofEndpoint.length === 0 ? this.whole : [...this.whole, ...ofKey, ...ofEndpoint]
  }

  /** Those of one candidate. */
  ofCandidate(providerId: string, model: string): readonly ApplicableBudget[] {
    if (!this.ofCandidates) return NONE
    const ofModel = this.of('model', model.toLowerCase())
    const ofProvider = this.of('provider', providerId)
    return ofModel.length === 0 ? ofProvider : ofProvider.length === 0 ? ofModel : [...ofProvider, ...ofModel]
  }

  #index(): void {
    this.#bySubject.clear()
    const whole: ApplicableBudget[] = []
    this.ofCandidates = false
    for (const budget of this.all.values()) {
      const { type, id } = budget.row.scope
      if (type === 'tenant') {
        whole.push(budget)
        continue
      }
      if (type === 'provider' || type === 'model') this.ofCandidates = true
      const subject = `${type}:${type === 'model' ? id.toLowerCase() : id}`
      this.#bySubject.set(subject, [...(this.#bySubject.get(subject) ?? NONE), budget])
    }
    this.whole = whole
  }
}

const NONE: readonly ApplicableBudget[] = []

export interface ApplicableBudgets {
  /** Null: the tenant has no budget in use. */
  of(tenantId: string): TenantBudgets | null
  tenants(): Iterable<[string, TenantBudgets]>
  /** Whether copies of terms may carry the height at which limits were set. */
  hasLimitsHeight(): boolean
}

/**
 * Follows the fold. `changed` is called for each budget in use, at first and whenever it changes; `before` is null at
 * first, and for a new budget.
 */
export const openApplicableBudgets = (
  live: Pick<LiveState, 'control' | 'subscribe'>,
  changed: (tenantId: string, budget: ApplicableBudget, before: BudgetRow | null) => void,
): ApplicableBudgets => {
  const tenants = new Map<string, TenantBudgets>()
  const hasLimitsHeight = () => (live.control.table('chain').get(CHAIN_ROW)?.schema_version ?? 1) >= LIMITS_HEIGHT_SINCE
  const put = (row: BudgetRow, before: BudgetRow | null): void => {
    if (!row.enabled) {
      drop(row)
      return
    }
    const budgets = tenants.get(row.tenant_id) ?? new TenantBudgets(row.tenant_id, hasLimitsHeight)
    tenants.set(row.tenant_id, budgets)
    changed(row.tenant_id, budgets.put(row), before)
  }
  const drop = ({ tenant_id, id }: BudgetRow): void => {
    const budgets = tenants.get(tenant_id)
    budgets?.drop(id)
    if (budgets?.all.size === 0) tenants.delete(tenant_id)
  }
  for (const [, row] of live.control.table('budgets').rows()) put(row, null)
  live.subscribe(({ changes }) => {
    for (const { table, before, after } of changes) {
      if (table !== 'budgets') continue
      if (after !== null) put(after as BudgetRow, before as BudgetRow | null)
      else if (before !== null) drop(before as BudgetRow)
    }
  })
  return { of: (tenantId) => tenants.get(tenantId) ?? null, tenants: () => tenants, hasLimitsHeight }
}
