// No caller grants what it lacks: scopes, other tenants, their policies, and time for a key that can do more.
import { describe, expect, test } from 'bun:test'
import { SCOPES } from '../../../../src/domain/access/api-key.ts'
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'
import { keyIssued } from '../../../domain/world.ts'
import { withHeaders } from '../world/credentials.ts'
import { furnish, OTHER, OWN } from '../world/furnished.ts'
import { ABSENT, expectRefusal, type Refusal } from '../world/refusal.ts'

const LATER = '2027-01-01T00:00:00.000Z'
const LATEST = '2028-01-01T00:00:00.000Z'
const BEYOND: Refusal = [403, 'permission_error', 'scopes']

/** Scopes of a key that may manage keys, and one more. */
const MAKERS = SCOPES.map((scope) => [...new Set(['keys:admin', scope])])
const may = (maker: readonly string[], scopes: readonly string[]) =>
  maker.includes('*') || scopes.every((scope) => maker.includes(scope))

/** A world, a key of these scopes in it, and another with those. */
const between = async (maker: readonly string[], scopes: readonly string[]) => {
  const world = await furnish()
  const { gateway } = world
  const expires = { expires_at: LATER, digest: sha256Hex('gw_live_of_the_one_that_is_changed') }
  gateway.apply([keyIssued('key_target', OWN, { scopes, ...expires })])
  const key = gateway.keyWith(maker, OWN)
  const before = world.fingerprint()
  const ask = (method: string, path: string, body?: object) => gateway.call(method, path, { key, body })
  return { ...world, ask, isUnchanged: () => expect(world.fingerprint()).toBe(before) }
}

describe.each(MAKERS.map((maker) => [maker.join(' and '), maker] as const))('a key with %s', (_, maker) => {
  test.each([...SCOPES])(
    'S9: and the scope %s: issued, added, or taken over with a new secret only by who has it',
    async (scope) => {
      const { ask, isUnchanged } = await between(maker, [scope])
      const weak = await between(maker, ['keys:admin'])
      const isAllowed = may(maker, [scope])
      const answers = [
        ['issue', 201, await ask('POST', '/keys', { tenant_id: OWN, name: 'k', scopes: ['keys:admin', scope] })],
        ['add', 200, await weak.ask('PATCH', '/keys/key_target', { scopes: ['keys:admin', scope] })],
        ['rotate', 201, await ask('POST', '/keys/key_target/rotate')],
      ] as const
      for (const [what, status, answer] of answers) {
        if (isAllowed) expect([what, answer.status, answer.body.error]).toEqual([what, status, undefined])
        else expectRefusal(what, answer, BEYOND)
      }
      if (isAllowed) return
      isUnchanged()
      weak.isUnchanged()
    },
  )

  test.each([...SCOPES])(
    'S9: and a key of the scope %s: prolonged only by who has it; shortened, weakened and revoked by all',
    async (scope) => {
      for (const expires_at of [null, LATEST]) {
        const { ask, isUnchanged } = await between(maker, [scope])
        const answer = await ask('PATCH', '/keys/key_target', { expires_at })
        if (may(maker, [scope])) expect(answer.status).toBe(200)
        else {
          expectRefusal('prolong', answer, [403, 'permission_error', 'expires_at'])
          isUnchanged()
        }
      }
      const { ask } = await between(maker, [scope, 'keys:admin'])
      for (const body of [{ expires_at: '2026-12-01T00:00:00Z' }, { name: 'x' }, { scopes: ['keys:admin'] }])
        expect((await ask('PATCH', '/keys/key_target', body)).status).toBe(200)
      const strong = await between(maker, [scope])
      expect((await strong.ask('DELETE', '/keys/key_target')).status).toBe(200)
    },
  )

  test('S9: makes no key in another tenant, moves none there, and binds none to its policies', async () => {
    const { ask, own, other, isUnchanged, gateway } = await between(maker, ['keys:admin'])
    const key = { name: 'k', scopes: ['keys:admin'] }
    const isSuperuser = maker.includes('*')
    if (!isSuperuser)
      expectRefusal('made there', await ask('POST', '/keys', { ...key, tenant_id: OTHER }), [
        404,
        'not_found',
        'tenant_id',
      ])
    const moved = await ask('PATCH', '/keys/key_target', { tenant_id: OTHER })
    expectRefusal('moved', moved, [400, 'invalid_request', 'tenant_id'])
    for (const [method, path, body] of [
      ['POST', '/keys', { ...key, tenant_id: OWN }],
      ['PATCH', '/keys/key_target', {}],
    ] as const) {
      const answer = await ask(method, path, { ...body, routing_policy_id: other.policies })
      expectRefusal(`${method} bound`, answer, [400, 'invalid_request', 'routing_policy_id'])
    }
    for (const [method, path, body] of [
      ['PATCH', `/keys/${other.keys}`, { name: 'x' }],
      ['POST', `/keys/${other.keys}/rotate`, undefined],
      ['DELETE', `/keys/${other.keys}`, undefined],
    ] as const)
      if (!isSuperuser) expectRefusal(`${method} theirs`, await ask(method, path, body), ABSENT)
    isUnchanged()
    expect((await ask('PATCH', '/keys/key_target', { routing_policy_id: own.policies })).status).toBe(200)
    expect(gateway.state.table('keys').get('key_target')?.routing_policy_id).toBe(own.policies!)
  })
})

// docs/behaviour.md: "Keys", "Scopes"
test('S9: a key gives itself nothing, and no more time; what it has it may give up', async () => {
  const { gateway, fingerprint } = await furnish()
  const digest = sha256Hex('gw_live_of_one_that_would_like_to_be_more')
  gateway.apply([keyIssued('key_self', OWN, { scopes: ['keys:admin', 'usage:read'], expires_at: LATER, digest })])
  const ask = (body: object) =>
    gateway.call('PATCH', '/keys/key_self', { key: 'gw_live_of_one_that_would_like_to_be_more', body })
  const before = fingerprint()
  const lacking = SCOPES.filter((scope) => scope !== 'keys:admin' && scope !== 'usage:read')
  for (const scope of lacking) expectRefusal(scope, await ask({ scopes: ['keys:admin', 'usage:read', scope] }), BEYOND)
  expectRefusal('other tenant', await ask({ tenant_id: OTHER }), [400, 'invalid_request', 'tenant_id'])
  expect(fingerprint()).toBe(before)
  expect((await ask({ scopes: ['keys:admin'] })).status).toBe(200)
  // What it gave up it does not get back.
  expectRefusal('again', await ask({ scopes: ['keys:admin', 'usage:read'] }), BEYOND)
})

test('an operator hands on everything', async () => {
  const { gateway, cookie } = await between(['keys:admin'], ['*'])
  const answer = await gateway.call('POST', '/keys', {
    ...withHeaders({ cookie, origin: 'http://gateway.test' }),
    body: { tenant_id: OTHER, name: 'k', scopes: [...SCOPES] },
  })
  expect(answer.status).toBe(201)
})

test('an unknown scope is 400, for every caller', async () => {
  for (const maker of MAKERS) {
    const { ask, isUnchanged } = await between(maker, ['keys:admin'])
    for (const [method, path] of [
      ['POST', '/keys'],
      ['PATCH', '/keys/key_target'],
    ] as const) {
      const body = { name: 'k', scopes: ['keys:admin', 'everything'], ...(method === 'POST' ? { tenant_id: OWN } : {}) }
      expectRefusal(method, await ask(method, path, body), [400, 'invalid_request', 'scopes'])
    }
    isUnchanged()
  }
})
