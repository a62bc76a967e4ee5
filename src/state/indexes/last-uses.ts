// When each key was last used, as this instance saw it since its start. Nothing is written for it: a use must cost next to nothing.

const RECENT_KEYS = 65_536

export interface LastUses {
  /** A key was accepted at this time (Unix ms); times only grow. */
  used(keyId: string, atMs: number): void
  /**
   * RFC 3339, or null: not used on this instance since it started, as far as it remembers. It remembers the last 65,536 keys that were used at least,
   * twice as many at most; uses on other instances are not known here.
   */
  lastUsedAt(keyId: string): string | null
}

/** Two generations: when the younger is full the elder is dropped, so that a key in use never is and no use looks for one to drop. */
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
