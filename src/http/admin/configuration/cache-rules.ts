// `/admin/v1/cache/policies`: cache rules of a tenant, or global ones (`tenant_id` null). A caller sees only what a
// rule names of its own tenant. Only `*` changes a rule that names another tenant, or a global rule about an endpoint
// scope.

import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import {
  CACHE_RULE_DEFAULTS,
  CacheRuleFields,
  CacheRuleName,
  type CacheRuleRow,
  cacheRuleKey,
  decideCacheRule,
  narrowness,
} from '../../../domain/steering/cache-rule.ts'
import { tenantOfScope } from '../../../domain/steering/cache-scope.ts'
import { endpointKey } from '../../../domain/steering/endpoint.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { isSuperuser, ownerFor, type Principal, requireOwnerWrites, seesTenant } from '../../auth.ts'
import { CacheRuleView } from '../answers/resources.ts'
import { Switch, statusOf } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { rowAfter, write } from '../write.ts'

export interface CacheRuleDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
}

const ENDPOINT = 'endpoint:'
const READ = ['usage:read', 'policies:admin'] as const
const WRITE = ['policies:admin'] as const

const { ttl_seconds, scopes, mode, similarity_threshold } = CacheRuleFields.properties
const CacheRuleBody = closed(
  t.Object({
    name: CacheRuleName,
    tenant_id: t.Optional(Nullable(t.String({ minLength: 1, maxLength: 64 }))),
    ttl_seconds,
    scopes: t.Optional(scopes),
    mode: t.Optional(mode),
    similarity_threshold: t.Optional(similarity_threshold),
    ...Switch,
  }),
)

/** Whether a rule may act on requests of this tenant. */
const appliesTo = (state: ControlReader, row: CacheRuleRow, tenantId: string): boolean =>
  (row.tenant_id === null || row.tenant_id === tenantId) &&
  row.scopes.some((scope) => [null, tenantId].includes(tenantOfScope(state, scope)))

/** Whether a scope of a rule applies to each tenant that has an endpoint scope of the slug. */
const isSharedSlug = (owner: string | null, scope: string): boolean => owner === null && scope.startsWith(ENDPOINT)

/**
 * Whether the caller sees a scope of a rule: of the slugs in global rules, those of its own and of global endpoint
 * scopes. The endpoint scopes of other tenants do not count: a rule that appears or vanishes would reveal them.
 */
const seesScope = (state: ControlReader, principal: Principal, { tenant_id }: CacheRuleRow, scope: string): boolean => {
  if (!isSharedSlug(tenant_id, scope)) return seesTenant(principal, tenantOfScope(state, scope))
  const slug = scope.slice(ENDPOINT.length)
  const owners = [null, principal.tenantId]
  return owners.some((owner) => state.table('endpoints').find('slug', endpointKey(owner, slug)).length > 0)
}

/** The rule as the caller sees it: without the scopes of other tenants. Null: not visible. */
const ruleShownTo = (
  state: ControlReader,
  principal: Principal,
  row: CacheRuleRow | undefined,
): CacheRuleRow | null => {
  if (row === undefined) return null
  if (isSuperuser(principal)) return row
  if (!appliesTo(state, row, principal.tenantId)) return null
  const scopes = row.scopes.filter((scope) => seesScope(state, principal, row, scope))
  return scopes.length === 0 ? null : { ...row, scopes }
}

/** The rule of this id as the caller sees it. Throws 404 for one that it does not see. */
const visibleRule = (state: ControlReader, principal: Principal, id: string): CacheRuleRow => {
  const row = ruleShownTo(state, principal, state.table('cache_rules').get(id))
  if (row === null) throw new Rejection('not_found', `no cache rule has the id "${id}"`)
  return row
}

/**
 * Throws 403 when the existing rule names another tenant than the caller's, or is global and names an endpoint scope.
 */
const requireOwn = (state: ControlReader, principal: Principal, row: CacheRuleRow | undefined): void => {
  if (row === undefined || isSuperuser(principal)) return
  requireOwnerWrites(principal, state, row.tenant_id)
  if (row.scopes.some((scope) => isSharedSlug(row.tenant_id, scope))) throw needsAll()
  if (row.scopes.every((scope) => seesTenant(principal, tenantOfScope(state, scope)))) return
  throw new Rejection('forbidden', 'a key without the scope "*" cannot change a rule that names another tenant')
}

const needsAll = (): Rejection =>
  new Rejection(
    'forbidden',
    'a cache rule for everybody about an endpoint scope needs a key with the scope "*"',
    'scopes',
  )

const listRules = ({ live }: CacheRuleDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/cache/policies',
    scopes: READ,
    summary: 'List cache rules, those that go before others first; with `tenant_id` those that can act on its requests',
    rows: 'policies',
    query: t.Object({ tenant_id: t.Optional(t.String()), ...Paging }),
    answer: CacheRuleView,
    handle({ principal, query }) {
      const { control } = live
      const tenantId = tenantOfQuery(control, principal, query.tenant_id)
      const rows = [...control.table('cache_rules').rows()]
        .map(([, row]) => ruleShownTo(control, principal, row))
        .filter((row) => row !== null)
        .filter((row) => tenantId === undefined || appliesTo(control, row, tenantId))
        .sort((a, b) => narrowness(a) - narrowness(b))
      return { body: listed('policies', rows, query, (row) => row) }
    },
  })

const getRule = ({ live }: CacheRuleDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/cache/policies/:id',
    scopes: READ,
    summary: 'One cache rule',
    answer: CacheRuleView,
    handle: ({ principal, params }) => ({ body: visibleRule(live.control, principal, params.id) }),
  })

const upsertRule = ({ live, commit, newId }: CacheRuleDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/cache/policies',
    scopes: WRITE,
    summary: 'Replace the cache rule of this name, or create it; for everybody about an endpoint scope with `*` alone',
    body: CacheRuleBody,
    answer: CacheRuleView,
    async handle(call) {
      const { principal } = call
      const { name, tenant_id, status, enabled, scopes, ...given } = call.body
      // The scope `global` without a tenant means a global rule.
      const isGlobal = tenant_id === undefined && scopes?.includes('global') === true
      const owner = ownerFor(principal, isGlobal ? null : tenant_id, live.control)
      const command = {
        ...CACHE_RULE_DEFAULTS,
        ...given,
        do: 'upsert',
        id: newId('rule'),
        tenant_id: owner,
        name,
        scopes: scopes ?? [owner === null ? 'global' : `tenant:${owner}`],
        enabled: statusOf({ status, enabled }) !== 'disabled',
        managed_by: 'api',
      } as const
      const existing = (state: ControlReader): CacheRuleRow | undefined => {
        const [id] = state.table('cache_rules').find('name', cacheRuleKey(owner, name))
        return id === undefined ? undefined : state.table('cache_rules').get(id)
      }
      let found: CacheRuleRow | undefined
      const result = await write(commit, call, existing, (state) => {
        found = existing(state)
        requireOwn(state, principal, found)
        for (const scope of command.scopes) requireVisibleScope(state, principal, owner, scope)
        return decideCacheRule(state, command)
      })
      return { body: rowAfter(result, 'cache_rules') ?? found, revision: result.revision }
    },
  })

/**
 * Another tenant, and its keys, do not exist for a caller without `*`. Such a caller cannot name an endpoint scope in a
 * global rule either: the rule would apply to each tenant that has one of the slug. The check ignores whether such a
 * scope exists: the response would reveal it, and a slug can be taken later.
 */
const requireVisibleScope = (state: ControlReader, principal: Principal, owner: string | null, given: string): void => {
  if (isSuperuser(principal)) return
  const scope = given.trim()
  if (isSharedSlug(owner, scope)) throw needsAll()
  if (seesTenant(principal, tenantOfScope(state, scope))) return
  const [word, id = ''] = scope.split(':')
  throw new Rejection('invalid', `no ${word} has the id "${id}"`, 'scopes')
}

const deleteRule = ({ commit }: CacheRuleDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/cache/policies/:id',
    scopes: WRITE,
    summary: 'Delete a cache rule; for everybody about an endpoint scope with `*` alone',
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('cache_rules').get(id),
        (state) => {
          visibleRule(state, call.principal, id)
          requireOwn(state, call.principal, state.table('cache_rules').get(id))
          return decideCacheRule(state, { do: 'delete', id })
        },
      )
      return { body: { deleted: true, id }, revision: result.revision }
    },
  })

export const cacheRuleRoutes = (deps: CacheRuleDeps): AdminRoute[] => [
  listRules(deps),
  getRule(deps),
  upsertRule(deps),
  deleteRule(deps),
]
