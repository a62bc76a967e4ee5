// The override `freeze`: no change of configuration until it is taken back or expires. Of a tenant: no change by its
// keys, and none of its rows.
import type { ControlReader } from '../control.ts'
import type { Actor, EventRecord } from '../kernel/decision.ts'
import { Rejection } from '../kernel/rejection.ts'
import { inForce, type OverrideRow } from './override-row.ts'

const refused = ({ tenant_id, reason, expires_at }: OverrideRow): Rejection => {
  const what = tenant_id === null ? 'the configuration is frozen' : 'the configuration of this tenant is frozen'
  const until = expires_at === null ? '' : ` until ${expires_at}`
  const why = reason === null || reason === '' ? '' : ` (${reason})`
  return new Rejection(
    'forbidden',
    `${what}${until}${why}; POST /admin/v1/overrides with kind "freeze" and enabled false ends that`,
  )
}

/** Throws 403 while a freeze covers everything, or one of these tenants. */
export const requireThawed = (state: ControlReader, tenantIds: Iterable<string>, nowMs: number): void => {
  const all = inForce(state, 'freeze', '*', null, nowMs)
  if (all !== null) throw refused(all)
  for (const tenantId of tenantIds) {
    const own = inForce(state, 'freeze', '*', tenantId, nowMs)
    if (own !== null) throw refused(own)
  }
}

const OWNED = ['keys', 'policies', 'endpoints', 'budgets', 'cache_rules', 'tools', 'tool_policies'] as const

/** The tenants of a write: that of its key, and the owners of its rows. */
const tenantsOf = (state: ControlReader, actor: Actor, events: readonly EventRecord[]): Set<string> => {
  const tenants = new Set<string>()
  const actorTenant = actor.type === 'key' ? state.table('keys').get(actor.id)?.tenant_id : undefined
  if (actorTenant !== undefined) tenants.add(actorTenant)
  for (const { type, data } of events) {
    if (typeof data.tenant_id === 'string') tenants.add(data.tenant_id)
    if (typeof data.id !== 'string') continue
    if (type.startsWith('tenant.')) tenants.add(data.id)
    for (const table of OWNED) {
      const owner = state.table(table).get(data.id)?.tenant_id
      if (typeof owner === 'string') tenants.add(owner)
    }
  }
  return tenants
}

/**
 * Throws 403 when a freeze refuses these events. Part of the decision itself: a freeze that counts first refuses the
 * commands that wait behind it.
 */
export const requireWriteThawed = (
  state: ControlReader,
  actor: Actor,
  events: readonly EventRecord[],
  nowMs: number,
): void => {
  if (events.length > 0) requireThawed(state, tenantsOf(state, actor, events), nowMs)
}
