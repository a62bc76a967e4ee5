// Where entries are found and kept: the memory of this process, then Redis, with the same sealed bytes in both. What
// does not prove itself is a miss (`entry.ts`). Never throws and never takes longer than the deadline of Redis.
import type { Diagnostics } from '../../../lib/process/diagnostics.ts'
import type { EntrySubject, FlushBook } from '../flush.ts'
import {
  type EntryContent,
  type EntryFacts,
  type EntryKeys,
  type EntryMiss,
  MISSES,
  openEntry,
  packEntry,
  sealEntry,
} from './entry.ts'
import type { EntryView, MemoryStore, RemovedCounts } from './memory-store.ts'
import type { RedisStore } from './redis-store.ts'

export interface CacheStoreDeps {
  /** Made when the first entry is stored, since it takes its memory from then on. */
  readonly makeMemory: () => MemoryStore
  /** Null: entries are of this process alone. */
  readonly redis: Pick<RedisStore, 'get' | 'put' | 'remove' | 'removeMatching' | 'count' | 'problem'> | null
  readonly keys: EntryKeys
  readonly flushes: FlushBook
  readonly maxEntryBytes: number
  readonly nowMs: () => number
  readonly diagnostics: Pick<Diagnostics, 'warn'>
}

/** `unavailable`: Redis did not reply, so that there may be an entry. */
export type Found =
  | {
      readonly facts: EntryFacts
      readonly content: EntryContent
      readonly from: 'memory' | 'redis'
      readonly miss: null
    }
  | { readonly miss: 'absent' | 'unavailable' | EntryMiss }

const ABSENT: Found = { miss: 'absent' }

export class CacheStore {
  #memory: MemoryStore | null = null
  #unavailable = 0
  readonly #refused = new Map<EntryMiss, number>(MISSES.map((miss) => [miss, 0]))

  constructor(private readonly deps: CacheStoreDeps) {}

  /** Entries in memory, their bytes, and how many had to go for others. */
  get inMemory(): Pick<MemoryStore, 'size' | 'bytes' | 'evicted'> {
    return this.#memory ?? { size: 0, bytes: 0, evicted: 0 }
  }

  /** Look-ups that Redis did not answer. */
  get unavailable(): number {
    return this.#unavailable
  }

  /** Entries that were found and could not be served, by reason. */
  get refused(): ReadonlyMap<EntryMiss, number> {
    return this.#refused
  }

  /** The entry of a tenant under a key; a promise only where Redis is asked. */
  find(tenantId: string, key: string): Found | Promise<Found> {
    const bytes = this.#memory?.get(key) ?? null
    if (bytes !== null) {
      const found = this.#opened(tenantId, key, bytes, 'memory')
      if (found.miss === null) return found
      // What another instance stored since may be sound.
      if (found.miss !== 'foreign') this.#memory?.remove(key)
    }
    return this.deps.redis === null ? ABSENT : this.#findInRedis(tenantId, key, this.deps.redis)
  }

  /** The key of the entry that keeps the answer of this conversation; null: none is known here. */
  keeperOf(key: string): string | null {
    return this.#memory?.pointed(key) ?? null
  }

  /** Counts a hit of an entry in memory. */
  hit(key: string): void {
    this.#memory?.hit(key)
  }

  /**
   * Seals and stores an answer, with pointers from the conversations whose answers it keeps. Resolves with whether it
   * is stored here; never rejects.
   */
  async store(key: string, facts: EntryFacts, content: EntryContent): Promise<boolean> {
    const { keys, redis, maxEntryBytes, nowMs, flushes, diagnostics } = this.deps
    const plain = packEntry(content, maxEntryBytes)
    if (plain === null) return false
    let bytes: Uint8Array
    try {
      bytes = await sealEntry(keys, key, facts, plain)
    } catch (error) {
      diagnostics.warn('cache_entry_not_sealed', { tenant_id: facts.tenantId, error })
      return false
    }
    // Sealing may wait for the tenant's first key: a flush may have come meanwhile.
    if (flushes.isDead(facts, facts.height)) return false
    const stored = this.#remember(key, facts, bytes, content)
    void redis?.put(facts.tenantId, key, bytes, facts.expiresMs - nowMs())
    return stored
  }

  /** Removes one entry everywhere. */
  async remove(tenantId: string, key: string): Promise<void> {
    this.#memory?.remove(key)
    await this.deps.redis?.remove(tenantId, key)
  }

  /** Removes from memory what a request filled. */
  removeOrigin(originId: string): number {
    return this.#memory?.removeOrigin(originId) ?? 0
  }

  /** Counts what a flush covers here and in Redis, and removes it unless it is a dry run. Null: Redis is away. */
  async flush(
    tenantId: string | null,
    matches: (entry: EntrySubject) => boolean,
    isDryRun: boolean,
  ): Promise<{ readonly memory: RemovedCounts; readonly redis: RemovedCounts | null }> {
    const memory = this.#memory?.removeMatching(matches, isDryRun) ?? { exact: 0, prefix: 0, semantic: 0 }
    const redis = (await this.deps.redis?.removeMatching(tenantId, matches, isDryRun)) ?? null
    return { memory, redis }
  }

  /** Entries in memory, the most recently used first. */
  list(matches: (entry: EntrySubject) => boolean, limit: number): readonly EntryView[] {
    return this.#memory?.list(matches, limit) ?? []
  }

  async #findInRedis(tenantId: string, key: string, redis: Pick<RedisStore, 'get'>): Promise<Found> {
    const bytes = await redis.get(tenantId, key)
    if (bytes === 'unavailable') {
      this.#unavailable += 1
      return { miss: 'unavailable' }
    }
    if (bytes === null) return ABSENT
    const found = this.#opened(tenantId, key, bytes, 'redis')
    if (found.miss === null) this.#remember(key, found.facts, bytes, found.content)
    return found
  }

  #remember(key: string, facts: EntryFacts, bytes: Uint8Array, { turns }: EntryContent): boolean {
    this.#memory ??= this.deps.makeMemory()
    if (!this.#memory.put(key, facts, bytes)) return false
    for (const turn of turns) this.#memory.point(turn.key, facts, key)
    return true
  }

  #opened(tenantId: string, key: string, bytes: Uint8Array, from: 'memory' | 'redis'): Found {
    const { keys, nowMs, flushes } = this.deps
    const opened = openEntry(keys, key, bytes, { tenantId, nowMs: nowMs(), flushes })
    if (opened.miss === null) return { ...opened, from }
    this.#refused.set(opened.miss, this.#refused.get(opened.miss)! + 1)
    return opened
  }
}
