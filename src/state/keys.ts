// Key digest -> active key: reads the table of keys, which is packed, and keeps what was looked up lately.
import type { ApiKeyRow } from '../domain/api-key.ts'
import type { KeyEntry, KeyIndex, LiveState } from './port.ts'

const MAX_ENTRIES = 8_192
/** What an entry is made of, and the digest by which it is found. */
const NEEDED = ['id', 'tenant_id', 'scopes', 'status', 'digest', 'expires_at', 'routing_policy_id'] as const
type NeededOfKey = Pick<ApiKeyRow, (typeof NEEDED)[number]>
const NAMES: ReadonlySet<string> = new Set(NEEDED)

/** An index that follows the live fold from now on. */
export const openKeyIndex = (live: Pick<LiveState, 'control' | 'subscribe' | 'refused'>): KeyIndex => {
  /** By digest. Only of keys that are: strangers fill nothing. */
  const entries = new Map<string, KeyEntry>()
  live.subscribe(({ changes, refused }) => {
    for (const { table, before, after } of changes) {
      if (table !== 'keys') continue
      if (before !== null) entries.delete((before as ApiKeyRow).digest)
      if (after !== null) entries.delete((after as ApiKeyRow).digest)
    }
    if (refused.length > 0) entries.clear()
  })
  return {
    lookup(digest) {
      const known = entries.get(digest)
      if (known !== undefined) return known
      const found: readonly NeededOfKey[] = live.control.table('keys').findRows('digest', digest, NAMES)
      const row = found.find(({ id, status }) => status === 'active' && !live.refused.has(id))
      if (row === undefined) return null
      const entry = entryOf(row)
      if (entries.size === MAX_ENTRIES) entries.clear()
      entries.set(digest, entry)
      return entry
    },
  }
}

const entryOf = ({ id, tenant_id, scopes, expires_at, routing_policy_id }: NeededOfKey): KeyEntry =>
  Object.freeze({
    id,
    tenantId: tenant_id,
    scopes: Object.isFrozen(scopes) ? scopes : Object.freeze([...scopes]),
    expiresAtMs: expires_at === null ? null : expiryOf(expires_at),
    routingPolicyId: routing_policy_id,
  })

/** Unix milliseconds; a time that cannot be read has passed: such a key must not live for ever. */
const expiryOf = (text: string): number => {
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) ? 0 : atMs
}
