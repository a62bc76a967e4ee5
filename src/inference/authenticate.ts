// Station 1: who calls. Memory only: one digest, one look-up in the folded state.

import { sha256Hex } from '../lib/digest.ts'
import type { HeaderReader } from '../lib/inbound.ts'
import type { LastUses } from '../state/last-uses.ts'
import type { KeyEntry, KeyIndex, LiveState } from '../state/port.ts'
import { GatewayError } from '../wire/errors.ts'
import type { InferenceSettings } from './deps.ts'

export interface AuthenticateDeps {
  readonly live: LiveState
  readonly keys: KeyIndex
  readonly lastUses: Pick<LastUses, 'used'>
  readonly inference: Pick<InferenceSettings, 'authHeader' | 'minKeyLength' | 'maxStalenessMs'>
}

/** Longer is no key of ours: bounds what is hashed. */
const MAX_KEY_LENGTH = 512

/**
 * The caller's key, or 401. Nothing is cached: the index follows the log, so a revocation acts with its record.
 * All refusals read alike; a stranger learns nothing from them.
 */
export const authenticate = (headers: HeaderReader, deps: AuthenticateDeps, atMs: number): KeyEntry => {
  const { authHeader, minKeyLength, maxStalenessMs } = deps.inference
  const plain = keyOf(headers.get(authHeader), authHeader)
  if (plain === null) {
    throw unauthenticated(
      `send your API key as \`${authHeader === 'authorization' ? 'Authorization: Bearer' : `${authHeader}:`} <key>\``,
    )
  }
  if (plain.length < minKeyLength || plain.length > MAX_KEY_LENGTH) throw unauthenticated('the API key is not valid')
  if (maxStalenessMs !== null) requireFresh(deps.live, maxStalenessMs)
  const entry = deps.keys.lookup(digestOf(plain))
  if (entry === null) requireState(deps.live)
  if (entry === null || (entry.expiresAtMs !== null && entry.expiresAtMs <= atMs)) {
    throw unauthenticated('the API key is not valid')
  }
  deps.lastUses.used(entry.id, atMs)
  return entry
}

/** Throws 502 when the state that would be asked is older than that. */
export const requireFresh = (live: Pick<LiveState, 'status'>, maxStalenessMs: number): void => {
  if (live.status().staleMs <= maxStalenessMs) return
  throw new GatewayError(
    'provider_unavailable',
    'this instance has not confirmed the log lately and serves nothing until it has',
  )
}

/** Throws 503 while there is no state yet: what is not found in it may exist. */
export const requireState = (live: Pick<LiveState, 'status'>): void => {
  if (live.status().serves) return
  throw new GatewayError('provider_unavailable', 'this instance is still reading the log; try again', {
    status: 503,
    retryAfterS: 1,
  })
}

/** 403 when the key lacks the scope. `*` covers all. */
export const requireScope = (key: KeyEntry, scope: string): void => {
  if (!key.scopes.includes(scope) && !key.scopes.includes('*')) {
    throw new GatewayError('permission_error', `this key does not have the scope "${scope}"`)
  }
}

const unauthenticated = (message: string): GatewayError =>
  new GatewayError('authentication_error', message, { headers: { 'www-authenticate': 'Bearer' } })

/** The one key in a header value; null when there is none or more than one could be meant. */
const keyOf = (value: string | null, headerName: string): string | null => {
  if (value === null) return null
  let plain = value
  if (value.startsWith('Bearer ') && value.charCodeAt(7) !== SPACE) plain = value.slice(7)
  else {
    const bearer = /^bearer +/i.exec(value)
    if (bearer === null && headerName.toLowerCase() === 'authorization') return null
    if (bearer !== null) plain = value.slice(bearer[0].length)
  }
  // Two header lines arrive joined by a comma; a key holds neither comma nor space.
  return KEY.test(plain) ? plain : null
}

const MOST_DIGESTS = 1_024
let digests = new Map<string, string>()

/** The digest of a key, of the last ones from memory. Only the digest: whether the key is good is asked of the folded state each time. */
const digestOf = (plain: string): string => {
  const known = digests.get(plain)
  if (known !== undefined) return known
  const digest = sha256Hex(plain)
  if (digests.size >= MOST_DIGESTS) digests = new Map()
  digests.set(plain, digest)
  return digest
}

const SPACE = 0x20
const KEY = /^[\x21-\x2b\x2d-\x7e]+$/
