// `auth.max_staleness`: an instance that may have missed a revocation refuses all requests, reports it in its readiness
// answer, and resumes by itself.
import { describe, expect, test } from 'bun:test'
import { type AuthenticateDeps, authenticate } from '../../../src/entry/authenticate.ts'
import { principalNow, type SessionDeps, sessionOf } from '../../../src/http/auth.ts'
import type { Degradation, KeyEntry } from '../../../src/state/port.ts'
import type { GatewayError } from '../../../src/wire/errors.ts'
import { gatewaysOnUpstream } from '../../http/gateways.ts'
import { ADMIN_KEY } from '../gateway.ts'

const { upstream, gatewayWith } = gatewaysOnUpstream()
const MAX_MS = 6_000

/** One that refuses beyond the bound, unless another is given, and how old its state is. */
const aged = (maxStalenessMs: number | null = MAX_MS) => {
  const age = { ms: 0 }
  const gateway = gatewayWith({ inference: { maxStalenessMs }, staleMs: () => age.ms })
  const asked = () =>
    Promise.all([
      gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'x' }] }),
      gateway.send('/v1/models'),
      gateway.send('/v1/models', { key: ADMIN_KEY }),
    ])
  const ready = () => gateway.send('/ready', { key: null })
  return { age, gateway, asked, ready }
}
const statuses = (answers: readonly Response[]) => answers.map(({ status }) => status)

// docs/behaviour.md: "Authentication"
describe('requests', () => {
  test('are refused beyond the bound, before anybody is called, and served again once the end is confirmed', async () => {
    const { age, asked } = aged()
    age.ms = MAX_MS
    expect(statuses(await asked())).toEqual([200, 200, 200])
    const calls = upstream.received.length
    age.ms = MAX_MS + 1
    const refused = await asked()
    expect(statuses(refused)).toEqual([502, 502, 502])
    for (const answer of refused)
      expect(await answer.json()).toMatchObject({
        error: { code: 'provider_unavailable', message: expect.stringContaining('has not confirmed the log lately') },
      })
    expect(upstream.received.length).toBe(calls)
    age.ms = 0
    expect(statuses(await asked())).toEqual([200, 200, 200])
  })

  test('are never refused without a bound', async () => {
    const { age, asked } = aged(null)
    age.ms = 3_600_000
    expect(statuses(await asked())).toEqual([200, 200, 200])
  })

  test('with the cookie of a session are refused alike, and what such a one began ends', () => {
    let staleMs = MAX_MS
    const deps = {
      live: { status: () => ({ serves: true, staleMs }), control: { table: () => ({ find: () => ['ten_default'] }) } },
      sessions: { find: () => ({ operator_id: 'op_1' }), used: () => {} },
      keys: { lookup: () => null, knows: () => false },
      inference: { authHeader: 'authorization', minKeyLength: 20, maxStalenessMs: MAX_MS },
    } as unknown as SessionDeps
    const headers = new Headers({ cookie: `gateway_session=${'t'.repeat(43)}` })
    expect(sessionOf(headers, deps)).toMatchObject({ operator_id: 'op_1' })
    expect(principalNow(headers, [], deps, 0)).toMatchObject({ actor: { type: 'operator', id: 'op_1' } })
    staleMs = MAX_MS + 1
    expect(() => sessionOf(headers, deps)).toThrow('has not confirmed the log lately')
    expect(principalNow(headers, [], deps, 0)).toBeNull()
  })
})

// docs/behaviour.md: "Authentication"
describe('a key that is not found while the end of the log is not confirmed', () => {
  const asked = (degradation: Degradation | null, knows: boolean, entry: KeyEntry | null = null) => {
    const deps = {
      live: { status: () => ({ serves: true, staleMs: 0, degradation }) },
      keys: { lookup: () => entry, knows: () => knows },
      lastUses: { used: () => {} },
      inference: { authHeader: 'authorization', minKeyLength: 20, maxStalenessMs: null },
    } as unknown as AuthenticateDeps
    try {
      return authenticate(new Headers({ authorization: `Bearer gw_live_${'k'.repeat(30)}` }), deps, 1_000).id
    } catch (error) {
      const { status, retryAfterS } = error as GatewayError
      return { status, retryAfterS }
    }
  }

  test('may exist: 503 with Retry-After, never 401', () => {
    for (const degradation of ['starting', 'stale', 'suspected', 'stopped'] as const)
      expect(asked(degradation, false)).toEqual({ status: 503, retryAfterS: 5 })
    for (const degradation of [null, 'unknown_events'] as const)
      expect(asked(degradation, false)).toMatchObject({ status: 401 })
  })

  test('is 401 when it is known to be revoked or to have expired', () => {
    const expired: KeyEntry = {
      ...{ id: 'key_a', tenantId: 'ten_a', scopes: [], routingPolicyId: null },
      expiresAtMs: 999,
    }
    expect(asked('starting', true)).toMatchObject({ status: 401 })
    expect(asked('starting', true, expired)).toMatchObject({ status: 401 })
    expect(asked('starting', true, { ...expired, expiresAtMs: 1_001 })).toBe('key_a')
  })

  test('so is a session', () => {
    const deps = {
      live: { status: () => ({ serves: true, staleMs: 0, degradation: 'starting' }) },
      sessions: { find: () => null },
      inference: { maxStalenessMs: null },
    } as unknown as SessionDeps
    const headers = new Headers({ cookie: `gateway_session=${'t'.repeat(43)}` })
    expect(() => sessionOf(headers, deps)).toThrow('cannot confirm the end of the log')
  })
})

describe('/ready', () => {
  test('is 503 with the reason exactly while requests are refused', async () => {
    const { age, ready } = aged()
    for (const ms of [0, MAX_MS]) {
      age.ms = ms
      expect((await ready()).status).toBe(200)
    }
    age.ms = 8_200
    const refused = await ready()
    expect(refused.status).toBe(503)
    expect(await refused.json()).toMatchObject({
      status: 'unavailable',
      checks: {
        control:
          'degraded: requests are refused, the end of the control log was last confirmed 8 s ago (auth.max_staleness: 6 s)',
      },
      error: { message: 'not ready: control' },
    })
    age.ms = 0
    expect((await ready()).status).toBe(200)
  })

  test('is as it was without a bound', async () => {
    const { age, ready } = aged(null)
    age.ms = 3_600_000
    expect((await ready()).status).toBe(200)
  })
})
