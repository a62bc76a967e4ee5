// The scope of a budget within its tenant: everything, or one key, model, provider or endpoint scope. Every accepted
// spelling is normalised to the stored one.
import type { ControlReader } from '../control.ts'
import { Rejection } from '../kernel/rejection.ts'
import { endpointKey } from '../steering/endpoint.ts'

export const BUDGET_SCOPES = ['tenant', 'key', 'model', 'provider', 'endpoint'] as const
export type BudgetScopeType = (typeof BUDGET_SCOPES)[number]

export interface BudgetTarget {
  readonly type: BudgetScopeType
  readonly id: string
}

/** The endpoint scope of a slug for a tenant: its own before the global one. */
const endpointOf = (state: ControlReader, tenantId: string, slug: string): string | undefined => {
  const endpoints = state.table('endpoints')
  return endpoints.find('slug', endpointKey(tenantId, slug))[0] ?? endpoints.find('slug', endpointKey(null, slug))[0]
}

/** The id of a target that is not the whole tenant. Throws 400 where it is left out. */
export const requireTargetId = ({ type, id }: { readonly type: BudgetScopeType; readonly id?: string }): string => {
  if (id !== undefined) return id
  throw new Rejection('invalid', `"scope.id" is required for the type "${type}"`, 'scope.id')
}

/**
 * The target as it is stored. A target that does not exist is returned unchanged: an older budget may have it. Throws
 * 400 where an id is needed.
 */
export const budgetTarget = (
  state: ControlReader,
  tenantId: string,
  target: { readonly type: BudgetScopeType; readonly id?: string },
): BudgetTarget => {
  const { type } = target
  if (type === 'tenant') {
    if (target.id === undefined || target.id === tenantId) return { type, id: tenantId }
    throw new Rejection('invalid', `"scope.id" of the type "tenant" must be "tenant_id", or left out`, 'scope.id')
  }
  const id = requireTargetId(target)
  if (type === 'key') return { type, id }
  if (type === 'provider') {
    const providers = state.table('providers')
    return { type, id: providers.get(id)?.id ?? providers.find('name', id.toLowerCase())[0] ?? id }
  }
  if (type === 'endpoint') return { type, id: state.table('endpoints').get(id)?.slug ?? id.toLowerCase() }
  const models = state.table('models')
  const [named] = models.find('name', id.toLowerCase())
  return { type, id: models.get(id)?.name ?? (named === undefined ? id : models.get(named)!.name) }
}

/** Throws 400 for a target that does not exist, or that is another tenant's. */
export const requireTarget = (state: ControlReader, tenantId: string, { type, id }: BudgetTarget): void => {
  if (type === 'tenant') return
  const exists =
    type === 'key'
      ? state.table('keys').get(id)?.tenant_id === tenantId
      : type === 'provider'
        ? state.table('providers').get(id) !== undefined
        : type === 'endpoint'
          ? endpointOf(state, tenantId, id) !== undefined
          : state.table('models').find('name', id.toLowerCase()).length > 0
  if (exists) return
  const what = { key: 'key of this tenant', model: 'model', provider: 'provider', endpoint: 'endpoint scope' }[type]
  const how = { key: 'id', model: 'name or id', provider: 'name or id', endpoint: 'slug or id' }[type]
  throw new Rejection('invalid', `no ${what} has the ${how} "${id}"`, 'scope.id')
}
