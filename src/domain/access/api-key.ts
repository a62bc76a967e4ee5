// API keys and their scopes. Only the SHA-256 digest of a key is stored. Names and fields of the events are stored for
// ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, distinct, Id, ManagedBy, Nullable, Timestamp } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { RateLimits } from './tenant.ts'

/** Every scope that a key can hold. `*` covers all others. */
export const SCOPES = [
  'inference',
  'usage:read',
  'providers:admin',
  'keys:admin',
  'tenants:admin',
  'policies:admin',
  '*',
] as const
export type Scope = (typeof SCOPES)[number]

const Digest = t.String({ pattern: '^[0-9a-f]{64}$' })
const Name = t.String({ minLength: 1, maxLength: 256 })
const Scopes = t.Array(t.String({ minLength: 1, maxLength: 64 }), { minItems: 1, maxItems: 32 })

export const ApiKeyIssued = t.Object({
  id: Id,
  tenant_id: Id,
  name: Name,
  scopes: Scopes,
  /** SHA-256 of the whole key, lower-case hex. */
  digest: Digest,
  expires_at: Nullable(Timestamp),
  routing_policy_id: Nullable(Id),
  rate_limits: Nullable(RateLimits),
  managed_by: ManagedBy,
  /**
   * Set when the secret came from the settings: the digest of the text that the settings held last, even if the secret
   * was changed since.
   */
  seeded_digest: t.Optional(Digest),
  /** The name under which the settings created it, which stays when the key is renamed. */
  seeded_name: t.Optional(Name),
})
/** Only the fields that changed. */
export const ApiKeyChanged = t.Object({
  id: Id,
  name: t.Optional(Name),
  scopes: t.Optional(Scopes),
  expires_at: t.Optional(Nullable(Timestamp)),
  routing_policy_id: t.Optional(Nullable(Id)),
  rate_limits: t.Optional(Nullable(RateLimits)),
  managed_by: t.Optional(ManagedBy),
})
export const ApiKeyRotated = t.Object({ id: Id, digest: Digest, seeded_digest: t.Optional(Digest) })
export const ApiKeyRevoked = t.Object({ id: Id })

export interface ApiKeyRow extends Stamps {
  readonly id: string
  readonly tenant_id: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly status: 'active' | 'revoked'
  readonly digest: string
  /** The secret that the settings gave it last; absent for keys that never got one from the settings. */
  readonly seeded_digest?: string
  /**
   * The name of the key in the settings, which stays when the key is renamed; absent for keys that are not in the
   * settings.
   */
  readonly seeded_name?: string
  /** RFC 3339, null for never. Compared at use: an expired key keeps its status. */
  readonly expires_at: string | null
  readonly routing_policy_id: string | null
  readonly rate_limits: RateLimits | null
  readonly revoked_at: string | null
  readonly managed_by: ManagedBy
}

const rows = changesOf<ApiKeyRow>('keys')
const subject = (data: { id: string }): string => data.id

export const apiKey: Aggregate<ApiKeyRow, ControlReader> = {
  table: 'keys',
  indexes: {
    tenant: (row) => row.tenant_id,
    digest: (row) => row.digest,
    /** Those with `*`, few among many. */
    every_scope: (row) => (row.status === 'active' && row.scopes.includes('*') ? '' : null),
  },
  packing: {
    shared: ['tenant_id', 'scopes', 'status', 'routing_policy_id', 'rate_limits', 'managed_by'],
    nearlyUnique: ['digest'],
  },
  events: {
    'api_key.issued': eventType({ schema: ApiKeyIssued, action: 'create', resource: 'api_key', subject }),
    'api_key.changed': eventType({ schema: ApiKeyChanged, action: 'update', resource: 'api_key', subject }),
    'api_key.rotated': eventType({ schema: ApiKeyRotated, action: 'rotate', resource: 'api_key', subject }),
    'api_key.revoked': eventType({ schema: ApiKeyRevoked, action: 'revoke', resource: 'api_key', subject }),
  },
  evolve(state, { type, data }, meta) {
    const before = state.table('keys').get(data.id as string)
    if (type === 'api_key.issued') {
      const issued = data as Static<typeof ApiKeyIssued>
      if (before !== undefined) return []
      const seededName = issued.managed_by === 'bootstrap' ? seededNameOf(issued) : {}
      return rows.created(issued.id, { ...issued, ...seededName, status: 'active', revoked_at: null }, meta)
    }
    if (before === undefined || before.status === 'revoked') return []
    if (type === 'api_key.revoked')
      return rows.changed(before.id, before, { status: 'revoked', revoked_at: meta.at }, meta)
    if (type === 'api_key.rotated') {
      const { id: _, ...rotated } = data as Static<typeof ApiKeyRotated>
      const seededName = rotated.seeded_digest === undefined ? {} : seededNameOf(before)
      return rows.changed(before.id, before, { ...rotated, ...seededName }, meta)
    }
    return rows.changed(before.id, before, data as Static<typeof ApiKeyChanged>, meta)
  },
}

/**
 * The name of the key in the settings. Events of earlier builds lack it: there, settings created the key or set its
 * secret under the name that the row had at that time.
 */
const seededNameOf = ({ name, seeded_name }: Pick<ApiKeyRow, 'name' | 'seeded_name'>) => ({
  seeded_name: seeded_name ?? name,
})

/** The caller that grants scopes. It cannot grant scopes that it lacks, or get the secret of a key that has them. */
export interface Granter {
  readonly scopes: readonly string[]
}

type Issued = Static<typeof ApiKeyIssued>
/**
 * Set for API commands: an expiry in the past is refused. It is not set for settings and reverts, where the expiry may
 * have passed meanwhile.
 */
interface RequestedAt {
  nowMs?: number
}
export type ApiKeyCommand =
  | ({ do: 'issue'; granter: Granter } & RequestedAt & Issued)
  | ({ do: 'change'; granter: Granter; managed_by: ManagedBy } & RequestedAt &
      Omit<Static<typeof ApiKeyChanged>, 'managed_by'>)
  | ({ do: 'rotate'; granter: Granter } & RequestedAt & Static<typeof ApiKeyRotated>)
  | { do: 'revoke'; id: string }

/** Checks that a key of this tenant may use a policy: a global one, or the tenant's own. */
const requirePolicy = (state: ControlReader, policyId: string | null | undefined, tenantId: string): void => {
  if (policyId === null || policyId === undefined) return
  const policy = state.table('policies').get(policyId)
  if (policy === undefined || (policy.tenant_id !== null && policy.tenant_id !== tenantId)) {
    throw new Rejection('invalid', `no policy that this tenant can use has the id "${policyId}"`, 'routing_policy_id')
  }
}

const requireGrantable = (granter: Granter, scopes: readonly string[], param = 'scopes'): void => {
  for (const scope of scopes) {
    if (!SCOPES.includes(scope as Scope)) {
      throw new Rejection('invalid', `unknown scope "${scope}"; the scopes are ${SCOPES.join(', ')}`, 'scopes')
    }
    if (!granter.scopes.includes('*') && !granter.scopes.includes(scope)) {
      throw new Rejection('forbidden', `a key cannot grant the scope "${scope}", which it lacks itself`, param)
    }
  }
}

const requireToCome = (expiresAt: string | null | undefined, nowMs: number | undefined, instead: string): void => {
  if (expiresAt == null || nowMs === undefined || !hasExpired({ expires_at: expiresAt }, nowMs)) return
  throw new Rejection('invalid', `"expires_at" is past: ${instead}`, 'expires_at')
}

export const hasExpired = ({ expires_at }: Pick<ApiKeyRow, 'expires_at'>, nowMs: number): boolean =>
  expires_at !== null && Date.parse(expires_at) <= nowMs

/** Whether the key would live longer. `after` undefined: unchanged. Null: for ever. */
const isProlonged = (before: string | null, after: string | null | undefined): boolean =>
  before !== null && after !== undefined && (after === null || Date.parse(after) > Date.parse(before))

const requireUnusedDigest = (state: ControlReader, digest: string, id: string): void => {
  if (
    state
      .table('keys')
      .find('digest', digest)
      .some((other) => other !== id)
  ) {
    throw new Rejection('conflict', 'another key has this secret')
  }
}

type Issue = { granter: Granter } & RequestedAt & Issued

const issue = (state: ControlReader, { granter, nowMs, ...data }: Issue): EventRecord[] => {
  if (state.table('tenants').get(data.tenant_id) === undefined) {
    throw new Rejection('not_found', `no tenant has the id "${data.tenant_id}"`, 'tenant_id')
  }
  if (state.table('keys').get(data.id) !== undefined)
    throw new Rejection('conflict', `a key with the id "${data.id}" exists already`)
  requireGrantable(granter, data.scopes)
  requireToCome(data.expires_at, nowMs, 'such a key would never work')
  requirePolicy(state, data.routing_policy_id, data.tenant_id)
  requireUnusedDigest(state, data.digest, data.id)
  return [{ type: 'api_key.issued', data: { ...data, scopes: distinct(data.scopes) } }]
}

/** Refuses an unknown key, scopes beyond the granter's, and changes of a revoked key; [] when nothing would change. */
export const decideApiKey = (state: ControlReader, command: ApiKeyCommand): EventRecord[] => {
  if (command.do === 'issue') {
    const { do: _, ...rest } = command
    return issue(state, rest)
  }
  const row = state.table('keys').get(command.id)
  if (row === undefined) throw new Rejection('not_found', `no key has the id "${command.id}"`)
  if (command.do === 'revoke')
    return row.status === 'revoked' ? [] : [{ type: 'api_key.revoked', data: { id: row.id } }]
  if (command.do === 'rotate') {
    if (row.status === 'revoked') throw new Rejection('conflict', 'a revoked key cannot be rotated')
    if (row.digest === command.digest) return []
    if (command.nowMs !== undefined && hasExpired(row, command.nowMs)) {
      throw new Rejection(
        'conflict',
        `"expires_at" is past (${row.expires_at}): the new secret would not work either; set it anew first`,
        'expires_at',
      )
    }
    // The caller that rotates holds the new secret, with all scopes of the key.
    requireGrantable(command.granter, row.scopes)
    requireUnusedDigest(state, command.digest, row.id)
    const { do: _, granter: __, nowMs: ___, ...data } = command
    return [{ type: 'api_key.rotated', data }]
  }
  const { do: _, id, granter, managed_by, nowMs, ...wanted } = command
  const changed = changedFields<ApiKeyRow>(
    row,
    wanted.scopes === undefined ? wanted : { ...wanted, scopes: distinct(wanted.scopes) },
  )
  if (Object.keys(changed).length === 0) return []
  if (row.status === 'revoked') throw new Rejection('conflict', 'a revoked key cannot be changed')
  requireGrantable(
    granter,
    (changed.scopes ?? []).filter((scope) => !row.scopes.includes(scope)),
  )
  requireToCome(changed.expires_at, nowMs, 'a key that is to end now is deleted')
  // More time is a grant of all scopes of the key: an expired key may be in the wrong hands.
  if (isProlonged(row.expires_at, changed.expires_at)) {
    requireGrantable(granter, changed.scopes ?? row.scopes, 'expires_at')
  }
  requirePolicy(state, changed.routing_policy_id, row.tenant_id)
  return [
    { type: 'api_key.changed', data: { id, ...changed, ...(row.managed_by === managed_by ? {} : { managed_by }) } },
  ]
}
