// Authenticates and authorises callers of the admin API: keys as on the inference surface, then scopes, then tenants.

import type { SessionRow } from '../domain/access/session.ts'
import type { ControlReader } from '../domain/control.ts'
import type { Actor } from '../domain/kernel/decision.ts'
import { Rejection } from '../domain/kernel/rejection.ts'
import { type AuthenticateDeps, authenticate, requireConfirmed, requireFresh } from '../entry/authenticate.ts'
import type { Payer } from '../inference/gateway-calls.ts'
import type { Sessions } from '../upkeep/console/sessions.ts'
import { GatewayError } from '../wire/errors.ts'
import type { Clients } from './clients.ts'
import { requireProvenOwnPage, sessionToken } from './session-cookie.ts'

/** An authenticated caller. */
export interface Principal {
  readonly actor: Actor
  readonly tenantId: string
  readonly scopes: readonly string[]
  /** Set for an operator who came with the cookie of the console. */
  readonly sessionId?: string
}

export interface SessionDeps extends AuthenticateDeps {
  readonly sessions: Pick<Sessions, 'find' | 'used'>
  readonly clients: Clients
}

/** Payer of the calls that the gateway makes for this caller: their cost falls under the payer's budgets. */
export const payerOf = ({ actor, tenantId }: Principal): Payer => ({ tenantId, keyId: actor.id })

const SUPERUSER = Object.freeze(['*'])

/** The caller by its key. Throws 401 when the folded state has no such key. */
export const principalOf = (headers: Headers, deps: AuthenticateDeps, atMs: number): Principal => {
  const { id, tenantId, scopes } = authenticate(headers, deps, atMs)
  return { actor: { type: 'key', id }, tenantId, scopes }
}

/** The session of the cookie, null when there is none. Throws when the state cannot be trusted to decide that. */
export const sessionOf = (headers: Headers, { sessions, live, inference }: SessionDeps) => {
  const token = sessionToken(headers)
  if (token === null) return null
  requireFresh(live, inference.maxStalenessMs)
  const session = sessions.find(token)
  if (session === null) requireConfirmed(live)
  return session
}

/**
 * The caller of the admin API: by its key when the key's header is present, else the operator of the session cookie.
 * Throws 401, as with a key, when there is neither.
 */
export const adminPrincipalOf = (headers: Headers, deps: SessionDeps, atMs: number): Principal => {
  const session = headers.has(deps.inference.authHeader) ? null : sessionOf(headers, deps)
  if (session === null) return principalOf(headers, deps, atMs)
  deps.sessions.used(session)
  return operatorOf(session, deps)
}

const operatorOf = (session: SessionRow, { live }: SessionDeps): Principal => {
  // Routes that need a tenant, when none is named, use the default tenant.
  const [tenantId = ''] = live.control.table('tenants').find('slug', OWN_TENANT)
  return { actor: { type: 'operator', id: session.operator_id }, tenantId, scopes: SUPERUSER, sessionId: session.id }
}

/**
 * The caller with the permissions of this moment; null: it may not continue what it began. Does not prolong a session:
 * a stream runs without an operator in front of it.
 */
export const principalNow = (
  headers: Headers,
  scopes: readonly string[],
  deps: SessionDeps,
  atMs: number,
): Principal | null => {
  try {
    const session = headers.has(deps.inference.authHeader) ? null : sessionOf(headers, deps)
    const principal = session === null ? principalOf(headers, deps, atMs) : operatorOf(session, deps)
    requireOneOf(principal, scopes)
    return principal
  } catch {
    return null // revoked, expired, signed out, or the state cannot decide it now
  }
}

/** Throws 403 for a write with a session cookie that does not prove to come from the console's own page. */
export const requireOwnPageWrite = (principal: Principal, request: Request, { clients }: SessionDeps): void => {
  if (principal.sessionId !== undefined) requireProvenOwnPage(request, clients(request))
}

export const isSuperuser = (principal: Principal): boolean => principal.scopes.includes('*')

/** Throws 403 unless the caller has one of the scopes; [] needs only a valid key. */
export const requireOneOf = (principal: Principal, scopes: readonly string[]): void => {
  if (scopes.length === 0 || isSuperuser(principal) || scopes.some((scope) => principal.scopes.includes(scope))) return
  const needed = scopes.map((scope) => `"${scope}"`).join(' or ')
  throw new GatewayError('permission_error', `this needs a key with the scope ${needed}`)
}

/** Whether the caller sees what belongs to this tenant. What belongs to no tenant (null) depends on the scope alone. */
export const seesTenant = (principal: Principal, tenantId: string | null): boolean =>
  tenantId === null || isSuperuser(principal) || principal.tenantId === tenantId

/** The tenant of the installation itself. */
const OWN_TENANT = 'default'

/** Whether the caller writes what holds for every tenant: with `*`, or with a key of the tenant `default`. */
export const writesForAll = (principal: Principal, state: ControlReader): boolean =>
  isSuperuser(principal) || state.table('tenants').find('slug', OWN_TENANT).includes(principal.tenantId)

/**
 * Throws 403 for a write of what holds for every tenant by a key of one of the others, whatever its scopes: its
 * requests would steer those of all.
 */
export const requireForAll = (principal: Principal, state: ControlReader, param: string | null = null): void => {
  if (writesForAll(principal, state)) return
  throw new Rejection(
    'forbidden',
    'this holds for every tenant: it needs a key of the tenant "default", or one with the scope "*"',
    param,
  )
}

/** The same for a row that belongs to no tenant. */
export const requireOwnerWrites = (principal: Principal, state: ControlReader, owner: string | null): void => {
  if (owner === null) requireForAll(principal, state)
}

/**
 * The owner of what a caller creates: its own tenant when it names none; no tenant (global, null) when it sends null,
 * and for `*` when it sends nothing. Throws 403 for a caller that may not write global things.
 */
export const ownerFor = (
  principal: Principal,
  tenantId: string | null | undefined,
  state: ControlReader,
): string | null => {
  const isGlobal = tenantId === null || (tenantId === undefined && isSuperuser(principal))
  if (!isGlobal) return tenantFor(principal, tenantId)
  requireForAll(principal, state, 'tenant_id')
  return null
}

/** The tenant that a caller refers to: its own when it names none. Another tenant does not exist for it (404). */
export const tenantFor = (principal: Principal, tenantId: string | null | undefined): string => {
  const meant = tenantId ?? principal.tenantId
  if (!seesTenant(principal, meant)) throw new Rejection('not_found', `no tenant has the id "${meant}"`, 'tenant_id')
  return meant
}
