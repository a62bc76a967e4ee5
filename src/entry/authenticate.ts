// What a request of either plane passes first: its API key. Memory only: one digest, one look-up in the folded state.

import { sha256Hex } from '../lib/crypto/digest.ts'
import type { HeaderReader } from '../lib/http-server/http-server.ts'
import type { LastUses } from '../state/indexes/last-uses.ts'
import type { Degradation, KeyEntry, KeyIndex, LiveState } from '../state/port.ts'
import { GatewayError } from '../wire/errors.ts'

/** How a key is sent and checked. */
export interface CredentialSettings {
  /**
   * Name of the header with the key. `authorization` takes `Bearer <key>`; others take the key with or without
   * `Bearer`.
   */
  readonly authHeader: string
  readonly minKeyLength: number
  /** Requests are refused when this instance has not confirmed the end of the log for so long. Null: never. */
  readonly maxStalenessMs: number | null
}

export interface AuthenticateDeps {
  readonly live: LiveState
  readonly keys: Pick<KeyIndex, 'lookup' | 'knows'>
  readonly lastUses: Pick<LastUses, 'used'>
  readonly inference: CredentialSettings
}

/** No key is longer: bounds what is hashed. */
const MAX_KEY_LENGTH = 512

/**
 * The entry of the caller's key; throws 401 without a valid one. The plaintext is not retained: it is hashed for each
 * request, and its digest is looked up in an index that follows the log, so a revocation acts with its record. All
 * refusals read alike: an unauthenticated caller learns nothing from them.
 */
export const authenticate = (headers: HeaderReader, deps: AuthenticateDeps, atMs: number): KeyEntry => {
  const { authHeader, minKeyLength, maxStalenessMs } = deps.inference
  const value = headers.get(authHeader)
  const plain = value === null ? null : keyOf(value, authHeader)
  if (plain === null) {
    throw unauthenticated(
      `send your API key as \`${authHeader === 'authorization' ? 'Authorization: Bearer' : `${authHeader}:`} <key>\``,
    )
  }
  if (plain.length < minKeyLength || plain.length > MAX_KEY_LENGTH) throw notValid()
  requireFresh(deps.live, maxStalenessMs)
  const digest = sha256Hex(plain)
  const entry = deps.keys.lookup(digest)
  if (entry === null && !deps.keys.knows(digest)) requireConfirmed(deps.live)
  if (entry === null || (entry.expiresAtMs !== null && entry.expiresAtMs <= atMs)) {
    throw notValid()
  }
  deps.lastUses.used(entry.id, atMs)
  return entry
}

/** Throws 401 when the key was revoked, or has expired, since its request arrived. */
export const requireStanding = (key: KeyEntry, keys: Pick<KeyIndex, 'isValid'>, atMs: number): void => {
  if (!keys.isValid(key, atMs)) throw notValid()
}

/** Whether requests with a key or a session are refused, because the state may be older than that. Null: never. */
export const isTooStale = (live: Pick<LiveState, 'status'>, maxStalenessMs: number | null): boolean =>
  maxStalenessMs !== null && live.status().staleMs > maxStalenessMs

/** Throws 502 when the state may be older than that. */
export const requireFresh = (live: Pick<LiveState, 'status'>, maxStalenessMs: number | null): void => {
  if (!isTooStale(live, maxStalenessMs)) return
  throw new GatewayError(
    'provider_unavailable',
    'this instance has not confirmed the log lately and serves nothing until it has',
  )
}

/** What a credential that is not found proves nothing in: it may have been made since. */
const UNCONFIRMED: ReadonlySet<Degradation | null> = new Set(['starting', 'stale', 'suspected', 'stopped'])
const UNCONFIRMED_RETRY_S = 5

/** Throws 503 while the end of the log is not confirmed: a key or session that is not found may exist. */
export const requireConfirmed = (live: Pick<LiveState, 'status'>): void => {
  requireState(live)
  if (!UNCONFIRMED.has(live.status().degradation)) return
  throw new GatewayError(
    'provider_unavailable',
    'this instance does not know this credential and cannot confirm the end of the log at the moment; try again',
    { status: 503, retryAfterS: UNCONFIRMED_RETRY_S },
  )
}

/** Throws 503 while no state is folded yet. */
export const requireState = (live: Pick<LiveState, 'status'>): void => {
  if (live.status().serves) return
  throw new GatewayError('provider_unavailable', 'this instance is still reading the log; try again', {
    status: 503,
    retryAfterS: 1,
  })
}

/** Throws 403 when the key lacks the scope. `*` covers all scopes. */
export const requireScope = (key: KeyEntry, scope: string): void => {
  if (!key.scopes.includes(scope) && !key.scopes.includes('*')) {
    throw new GatewayError('permission_error', `this key does not have the scope "${scope}"`)
  }
}

const unauthenticated = (message: string): GatewayError =>
  new GatewayError('authentication_error', message, { headers: { 'www-authenticate': 'Bearer' } })

const notValid = (): GatewayError => unauthenticated('the API key is not valid')

/** The one key in a header value; null when there is none, or more than one. */
const keyOf = (value: string, headerName: string): string | null => {
  let plain = value
  if (value.startsWith(BEARER) && value.charCodeAt(BEARER.length) !== SPACE) plain = value.slice(BEARER.length)
  else {
    const bearer = /^bearer +/i.exec(value)
    if (bearer === null && headerName.toLowerCase() === 'authorization') return null
    if (bearer !== null) plain = value.slice(bearer[0].length)
  }
  // Two header lines arrive joined by a comma; a key holds neither comma nor space.
  return KEY.test(plain) ? plain : null
}

const BEARER = 'Bearer '
const SPACE = 0x20
const KEY = /^[\x21-\x2b\x2d-\x7e]+$/
