// Whose a cache rule is by what it names, and what becomes of it when that tenant goes.

import type { ControlReader } from '../control.ts'
import { changesOf, type Meta } from '../kernel/aggregate.ts'
import type { RowChange } from '../kernel/tables.ts'
import type { CacheRuleRow } from './cache-rule.ts'

const rows = changesOf<CacheRuleRow>('cache_rules')

/** The tenant that a scope of a rule is about; null: it is about no single one. */
export const tenantOfScope = (state: ControlReader, scope: string): string | null => {
  if (scope.startsWith('tenant:')) return scope.slice('tenant:'.length)
  if (scope.startsWith('key:')) return state.table('keys').get(scope.slice('key:'.length))?.tenant_id ?? null
  return null
}

/** What becomes of the rules when a tenant goes: its own go with it, of the others what names it or its keys. A rule that named nothing else goes too, or it would be about nobody. */
export const rulesWithout = (state: ControlReader, tenantId: string, meta: Meta): RowChange[] => {
  const changes: RowChange[] = []
  for (const [id, row] of [...state.table('cache_rules').rows()].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const scopes = row.scopes.filter((scope) => tenantOfScope(state, scope) !== tenantId)
    if (row.tenant_id === tenantId || scopes.length === 0) changes.push(...rows.removed(id, row))
    else if (scopes.length < row.scopes.length) changes.push(...rows.changed(id, row, { scopes }, meta))
  }
  return changes
}
