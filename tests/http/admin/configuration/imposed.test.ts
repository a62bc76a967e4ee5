// What a caller with every scope imposed on a tenant, and what keys of a tenant may not do to others: from the view of
// both.
import { describe, expect, test } from 'bun:test'
import { type Gateway, startGateway } from '../world/gateway.ts'
import { setUp, withCookie } from '../world/signing-in.ts'

const impose = (gateway: Gateway, body: object, key?: string) => gateway.call('POST', '/overrides', { body, key })
const holding = async (gateway: Gateway) =>
  ((await gateway.call('GET', '/overrides?in_force=true')).body.overrides as { kind: string }[]).map(({ kind }) => kind)

/** A key of a tenant, with all scopes but `*`, and its id. */
const tenantKey = (gateway: Gateway, tenantId = 'ten_other') => {
  const scopes = ['inference', 'usage:read', 'providers:admin', 'policies:admin', 'keys:admin', 'tenants:admin']
  const key = gateway.keyWith(scopes, tenantId)
  return { key, id: gateway.state.table('keys').find('tenant', tenantId).at(-1)! }
}

describe('an override with which a tenant was stopped', () => {
  test('is not taken back by the key that it stops: 403, and it still holds', async () => {
    const gateway = startGateway()
    const { key, id } = tenantKey(gateway)
    const provider = await gateway.call('POST', '/providers', { body: { name: 'oa', kind: 'openai' } })
    await impose(gateway, { kind: 'block', target: `key:${id}`, reason: 'abuse' })
    await impose(gateway, { kind: 'cap', tenant_id: 'ten_other', value: { max_cost_usd: 0 } })
    await impose(gateway, { kind: 'freeze', tenant_id: 'ten_other' })
    await gateway.call('POST', `/providers/${provider.body.id}/kill`, { body: { kill: true } })
    const before = await holding(gateway)
    const message = expect.stringContaining('was imposed with the scope "*"')
    for (const about of [{ kind: 'cap' }, { kind: 'freeze' }]) {
      const { status, body } = await impose(gateway, { ...about, enabled: false }, key)
      expect([about, status, body.error]).toMatchObject([about, 403, { param: 'target', message }])
    }
    for (const about of [
      { kind: 'block', target: `key:${id}`, tenant_id: null },
      { kind: 'kill', target: 'oa', tenant_id: null },
    ]) {
      const { status, body } = await impose(gateway, { ...about, enabled: false }, key)
      expect([about, status, body.error]).toMatchObject([about, 403, { param: 'tenant_id' }])
    }
    const revive = (as: string) =>
      gateway.call('POST', `/providers/${provider.body.id}/kill`, { body: { kill: false }, key: as })
    expect((await revive(key)).status).toBe(403)
    const revived = await revive(gateway.keyWith(['providers:admin']))
    expect([revived.status, revived.body.error]).toMatchObject([403, { param: 'kill', message }])
    expect(await holding(gateway)).toEqual(before)
    expect((await impose(gateway, { kind: 'block', target: `key:${id}`, enabled: false })).status).toBe(201)
    const { body } = await gateway.call('GET', '/overrides')
    expect((body.overrides as object[])[0]).not.toHaveProperty('writer_tenant_id')
  })

  test('a key that lost * does not take back what it imposed with it', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['*'], 'ten_other')
    const id = gateway.state.table('keys').find('tenant', 'ten_other').at(-1)!
    const block = { kind: 'block', target: `key:${id}`, tenant_id: 'ten_other' }
    expect((await impose(gateway, block, key)).status).toBe(201)
    const scopes = ['providers:admin']
    expect((await gateway.call('PATCH', `/keys/${id}`, { body: { scopes } })).status).toBe(200)
    expect((await impose(gateway, { ...block, enabled: false }, key)).status).toBe(403)
  })

  test('all tenants are frozen and thawed with * alone, whichever key froze them', async () => {
    const gateway = startGateway()
    const { key } = tenantKey(gateway)
    for (const enabled of [true, false]) {
      const { status, body } = await impose(gateway, { kind: 'freeze', tenant_id: null, enabled }, key)
      expect([status, body.error]).toMatchObject([403, { param: 'tenant_id' }])
    }
    expect((await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' } })).status).toBe(201)
  })
})

describe('a repeat', () => {
  const written = (n: number) => ({
    type: 'override.written',
    data: {
      ...{ id: `ovr_${n}`, kind: 'block', target: `model:m${n}`, tenant_id: null, value: null },
      ...{ enabled: false, reason: null, expires_at: null },
    },
  })

  test.each(['/overrides', '/providers/ID/kill'])(
    'of POST %s whose first request made more than a hundred rows go is answered with its row',
    async (path) => {
      const gateway = startGateway()
      const provider = await gateway.call('POST', '/providers', { body: { name: 'oa', kind: 'openai' } })
      // The next row is one at which those that decide nothing are looked through, and there are enough of them.
      for (let n = 0; n < 1_279; n++) gateway.apply([written(n)])
      const body = path === '/overrides' ? { kind: 'block', target: 'model:x' } : { kill: true }
      const again = () =>
        gateway.call('POST', path.replace('ID', provider.body.id as string), {
          body,
          headers: { 'idempotency-key': 'one' },
        })
      const [first, second] = [await again(), await again()]
      expect(gateway.state.table('overrides').size).toBeLessThan(1_200)
      expect([second.status, second.body]).toEqual([first.status, first.body])
      expect(first.status).toBeLessThan(202)
    },
  )
})

test('a freeze of the default tenant stops its keys, and operators of the console only in what belongs to it', async () => {
  const gateway = startGateway()
  const { cookie } = await setUp(gateway)
  await impose(gateway, { kind: 'freeze', tenant_id: 'ten_default' })
  const make = (path: string, body: object, as: object) => gateway.call('POST', path, { body, ...as })
  const signedIn = withCookie(cookie)
  expect((await make('/tenants', { slug: 'a', name: 'A' }, {})).status).toBe(403)
  expect((await make('/tenants', { slug: 'a', name: 'A' }, signedIn)).status).toBe(201)
  expect((await make('/policies', { name: 'p', tenant_id: 'ten_default' }, signedIn)).status).toBe(403)
  await impose(gateway, { kind: 'freeze', tenant_id: null })
  expect((await make('/tenants', { slug: 'b', name: 'B' }, signedIn)).status).toBe(403)
})

test('the limits of another tenant are changed with * alone; its name and plan by who keeps the registry', async () => {
  const gateway = startGateway()
  const { key } = tenantKey(gateway, 'ten_default')
  const put = (body: object, as?: string) =>
    gateway.call('PUT', '/tenants/ten_other', { body: { name: 'Other', ...body }, key: as })
  const refused = { param: 'rate_limits', code: 'permission_error' }
  const limited = await put({ rate_limits: { rpm: 1 } }, key)
  expect([limited.status, limited.body.error]).toMatchObject([403, refused])
  expect((await put({ rate_limits: { rpm: 9 } })).status).toBe(200)
  for (const body of [{}, { rate_limits: null }, { rate_limits: { rpm: 10 } }])
    expect([(await put(body, key)).status, body]).toEqual([403, body])
  expect((await put({ name: 'Renamed', plan: 'team', rate_limits: { rpm: 9 } }, key)).status).toBe(200)
  const own = await gateway.call('PUT', '/tenants/ten_default', { body: { name: 'D', rate_limits: { rpm: 5 } }, key })
  expect([own.status, own.body.rate_limits]).toEqual([200, { rpm: 5 }])
})

// docs/behaviour.md: "Keys"
describe('a call that would lock everybody out', () => {
  const calls = [
    ['DELETE', '/keys/key_admin', undefined],
    ['PATCH', '/keys/key_admin', { scopes: ['inference'] }],
    ['PATCH', '/keys/key_admin', { expires_at: '2026-12-01T00:00:00Z' }],
    ['DELETE', '/tenants/ten_default?force=true', undefined],
  ] as const

  test.each(calls)('%s %s %j is 409 and says what to do first; then it is done', async (method, path, body) => {
    const gateway = startGateway()
    gateway.keyWith(['keys:admin', 'tenants:admin', 'providers:admin'], 'ten_other')
    const refused = await gateway.call(method, path, { body })
    const message = expect.stringMatching(/lock everybody out.*POST \/admin\/v1\/keys.*POST \/admin\/v1\/operators/)
    expect([refused.status, refused.body.error]).toMatchObject([409, { type: 'conflict_error', message }])
    expect((await gateway.call('GET', '/keys/key_admin')).body).toMatchObject({ status: 'active', scopes: ['*'] })
    gateway.keyWith(['*'], 'ten_other')
    expect((await gateway.call(method, path, { body })).status).toBe(200)
  })

  test('an operator may do it, but not delete itself then', async () => {
    const gateway = startGateway()
    const { cookie, id } = await setUp(gateway)
    expect((await gateway.call('DELETE', '/keys/key_admin', withCookie(cookie))).status).toBe(200)
    expect((await gateway.call('DELETE', `/operators/${id}`, withCookie(cookie))).status).toBe(409)
  })
})
