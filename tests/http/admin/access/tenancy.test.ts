// What a key without `*` sees and may change, and the routes of tenants, keys and policies.
import { describe, expect, test } from 'bun:test'
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'
import { startGateway } from '../world/gateway.ts'

const newKey = { name: 'k', scopes: ['inference'] }

// docs/behaviour.md: "Tenants"
describe('tenants', () => {
  test('are deleted with their keys and policies only by force while a key is active', async () => {
    const gateway = startGateway()
    const { body: tenant } = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A', plan: 'pro' } })
    await gateway.call('POST', '/keys', { body: { ...newKey, tenant_id: tenant.id } })
    await gateway.call('POST', '/policies', { body: { name: 'p', tenant_id: tenant.id } })
    const held = await gateway.call('DELETE', `/tenants/${tenant.id}`)
    expect([held.status, held.body.error]).toMatchObject([400, { param: 'force' }])
    expect((await gateway.call('DELETE', `/tenants/${tenant.id}?force=yes`)).status).toBe(400)
    const gone = await gateway.call('DELETE', `/tenants/${tenant.id}?force=true`)
    expect(gone.body).toEqual({ deleted: true, id: tenant.id, keys_removed: 1 })
    expect(gateway.state.table('policies').size).toBe(0)
    expect((await gateway.call('GET', `/tenants/${tenant.id}`)).status).toBe(404)
  })

  test('an absent plan on PUT clears it; the slug stays; a duplicate is 409', async () => {
    const gateway = startGateway()
    const { body: tenant } = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A', plan: 'pro' } })
    expect((await gateway.call('PUT', `/tenants/${tenant.id}`, { body: { name: 'B' } })).body).toMatchObject({
      slug: 'a',
      name: 'B',
      plan: null,
    })
    const moved = await gateway.call('PUT', `/tenants/${tenant.id}`, { body: { name: 'B', slug: 'b' } })
    expect([moved.status, moved.body.error]).toMatchObject([400, { param: 'slug' }])
    const twice = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' } })
    expect([twice.status, twice.body.error]).toMatchObject([409, { type: 'conflict_error', param: 'slug' }])
  })

  test('the registry is for tenants:admin; usage:read shows the own tenant', async () => {
    const gateway = startGateway()
    const reader = gateway.keyWith(['usage:read'])
    const keeper = gateway.keyWith(['tenants:admin'])
    const seen = async (key: string) => {
      const { body } = await gateway.call('GET', '/tenants', { key })
      return (body.tenants as { id: string }[]).map(({ id }) => id)
    }
    expect(await seen(reader)).toEqual(['ten_default'])
    expect(await seen(keeper)).toEqual(['ten_default', 'ten_other'])
    expect((await gateway.call('GET', '/tenants/ten_default', { key: reader })).status).toBe(200)
    expect((await gateway.call('GET', '/tenants/ten_other', { key: reader })).status).toBe(404)
    expect((await gateway.call('GET', '/tenants/ten_other', { key: keeper })).status).toBe(200)
    expect((await gateway.call('GET', '/keys?tenant_id=ten_other', { key: reader })).status).toBe(404)
  })

  test('a key without * does not delete what belongs to another tenant', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['tenants:admin'])
    gateway.keyWith(['inference'], 'ten_other')
    expect((await gateway.call('DELETE', '/tenants/ten_other?force=true', { key })).status).toBe(403)
    expect(gateway.state.table('tenants').get('ten_other')).toBeDefined()
  })
})

// docs/behaviour.md: "Keys"
describe('keys', () => {
  test('the plaintext is answered once; what is kept is its digest', async () => {
    const gateway = startGateway()
    const headers = { 'idempotency-key': '1' }
    const options = { body: { ...newKey, tenant_id: 'ten_default', expires_in_hours: 2 }, headers }
    const first = await gateway.call('POST', '/keys', options)
    expect(first.status).toBe(201)
    const plaintext = first.body.plaintext as string
    expect(plaintext).toMatch(/^gw_live_[0-9A-Za-z]{43}$/)
    expect(first.body).toMatchObject({
      tenant_id: 'ten_default',
      name: 'k',
      scopes: ['inference'],
      expires_at: new Date(gateway.nowMs + 7_200_000).toISOString(),
      key: { id: first.body.id, status: 'active', revoked_at: null, last_used_at: null },
    })
    expect(gateway.state.table('keys').get(first.body.id as string)?.digest).toBe(sha256Hex(plaintext))
    const again = await gateway.call('POST', '/keys', options)
    expect(again.body).toMatchObject({ id: first.body.id, plaintext: null })
    expect(again.body.warning).toContain('cannot be shown again')
    const { body: list } = await gateway.call('GET', '/keys?tenant_id=ten_default')
    const { body: one } = await gateway.call('GET', `/keys/${first.body.id}`)
    expect([one]).toEqual((list.keys as { id: string }[]).filter(({ id }) => id === first.body.id))
    expect(JSON.stringify([list, gateway.events])).not.toContain(plaintext)
    expect(JSON.stringify(list)).not.toContain(sha256Hex(plaintext))
  })

  test('say when they were last used here, whatever came of it', async () => {
    const gateway = startGateway()
    const { body: key } = await gateway.call('POST', '/keys', { body: { ...newKey, tenant_id: 'ten_default' } })
    gateway.nowMs += 1_000
    expect((await gateway.call('GET', '/models', { key: key.plaintext as string })).status).toBe(403)
    const { body: list } = await gateway.call('GET', '/keys?tenant_id=ten_default')
    const last_used_at = new Date(gateway.nowMs).toISOString()
    expect(list.keys).toContainEqual(expect.objectContaining({ id: key.id, last_used_at }))
  })

  test('rotation stops the old secret at once and keeps the rest', async () => {
    const gateway = startGateway()
    const body = { name: 'k', tenant_id: 'ten_default', scopes: ['usage:read'] }
    const { body: old } = await gateway.call('POST', '/keys', { body })
    const rotated = await gateway.call('POST', `/keys/${old.id}/rotate`)
    expect(rotated.status).toBe(201)
    expect(rotated.body).toMatchObject({ id: old.id, name: 'k', scopes: ['usage:read'] })
    expect((await gateway.call('GET', '/models', { key: old.plaintext as string })).status).toBe(401)
    expect((await gateway.call('GET', '/models', { key: rotated.body.plaintext as string })).status).toBe(200)
  })

  test('a revoked key is refused, stays listed, and cannot come back', async () => {
    const gateway = startGateway()
    const { body: key } = await gateway.call('POST', '/keys', { body: { ...newKey, tenant_id: 'ten_default' } })
    const gone = await gateway.call('DELETE', `/keys/${key.id}`)
    expect(gone.body).toMatchObject({ deleted: true, id: key.id, status: 'revoked' })
    expect((await gateway.call('DELETE', `/keys/${key.id}`)).body).toEqual(gone.body)
    expect((await gateway.call('GET', '/nope', { key: key.plaintext as string })).status).toBe(401)
    const { body } = await gateway.call('GET', '/keys?tenant_id=ten_default')
    expect(body.keys).toContainEqual(
      expect.objectContaining({ id: key.id, status: 'revoked', revoked_at: expect.any(String) }),
    )
    expect((await gateway.call('POST', `/keys/${key.id}/rotate`)).status).toBe(409)
    expect((await gateway.call('PATCH', `/keys/${key.id}`, { body: { name: 'x' } })).status).toBe(409)
  })

  test('an expired key is refused and says so in the list', async () => {
    const gateway = startGateway()
    const body = { ...newKey, scopes: ['*'], tenant_id: 'ten_default', expires_in_hours: 1 }
    const { body: key } = await gateway.call('POST', '/keys', { body })
    expect((await gateway.call('GET', '/tenants', { key: key.plaintext as string })).status).toBe(200)
    gateway.nowMs += 3_600_000
    const rotated = await gateway.call('POST', `/keys/${key.id}/rotate`)
    expect([rotated.status, rotated.body.error]).toMatchObject([409, { param: 'expires_at' }])
    expect((await gateway.call('GET', '/tenants', { key: key.plaintext as string })).status).toBe(401)
    const { body: list } = await gateway.call('GET', '/keys?tenant_id=ten_default')
    expect(list.keys).toContainEqual(expect.objectContaining({ id: key.id, status: 'expired' }))
  })

  test('a GET goes back as PATCH and changes nothing; tenant and expires_in_hours are not for changing', async () => {
    const gateway = startGateway()
    const { body } = await gateway.call('POST', '/keys', { body: { ...newKey, tenant_id: 'ten_default' } })
    const same = await gateway.call('PATCH', `/keys/${body.id}`, { body: body.key })
    expect([same.status, same.body.revision]).toEqual([200, (body.key as { revision: string }).revision])
    for (const [field, value] of [
      ['tenant_id', 'ten_other'],
      ['expires_in_hours', 1],
      ['expires_at', 'soon'],
    ] as const) {
      const refused = await gateway.call('PATCH', `/keys/${body.id}`, { body: { [field]: value } })
      expect([refused.status, refused.body.error]).toMatchObject([400, { param: field }])
    }
    const times = { expires_at: '2027-01-01T00:00:00+01:00' }
    expect((await gateway.call('PATCH', `/keys/${body.id}`, { body: times })).body.expires_at).toBe(
      '2026-12-31T23:00:00.000Z',
    )
  })

  test('a key without * grants no scope beyond its own, and takes over no key that has more', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['keys:admin', 'inference'])
    const grant = (scopes: string[]) => gateway.call('POST', '/keys', { key, body: { name: 'k', scopes } })
    expect((await grant(['inference'])).body.tenant_id).toBe('ten_default')
    const beyond = await grant(['inference', 'providers:admin'])
    expect([beyond.status, beyond.body.error]).toMatchObject([403, { code: 'permission_error', param: 'scopes' }])
    expect((await gateway.call('POST', '/keys/key_admin/rotate', { key })).status).toBe(403)
  })

  test('another tenant’s keys do not exist for a key without *', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['keys:admin', 'inference'])
    const { body: other } = await gateway.call('POST', '/keys', { body: { ...newKey, tenant_id: 'ten_other' } })
    for (const [method, path, body] of [
      ['GET', '/keys?tenant_id=ten_other', undefined],
      ['POST', '/keys', { ...newKey, tenant_id: 'ten_other' }],
      ['GET', `/keys/${other.id}`, undefined],
      ['PATCH', `/keys/${other.id}`, { name: 'x' }],
      ['POST', `/keys/${other.id}/rotate`, undefined],
      ['DELETE', `/keys/${other.id}`, undefined],
    ] as const) {
      expect((await gateway.call(method, path, { key, body })).status).toBe(404)
    }
    expect((await gateway.call('GET', '/keys', { key })).body.keys).not.toContainEqual(
      expect.objectContaining({ id: other.id }),
    )
    const unsaid = await gateway.call('GET', '/keys')
    expect([unsaid.status, unsaid.body.error]).toMatchObject([400, { param: 'tenant_id' }])
  })
})

describe('policies', () => {
  const full = {
    name: 'careful',
    strategy: 'cost-based-routing',
    strategy_params: { weights: { cost: 1, latency: 0.5 }, latency_metric: 'ttft', hash_on: 'header:X-User' },
    models: ['gpt-x'],
    providers: { only: ['oa'], order: ['oa'], ignore: [] },
    max_cost_usd: 0.5,
    latency_target_ms: 800,
    regions: ['eu'],
    allow_region_override: false,
    sensitivity: { pii: { providers: ['oa'], cache: false } },
    fallback: { enabled: true, max_attempts: 2, on: ['timeout'], models: ['y'], context_window_models: ['z'] },
    timeouts: { connect_ms: 1, first_token_ms: 2, stream_idle_ms: 3, total_ms: 4 },
    retry: { attempts: 0, backoff_initial_ms: 1, backoff_max_ms: 2 },
    breaker: { failure_threshold: 1, failure_rate_pct: 50, minimum_requests: 2, cooldown_ms: 3 },
    rate_limits: { rpm: 1, tpm: 2, max_parallel: 3 },
    cache: { mode: 'exact', ttl_seconds: 60 },
    enabled: false,
  }

  test('every field is kept; PUT replaces all of them', async () => {
    const gateway = startGateway()
    const made = await gateway.call('POST', '/policies', { body: full })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({ ...full, strategy: 'lowest_cost', tenant_id: null, managed_by: 'api' })
    const put = await gateway.call('PUT', '/policies', { body: { name: 'CAREFUL', max_cost_usd: 1 } })
    expect(put.body).toMatchObject({
      id: made.body.id,
      strategy: null,
      models: [],
      fallback: {},
      max_cost_usd: 1,
      enabled: true,
    })
    expect((await gateway.call('POST', '/policies', { body: { name: 'careful' } })).status).toBe(409)
    expect((await gateway.call('DELETE', `/policies/${made.body.id}`)).body).toEqual({
      deleted: true,
      id: made.body.id,
    })
    expect((await gateway.call('GET', `/policies/${made.body.id}`)).status).toBe(404)
  })

  test.each([
    [{ strategy: 'best' }, 'strategy'],
    [{ fallback: { on: ['everything'] } }, 'fallback.on'],
    [{ sensitivity: { secret: {} } }, 'sensitivity.secret'],
    [{ timeouts: { total_ms: -1 } }, 'timeouts.total_ms'],
    [{ strategy_params: { hash_on: 'ip' } }, 'strategy_params.hash_on'],
    [{ cache: { mode: 'always' } }, 'cache.mode'],
    [{ enabled: true, status: 'disabled' }, 'enabled'],
  ])('%j is 400 and names the field', async (fields, param) => {
    const { status, body } = await startGateway().call('POST', '/policies', { body: { name: 'p', ...fields } })
    expect([status, body.error]).toMatchObject([400, { code: 'invalid_request', param }])
  })

  test('a key without * has its own tenant’s and the global ones; another’s are 404', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['policies:admin'], 'ten_other')
    const { body: foreign } = await gateway.call('POST', '/policies', { body: { name: 'p', tenant_id: 'ten_default' } })
    const { body: global } = await gateway.call('POST', '/policies', { body: { name: 'p' } })
    const { body: own } = await gateway.call('POST', '/policies', { key, body: { name: 'p' } })
    expect(own.tenant_id as string).toBe('ten_other')
    const { body: list } = await gateway.call('GET', '/policies', { key })
    expect((list.policies as { id: string }[]).map(({ id }) => id)).toEqual([global.id as string, own.id as string])
    for (const method of ['GET', 'DELETE']) {
      expect((await gateway.call(method, `/policies/${foreign.id}`, { key })).status).toBe(404)
    }
    expect(
      (await gateway.call('PUT', '/policies', { key, body: { name: 'p', tenant_id: 'ten_default' } })).status,
    ).toBe(404)
  })

  test('a deleted policy leaves the keys that were bound to it', async () => {
    const gateway = startGateway()
    const { body: policy } = await gateway.call('POST', '/policies', { body: { name: 'p' } })
    const body = { ...newKey, tenant_id: 'ten_default', routing_policy_id: policy.id }
    const { body: key } = await gateway.call('POST', '/keys', { body })
    expect((await gateway.call('DELETE', `/policies/${policy.id}`)).status).toBe(200)
    expect(gateway.state.table('keys').get(key.id as string)?.status).toBe('active')
    const unbound = await gateway.call('POST', '/keys', { body })
    expect([unbound.status, unbound.body.error]).toMatchObject([400, { param: 'routing_policy_id' }])
  })
})
