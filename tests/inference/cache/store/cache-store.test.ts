import { describe, expect, test } from 'bun:test'
import { FlushBook } from '../../../../src/inference/cache/flush.ts'
import { CacheStore, type CacheStoreDeps } from '../../../../src/inference/cache/store/cache-store.ts'
import type { EntryContent, EntryFacts } from '../../../../src/inference/cache/store/entry.ts'
import { MemoryStore } from '../../../../src/inference/cache/store/memory-store.ts'
import type { RedisRead } from '../../../../src/inference/cache/store/redis-store.ts'
import { CONTENT, FACTS, keyOf, NOW_MS, TestKeys } from './stored-entry.ts'

/** Redis as far as the store knows it. */
class Shared {
  readonly entries = new Map<string, Uint8Array>()
  problem: string | null = null
  puts = Promise.withResolvers<void>()

  async get(tenantId: string, key: string): Promise<RedisRead> {
    return this.problem === null ? (this.entries.get(`${tenantId}:${key}`) ?? null) : 'unavailable'
  }
  async put(tenantId: string, key: string, bytes: Uint8Array): Promise<boolean> {
    this.entries.set(`${tenantId}:${key}`, bytes)
    this.puts.resolve()
    return true
  }
  async remove(tenantId: string, key: string): Promise<boolean> {
    return this.entries.delete(`${tenantId}:${key}`)
  }
  async removeMatching() {
    return this.problem === null ? { exact: this.entries.size, prefix: 0, semantic: 0 } : null
  }
  async count(): Promise<number> {
    return this.entries.size
  }
}

const open = (more: Partial<CacheStoreDeps> = {}) => {
  const warned: string[] = []
  const deps: CacheStoreDeps = {
    makeMemory: () => new MemoryStore({ maxBytes: 1024 * 1024, maxEntryBytes: 65_536, nowMs: () => NOW_MS }),
    redis: null,
    keys: new TestKeys(),
    flushes: new FlushBook(),
    maxEntryBytes: 65_536,
    nowMs: () => NOW_MS,
    diagnostics: { warn: (name) => warned.push(name) },
    ...more,
  }
  return { store: new CacheStore(deps), warned, deps }
}
const KEY = keyOf(1)
const FLUSH = { scope: 'all', tenantId: null, target: null } as const

describe('the store of entries', () => {
  test('takes no memory, and no time, before the first entry', async () => {
    let made = 0
    const { store } = open({
      makeMemory: () => {
        made += 1
        return new MemoryStore({ maxBytes: 65_536, maxEntryBytes: 65_536, nowMs: () => NOW_MS })
      },
    })
    expect(store.find('ten_a', KEY)).toEqual({ miss: 'absent' })
    expect([made, store.inMemory.size, store.list(() => true, 5)]).toEqual([0, 0, []])
    await store.store(KEY, FACTS, CONTENT)
    expect(made).toBe(1)
  })

  test('finds at once what it stored, for its tenant alone', async () => {
    const { store } = open()
    expect(await store.store(KEY, FACTS, CONTENT)).toBe(true)
    expect(store.find('ten_a', KEY)).toEqual({ facts: FACTS, content: CONTENT, from: 'memory', miss: null })
    expect(store.find('ten_b', KEY)).toEqual({ miss: 'absent' })
    expect(store.refused.get('foreign')).toBe(1)
    expect(store.inMemory.size).toBe(1)
  })

  test('another instance finds it in Redis, and then in its own memory', async () => {
    const redis = new Shared()
    const keys = new TestKeys()
    const [here, there] = [open({ redis, keys }).store, open({ redis, keys }).store]
    await here.store(KEY, FACTS, CONTENT)
    await redis.puts.promise
    expect(await there.find('ten_a', KEY)).toMatchObject({ from: 'redis', content: CONTENT })
    expect(there.find('ten_a', KEY)).toMatchObject({ from: 'memory' })
  })

  test('a Redis that is away is a miss that is counted, and hides nothing of what is in memory', async () => {
    const redis = new Shared()
    const { store } = open({ redis })
    await store.store(KEY, FACTS, CONTENT)
    redis.problem = 'away'
    expect(store.find('ten_a', KEY)).toMatchObject({ miss: null })
    expect(await store.find('ten_a', keyOf(2))).toEqual({ miss: 'unavailable' })
    expect(store.unavailable).toBe(1)
    expect(await store.flush(null, () => true, false)).toMatchObject({ memory: { exact: 1 }, redis: null })
  })

  test('a forged value in Redis is never served and never kept', async () => {
    const redis = new Shared()
    const { store } = open({ redis })
    await store.store(keyOf(2), FACTS, CONTENT)
    redis.entries.set(`ten_a:${KEY}`, redis.entries.get(`ten_a:${keyOf(2)}`)!)
    expect(await store.find('ten_a', KEY)).toEqual({ miss: 'forged' })
    expect([store.refused.get('forged'), store.inMemory.size]).toEqual([1, 1])
  })

  test('after a flush nothing older is found, nor what is stored later for a request that was admitted before', async () => {
    const redis = new Shared()
    const { store, deps } = open({ redis })
    await store.store(KEY, FACTS, CONTENT)
    deps.flushes.add(FLUSH, FACTS.height + 1)
    expect(await store.find('ten_a', KEY)).toEqual({ miss: 'flushed' })
    expect(await store.store(KEY, FACTS, CONTENT)).toBe(false)
    expect(store.inMemory.size).toBe(0)
    expect(await store.store(KEY, { ...FACTS, height: FACTS.height + 1 }, CONTENT)).toBe(true)
    expect(store.find('ten_a', KEY)).toMatchObject({ miss: null })
  })

  test('a flush that comes while an entry is sealed wins', async () => {
    const keys = new TestKeys()
    const sealing = Promise.withResolvers<void>()
    const slow = {
      sealBytes: async (...args: Parameters<TestKeys['sealBytes']>) => {
        await sealing.promise
        return keys.sealBytes(...args)
      },
      openBytes: keys.openBytes.bind(keys),
    }
    const { store, deps } = open({ keys: slow })
    const storing = store.store(KEY, FACTS, CONTENT)
    deps.flushes.add(FLUSH, FACTS.height + 1)
    sealing.resolve()
    expect(await storing).toBe(false)
    expect(store.inMemory.size).toBe(0)
  })

  test('an erasure of the content makes its entries misses', async () => {
    const keys = new TestKeys()
    const { store } = open({ keys })
    await store.store(KEY, FACTS, CONTENT)
    keys.erase('ten_a')
    expect(store.find('ten_a', KEY)).toEqual({ miss: 'absent' })
    expect([store.refused.get('erased'), store.inMemory.size]).toEqual([1, 0])
  })

  test('without a content key nothing is stored, and nothing fails', async () => {
    const failing = { sealBytes: () => Promise.reject(new Error('no log')), openBytes: () => null }
    const { store, warned } = open({ keys: failing })
    expect(await store.store(KEY, FACTS, CONTENT)).toBe(false)
    expect(warned).toEqual(['cache_entry_not_sealed'])
  })

  test('the answer of a shorter conversation is found through the longer one that keeps it', async () => {
    const { store } = open()
    const { turns: _, ...answer } = CONTENT
    const facts: EntryFacts = { ...FACTS, mode: 'prefix' }
    const content: EntryContent = { ...CONTENT, turns: [{ key: keyOf(7), facts, answer }] }
    await store.store(KEY, facts, content)
    expect(store.find('ten_a', keyOf(7))).toEqual({ miss: 'absent' })
    expect(store.keeperOf(keyOf(7))).toBe(KEY)
    expect(store.find('ten_a', KEY)).toMatchObject({ content: { turns: [{ key: keyOf(7), answer }] } })
    await store.remove('ten_a', KEY)
    expect(store.find('ten_a', KEY)).toEqual({ miss: 'absent' })
  })

  test('an answer above the bound of an entry is not stored', async () => {
    const { store } = open({ maxEntryBytes: 5_000 })
    const random = Buffer.from(crypto.getRandomValues(new Uint8Array(5_000))).toString('base64')
    expect(await store.store(KEY, FACTS, { ...CONTENT, answer: { form: 'whole', json: random } })).toBe(false)
  })
})
