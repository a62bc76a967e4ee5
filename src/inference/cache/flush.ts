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
      return sameName(entry.keyId, target)
    case 'prefix':
    case 'semantic':
      return entry.mode === scope
  }
}

/** Beyond so many different covers the oldest is merged into a flush of everything below it. */
const MOST_FLUSHES = 4_096

/** What one flush covers, as a text that is the same for the same cover. */
const coverOf = (scope: FlushScope, tenantId: string | null, target: string | null): string =>
  `${scope}\n${tenantId ?? ''}\n${target?.toLowerCase() ?? ''}`

/** The flushes in force: of the same cover the newest alone counts. */
export class FlushBook {
  /** Cover -> height, the oldest flush first. */
  readonly #newest = new Map<string, number>()
  /** Entries below it are dead, whatever they are. */
  #floor = 0

  get size(): number {
    return this.#newest.size
  }

  /** `height`: of the decision, rising. */
  add({ scope, tenantId, target }: Flush, height: number): void {
    if (scope === 'all' && tenantId === null) {
      this.#floor = Math.max(this.#floor, height)
      this.#newest.clear()
      return
    }
    const cover = coverOf(scope, tenantId, target)
    this.#newest.delete(cover)
    this.#newest.set(cover, height)
    if (this.#newest.size <= MOST_FLUSHES) return
    const [[oldest, below]] = this.#newest as unknown as [[string, number]]
    this.#newest.delete(oldest)
    this.#floor = Math.max(this.#floor, below)
  }

  /** Whether an entry of a request that was admitted at this height is dead. */
  isDead(entry: EntrySubject, height: number): boolean {
    if (height < this.#floor) return true
    if (this.#newest.size === 0) return false
    const { tenantId, model, provider, endpoint, keyId, mode } = entry
    const isFlushed = (scope: FlushScope, target: string | null): boolean =>
      this.#isAbove(height, coverOf(scope, null, target)) || this.#isAbove(height, coverOf(scope, tenantId, target))
    return (
      this.#isAbove(height, coverOf('all', tenantId, null)) ||
      this.#isAbove(height, coverOf('tenant', tenantId, null)) ||
      isFlushed('model', model) ||
      isFlushed('provider', provider) ||
      isFlushed('key', keyId) ||
      (endpoint !== null && isFlushed('endpoint', endpoint)) ||
      (mode !== 'exact' && isFlushed(mode, null))
    )
  }

  #isAbove(height: number, cover: string): boolean {
    const flushed = this.#newest.get(cover)
    return flushed !== undefined && height < flushed
  }
}
