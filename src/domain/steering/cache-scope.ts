// The owner of a cache rule by its scopes, and the effect of deleting that tenant.

import type { ControlReader } from '../control.ts'
import { changesOf, type Meta } from '../kernel/aggregate.ts'
import type { RowChange } from '../kernel/tables.ts'
import type { CacheRuleRow } from './cache-rule.ts'

const rows = changesOf<CacheRuleRow>('cache_rules')

/** The tenant of a scope; null: it has no single one. */
export const tenantOfScope = (state: ControlReader, scope: string): string | null => {
  if (scope.startsWith('tenant:')) return scope.slice('tenant:'.length)
  if (scope.startsWith('key:')) return state.table('keys').get(scope.slice('key:'.length))?.tenant_id ?? null
  return null
}

/**
 * The changes of rules when a tenant is deleted: its own rules go, and others lose the scopes that name the tenant or
 * its keys. A rule without another scope goes too, since it would apply to nothing.
 */
export const rulesWithout = (state: ControlReader, tenantId: string, meta: Meta): RowChange[] => {
  const changes: RowChange[] = []
  for (const [id, row] of [...state.table('cache_rules').rows()].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const scopes = row.scopes.filter((scope) => tenantOfScope(state, scope) !== tenantId)
    if (row.tenant_id === tenantId || scopes.length === 0) changes.push(...rows.removed(id, row))
    else if (scopes.length < row.scopes.length) changes.push(...rows.changed(id, row, { scopes }, meta))
  }
  return changes
}
