// Invalid credentials, and how the valid ones are sent.
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'
import { keyIssued } from '../../../domain/world.ts'
import { type Furnished, OWN } from './furnished.ts'
import { ADMIN_KEY, type CallOptions } from './gateway.ts'

export const withKey = (key: string | null): CallOptions => ({ key })
export const withHeaders = (headers: Record<string, string>): CallOptions => ({ key: null, headers })

/** Invalid credentials, by what is wrong with them. */
export const nobodies = ({ gateway, cookie }: Furnished): readonly (readonly [string, CallOptions])[] => {
  const issued = (id: string, fields: object): string => {
    const key = `gw_live_of_nobody_${id}`
    gateway.apply([keyIssued(id, OWN, { scopes: ['*'], digest: sha256Hex(key), ...fields })])
    return key
  }
  const expired = issued('key_expired', { expires_at: new Date(gateway.nowMs).toISOString() })
  const revoked = issued('key_revoked', {})
  gateway.apply([{ type: 'api_key.revoked', data: { id: 'key_revoked' } }])
  const rotated = issued('key_rotated', {})
  gateway.apply([
    { type: 'api_key.rotated', data: { id: 'key_rotated', digest: sha256Hex('gw_live_its_next_secret') } },
  ])
  const token = `gateway_session=${'A'.repeat(43)}`
  return [
    ['no key', withKey(null)],
    ['a key that is too short', withKey('gw_live_short')],
    ['a key that nobody has', withKey('gw_live_nobody_has_this_key')],
    ['the digest of a key', withKey(sha256Hex(ADMIN_KEY))],
    ['a key in another case', withKey(ADMIN_KEY.toUpperCase())],
    ['an expired key', withKey(expired)],
    ['a revoked key', withKey(revoked)],
    ['the secret before a rotation', withKey(rotated)],
    ['two keys', withKey(`${ADMIN_KEY}, Bearer ${ADMIN_KEY}`)],
    ['another scheme', withHeaders({ authorization: `Basic ${ADMIN_KEY}` })],
    ['a key without a scheme', withHeaders({ authorization: ADMIN_KEY })],
    ['a session that nobody has', withHeaders({ cookie: token })],
    ['two sessions', withHeaders({ cookie: `${cookie}; ${token}` })],
    ['a bad key beside a session', withHeaders({ authorization: 'Bearer gw_live_nobody_has_this', cookie: cookie })],
  ]
}
