// `/admin/v1/overrides`, `/guardrails` and the kill switch of a provider. Rows are only added: an override ends by a
// row with `enabled` false.

import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import { isModel } from '../../../domain/registry/alias.ts'
import { decideOverride, OverrideReason } from '../../../domain/steering/override.ts'
import { isInForce, type OverrideRow, overrideKey } from '../../../domain/steering/override-row.ts'
import { OVERRIDE_KINDS, overrideKindOf, targetOf } from '../../../domain/steering/override-target.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { isSuperuser, ownerFor, type Principal, seesTenant } from '../../auth.ts'
import { KillView, OverrideView } from '../answers/resources.ts'
import { Rfc3339, storedTime } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { write, writtenRow } from '../write.ts'

export interface OverrideDeps {
  readonly live: Pick<LiveState, 'control'>
  /**
   * Works while the configuration is frozen, too: so that a freeze can end, and a provider can be stopped meanwhile.
   */
  readonly commit: Commit
  newId(prefix: IdPrefix): string
  nowMs(): number
}

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const
/** More than the default of other lists: the newest rows are those in force. */
const RECENT = 100

const OverrideBody = closed(
  t.Object({
    kind: t.String({ minLength: 1, maxLength: 32, description: `one of ${OVERRIDE_KINDS.join(', ')}` }),
    target: t.Optional(Nullable(t.String({ maxLength: 320 }))),
    tenant_id: t.Optional(Nullable(t.String({ minLength: 1, maxLength: 64 }))),
    /** By kind: `{max_cost_usd}`, `{model}`, `{features}`. */
    value: t.Optional(t.Unknown()),
    enabled: t.Optional(t.Boolean()),
    reason: t.Optional(Nullable(OverrideReason)),
    expires_at: t.Optional(Nullable(Rfc3339)),
  }),
)
const KillBody = closed(t.Object({ kill: t.Boolean(), reason: t.Optional(Nullable(OverrideReason)) }))
const Filter = t.Object({
  tenant_id: t.Optional(t.String()),
  kind: t.Optional(t.String()),
  in_force: t.Optional(t.Union([t.Literal('true'), t.Literal('false')])),
  ...Paging,
})

const viewOf = ({ superseded: _, taken_over: __, writer_tenant_id: ___, ...row }: OverrideRow, inForce: boolean) => ({
  ...row,
  in_force: inForce,
})

/** The writer as rows store it: what `*` imposed can be taken back with `*` alone. */
const writerOf = (principal: Principal): string | null => (isSuperuser(principal) ? null : principal.tenantId)

/** Targets of a kind that each tenant may have of its own: several tenants may use the same name. */
const SHARED_NAME = /^(?:endpoint|tool):/
const MODEL = 'model:'

/**
 * Whether a target names a model that the registry does not have: an alias of an endpoint scope, of any tenant, or a
 * later model.
 */
const isUnknownModel = (state: ControlReader, target: string): boolean =>
  target.startsWith(MODEL) && !isModel(state, target.slice(MODEL.length))

/**
 * Which rows the caller may see: another tenant's key does not exist for it, nor does a slug or tool name that it does
 * not have. So a global row is listed where it names something of the caller's own or something global, or was written
 * with a key of its tenant. What other tenants have does not count: a row that appears or vanishes would reveal it.
 */
const visibleRows = (state: ControlReader, principal: Principal): ((row: OverrideRow) => boolean) => {
  if (isSuperuser(principal)) return () => true
  const visible = new Set<string>()
  for (const [, { slug, aliases, tenant_id }] of state.table('endpoints').rows()) {
    if (!seesTenant(principal, tenant_id)) continue
    visible.add(`endpoint:${slug}`)
    for (const alias of aliases) visible.add(`${MODEL}${alias.toLowerCase()}`)
  }
  // Requests are compared with the name in its exact case.
  for (const [, { name, tenant_id }] of state.table('tools').rows())
    if (seesTenant(principal, tenant_id)) visible.add(`tool:${name}`)
  const isOwnKey = (id: string) => state.table('keys').get(id)?.tenant_id === principal.tenantId
  return ({ target, tenant_id, actor }) => {
    if (target.startsWith('key:')) return isOwnKey(target.slice('key:'.length))
    if (tenant_id !== null || visible.has(target) || isOwnKey(actor.id)) return true
    return !SHARED_NAME.test(target) && !isUnknownModel(state, target)
  }
}

const list = (path: '/overrides' | '/guardrails', summary: string, { live, nowMs }: OverrideDeps): AdminRoute =>
  route({
    method: 'GET',
    path,
    scopes: READ,
    summary,
    rows: 'overrides',
    query: Filter,
    answer: OverrideView,
    handle({ principal, query }) {
      const tenantId = tenantOfQuery(live.control, principal, query.tenant_id)
      const kind = query.kind === undefined ? undefined : overrideKindOf(query.kind)
      const wanted = query.in_force === undefined ? undefined : query.in_force === 'true'
      const atMs = nowMs()
      const isVisible = visibleRows(live.control, principal)
      const rows: OverrideRow[] = []
      for (const [, row] of live.control.table('overrides').rows()) {
        if (tenantId === undefined ? !seesTenant(principal, row.tenant_id) : row.tenant_id !== tenantId) continue
        if ((kind !== undefined && row.kind !== kind) || !isVisible(row)) continue
        if (wanted === undefined || wanted === isInForce(row, atMs)) rows.push(row)
      }
      return { body: listed('overrides', rows.reverse(), query, (row) => viewOf(row, isInForce(row, atMs)), RECENT) }
    },
  })

interface WrittenOverride {
  readonly kind: string
  readonly target: string
  readonly owner: string | null
  readonly enabled: boolean
}

/**
 * Throws for targets that a caller without `*` may not use: another tenant's key, which does not exist for it; and
 * globally any endpoint scope or tool, and any name without a model (it may be an alias of a scope), since the override
 * would reach each tenant that has one of the name. The check ignores whether such a target exists: the response would
 * reveal it, and a name can be taken later. For a model that no longer exists, the caller may take back what its own
 * tenant imposed.
 */
const requireOwnTarget = (
  state: ControlReader,
  principal: Principal,
  { kind, target, owner, enabled }: WrittenOverride,
): void => {
  if (isSuperuser(principal)) return
  if (target.startsWith('key:')) {
    const id = target.slice('key:'.length)
    const tenantId = state.table('keys').get(id)?.tenant_id
    if (tenantId === undefined || seesTenant(principal, tenantId)) return
    throw new Rejection('not_found', `no key has the id "${id}"`, 'target')
  }
  if (owner !== null) return
  if (isUnknownModel(state, target)) {
    const [standing] = state.table('overrides').findRows('deciding', overrideKey(kind, target, null))
    const isOwn = standing !== undefined && state.table('keys').get(standing.actor.id)?.tenant_id === principal.tenantId
    if (isOwn && !enabled) return
    const name = target.slice(MODEL.length)
    const message = `no model has the name "${name}": an override for everybody about it needs a key with the scope "*"`
    throw new Rejection('forbidden', message, 'tenant_id')
  }
  if (!SHARED_NAME.test(target)) return
  const message = 'an override for everybody about an endpoint scope or a tool needs a key with the scope "*"'
  throw new Rejection('forbidden', message, 'tenant_id')
}

const writeOverride = ({ live, commit, newId, nowMs }: OverrideDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/overrides',
    scopes: WRITE,
    summary:
      'Impose an override, or take one back (`enabled` false); for everybody about an endpoint scope, a tool ' +
      'or a name that no model has, a freeze of everybody, and over what was imposed with `*`: with `*` alone',
    body: OverrideBody,
    dropped: ['in_force', 'actor'],
    status: 201,
    whileFrozen: true,
    answer: OverrideView,
    async handle(call) {
      const { kind, target = null, tenant_id, value = null, enabled = true, reason = null, expires_at } = call.body
      const atMs = nowMs()
      const command = {
        do: 'write',
        id: newId('ovr'),
        kind,
        target,
        tenant_id: ownerFor(call.principal, tenant_id, live.control),
        value,
        enabled,
        reason,
        expires_at: storedTime(expires_at) ?? null,
        writer_tenant_id: writerOf(call.principal),
        nowMs: atMs,
      } as const
      const result = await write(
        commit,
        call,
        () => undefined,
        (state) => {
          const meant = targetOf(state, overrideKindOf(kind), target, enabled)
          requireOwnTarget(state, call.principal, { kind, target: meant, owner: command.tenant_id, enabled })
          return decideOverride(state, command)
        },
      )
      const row = writtenRow(result, 'overrides')
      return { body: viewOf(row, isInForce(row, atMs)), revision: result.revision }
    },
  })

const killProvider = ({ commit, newId, nowMs }: OverrideDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/providers/:id/kill',
    forAll: true,
    scopes: WRITE,
    summary: 'Kill or revive a provider, for everybody; what was killed with `*` with `*` alone',
    body: KillBody,
    whileFrozen: true,
    answer: KillView,
    async handle(call) {
      const { kill, reason = null } = call.body
      const provider_id = call.params.id
      const atMs = nowMs()
      const ids = [newId('ovr'), newId('ovr')] as const
      const { tenantId: tenant_id } = call.principal
      const command = { do: 'kill', ids, provider_id, kill, reason, tenant_id, nowMs: atMs } as const
      const written = { ...command, writer_tenant_id: writerOf(call.principal) }
      const result = await write(
        commit,
        call,
        (state) => state.table('providers').get(provider_id),
        (state) => decideOverride(state, written),
      )
      const row = writtenRow(result, 'overrides')
      return {
        body: { id: provider_id, killed: row.enabled, override: viewOf(row, isInForce(row, atMs)) },
        revision: result.revision,
      }
    },
  })

export const overrideRoutes = (deps: OverrideDeps): AdminRoute[] => [
  list('/overrides', 'List recent overrides, the newest first', deps),
  list('/guardrails', 'List recent kill switches, caps, blocks and other overrides, the newest first', deps),
  writeOverride(deps),
  killProvider(deps),
]
