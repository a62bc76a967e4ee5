// `/admin/v1/tool-policies`: of a tenant, or global (`tenant_id` null).
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import {
  decideToolPolicy,
  TOOL_POLICY_DEFAULTS,
  ToolPolicyFields,
  ToolPolicyName,
  type ToolPolicyRow,
  toolPolicyKey,
} from '../../../domain/registry/tool-policy.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { ownerFor, type Principal, requireOwnerWrites, seesTenant } from '../../auth.ts'
import { ToolPolicyView } from '../answers/resources.ts'
import { Switch, statusOf } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { rowAfter, write } from '../write.ts'

export interface ToolPolicyDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
}

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const

const ToolPolicyBody = closed(
  t.Composite([
    t.Object({
      name: ToolPolicyName,
      tenant_id: t.Optional(Nullable(t.String({ minLength: 1, maxLength: 64 }))),
      ...Switch,
    }),
    t.Partial(ToolPolicyFields),
  ]),
)

const visiblePolicy = (state: ControlReader, principal: Principal, id: string): ToolPolicyRow => {
  const row = state.table('tool_policies').get(id)
  if (row === undefined || !seesTenant(principal, row.tenant_id)) {
    throw new Rejection('not_found', `no tool policy has the id "${id}"`)
  }
  return row
}

const listPolicies = ({ live }: ToolPolicyDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/tool-policies',
    scopes: READ,
    summary: 'List tool policies: global ones and those of the tenants that the key sees',
    rows: 'policies',
    query: t.Object({ tenant_id: t.Optional(t.String()), ...Paging }),
    answer: ToolPolicyView,
    handle({ principal, query }) {
      const tenantId = tenantOfQuery(live.control, principal, query.tenant_id)
      const rows = [...live.control.table('tool_policies').rows()]
        .map(([, row]) => row)
        .filter((row) => (tenantId === undefined ? seesTenant(principal, row.tenant_id) : row.tenant_id === tenantId))
      return { body: listed('policies', rows, query, (row) => row) }
    },
  })

const getPolicy = ({ live }: ToolPolicyDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/tool-policies/:id',
    scopes: READ,
    summary: 'One tool policy',
    answer: ToolPolicyView,
    handle: ({ principal, params }) => ({ body: visiblePolicy(live.control, principal, params.id) }),
  })

const upsertPolicy = ({ live, commit, newId }: ToolPolicyDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/tool-policies',
    scopes: WRITE,
    summary: 'Replace the tool policy of this name, or create it; bounds are clamped',
    body: ToolPolicyBody,
    answer: ToolPolicyView,
    async handle(call) {
      const { name, tenant_id, status, enabled, ...given } = call.body
      const owner = ownerFor(call.principal, tenant_id, live.control)
      const switched = statusOf({ status, enabled })
      const command = {
        ...TOOL_POLICY_DEFAULTS,
        ...given,
        do: 'upsert',
        id: newId('tpol'),
        tenant_id: owner,
        name,
        enabled: switched === undefined ? undefined : switched === 'active',
        managed_by: 'api',
      } as const
      const existing = (state: ControlReader): ToolPolicyRow | undefined => {
        const [id] = state.table('tool_policies').find('name', toolPolicyKey(owner, name))
        return id === undefined ? undefined : state.table('tool_policies').get(id)
      }
      let found: ToolPolicyRow | undefined
      const result = await write(commit, call, existing, (state) => {
        found = existing(state)
        return decideToolPolicy(state, command)
      })
      return { body: rowAfter(result, 'tool_policies') ?? found, revision: result.revision }
    },
  })

const deletePolicy = ({ commit }: ToolPolicyDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/tool-policies/:id',
    scopes: WRITE,
    summary: 'Delete a tool policy; requests fall back to the built-in manual default',
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('tool_policies').get(id),
        (state) => {
          const { tenant_id } = visiblePolicy(state, call.principal, id)
          requireOwnerWrites(call.principal, state, tenant_id)
          return decideToolPolicy(state, { do: 'delete', id })
        },
      )
      return { body: { deleted: true, id }, revision: result.revision }
    },
  })

export const toolPolicyRoutes = (deps: ToolPolicyDeps): AdminRoute[] => [
  listPolicies(deps),
  getPolicy(deps),
  upsertPolicy(deps),
  deletePolicy(deps),
]
