// The contract of limit stores, over the store in the process and over Redis.
import { afterAll } from 'bun:test'
import { RedisClient } from 'bun'
import { LocalLimitStore } from '../../src/inference/limits/local.ts'
import { RedisLimitStore } from '../../src/inference/limits/redis.ts'
import { redisForTests } from '../services/shared-redis.ts'
import { limitStoreContract } from './limit-store.ts'

const server = await redisForTests()
const client = new RedisClient(server.url)
afterAll(async () => {
  client.close()
  await server.stop()
})

limitStoreContract('in this process', { open: (nowMs) => new LocalLimitStore(nowMs), runs: 500 })
// Without the deadline of calls: a busy machine answers late, and here only what is answered is looked at.
const send = (command: string, args: string[]): Promise<unknown> => client.send(command, args)
const LONG_LEASE_MS = 10_000_000
limitStoreContract('in Redis', {
  open: (nowMs) => new RedisLimitStore({ call: send, callWithoutDeadline: send }, nowMs, LONG_LEASE_MS),
  runs: 100,
})
