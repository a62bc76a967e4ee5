// Upstreams that are not called because their address is private: an operator has to permit them.
import type { Diagnostics } from '../../lib/process/diagnostics.ts'

export interface EgressWatch {
  /** A call to this host was refused. */
  blocked(host: string): void
  /** For `/ready`; null while none was refused lately. */
  problem(): string | null
}

const MOST_HOSTS = 100
/** A host that was not called for so long may be gone. */
const REMEMBERED_MS = 10 * 60_000
const MEND = 'set egress.allow_private'

export const watchEgress = (diagnostics: Diagnostics, nowMs: () => number): EgressWatch => {
  const lastMs = new Map<string, number>()
  const forget = () => {
    for (const [host, atMs] of lastMs) if (nowMs() - atMs > REMEMBERED_MS) lastMs.delete(host)
  }
  return {
    blocked(host) {
      forget()
      if (!lastMs.has(host)) {
        if (lastMs.size >= MOST_HOSTS) return
        diagnostics.warn('upstream_blocked', { host, why: 'its address is private', mend: MEND })
      }
      lastMs.set(host, nowMs())
    },
    problem() {
      forget()
      const { size } = lastMs
      if (size === 0) return null
      const what = size === 1 ? 'upstream has a private address and is' : 'upstreams have private addresses and are'
      return `${size} ${what} not called: ${MEND}`
    },
  }
}
