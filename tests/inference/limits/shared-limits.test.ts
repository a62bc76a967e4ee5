// Rate limits through a real Redis: several instances share them. Also a Redis that is slow, that is gone or that holds
// other data.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { RedisClient } from 'bun'
import type { Held, LimitRequest } from '../../../src/inference/limits/port.ts'
import { LIMIT_SCRIPTS } from '../../../src/inference/limits/redis.ts'
import { type SharedLimits, sharedLimits } from '../../../src/inference/limits/shared.ts'
import { openRedis, type Redis } from '../../../src/lib/redis.ts'
import type { LimitRule } from '../../../src/state/indexes/limit-rules.ts'
import { eventually } from '../../services/eventually.ts'
import { startRedis } from '../../services/redis.ts'
import { startTcpProxy, type TcpProxy } from '../../services/tcp-proxy.ts'

let server: Awaited<ReturnType<typeof startRedis>>
let proxy: TcpProxy
let direct: RedisClient
const open: { limits: SharedLimits; redis: Redis }[] = []

beforeAll(async () => {
  server = await startRedis()
  const through = await startTcpProxy()
  through.to = Number(new URL(server.url).port)
  proxy = through
  direct = new RedisClient(server.url)
})
afterEach(() => {
  proxy.dropAnswers = false
  for (const { limits, redis } of open.splice(0)) {
    limits.close()
    redis.close()
  }
})
afterAll(async () => {
  direct.close()
  await proxy.stop()
  await server.stop()
})

/** For tests that do not check lateness: a machine that runs many tests is late itself. */
const PATIENT = { answerMs: 5_000 }

/** An instance of the gateway, as far as limits go. */
const instance = async (
  more: { renewMs?: number; leaseMs?: number; answerMs?: number } = {},
): Promise<SharedLimits> => {
  const redis = openRedis(`redis://127.0.0.1:${proxy.port}`, LIMIT_SCRIPTS, more.answerMs)
  const limits = sharedLimits({ redis, nowMs: () => performance.now(), ...more })
  open.push({ limits, redis })
  await redis.reached(5_000)
  return limits
}

test('S13: whatever a caller sends stands in no key of Redis: subjects are those of the registry, and a request is a value', async () => {
  const limits = await instance(PATIENT)
  const evil = 'x\r\nFLUSHALL\r\n} * :counts'
  const subject = 'key:key_1'
  const asked: LimitRequest = {
    id: evil,
    tokens: 1,
    rules: [{ scope: 'key', subject, rpm: 5, tpm: 5, maxParallel: 5 }],
  }
  await limits.take(asked)
  const keys = (await direct.send('KEYS', ['*'])) as string[]
  expect(keys.filter((key) => key.includes(subject)).length).toBeGreaterThan(0)
  for (const key of keys) expect(key).toMatch(/^\{gatelog:limits\}:[\w:.-]+:(counts|slots)$/)
})

let names = 0
const rule = (limits: Partial<LimitRule>): LimitRule => ({
  scope: 'key',
  subject: `key:${names++}`,
  rpm: null,
  tpm: null,
  maxParallel: null,
  ...limits,
})
const ask = (rules: readonly LimitRule[], tokens = 0): LimitRequest => ({ id: `req_${names++}`, rules, tokens })
const admits = async (limits: SharedLimits, ...args: Parameters<typeof ask>): Promise<boolean> =>
  (await limits.take(ask(...args))).verdict.admitted
const healthy = (limits: SharedLimits) => eventually('all is well', () => limits.status().degraded === null)

describe('instances', () => {
  test('share their limits: of many requests at once exactly as many as allowed get in', async () => {
    const [one, other] = [await instance(PATIENT), await instance(PATIENT)]
    const rules = [rule({ rpm: 7, tpm: 1_000 }), rule({ maxParallel: 20 })]
    const all = await Promise.all(Array.from({ length: 60 }, (_, i) => admits(i % 2 === 0 ? one : other, rules, 10)))
    expect(all.filter(Boolean)).toHaveLength(7)
    expect([one, other].map((each) => each.status().decidedAlone)).toEqual([0, 0])
  })

  test('give back slots and tokens for all', async () => {
    const [one, other] = [await instance(PATIENT), await instance(PATIENT)]
    const rules = [rule({ maxParallel: 1, tpm: 100 })]
    const held = await one.take(ask(rules, 90))
    expect(await admits(other, rules, 1)).toBe(false)
    held.settle(5)
    held.settle(5)
    await eventually('there is room', () => admits(other, rules, 95))
    expect(await admits(one, rules, 1)).toBe(false)
  })

  test('that die do not hold their slots for ever; those that live do', async () => {
    const [dead, alive] = [
      await instance({ ...PATIENT, leaseMs: 2_000, renewMs: 60_000 }),
      await instance({ ...PATIENT, leaseMs: 2_000, renewMs: 100 }),
    ]
    const [ofDead, ofAlive] = [[rule({ maxParallel: 1 })], [rule({ maxParallel: 1 })]]
    const startedMs = performance.now()
    expect(await admits(dead, ofDead)).toBe(true)
    expect(await admits(alive, ofAlive)).toBe(true)
    await eventually('the slot of the dead is free', () => admits(alive, ofDead))
    expect(performance.now() - startedMs).toBeGreaterThan(1_900)
    expect(await admits(dead, ofAlive)).toBe(false)
  })
})

// docs/behaviour.md: "Rate limits"
describe('without Redis', () => {
  const slotsOf = (subject: string) => direct.send('ZCARD', [`{gatelog:limits}:${subject}:slots`]) as Promise<number>

  test('that stands still, nobody waits longer than 50 ms, this process decides, and it is asked again by itself', async () => {
    const limits = await instance()
    const narrow = rule({ maxParallel: 2 })
    const before = await limits.take(ask([narrow]))
    process.kill(server.pid, 'SIGSTOP')
    let held: Held
    try {
      const startedMs = performance.now()
      held = await limits.take(ask([narrow]))
      expect(performance.now() - startedMs).toBeLessThan(10_000)
      expect(held.verdict.admitted).toBe(true)
      expect(limits.status()).toMatchObject({ degraded: expect.stringContaining('in time'), decidedAlone: 1, held: 2 })
      expect(await admits(limits, [narrow])).toBe(false) // what Redis let in before counts here too
      before.settle(0)
    } finally {
      process.kill(server.pid, 'SIGCONT')
    }
    await healthy(limits)
    held.settle(0)
    await eventually('no slot is held', async () => (await slotsOf(narrow.subject)) === 0)
    expect(limits.status().degraded).toBeNull()
  })

  test('a late answer is given back when this process refused meanwhile', async () => {
    const limits = await instance()
    const alone = rule({ tpm: 100 })
    const first = await limits.take(ask([alone], 60))
    // Redis would admit the request, this process would not.
    await direct.send('DEL', [`{gatelog:limits}:${alone.subject}:counts`])
    process.kill(server.pid, 'SIGSTOP')
    try {
      expect(await admits(limits, [alone], 60)).toBe(false)
    } finally {
      process.kill(server.pid, 'SIGCONT')
    }
    await healthy(limits)
    await eventually(
      'nothing is counted',
      async () => Number(await direct.send('HGET', [`{gatelog:limits}:${alone.subject}:counts`, 't'])) === 0,
    )
    first.settle(60)
  })

  test('that cuts its connections or swallows its answers, it comes back by itself', async () => {
    const limits = await instance()
    const rules = [rule({ rpm: 1_000 })]
    proxy.cut()
    await eventually('the failure is noticed', () => limits.status().degraded !== null)
    expect(await admits(limits, rules)).toBe(true)
    await healthy(limits)
    proxy.dropAnswers = true
    expect(await admits(limits, rules)).toBe(true)
    expect(limits.status().degraded).toContain('in time')
    await eventually(
      'the connection is given up',
      () => limits.status().degraded?.includes('cannot be reached') ?? false,
    )
    proxy.dropAnswers = false
    await healthy(limits)
    // On a busy machine one answer more may come too late.
    await eventually('Redis decides', async () => {
      const { decidedAlone } = limits.status()
      return (await admits(limits, rules)) && limits.status().decidedAlone === decidedAlone
    })
  })

  test('slots that were taken meanwhile are known to it again', async () => {
    const limits = await instance({ ...PATIENT, renewMs: 50 })
    const rules = [rule({ maxParallel: 1 })]
    await limits.take(ask(rules))
    await direct.send('FLUSHALL', [])
    await eventually('the slot is held again', async () => (await slotsOf(rules[0]!.subject)) === 1)
    expect(await admits(await instance(PATIENT), rules)).toBe(false)
  })

  test('what it holds under our keys may be anything', async () => {
    const limits = await instance(PATIENT)
    const rules = [rule({ rpm: 1 })]
    const key = `{gatelog:limits}:${rules[0]!.subject}:counts`
    await direct.set(key, 'nonsense')
    expect(await admits(limits, rules)).toBe(true)
    expect(await admits(limits, rules)).toBe(false)
    expect(limits.status().degraded).toContain('Redis refuses')
    await direct.send('DEL', [key])
    await direct.send('SCRIPT', ['FLUSH'])
    // It counts again, from nothing; what was let in meanwhile is remembered here, and nowhere else.
    expect(await admits(limits, rules)).toBe(false)
    expect(limits.status()).toMatchObject({ degraded: null, decidedAlone: 2 })
    expect(await admits(await instance(PATIENT), [rule({ rpm: 1 })])).toBe(true)
  })

  test('from the start, it is waited for', async () => {
    const redis = openRedis('redis://127.0.0.1:9', LIMIT_SCRIPTS)
    const limits = sharedLimits({ redis, nowMs: () => performance.now() })
    open.push({ limits, redis })
    expect(await admits(limits, [rule({ rpm: 1 })])).toBe(true)
    await eventually(
      'its absence is told',
      () =>
        limits.status().degraded ===
        'Redis cannot be reached: nothing listens at that address: start it, or correct host and port (ECONNREFUSED): ' +
          'rate limits are counted by each process for itself',
    )
  })
})
