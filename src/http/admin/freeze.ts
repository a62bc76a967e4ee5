// The override `freeze` on the admin surface: writes are refused before anything is done for them, and once more where they are decided (`checked-commit.ts`).
import { requireThawed } from '../../domain/steering/freeze.ts'
import type { LiveState } from '../../state/port.ts'
import type { Principal } from '../auth.ts'
import type { AdminRoute } from './route.ts'

export interface FreezeDeps {
  readonly live: Pick<LiveState, 'control'>
  nowMs(): number
}

/** Throws 403 while the caller may not write: before a secret is sealed or a provider asked for a change that would then be refused. */
export const refuseWhileFrozen = (route: AdminRoute, principal: Principal, { live, nowMs }: FreezeDeps): void => {
  if (route.method === 'GET' || route.whileFrozen) return
  // An operator belongs to no tenant, though one is meant where none is named.
  requireThawed(live.control, principal.actor.type === 'key' ? [principal.tenantId] : [], nowMs())
}
