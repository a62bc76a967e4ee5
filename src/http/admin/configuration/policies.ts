// `/admin/v1/policies`: of a tenant, or global (`tenant_id` null).
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import { policyWarnings } from '../../../domain/references.ts'
import { storedModels } from '../../../domain/registry/model-row.ts'
import {
  decidePolicy,
  POLICY_DEFAULTS,
  type PolicyFields,
  PolicyFields as PolicyFieldsSchema,
  PolicyName,
  type PolicyRow,
  policyKey,
} from '../../../domain/steering/policy.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { type Static, t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import type { AppliedBy } from '../../../upkeep/instances/instances.ts'
import { ownerFor, type Principal, requireOwnerWrites, seesTenant } from '../../auth.ts'
import { PolicyView } from '../answers/resources.ts'
import { ReloadedView } from '../answers/work.ts'
import { Switch, statusOf, WARNINGS, withWarnings } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { requireMatch, rowAfter, write } from '../write.ts'

export interface PolicyDeps {
  readonly live: Pick<LiveState, 'control' | 'status'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
  /**
   * Closes every circuit breaker on every instance; returns how many instances have done so. Policies themselves need
   * no reload: they are always those of the folded state.
   */
  clearBreakers(): Promise<AppliedBy>
}

const READ = ['usage:read', 'policies:admin'] as const
const WRITE = ['policies:admin'] as const

const PolicyBody = closed(
  t.Composite([
    t.Object({
      name: PolicyName,
      tenant_id: t.Optional(Nullable(t.String({ minLength: 1, maxLength: 64 }))),
      status: Switch.status,
    }),
    t.Partial(PolicyFieldsSchema),
  ]),
)

const visiblePolicy = (state: ControlReader, principal: Principal, id: string): PolicyRow => {
  const row = state.table('policies').get(id)
  if (row === undefined || !seesTenant(principal, row.tenant_id)) {
    throw new Rejection('not_found', `no policy has the id "${id}"`)
  }
  return row
}

const listPolicies = ({ live }: PolicyDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/policies',
    scopes: READ,
    summary: 'List policies: global ones and those of the tenants that the key sees',
    rows: 'policies',
    query: t.Object({ tenant_id: t.Optional(t.String()), ...Paging }),
    answer: PolicyView,
    handle({ principal, query }) {
      const tenantId = tenantOfQuery(live.control, principal, query.tenant_id)
      const rows = [...live.control.table('policies').rows()]
        .map(([, row]) => row)
        .filter((row) => (tenantId === undefined ? seesTenant(principal, row.tenant_id) : row.tenant_id === tenantId))
      return { body: listed('policies', rows, query, (row) => row) }
    },
  })

const getPolicy = ({ live }: PolicyDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/policies/:id',
    scopes: READ,
    summary: 'One policy',
    answer: PolicyView,
    handle: ({ principal, params }) => ({ body: visiblePolicy(live.control, principal, params.id) }),
  })

/** The models that a body names, as rows store them. `before`: the replaced policy. */
const modelsOf = (
  state: ControlReader,
  { models, fallback }: PolicyFields,
  before: PolicyRow | undefined,
): Pick<PolicyFields, 'models' | 'fallback'> => {
  const meant = (member: 'models' | 'context_window_models') => {
    const names = fallback[member]
    if (names === undefined) return {}
    return { [member]: storedModels(state, names, before?.fallback[member] ?? [], `fallback.${member}`) }
  }
  return {
    models: storedModels(state, models, before?.models ?? [], 'models'),
    fallback: { ...fallback, ...meant('models'), ...meant('context_window_models') },
  }
}

const save = async (
  verb: 'create' | 'upsert',
  call: AdminCall<Static<typeof PolicyBody>>,
  { live, commit, newId }: PolicyDeps,
) => {
  const { name, tenant_id, status, enabled, ...given } = call.body
  const fields: PolicyFields = { ...POLICY_DEFAULTS, ...given, enabled: statusOf({ status, enabled }) !== 'disabled' }
  const owner = ownerFor(call.principal, tenant_id, live.control)
  const command = { do: verb, id: newId('pol'), tenant_id: owner, name, managed_by: 'api', ...fields } as const
  const existing = (state: ControlReader): PolicyRow | undefined => {
    const [id] = state.table('policies').find('name', policyKey(owner, name))
    return id === undefined ? undefined : state.table('policies').get(id)
  }
  let found: PolicyRow | undefined
  const result = await write(commit, call, verb === 'create' ? () => undefined : existing, (state) => {
    found = existing(state)
    return decidePolicy(state, { ...command, ...modelsOf(state, fields, verb === 'create' ? undefined : found) })
  })
  // A write that changes nothing returns the row that it found: it may be deleted by now.
  const row = rowAfter(result, 'policies') ?? found!
  return { body: withWarnings(row, policyWarnings(live.control, row)), revision: result.revision }
}

const createPolicy = (deps: PolicyDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/policies',
    scopes: WRITE,
    summary: 'Create a policy',
    body: PolicyBody,
    dropped: WARNINGS,
    status: 201,
    answer: PolicyView,
    handle: (call) => save('create', call, deps),
  })

const upsertPolicy = (deps: PolicyDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/policies',
    scopes: WRITE,
    summary: 'Replace the policy of this name, or create it',
    body: PolicyBody,
    dropped: WARNINGS,
    answer: PolicyView,
    handle: (call) => save('upsert', call, deps),
  })

const deletePolicy = ({ commit }: PolicyDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/policies/:id',
    scopes: WRITE,
    summary: 'Delete a policy; keys that were bound to it fall to the next level',
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('policies').get(id),
        (state) => {
          const { tenant_id } = visiblePolicy(state, call.principal, id)
          requireOwnerWrites(call.principal, state, tenant_id)
          return decidePolicy(state, { do: 'delete', id })
        },
      )
      return { body: { deleted: true, id }, revision: result.revision }
    },
  })

const reloadPolicies = ({ live, clearBreakers }: PolicyDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/policies/reload',
    forAll: true,
    scopes: WRITE,
    summary: 'Renew what is derived from policies: breakers are closed on every instance',
    whileFrozen: true,
    answer: ReloadedView,
    async handle({ intent }) {
      // A reload has no row of its own: its revision is the tip of this instance.
      requireMatch(intent.ifMatch, { revision: live.status().tip })
      const applied = await clearBreakers()
      const revision = live.status().tip
      return { body: { reloaded: true, revision }, revision, applied }
    },
  })

export const policyRoutes = (deps: PolicyDeps): AdminRoute[] => [
  listPolicies(deps),
  getPolicy(deps),
  createPolicy(deps),
  upsertPolicy(deps),
  deletePolicy(deps),
  reloadPolicies(deps),
]
