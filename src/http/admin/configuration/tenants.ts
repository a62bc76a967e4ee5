// `/admin/v1/tenants`. The registry of tenants depends on its scope alone. A caller with `usage:read` sees its own
// tenant, and only `*` deletes what another tenant owns.

import {
  decideTenant,
  type RateLimits,
  TenantFields,
  type TenantRow,
  TenantSlug,
} from '../../../domain/access/tenant.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { changedFields, closed } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { ContentKeys } from '../../../state/data-keys/content-keys.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { isSuperuser, type Principal, seesTenant } from '../../auth.ts'
import { deletion, TenantView } from '../answers/resources.ts'
import { listed, Paging } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { rowAfter, write } from '../write.ts'

export interface TenantDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  readonly content: Pick<ContentKeys, 'erase'>
  newId(prefix: IdPrefix): string
  nowMs(): number
}

const READ = ['usage:read', 'tenants:admin'] as const
const WRITE = ['tenants:admin'] as const
const NewTenant = closed(t.Composite([t.Object({ slug: TenantSlug }), TenantFields]))
const EditedTenant = closed(t.Composite([t.Object({ slug: t.Optional(TenantSlug) }), TenantFields]))
const Force = t.Object({ force: t.Optional(t.Union([t.Literal('true'), t.Literal('false')])) })

/** Tables whose rows are deleted with a tenant. */
const OWNED = [
  'keys',
  'policies',
  'endpoints',
  'overrides',
  'budgets',
  'cache_rules',
  'tools',
  'tool_policies',
] as const

/** Callers with `tenants:admin` see the whole registry; others see their own tenant. */
const sees = (principal: Principal, id: string): boolean =>
  isSuperuser(principal) || principal.scopes.includes('tenants:admin') || principal.tenantId === id

/** The tenant of this id. Throws 404. */
const tenantOf = (state: ControlReader, id: string): TenantRow => {
  const row = state.table('tenants').get(id)
  if (row === undefined) throw new Rejection('not_found', `no tenant has the id "${id}"`)
  return row
}

/**
 * Throws 403 when a key without `*` would set or lift limits of another tenant: each of that tenant's requests would
 * feel it, which is beyond the registry.
 */
const requireSameLimits = (row: TenantRow, rate_limits: RateLimits | null, principal: Principal): void => {
  if (seesTenant(principal, row.id) || Object.keys(changedFields<TenantRow>(row, { rate_limits })).length === 0) return
  const message = 'a key without the scope "*" cannot change the limits of another tenant; send them as they are'
  throw new Rejection('forbidden', message, 'rate_limits')
}

const listTenants = ({ live }: TenantDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/tenants',
    scopes: READ,
    summary: 'List tenants',
    rows: 'tenants',
    query: t.Object(Paging),
    answer: TenantView,
    handle: ({ query, principal }) => ({
      body: listed(
        'tenants',
        [...live.control.table('tenants').rows()].map(([, row]) => row).filter(({ id }) => sees(principal, id)),
        query,
        (row) => row,
      ),
    }),
  })

const createTenant = ({ commit, newId }: TenantDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/tenants',
    scopes: WRITE,
    summary: 'Create a tenant',
    body: NewTenant,
    status: 201,
    answer: TenantView,
    async handle(call) {
      const { slug, name, plan = null, rate_limits = null } = call.body
      const data = { id: newId('ten'), slug, name, plan, rate_limits, managed_by: 'api' } as const
      const result = await write(
        commit,
        call,
        () => undefined,
        (state) => decideTenant(state, { do: 'create', ...data }),
      )
      return { body: rowAfter(result, 'tenants'), revision: result.revision }
    },
  })

const getTenant = ({ live }: TenantDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/tenants/:id',
    scopes: READ,
    summary: 'One tenant',
    answer: TenantView,
    handle({ params, principal }) {
      const id = params.id
      if (!sees(principal, id)) throw new Rejection('not_found', `no tenant has the id "${id}"`)
      return { body: tenantOf(live.control, id) }
    },
  })

const replaceTenant = ({ live, commit }: TenantDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/tenants/:id',
    scopes: WRITE,
    summary: 'Replace a tenant, all but its slug; the limits of another tenant with `*` alone',
    body: EditedTenant,
    answer: TenantView,
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('tenants').get(id),
        (state) => {
          const events = decideTenant(state, { do: 'replace', id, managed_by: 'api', ...call.body })
          requireSameLimits(tenantOf(state, id), call.body.rate_limits ?? null, call.principal)
          return events
        },
      )
      return { body: rowAfter(result, 'tenants') ?? tenantOf(live.control, id), revision: result.revision }
    },
  })

const deleteTenant = ({ commit, content, nowMs }: TenantDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/tenants/:id',
    scopes: WRITE,
    summary:
      'Delete a tenant with all that belongs to it: keys, policies, endpoint scopes, overrides, budgets, cache ' +
      'rules and tools',
    query: Force,
    answer: deletion('keys_removed'),
    async handle(call) {
      const id = call.params.id
      const command = { do: 'delete', id, force: call.query.force === 'true', nowMs: nowMs() } as const
      const result = await write(
        commit,
        call,
        (state) => state.table('tenants').get(id),
        (state) => {
          const owns = OWNED.some((table) => state.table(table).find('tenant', id).length > 0)
          if (owns && !seesTenant(call.principal, id)) {
            throw new Rejection('forbidden', 'a key without the scope "*" cannot delete what belongs to another tenant')
          }
          return decideTenant(state, command)
        },
      )
      await content.erase(id)
      return { body: { deleted: true, id, keys_removed: result.removed.keys ?? 0 }, revision: result.revision }
    },
  })

const eraseContent = ({ commit, content }: TenantDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/tenants/:id/content',
    scopes: WRITE,
    summary:
      'Erase what was captured of the requests of a tenant, in every copy of it, by deleting the keys that it ' +
      'is sealed under',
    answer: deletion('data_keys_erased'),
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('tenants').get(id),
        (state) => {
          // Rows of another tenant do not exist for the caller, though the registry shows that tenant.
          if (!seesTenant(call.principal, id)) throw new Rejection('not_found', `no tenant of yours has the id "${id}"`)
          return decideTenant(state, { do: 'erase_content', id })
        },
      )
      return { body: { deleted: true, id, data_keys_erased: await content.erase(id) }, revision: result.revision }
    },
  })

export const tenantRoutes = (deps: TenantDeps): AdminRoute[] => [
  listTenants(deps),
  createTenant(deps),
  getTenant(deps),
  replaceTenant(deps),
  deleteTenant(deps),
  eraseContent(deps),
]
