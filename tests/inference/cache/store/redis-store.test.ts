// Entries in a real Redis: binary, expiring, of one tenant, and never in the way.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { RedisClient } from 'bun'
import { FlushBook } from '../../../../src/inference/cache/flush.ts'
import { openEntry } from '../../../../src/inference/cache/store/entry.ts'
import { RedisStore } from '../../../../src/inference/cache/store/redis-store.ts'
import { openRedis, type Redis } from '../../../../src/lib/redis.ts'
import { startRedis } from '../../../services/redis.ts'
import { startTcpProxy, type TcpProxy } from '../../../services/tcp-proxy.ts'
import { CONTENT, FACTS, keyOf, NOW_MS, sealed, TestKeys } from './stored-entry.ts'

let server: Awaited<ReturnType<typeof startRedis>>
let proxy: TcpProxy
let direct: RedisClient
const open: Redis[] = []

beforeAll(async () => {
  server = await startRedis()
  const through = await startTcpProxy()
  through.to = Number(new URL(server.url).port)
  proxy = through
  direct = new RedisClient(server.url)
})
afterEach(async () => {
  proxy.dropAnswers = false
  for (const redis of open.splice(0)) redis.close()
  await direct.send('FLUSHALL', [])
})
afterAll(async () => {
  direct.close()
  await proxy.stop()
  await server.stop()
})

/** Patient, unless lateness is tested: a machine that runs many tests is late itself. */
const store = async (answerMs = 5_000, maxEntryBytes = 256 * 1024): Promise<RedisStore> => {
  const redis = openRedis(`redis://127.0.0.1:${proxy.port}`, [], answerMs)
  open.push(redis)
  await redis.reached(5_000)
  return new RedisStore({ redis, maxEntryBytes })
}
const LONG_MS = 60_000
const every = Uint8Array.from({ length: 1_024 }, (_, i) => i % 256)

describe('entries in Redis', () => {
  test('come back byte by byte, for one tenant and one key', async () => {
    const redis = await store()
    expect(await redis.put('ten_a', keyOf(1), every, LONG_MS)).toBe(true)
    expect(await redis.get('ten_a', keyOf(1))).toEqual(every)
    expect(await redis.get('ten_b', keyOf(1))).toBeNull()
    expect(await redis.get('ten_a', keyOf(2))).toBeNull()
    expect(await redis.count()).toBe(1)
    expect(await redis.remove('ten_a', keyOf(1))).toBe(true)
    expect(await redis.get('ten_a', keyOf(1))).toBeNull()
  })

  test('expire there by themselves, and not at all without time', async () => {
    const redis = await store()
    await redis.put('ten_a', keyOf(1), every, 1_234.9)
    const [name] = (await direct.send('KEYS', ['*'])) as string[]
    const leftMs = Number(await direct.send('PTTL', [name!]))
    expect(leftMs).toBeGreaterThan(0)
    expect(leftMs).toBeLessThanOrEqual(1_234)
    for (const ttlMs of [0, -5, Number.NaN]) expect(await redis.put('ten_a', keyOf(2), every, ttlMs)).toBe(false)
    expect(await redis.count()).toBe(1)
  })

  test('above their bound are neither written nor read', async () => {
    const redis = await store(5_000, 1_000)
    expect(await redis.put('ten_a', keyOf(1), every, LONG_MS)).toBe(false)
    await redis.put('ten_a', keyOf(1), every.subarray(0, 900), LONG_MS)
    const [name] = (await direct.send('KEYS', ['*'])) as string[]
    await direct.set(name!, 'x'.repeat(10_000))
    expect(await redis.get('ten_a', keyOf(1))).toBeNull()
  })

  test('that another party put there are misses', async () => {
    const redis = await store()
    const keys = new TestKeys()
    const names = ['ten_a', 'ten_b'].map((tenant) => `gatelog:cache:${tenant}:${keyOf(1)}`)
    await redis.put('ten_a', keyOf(1), await sealed(keys, keyOf(1)), LONG_MS)
    await direct.send('COPY', [names[0]!, names[1]!])
    const missFor = async (tenantId: string) => {
      const bytes = (await redis.get(tenantId, keyOf(1))) as Uint8Array
      return openEntry(keys, keyOf(1), bytes, { tenantId, nowMs: NOW_MS, flushes: new FlushBook() }).miss
    }
    expect(await missFor('ten_a')).toBeNull()
    expect(await missFor('ten_b')).toBe('foreign')
    await direct.set(names[0]!, 'x\r\nFLUSHALL\r\n')
    expect(await missFor('ten_a')).toBe('unreadable')
  })

  test('a flush counts and removes what matches by the line of facts, of one tenant or of all', async () => {
    const redis = await store()
    const keys = new TestKeys()
    for (let number = 0; number < 500; number++) {
      const tenantId = number % 2 === 0 ? 'ten_a' : 'ten_b'
      const facts = { ...FACTS, tenantId, model: number % 5 === 0 ? 'large' : 'small', mode: 'semantic' as const }
      await redis.put(tenantId, keyOf(number), await sealed(keys, keyOf(number), facts, CONTENT), LONG_MS)
    }
    const large = ({ model }: { model: string }) => model === 'large'
    expect(await redis.removeMatching('ten_a', large, true)).toEqual({ exact: 0, prefix: 0, semantic: 50 })
    expect(await redis.removeMatching('ten_a', large, false)).toEqual({ exact: 0, prefix: 0, semantic: 50 })
    expect(await redis.count()).toBe(450)
    expect(await redis.removeMatching(null, large, false)).toEqual({ exact: 0, prefix: 0, semantic: 50 })
    expect(await redis.count()).toBe(400)
    expect(await redis.removeMatching('ten_*', () => true, false)).toEqual({ exact: 0, prefix: 0, semantic: 0 })
  })
})

describe('a Redis that is away', () => {
  test('costs a miss within its deadline, and no error', async () => {
    const redis = await store(50)
    proxy.dropAnswers = true
    const startedMs = performance.now()
    expect(await redis.get('ten_a', keyOf(1))).toBe('unavailable')
    expect(performance.now() - startedMs).toBeLessThan(1_000)
    expect(redis.problem).not.toBeNull()
    const laterMs = performance.now()
    for (let i = 0; i < 100; i++) expect(await redis.get('ten_a', keyOf(1))).toBe('unavailable')
    expect(await redis.put('ten_a', keyOf(1), every, LONG_MS)).toBe(false)
    expect(await redis.remove('ten_a', keyOf(1))).toBe(false)
    expect(await redis.count()).toBeNull()
    expect(await redis.removeMatching(null, () => true, false)).toBeNull()
    // While it is away no call waits.
    expect(performance.now() - laterMs).toBeLessThan(1_000)
  })

  test('that refuses is no failure either, and is reported', async () => {
    const redis = await store()
    await direct.send('SADD', [`gatelog:cache:ten_a:${keyOf(1)}`, 'x'])
    expect(await redis.get('ten_a', keyOf(1))).toBe('unavailable')
    expect(redis.problem).toBe('Redis refuses to store')
    expect(await redis.put('ten_a', keyOf(1), every, LONG_MS)).toBe(true)
    expect(redis.problem).toBeNull()
  })
})
