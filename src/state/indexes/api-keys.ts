// Key digest -> active key: reads the table of keys, which is packed, and caches recent lookups.
import type { ApiKeyRow } from '../../domain/access/api-key.ts'
import { DigestCache } from '../../lib/collections/digest-cache.ts'
import { isoMs } from '../../lib/time/iso-time.ts'
import type { KeyEntry, KeyIndex, LiveState } from '../port.ts'

/** The fields that an entry needs. */
const NEEDED = ['id', 'tenant_id', 'scopes', 'status', 'expires_at', 'routing_policy_id'] as const
type NeededOfKey = Pick<ApiKeyRow, (typeof NEEDED)[number]>
const NAMES: ReadonlySet<string> = new Set(NEEDED)

/** An index that follows the live fold from now on. */
export const openKeyIndex = (live: Pick<LiveState, 'control' | 'subscribe' | 'refused'>): KeyIndex => {
  /** Holds existing keys only: unknown texts do not fill it. */
  const entries = new DigestCache<KeyEntry>()
  live.subscribe(({ changes, refused }) => {
    for (const { table, before, after } of changes) {
      if (table !== 'keys') continue
      if (before !== null) entries.delete((before as ApiKeyRow).digest)
      if (after !== null) entries.delete((after as ApiKeyRow).digest)
    }
    if (refused.length > 0) entries.clear()
  })
  const read: NeededOfKey = {
    id: '',
    tenant_id: '',
    scopes: [],
    status: 'revoked',
    expires_at: null,
    routing_policy_id: null,
  }
  const isUsable = ({ id, status }: NeededOfKey): boolean =>
    status === 'active' && (live.refused.size === 0 || !live.refused.has(id))
  return {
    lookup(digest) {
      const cached = entries.get(digest)
      if (cached !== null) return cached
      const keys = live.control.table('keys')
      const count = keys.readOne('digest', digest, NAMES, read as { [name: string]: unknown })
      const row = count > 1 ? keys.findRows('digest', digest).find(isUsable) : read
      if (count === 0 || row === undefined || !isUsable(row)) return null
      const entry = entryOf(row)
      entries.add(digest, entry)
      return entry
    },
    knows: (digest) =>
      live.control.table('keys').readOne('digest', digest, NAMES, read as { [name: string]: unknown }) > 0,
    isValid({ id }, atMs) {
      const row = live.control.table('keys').get(id)
      if (row === undefined || !isUsable(row)) return false
      return row.expires_at === null || expiryOf(row.expires_at) > atMs
    },
  }
}

const entryOf = ({ id, tenant_id, scopes, expires_at, routing_policy_id }: NeededOfKey): KeyEntry =>
  Object.freeze({
    id,
    tenantId: tenant_id,
    scopes: plain(scopes),
    expiresAtMs: expires_at === null ? null : expiryOf(expires_at),
    routingPolicyId: routing_policy_id,
  })

const plainLists = new WeakMap<readonly string[], readonly string[]>()

/**
 * Rows that share a list have a frozen one. A frozen list is much slower to search, at every request of the key, so it
 * is copied.
 */
const plain = (list: readonly string[]): readonly string[] => {
  if (!Object.isFrozen(list)) return [...list]
  let copy = plainLists.get(list)
  if (copy === undefined) {
    copy = [...list]
    plainLists.set(list, copy)
  }
  return copy
}

/** Unix milliseconds; a time that cannot be read has passed: such a key must not live for ever. */
const expiryOf = (text: string): number => {
  const usualMs = isoMs(text)
  const atMs = Number.isNaN(usualMs) ? Date.parse(text) : usualMs
  return Number.isNaN(atMs) ? 0 : atMs
}
