// Entries in Redis, for all instances together. Each call has the deadline of the client: a slow or absent Redis costs
// a hit, never a request. Nothing that Redis holds is trusted: `openEntry` proves it.
import { isRefusal, type Redis, RedisUnavailable } from '../../../lib/redis.ts'
import type { EntrySubject } from '../flush.ts'
import { MOST_HEAD_BYTES, readFacts } from './entry.ts'
import type { RemovedCounts } from './memory-store.ts'

const PREFIX = 'gatelog:cache:'
const SCANNED_AT_ONCE = 200
/** A flush looks at so many keys at most. Entries that it does not reach are dead by their height. */
const MOST_SCANNED = 200_000

export type RedisForEntries = Pick<Redis, 'problem' | 'call' | 'bytes' | 'storeBytes'>

/** `unavailable`: Redis did not reply in time, or refused. */
export type RedisRead = Uint8Array | null | 'unavailable'

export interface RedisStoreDeps {
  readonly redis: RedisForEntries
  readonly maxEntryBytes: number
}

export class RedisStore {
  #refused = false

  constructor(private readonly deps: RedisStoreDeps) {}

  /** Null: in use. Else why entries are not shared. */
  get problem(): string | null {
    return this.deps.redis.problem ?? (this.#refused ? 'Redis refuses to store' : null)
  }

  /** The bytes under a key. Never rejects. */
  async get(tenantId: string, key: string): Promise<RedisRead> {
    return this.#tried<RedisRead>('unavailable', async () => {
      const bytes = await this.deps.redis.bytes(nameOf(tenantId, key))
      return bytes !== null && bytes.length > this.deps.maxEntryBytes + MOST_HEAD_BYTES ? null : bytes
    })
  }

  /** False: it is not stored there. Never rejects. */
  async put(tenantId: string, key: string, bytes: Uint8Array, ttlMs: number): Promise<boolean> {
    if (ttlMs < 1 || bytes.length > this.deps.maxEntryBytes) return false
    return this.#tried(false, async () => {
      await this.deps.redis.storeBytes(nameOf(tenantId, key), bytes, Math.floor(ttlMs))
      return true
    })
  }

  /** Never rejects. */
  async remove(tenantId: string, key: string): Promise<boolean> {
    return this.#tried(false, async () => (await this.deps.redis.call('UNLINK', [nameOf(tenantId, key)])) === 1)
  }

  /**
   * Counts the entries that match, by what they say of themselves, and removes them unless it is a dry run. `tenantId`:
   * of one tenant only. Null when Redis does not reply in time: what is counted until then is not known to be all.
   */
  async removeMatching(
    tenantId: string | null,
    matches: (entry: EntrySubject) => boolean,
    isDryRun: boolean,
  ): Promise<RemovedCounts | null> {
    return this.#tried<RemovedCounts | null>(null, async () => {
      const removed = { exact: 0, prefix: 0, semantic: 0 }
      await this.#scan(tenantId, async (names) => {
        const found: string[] = []
        for (const [name, subject] of await this.#subjects(names)) {
          if (!matches(subject)) continue
          removed[subject.mode] += 1
          found.push(name)
        }
        if (!isDryRun && found.length > 0) await this.deps.redis.call('UNLINK', found)
      })
      return removed
    })
  }

  /** Number of entries of all tenants; null when Redis does not reply in time. */
  async count(): Promise<number | null> {
    return this.#tried<number | null>(null, async () => {
      let count = 0
      await this.#scan(null, async (names) => {
        count += names.length
      })
      return count
    })
  }

  async #scan(tenantId: string | null, take: (names: readonly string[]) => Promise<void>): Promise<void> {
    const pattern = tenantId === null ? `${PREFIX}*` : `${PREFIX}${escaped(tenantId)}:*`
    let cursor = '0'
    let scanned = 0
    do {
      const args = [cursor, 'MATCH', pattern, 'COUNT', String(SCANNED_AT_ONCE)]
      const reply = await this.deps.redis.call('SCAN', args)
      if (!isPage(reply)) throw new RedisUnavailable('Redis answered something else than a page of keys')
      cursor = reply[0]
      scanned += SCANNED_AT_ONCE
      if (reply[1].length > 0) await take(reply[1])
    } while (cursor !== '0' && scanned < MOST_SCANNED)
  }

  /** The line of facts of each entry; it is plain text in front of the seal. */
  async #subjects(names: readonly string[]): Promise<(readonly [string, EntrySubject])[]> {
    const heads = await Promise.all(
      names.map((name) => this.deps.redis.call('GETRANGE', [name, '0', String(MOST_HEAD_BYTES - 1)])),
    )
    return heads.flatMap((head, i) => {
      const subject = typeof head === 'string' ? readFacts(Buffer.from(head)) : null
      return subject === null ? [] : [[names[i]!, subject] as const]
    })
  }

  async #tried<Result>(otherwise: Result, work: () => Promise<Result>): Promise<Result> {
    try {
      const result = await work()
      this.#refused = false
      return result
    } catch (error) {
      // `problem` reports it, and the next call tries again.
      if (isRefusal(error)) this.#refused = true
      return otherwise
    }
  }
}

const nameOf = (tenantId: string, key: string): string => `${PREFIX}${tenantId}:${key}`
/** Ids hold none of these; a pattern must not match more than one tenant in any case. */
const escaped = (text: string): string => text.replace(/[\\*?[\]]/g, '\\$&')

const isPage = (reply: unknown): reply is [string, string[]] =>
  Array.isArray(reply) && typeof reply[0] === 'string' && Array.isArray(reply[1])
