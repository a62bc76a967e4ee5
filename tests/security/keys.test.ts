// API keys at authentication: found by the whole of their digest, and looked up at every request.
import { afterAll, expect, test } from 'bun:test'
import { authenticate } from '../../src/entry/authenticate.ts'
import { sha256Hex } from '../../src/lib/crypto/digest.ts'
import type { KeyEntry } from '../../src/state/port.ts'
import { GatewayError } from '../../src/wire/errors.ts'
import { entry, testGateway } from '../inference/gateway.ts'
import { startUpstream } from '../services/upstream.ts'

const upstream = startUpstream()
const gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

/** The present keys, by digest, and the digests that were looked up. */
const world = () => {
  const known = new Map<string, KeyEntry>()
  const asked: string[] = []
  const deps = {
    live: { status: () => ({ serves: true, staleMs: 0 }) } as never,
    keys: {
      lookup(digest: string) {
        asked.push(digest)
        return known.get(digest) ?? null
      },
      knows: () => false,
    },
    lastUses: { used: () => {} },
    inference: { authHeader: 'authorization', minKeyLength: 20, maxStalenessMs: null },
  }
  const issue = (plain: string, more: Partial<KeyEntry> = {}) =>
    known.set(sha256Hex(plain), {
      id: plain,
      tenantId: 'ten_1',
      scopes: ['inference'],
      expiresAtMs: null,
      routingPolicyId: null,
      ...more,
    })
  const who = (plain: string, atMs = 0): string | number => {
    try {
      return authenticate(new Headers({ authorization: `Bearer ${plain}` }), deps, atMs).id
    } catch (error) {
      if (error instanceof GatewayError) return error.status
      throw error
    }
  }
  return { known, asked, issue, who, deps }
}

const PREFIX = 'gw_live_the_same_beginning_of_two_keys_'

test('S10: keys that begin or end alike are different keys, and what is looked up is the digest of all of it', () => {
  const { issue, who, asked } = world()
  issue(`${PREFIX}one`)
  expect(who(`${PREFIX}one`)).toBe(`${PREFIX}one`)
  for (const other of ['', 'on', 'onE', 'one1', 'two', 'one_'].map((end) => PREFIX + end))
    expect([other, who(other)]).toEqual([other, 401])
  expect(asked.every((digest) => /^[0-9a-f]{64}$/.test(digest))).toBe(true)
})

// docs/behaviour.md: "Authentication"
test('S10: revoked, rotated and expired keys are refused at the next request, however often they were good before', () => {
  const { issue, who, known } = world()
  const [revoked, expiring] = [`${PREFIX}revoked`, `${PREFIX}expiring`]
  issue(revoked)
  issue(expiring, { expiresAtMs: 1_000 })
  for (let i = 0; i < 100; i++) expect([who(revoked, 999), who(expiring, 999)]).toEqual([revoked, expiring])
  known.delete(sha256Hex(revoked))
  expect([who(revoked, 999), who(expiring, 1_000)]).toEqual([401, 401])
  issue(revoked)
  expect(who(revoked, 999)).toBe(revoked)
})

test('S10: a flood of unknown keys makes nobody known and nobody forgotten, and is not remembered', () => {
  const { issue, who, asked } = world()
  issue(`${PREFIX}good`)
  for (let i = 0; i < 5_000; i++) expect(who(`${PREFIX}${i}`)).toBe(401)
  expect(who(`${PREFIX}good`)).toBe(`${PREFIX}good`)
  asked.length = 0
  expect(who(`${PREFIX}17`)).toBe(401) // looked up again: refusals are not cached
  expect(asked).toHaveLength(1)
  for (const length of [19, 513, 100_000]) expect([length, who('k'.repeat(length))]).toEqual([length, 401])
  expect(asked).toHaveLength(1) // what cannot be a key is not even looked up
})

test('S18: a key that is refused, or refuses to be one, stands in no answer and no header', async () => {
  const secret = 'gw_live_a_key_that_nobody_may_read_in_an_answer'
  for (const authorization of [`Bearer ${secret}`, `Bearer ${secret}, Bearer ${secret}`, `Basic ${secret}`, secret]) {
    const answer = await gateway.send('/v1/models', { key: null, headers: { authorization } })
    expect(answer.status).toBe(401)
    expect(JSON.stringify([...answer.headers]) + (await answer.text())).not.toContain(secret.slice(8))
  }
})

test('a header read under one name counts for no other name, nor for another least length', () => {
  const { issue, deps } = world()
  const plain = `gw_live_${'k'.repeat(30)}`
  issue(plain)
  const ask = (name: string, value: string, minKeyLength = 20): string | number => {
    try {
      const inference = { ...deps.inference, authHeader: name, minKeyLength }
      return authenticate(new Headers({ [name]: value }), { ...deps, inference }, 0).id
    } catch (error) {
      if (error instanceof GatewayError) return error.status
      throw error
    }
  }
  for (let round = 0; round < 2; round++) {
    expect(ask('x-api-key', plain)).toBe(plain)
    expect(ask('authorization', plain)).toBe(401)
    expect(ask('authorization', `bearer ${plain}`)).toBe(plain)
    expect(ask('authorization', `Bearer ${plain}`)).toBe(plain)
    expect(ask('authorization', `Bearer  ${plain}`)).toBe(plain)
    expect(ask('x-api-key', `Bearer ${plain}`)).toBe(plain)
    expect(ask('authorization', `Bearer ${plain}`, 100)).toBe(401)
    expect(ask('x-api-key', plain, 100)).toBe(401)
    expect(ask('authorization', `Bearer ${'k'.repeat(600)}`)).toBe(401)
  }
})
