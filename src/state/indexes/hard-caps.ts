// The most that budgets allow a single request to cost (`hard_cap_usd`), by tenant. Needs no lease and no count: it is
// compared with the projected cost of the request.
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import type { HardCaps } from './steering.ts'

/** Whether a budget caps requests now: one that has ended does not, and a shadow budget only counts. */
const caps = (row: BudgetRow): boolean =>
  row.enabled && row.enforcement !== 'shadow' && (row.hard_cap_nano_usd !== null || needsPrice(row))

/** The rest of a hard limit is checked later, by a lease; but a request without a price cannot be leased for. */
const needsPrice = ({ enforcement, limit_nano_usd }: BudgetRow): boolean =>
  enforcement === 'hard' && limit_nano_usd !== null

/** The budgets with a cap that is in use. */
export class CappedBudgets {
  readonly #byTenant = new Map<string, Map<string, BudgetRow>>()

  has(tenantId: string): boolean {
    return this.#byTenant.has(tenantId)
  }

  put(row: BudgetRow): void {
    if (!caps(row)) return
    const own = this.#byTenant.get(row.tenant_id)
    if (own === undefined) this.#byTenant.set(row.tenant_id, new Map([[row.id, row]]))
    else own.set(row.id, row)
  }

  drop({ tenant_id, id }: BudgetRow): void {
    const own = this.#byTenant.get(tenant_id)
    own?.delete(id)
    if (own?.size === 0) this.#byTenant.delete(tenant_id)
  }

  /** The caps of a tenant, null when it has none. */
  of(tenantId: string): HardCaps | null {
    const own = this.#byTenant.get(tenantId)
    if (own === undefined) return null
    let all: number | null = null
    const of = new Map<string, number>()
    for (const { scope, hard_cap_nano_usd } of own.values()) {
      const capNanoUsd = hard_cap_nano_usd ?? Number.POSITIVE_INFINITY
      const name = scope.type === 'model' ? scope.id.toLowerCase() : scope.id
      const subject = `${scope.type}:${name}`
      if (scope.type === 'tenant') all = Math.min(all ?? capNanoUsd, capNanoUsd)
      else of.set(subject, Math.min(of.get(subject) ?? capNanoUsd, capNanoUsd))
    }
    // Budgets are put in the order of the log, and ids sort by time: a change must not reorder them. The list is not
    // frozen: each record of a request writes it, and a frozen list is written more slowly.
    return Object.freeze({ budgetIds: [...own.keys()].sort(), all, of })
  }
}
