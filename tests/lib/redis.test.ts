import { expect, test } from 'bun:test'
import { openRedis } from '../../src/lib/redis.ts'

test.each(['redis://127.0.0.1:1/abc', 'redis://h:99999'])(
  '%s, for which no client can be made, is a Redis that is away',
  async (url) => {
    const redis = openRedis(url)
    expect(redis.problem).toBe('Redis cannot be reached')
    await expect(redis.call('PING', [])).rejects.toThrow('Redis cannot be reached')
    redis.close()
  },
)
