// Captured content of a tenant's requests is sealed under data keys of that tenant, which are made with the first use.
// Erasing them erases the content in every copy. The subject of a key contains the number of erasures of the tenant's
// content: content that was sealed before an erasure is never readable after it.
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { LiveState } from '../port.ts'
import type { DataKeyStore } from './store.ts'

export interface ContentKeys {
  /**
   * `about`: the owner of the content, e.g. the id of a request; content that was sealed for one opens for no other.
   */
  seal(tenantId: string, about: string, content: string): Promise<{ keyId: string; sealed: string }>
  /** Null when it was erased. */
  open(tenantId: string, about: string, keyId: string, sealed: string): string | null
  /** As `seal`, for content that is stored as bytes. */
  sealBytes(tenantId: string, about: string, content: Uint8Array): Promise<{ keyId: string; sealed: Uint8Array }>
  /** Null when it was erased, or when the key is not of the tenant. Throws for bytes that were not sealed so. */
  openBytes(tenantId: string, about: string, keyId: string, sealed: Uint8Array): Uint8Array | null
  /**
   * Erases the keys of a tenant whose deletion, or erasure of content, is decided; returns how many. The sweep erases
   * those that could not be erased now.
   */
  erase(tenantId: string): Promise<number>
}

export interface ContentKeyDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly dataKeys: Pick<
    DataKeyStore,
    'make' | 'sealUnder' | 'open' | 'sealBytesUnder' | 'openBytes' | 'erase' | 'subjects' | 'followed'
  >
  readonly nowMs: () => number
  readonly diagnostics: Diagnostics
}

/** Prefix of the subjects of all keys of content. */
export const CONTENT_SUBJECTS = 'content:'
/** A key of AES-GCM with random nonces is good for 2^32 texts: a month of 1,600 a second. */
const KEY_SEALS_MS = 30 * 86_400_000

const subjectOf = (tenantId: string, erasures: number): string => `${CONTENT_SUBJECTS}${tenantId}:${erasures}`

/** Whether the content under a key of this subject may still be opened. */
export const contentKeyIsUsed = (control: LiveState['control'], subject: string): boolean => {
  const at = subject.lastIndexOf(':')
  const tenant = control.table('tenants').get(subject.slice(CONTENT_SUBJECTS.length, at))
  return tenant !== undefined && subject === subjectOf(tenant.id, tenant.content_erasures ?? 0)
}

export const createContentKeys = ({ live, dataKeys, nowMs, diagnostics }: ContentKeyDeps): ContentKeys => {
  /** The key that seals now, by tenant. */
  const sealing = new Map<string, { subject: string; untilMs: number; keyId: Promise<string> }>()
  const find = async (subject: string): Promise<string> => {
    const keys = dataKeys.subjects(subject).filter((key) => key.subject === subject)
    const young = keys.find(({ knownSinceMs }) => nowMs() - knownSinceMs < KEY_SEALS_MS)
    return young?.keyId ?? dataKeys.make(subject)
  }
  const keyOf = (tenantId: string, subject: string): Promise<string> => {
    const now = sealing.get(tenantId)
    if (now?.subject === subject && nowMs() < now.untilMs) return now.keyId
    const keyId = find(subject)
    keyId.catch(() => sealing.delete(tenantId)) // the caller that seals gets the error
    sealing.set(tenantId, { subject, untilMs: nowMs() + KEY_SEALS_MS, keyId })
    return keyId
  }
  const boundTo = (tenantId: string, about: string): string => JSON.stringify([tenantId, about])
  const sealingKey = (tenantId: string): Promise<string> => {
    const tenant = live.control.table('tenants').get(tenantId)
    return keyOf(tenantId, subjectOf(tenantId, tenant?.content_erasures ?? 0))
  }
  return {
    async seal(tenantId, about, content) {
      const keyId = await sealingKey(tenantId)
      return { keyId, sealed: dataKeys.sealUnder(keyId, boundTo(tenantId, about), content) }
    },
    async sealBytes(tenantId, about, content) {
      const keyId = await sealingKey(tenantId)
      return { keyId, sealed: dataKeys.sealBytesUnder(keyId, boundTo(tenantId, about), content) }
    },
    openBytes: (tenantId, about, keyId, sealed) => dataKeys.openBytes(boundTo(tenantId, about), keyId, sealed),
    open: (tenantId, about, keyId, sealed) => dataKeys.open(boundTo(tenantId, about), keyId, sealed),
    async erase(tenantId) {
      sealing.delete(tenantId)
      try {
        await dataKeys.followed() // the keys that other instances made before the decision are in it
      } catch (error) {
        diagnostics.warn('content_keys_not_read', { tenant_id: tenantId, error })
      }
      const old = dataKeys
        .subjects(`${CONTENT_SUBJECTS}${tenantId}:`)
        .filter(({ subject }) => !contentKeyIsUsed(live.control, subject))
      for (const { keyId } of old) await dataKeys.erase(keyId)
      return old.length
    },
  }
}
