// What a flush of the cache covers, and which entries are dead by one. Pure.
import type { CacheMode } from './rule.ts'

/** What a flush may name. */
export const FLUSH_SCOPES = ['all', 'tenant', 'model', 'provider', 'endpoint', 'key', 'prefix', 'semantic'] as const
export type FlushScope = (typeof FLUSH_SCOPES)[number]

/** The facts of an entry by which flushes and reads choose. */
export interface EntrySubject {
  readonly tenantId: string
  readonly mode: CacheMode
  /** Registry name. */
  readonly model: string
  readonly provider: string
  /** Slug of the endpoint scope. */
  readonly endpoint: string | null
  /** API key whose request filled it. */
  readonly keyId: string
}

export interface Flush {
  readonly scope: FlushScope
  /** Null: of every tenant. */
  readonly tenantId: string | null
  /** The model, provider, endpoint scope or key; null for the other scopes. */
  readonly target: string | null
}

const sameName = (left: string | null, right: string | null): boolean =>
  left !== null && right !== null && left.toLowerCase() === right.toLowerCase()

/** Whether a flush covers an entry. */
export const isCovered = ({ scope, tenantId, target }: Flush, entry: EntrySubject): boolean => {
  if (tenantId !== null && tenantId !== entry.tenantId) return false
  switch (scope) {
    case 'all':
      return true
    case 'tenant':
      return tenantId !== null
    case 'model':
      return sameName(entry.model, target)
    case 'provider':
      return sameName(entry.provider, target)
    case 'endpoint':
      return sameName(entry.endpoint, target)
    case 'key':
      return entry.keyId === target
    case 'prefix':
    case 'semantic':
      return entry.mode === scope
  }
}

/** Beyond so many different targets the oldest are merged into one flush of everything below them. */
const MOST_FLUSHES = 4_096

/** The flushes in force, by what they cover: of the same cover the newest alone counts. */
export class FlushBook {
  readonly #newest = new Map<string, { readonly flush: Flush; readonly height: number }>()
  /** Entries below it are dead, whatever they are. */
  #floor = 0

  get size(): number {
    return this.#newest.size
  }

  /** `height`: of the decision, rising. */
  add(flush: Flush, height: number): void {
    if (flush.scope === 'all' && flush.tenantId === null) {
      this.#floor = Math.max(this.#floor, height)
      this.#newest.clear()
      return
    }
    const cover = JSON.stringify([flush.scope, flush.tenantId, flush.target?.toLowerCase() ?? null])
    this.#newest.delete(cover)
    this.#newest.set(cover, { flush, height })
    if (this.#newest.size <= MOST_FLUSHES) return
    const [[oldest, { height: below }]] = this.#newest as unknown as [[string, { height: number }]]
    this.#newest.delete(oldest)
    this.#floor = Math.max(this.#floor, below)
  }

  /** Whether an entry of a request that was admitted at this height is dead. */
  isDead(entry: EntrySubject, height: number): boolean {
    if (height < this.#floor) return true
    for (const { flush, height: flushed } of this.#newest.values())
      if (height < flushed && isCovered(flush, entry)) return true
    return false
  }
}
