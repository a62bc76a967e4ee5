// `/admin/v1/keys`. The plaintext of a key leaves in one response, once; only its digest is stored.
import {
  ApiKeyChanged,
  type ApiKeyCommand,
  ApiKeyIssued,
  type ApiKeyRow,
  decideApiKey,
} from '../../../domain/access/api-key.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import { sha256Hex } from '../../../lib/crypto/digest.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { LastUses } from '../../../state/indexes/last-uses.ts'
import type { Commit, CommitResult, LiveState } from '../../../state/port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { isSuperuser, type Principal, seesTenant, tenantFor } from '../../auth.ts'
import { IssuedKey, KeyView, RevokedKey } from '../answers/resources.ts'
import { Rfc3339, storedTime } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminResponse, type AdminRoute, route } from '../route.ts'
import { rowAfter, write, writtenRow } from '../write.ts'

export interface KeyDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
  newApiKey(): string
  nowMs(): number
  /** Source of `last_used_at`: uses on this instance since it started. */
  readonly lastUses: Pick<LastUses, 'lastUsedAt'>
}

const READ = ['usage:read', 'keys:admin'] as const
const WRITE = ['keys:admin'] as const
const HOUR_MS = 3_600_000
const { name, scopes, rate_limits, routing_policy_id } = ApiKeyIssued.properties

const NewKey = closed(
  t.Object({
    tenant_id: t.Optional(t.String({ minLength: 1, maxLength: 64 })),
    name,
    scopes,
    expires_in_hours: t.Optional(Nullable(t.Integer({ minimum: 1, maximum: 876_000 }))),
    expires_at: t.Optional(Nullable(Rfc3339)),
    routing_policy_id: t.Optional(routing_policy_id),
    rate_limits: t.Optional(rate_limits),
  }),
)
const EditedKey = closed(
  t.Object({
    tenant_id: t.Optional(t.String({ maxLength: 64 })),
    name: ApiKeyChanged.properties.name,
    scopes: ApiKeyChanged.properties.scopes,
    expires_at: t.Optional(Nullable(Rfc3339)),
    routing_policy_id: ApiKeyChanged.properties.routing_policy_id,
    rate_limits: ApiKeyChanged.properties.rate_limits,
  }),
)

const ONCE = 'Store this key now: it is shown only once.'
const SHOWN =
  'This repeats an earlier request: the key was shown in its answer and cannot be shown again. Rotate it to ' +
  'get another.'

/** The key of this id if the caller may see it; another tenant's does not exist. */
const visibleKey = (state: ControlReader, principal: Principal, id: string): ApiKeyRow => {
  const row = state.table('keys').get(id)
  if (row === undefined || !seesTenant(principal, row.tenant_id))
    throw new Rejection('not_found', `no key has the id "${id}"`)
  return row
}

/**
 * Commits a command about the key of the call, if the caller may see it. `commandOn` gets the key before the change.
 */
const writeKey = (
  commit: Commit,
  call: Parameters<typeof write>[1] & { readonly params: { readonly id: string } },
  commandOn: (before: ApiKeyRow) => ApiKeyCommand,
): Promise<CommitResult> => {
  const id = call.params.id
  return write(
    commit,
    call,
    (state) => state.table('keys').get(id),
    (state) => decideApiKey(state, commandOn(visibleKey(state, call.principal, id))),
  )
}

/** A key without `*` means its own tenant; callers with `*` must name one. */
const tenantOf = (principal: Principal, tenantId: string | undefined): string => {
  if (tenantId === undefined && isSuperuser(principal)) {
    throw new GatewayError('invalid_request', '"tenant_id" is required', { param: 'tenant_id' })
  }
  return tenantFor(principal, tenantId)
}

/**
 * A key as the API shows it: without its digests and the fields of the seeder. An expired key has the status `expired`.
 */
const viewOf = (
  { digest: _, seeded_digest: __, seeded_name: ___, ...row }: ApiKeyRow,
  { nowMs, lastUses }: KeyDeps,
) => {
  const expired = row.status === 'active' && row.expires_at !== null && Date.parse(row.expires_at) <= nowMs()
  return { ...row, status: expired ? 'expired' : row.status, last_used_at: lastUses.lastUsedAt(row.id) }
}

/** The one response that holds a plaintext; for a repeat it holds none. */
const issued = (result: CommitResult, plaintext: string, deps: KeyDeps): AdminResponse => {
  const key = viewOf(writtenRow(result, 'keys'), deps)
  const { id, tenant_id, name, scopes, expires_at } = key
  const secret = result.repeated ? { plaintext: null, warning: SHOWN } : { plaintext, warning: ONCE }
  return { body: { key, ...secret, id, tenant_id, name, scopes, expires_at }, revision: result.revision }
}

const listKeys = (deps: KeyDeps): AdminRoute => {
  const { live } = deps
  return route({
    method: 'GET',
    path: '/keys',
    scopes: READ,
    summary: "List a tenant's keys, revoked ones too",
    rows: 'keys',
    query: t.Object({ tenant_id: t.Optional(t.String()), ...Paging }),
    answer: KeyView,
    handle({ principal, query }) {
      const tenantId = tenantOf(principal, query.tenant_id)
      const keys = live.control.table('keys')
      tenantOfQuery(live.control, principal, tenantId)
      const rows = keys.find('tenant', tenantId).toSorted() // ids sort by time
      return { body: listed('keys', rows, query, (id) => viewOf(keys.get(id)!, deps)) }
    },
  })
}

const getKey = (deps: KeyDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/keys/:id',
    scopes: READ,
    summary: 'One key, revoked ones too; never its secret',
    answer: KeyView,
    handle: ({ principal, params }) => ({
      body: viewOf(visibleKey(deps.live.control, principal, params.id), deps),
    }),
  })

const issueKey = (deps: KeyDeps): AdminRoute => {
  const { commit, newId, newApiKey, nowMs } = deps
  return route({
    method: 'POST',
    path: '/keys',
    scopes: WRITE,
    summary: 'Issue a key; its plaintext is answered once',
    body: NewKey,
    status: 201,
    answer: IssuedKey,
    async handle(call) {
      const {
        tenant_id,
        expires_in_hours,
        expires_at,
        routing_policy_id = null,
        rate_limits = null,
        ...rest
      } = call.body
      if (expires_in_hours != null && expires_at != null) {
        throw new GatewayError('invalid_request', 'send "expires_in_hours" or "expires_at", not both', {
          param: 'expires_at',
        })
      }
      const plaintext = newApiKey()
      const data = {
        ...rest,
        id: newId('key'),
        tenant_id: tenantOf(call.principal, tenant_id),
        digest: sha256Hex(plaintext),
        expires_at:
          expires_in_hours == null
            ? (storedTime(expires_at) ?? null)
            : new Date(nowMs() + expires_in_hours * HOUR_MS).toISOString(),
        routing_policy_id,
        rate_limits,
        managed_by: 'api',
      } as const
      const command = { do: 'issue', granter: call.principal, nowMs: nowMs(), ...data } as const
      const result = await write(
        commit,
        call,
        () => undefined,
        (state) => decideApiKey(state, command),
      )
      return issued(result, plaintext, deps)
    },
  })
}

const changeKey = (deps: KeyDeps): AdminRoute => {
  const { live, commit, nowMs } = deps
  return route({
    method: 'PATCH',
    path: '/keys/:id',
    scopes: WRITE,
    summary: 'Change name, scopes, expiry, routing policy or rate limits of a key',
    body: EditedKey,
    dropped: ['status', 'revoked_at', 'last_used_at'],
    answer: KeyView,
    async handle(call) {
      const id = call.params.id
      const { tenant_id, expires_at, ...fields } = call.body
      const command = {
        do: 'change',
        id,
        granter: call.principal,
        managed_by: 'api',
        nowMs: nowMs(),
        ...fields,
        expires_at: storedTime(expires_at),
      } as const
      const result = await writeKey(commit, call, (before) => {
        if (tenant_id !== undefined && tenant_id !== before.tenant_id)
          throw new Rejection('invalid', 'a key cannot be moved to another tenant', 'tenant_id')
        return command
      })
      return {
        body: viewOf(rowAfter(result, 'keys') ?? visibleKey(live.control, call.principal, id), deps),
        revision: result.revision,
      }
    },
  })
}

const rotateKey = (deps: KeyDeps): AdminRoute => {
  const { commit, newApiKey, nowMs } = deps
  return route({
    method: 'POST',
    path: '/keys/:id/rotate',
    scopes: WRITE,
    summary: 'Give a key a new secret; the old one stops at once',
    status: 201,
    answer: IssuedKey,
    async handle(call) {
      const id = call.params.id
      const plaintext = newApiKey()
      const granted = { granter: call.principal, nowMs: nowMs() }
      const command = { do: 'rotate', id, digest: sha256Hex(plaintext), ...granted } as const
      const result = await writeKey(commit, call, () => command)
      return issued(result, plaintext, deps)
    },
  })
}

const revokeKey = (deps: KeyDeps): AdminRoute => {
  const { live, commit } = deps
  return route({
    method: 'DELETE',
    path: '/keys/:id',
    scopes: WRITE,
    summary: 'Revoke a key, for good; it stays listed',
    answer: RevokedKey,
    async handle(call) {
      const id = call.params.id
      const result = await writeKey(commit, call, () => ({ do: 'revoke', id }))
      const row = rowAfter(result, 'keys') ?? visibleKey(live.control, call.principal, id)
      return {
        body: { deleted: true, id, status: row.status, revoked_at: row.revoked_at },
        revision: result.revision,
      }
    },
  })
}

export const keyRoutes = (deps: KeyDeps): AdminRoute[] => [
  listKeys(deps),
  getKey(deps),
  issueKey(deps),
  changeKey(deps),
  rotateKey(deps),
  revokeKey(deps),
]
