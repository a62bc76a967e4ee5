// The last use of each key, as observed by this instance since its start. Not recorded in the log: a use must cost next
// to nothing.

const RECENT_KEYS = 65_536

export interface LastUses {
  /** A key was accepted at this time (Unix ms); times only grow. */
  used(keyId: string, atMs: number): void
  /**
   * RFC 3339, or null: no use on this instance since its start is in memory. At least the last 65,536 used keys are, at
   * most twice as many; uses on other instances are not.
   */
  lastUsedAt(keyId: string): string | null
}

/**
 * Two generations: when the younger is full the elder is dropped, so that a key in use never is, and no use searches
 * for one to drop.
 */
export const lastUses = (recentKeys = RECENT_KEYS): LastUses => {
  let younger = new Map<string, number>()
  let elder = new Map<string, number>()
  return {
    used(keyId, atMs) {
      younger.set(keyId, atMs)
      if (younger.size < recentKeys) return
      elder = younger
      younger = new Map()
    },
    lastUsedAt(keyId) {
      const atMs = younger.get(keyId) ?? elder.get(keyId)
      return atMs === undefined ? null : new Date(atMs).toISOString()
    },
  }
}
