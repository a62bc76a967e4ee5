// `/admin/v1/overrides`, `/guardrails` and the kill switch of a provider. Rows are only added: what is to end is written again with `enabled` false.
import type { ControlReader } from '../../domain/control.ts'
import { endpointKey } from '../../domain/endpoint.ts'
import { closed, Nullable } from '../../domain/fields.ts'
import { decideOverride, isInForce, OverrideReason, type OverrideRow, overrideKey } from '../../domain/override.ts'
import { OVERRIDE_KINDS, type OverrideKind, overrideKindOf, targetOf } from '../../domain/override-target.ts'
import { Rejection } from '../../domain/rejection.ts'
import { toolKey } from '../../domain/tool.ts'
import type { IdPrefix } from '../../lib/ids.ts'
import { t } from '../../lib/schema.ts'
import type { Commit, LiveState } from '../../state/port.ts'
import { isSuperuser, ownerMeant, type Principal, seesTenant, tenantMeant } from '../auth.ts'
import { listed, Paging } from './list.ts'
import { KillView, OverrideView } from './resources.ts'
import { type AdminRoute, route } from './route.ts'
import { Rfc3339, storedTime } from './times.ts'
import { rowAfter, write } from './write.ts'

export interface OverrideDeps {
  readonly live: Pick<LiveState, 'control'>
  /** Also while the configuration is frozen: this is how a freeze ends, and how a provider is stopped meanwhile. */
  readonly commit: Commit
  newId(prefix: IdPrefix): string
  nowMs(): number
}

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const
/** The specification's default, which is more than that of other lists. */
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

const viewOf = ({ superseded: _, taken_over: __, ...row }: OverrideRow, inForce: boolean) => ({
  ...row,
  in_force: inForce,
})

/**
 * Which rows the caller may be shown: another tenant's key does not exist for it, nor does a slug or the name of a tool that only other tenants have, or had:
 * of a name that nobody has any more nothing tells whose it was. So one that is everybody's is listed where it names what the caller has itself, or was
 * written with a key of its tenant.
 */
const visibleRows = (state: ControlReader, principal: Principal): ((row: OverrideRow) => boolean) => {
  if (isSuperuser(principal)) return () => true
  const [own, foreign] = [new Set<string>(), new Set<string>()]
  const note = (target: string, tenantId: string | null) =>
    (seesTenant(principal, tenantId) ? own : foreign).add(target)
  for (const [, { slug, tenant_id }] of state.table('endpoints').rows()) note(`endpoint:${slug}`, tenant_id)
  // Requests are compared with the name as it is written.
  for (const [, { name, tenant_id }] of state.table('tools').rows()) note(`tool:${name}`, tenant_id)
  const isOwnKey = (id: string) => state.table('keys').get(id)?.tenant_id === principal.tenantId
  return ({ target, tenant_id, actor }) => {
    if (target.startsWith('key:')) return isOwnKey(target.slice('key:'.length))
    if (!/^(?:endpoint|tool):/.test(target) || own.has(target)) return true
    return isOwnKey(actor.id) || (tenant_id !== null && !foreign.has(target))
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
      const tenantId = query.tenant_id === undefined ? undefined : tenantMeant(principal, query.tenant_id)
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

interface Meant {
  readonly kind: OverrideKind
  readonly target: string
  readonly tenantId: string | null
  readonly enabled: boolean
}

/**
 * Another tenant's key does not exist for a caller without `*`: it cannot be blocked either. Nor do slugs and names of tools that nobody has for everybody: an
 * override for everybody would reach the tenants that have them. What a key of its tenant wrote, it takes back.
 */
const requireVisible = (state: ControlReader, principal: Principal, meant: Meant): void => {
  const { kind, target, tenantId, enabled } = meant
  const [, word, name] = /^(key|endpoint|tool):(.*)$/s.exec(target) ?? []
  if (isSuperuser(principal) || word === undefined || name === undefined) return
  const ownerOf = (id: string) => state.table('keys').get(id)?.tenant_id
  if (word === 'key') {
    const owner = ownerOf(name)
    if (owner === undefined || seesTenant(principal, owner)) return
    throw new Rejection('not_found', `no key has the id "${name}"`, 'target')
  }
  if (tenantId !== null || (word === 'tool' ? isEverybodysTool : isEverybodysEndpoint)(state, name)) return
  const overrides = state.table('overrides')
  const [deciding] = overrides.find('deciding', overrideKey(kind, target, tenantId))
  const author = deciding === undefined ? undefined : overrides.get(deciding)?.actor.id
  if (!enabled && author !== undefined && ownerOf(author) === principal.tenantId) return
  const what = word === 'tool' ? 'tool of everybody has the name' : 'endpoint scope of everybody has the slug'
  throw new Rejection('not_found', `no ${what} "${name}"`, 'target')
}

const isEverybodysEndpoint = (state: ControlReader, slug: string): boolean =>
  state.table('endpoints').find('slug', endpointKey(null, slug)).length > 0

/** Requests are compared with the name as it is written. */
const isEverybodysTool = (state: ControlReader, name: string): boolean =>
  state
    .table('tools')
    .findRows('name', toolKey(null, name))
    .some((row) => row.name === name)

const writeOverride = ({ commit, newId, nowMs }: OverrideDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/overrides',
    scopes: WRITE,
    summary: 'Impose an override, or take one back (`enabled` false)',
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
        tenant_id: ownerMeant(call.principal, tenant_id),
        value,
        enabled,
        reason,
        expires_at: storedTime(expires_at) ?? null,
        nowMs: atMs,
      } as const
      const result = await write(
        commit,
        call,
        () => undefined,
        (state) => {
          const about = { kind: overrideKindOf(kind), tenantId: command.tenant_id, enabled }
          requireVisible(state, call.principal, { ...about, target: targetOf(state, about.kind, target, enabled) })
          return decideOverride(state, command)
        },
      )
      const row = rowAfter(result, 'overrides')!
      return { body: viewOf(row, isInForce(row, atMs)), revision: result.revision }
    },
  })

const killProvider = ({ commit, newId, nowMs }: OverrideDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/providers/:id/kill',
    scopes: WRITE,
    summary: 'Kill or revive a provider, for everybody',
    body: KillBody,
    whileFrozen: true,
    answer: KillView,
    async handle(call) {
      const { kill, reason = null } = call.body
      const provider_id = call.params.id!
      const atMs = nowMs()
      const ids = [newId('ovr'), newId('ovr')] as const
      const { tenantId: tenant_id } = call.principal
      const result = await write(
        commit,
        call,
        (state) => state.table('providers').get(provider_id),
        (state) => decideOverride(state, { do: 'kill', ids, provider_id, kill, reason, tenant_id, nowMs: atMs }),
      )
      const row = rowAfter(result, 'overrides')!
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
