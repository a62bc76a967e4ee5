// Budgets, cache rules, tools and tool policies as clients write and read them, and whose they are.
import { describe, expect, test } from 'bun:test'
import { type Gateway, startGateway } from '../world/gateway.ts'

type Body = Record<string, unknown>
const ids = (body: Body, noun: string) => (body[noun] as { id: string }[]).map(({ id }) => id)
const put = (gateway: Gateway, path: string, body: object, more: object = {}) =>
  gateway.call('PUT', path, { body, ...more })

// docs/behaviour.md: "Budgets"
describe('budgets', () => {
  const full = {
    tenant_id: 'ten_other',
    scope: { type: 'tenant', id: 'ten_other' },
    limit_usd: 100,
    limit_tokens: 1_000_000,
    window: 'week',
    calendar_aligned: true,
    timezone: 'Europe/Berlin',
    soft_limit_usd: 80,
    alert_thresholds: [0.5, 0.8],
    hard_cap_usd: 0.25,
    enforcement: 'soft',
    enabled: false,
  }

  test('every field is kept; PUT replaces all of them; a GET goes back as PUT', async () => {
    const gateway = startGateway()
    const made = await put(gateway, '/budgets', full)
    expect([made.status, made.body]).toMatchObject([200, full])
    expect(made.body).toMatchObject({
      ...{ spent_usd: null, reserved_usd: null, remaining_usd: null },
      window_start: '2026-11-15T23:00:00.000Z',
      resets_at: '2026-11-22T23:00:00.000Z',
    })
    const path = `/budgets/${made.body.id}`
    const read = await gateway.call('GET', path)
    expect(read.body).toEqual(made.body)
    const same = await put(gateway, '/budgets', read.body)
    expect([same.status, same.body]).toEqual([200, read.body])
    const bare = await put(gateway, '/budgets', { tenant_id: 'ten_other', window: 'week', limit_usd: 5 })
    expect(bare.body).toMatchObject({
      id: made.body.id,
      limit_usd: 5,
      limit_tokens: null,
      enabled: true,
      timezone: 'UTC',
    })
    expect((await gateway.call('GET', '/budgets?tenant_id=ten_other')).body).toMatchObject({ total: 1 })
    expect((await gateway.call('DELETE', path)).body).toEqual({ deleted: true, id: made.body.id })
    expect((await gateway.call('GET', path)).status).toBe(404)
  })

  test.each([
    [{}, 'limit_usd'],
    [{ limit_usd: '5' }, 'limit_usd'],
    [{ limit_usd: -1 }, 'limit_usd'],
    [{ limit_usd: 1e9 }, 'limit_usd'],
    [{ limit_usd: 1e-10 }, 'limit_usd'],
    [{ limit_usd: 1, soft_limit_usd: 9e-10 }, 'soft_limit_usd'],
    [{ hard_cap_usd: 5e-324 }, 'hard_cap_usd'],
    [{ limit_tokens: 1.5 }, 'limit_tokens'],
    [{ limit_usd: 1, window: '1d' }, 'window'],
    [{ limit_usd: 1, window: '0h' }, 'window'],
    [{ limit_usd: 1, timezone: 'Mars/Olympus' }, 'timezone'],
    [{ limit_usd: 1, soft_limit_usd: 2 }, 'soft_limit_usd'],
    [{ limit_usd: 1, alert_thresholds: [0.9, 0.1] }, 'alert_thresholds'],
    [{ limit_usd: 1, alert_thresholds: [0] }, 'alert_thresholds'],
    [{ limit_usd: 1, enforcement: 'firm' }, 'enforcement'],
    [{ limit_usd: 1, scope: { type: 'planet', id: 'x' } }, 'scope.type'],
    [{ limit_usd: 1, scope: { type: 'model', id: 'none' } }, 'scope.id'],
    [{ limit_usd: 1, scope: { type: 'tenant', name: 'x' } }, 'scope.name'],
    [{ limit_usd: 1, enabled: true, status: 'disabled' }, 'enabled'],
  ])('%j is 400 and names %s', async (body, param) => {
    const gateway = startGateway()
    const answer = await put(gateway, '/budgets', body)
    expect([answer.status, answer.body.error]).toMatchObject([400, { code: 'invalid_request', param }])
    expect(gateway.state.table('budgets').size).toBe(0)
  })

  test('`enabled` false ends a budget, and needs no more than what it is known by', async () => {
    const gateway = startGateway()
    const known = { tenant_id: 'ten_other', window: 'week' }
    const { body: made } = await put(gateway, '/budgets', { ...full, enabled: true })
    for (const word of [{ enabled: false }, { status: 'disabled' }]) {
      const ended = await put(gateway, '/budgets', { ...known, ...word })
      expect([ended.status, ended.body]).toMatchObject([200, { ...full, id: made.id, enabled: false }])
    }
    expect(gateway.events.at(-1)).toEqual({ type: 'budget.changed', data: { id: made.id, enabled: false } })
    const none = await put(gateway, '/budgets', { ...known, window: 'day', enabled: false })
    expect([none.status, none.body.error]).toMatchObject([400, { param: 'limit_usd' }])
    expect(gateway.state.table('budgets').size).toBe(1)
  })

  test('If-Match is about the budget of that tenant, scope and window', async () => {
    const gateway = startGateway()
    const body = { limit_usd: 1 }
    expect((await put(gateway, '/budgets', body, { headers: { 'if-match': '*' } })).status).toBe(409)
    const { body: made } = await put(gateway, '/budgets', body)
    const headers = { 'if-match': `"${made.revision}"` }
    expect((await put(gateway, '/budgets', { limit_usd: 2 }, { headers })).status).toBe(200)
    expect((await put(gateway, '/budgets', { limit_usd: 3 }, { headers })).status).toBe(409)
  })

  test('a key without * has its own tenant’s; another’s are 404', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['tenants:admin'])
    const { body: foreign } = await put(gateway, '/budgets', { tenant_id: 'ten_other', limit_usd: 1 })
    const { body: own } = await put(gateway, '/budgets', { limit_usd: 1 }, { key })
    expect(own.tenant_id as string).toBe('ten_default')
    expect(ids((await gateway.call('GET', '/budgets', { key })).body, 'budgets')).toEqual([own.id as string])
    expect(ids((await gateway.call('GET', '/budgets')).body, 'budgets')).toHaveLength(2)
    for (const [method, path, body] of [
      ['GET', '/budgets?tenant_id=ten_other', undefined],
      ['GET', `/budgets/${foreign.id}`, undefined],
      ['DELETE', `/budgets/${foreign.id}`, undefined],
      ['PUT', '/budgets', { tenant_id: 'ten_other', limit_usd: 2 }],
    ] as const)
      expect((await gateway.call(method, path, { key, body })).status).toBe(404)
  })

  test('a deleted provider takes its budgets with it, and says how many', async () => {
    const gateway = startGateway()
    const { body: provider } = await gateway.call('POST', '/providers', { body: { name: 'oa', kind: 'openai' } })
    await put(gateway, '/budgets', { limit_usd: 1, scope: { type: 'provider', id: 'OA' } })
    const gone = await gateway.call('DELETE', `/providers/${provider.id}`)
    expect(gone.body).toEqual({ deleted: true, id: provider.id, models_removed: 0, budgets_removed: 1 })
  })
})

// docs/behaviour.md: "Cache rules"
describe('cache rules', () => {
  test('are upserted by name and listed in the order in which they are asked', async () => {
    const gateway = startGateway()
    const { body: key } = await gateway.call('POST', '/keys', {
      body: { tenant_id: 'ten_other', name: 'k', scopes: ['inference'] },
    })
    await put(gateway, '/endpoints', { slug: 'desk' })
    const rule = (name: string, scopes: string[]) =>
      put(gateway, '/cache/policies', { name, ttl_seconds: 60, enabled: true, scopes })
    const { body: global } = await rule('all', ['global'])
    expect(global).toMatchObject({ tenant_id: null, mode: 'exact', similarity_threshold: null, managed_by: 'api' })
    await rule('theirs', ['tenant:ten_other'])
    await rule('desk', ['endpoint:desk'])
    await rule('one', [`key:${key.id}`])
    const { body } = await gateway.call('GET', '/cache/policies')
    expect((body.policies as { name: string }[]).map(({ name }) => name)).toEqual(['one', 'desk', 'theirs', 'all'])
    const { body: ofDefault } = await gateway.call('GET', '/cache/policies?tenant_id=ten_default')
    expect((ofDefault.policies as { name: string }[]).map(({ name }) => name)).toEqual(['desk', 'all'])
    const again = await put(gateway, '/cache/policies', { ...global, ttl_seconds: 5, enabled: false })
    expect(again.body).toMatchObject({ id: global.id, ttl_seconds: 5, enabled: false })
    expect((await gateway.call('DELETE', `/cache/policies/${global.id}`)).body).toEqual({
      deleted: true,
      id: global.id,
    })
  })

  test.each([
    [{ ttl_seconds: 1 }, 400, 'name'],
    [{ name: 'a' }, 400, 'ttl_seconds'],
    [{ name: 'a', ttl_seconds: -1 }, 400, 'ttl_seconds'],
    [{ name: 'a', ttl_seconds: 1, scopes: [] }, 400, 'scopes'],
    [{ name: 'a', ttl_seconds: 1, scopes: ['planet:x'] }, 400, 'scopes'],
    [{ name: 'a', ttl_seconds: 1, scopes: ['key:none'] }, 400, 'scopes'],
    [{ name: 'a', ttl_seconds: 1, mode: 'fuzzy' }, 400, 'mode'],
    [{ name: 'a', ttl_seconds: 1, similarity_threshold: 0.5 }, 400, 'similarity_threshold'],
    [{ name: 'a', ttl_seconds: 1, tenant_id: 'none' }, 404, 'tenant_id'],
  ])('%j is %d and names %s', async (body, status, param) => {
    const answer = await put(startGateway(), '/cache/policies', body)
    expect([answer.status, answer.body.error]).toMatchObject([status, { param }])
  })

  test('a key without * sees what can concern its tenant, and changes nothing that names another', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['policies:admin'])
    const rule = async (name: string, more: object, as?: string) =>
      (await put(gateway, '/cache/policies', { name, ttl_seconds: 60, ...more }, { key: as })).body
    const foreign = await rule('foreign', { tenant_id: 'ten_other' })
    const others = await rule('others', { scopes: ['tenant:ten_other'] })
    const both = await rule('both', { scopes: ['tenant:ten_other', 'tenant:ten_default'] })
    const global = await rule('global', { scopes: ['global'] }, key)
    const own = await rule('own', {}, key)
    expect([global.tenant_id, own.tenant_id, own.scopes]).toEqual([null, 'ten_default', ['tenant:ten_default']])
    const { body } = await gateway.call('GET', '/cache/policies', { key })
    expect(ids(body, 'policies').sort()).toEqual([both.id, global.id, own.id].map(String).sort())
    expect(JSON.stringify(body)).not.toContain('ten_other')
    for (const { id } of [foreign, others]) {
      expect((await gateway.call('GET', `/cache/policies/${id}`, { key })).status).toBe(404)
      expect((await gateway.call('DELETE', `/cache/policies/${id}`, { key })).status).toBe(404)
    }
    expect((await gateway.call('DELETE', `/cache/policies/${both.id}`, { key })).status).toBe(403)
    const taken = { name: 'both', tenant_id: null, ttl_seconds: 1, scopes: ['global'] }
    expect((await put(gateway, '/cache/policies', taken, { key })).status).toBe(403)
    const naming = { name: 'x', ttl_seconds: 1, scopes: ['tenant:ten_other'] }
    expect((await put(gateway, '/cache/policies', naming, { key })).status).toBe(400)
    const theirs = { name: 'x', ttl_seconds: 1, tenant_id: 'ten_other' }
    expect((await put(gateway, '/cache/policies', theirs, { key })).status).toBe(404)
    expect((await gateway.call('DELETE', `/cache/policies/${global.id}`, { key })).status).toBe(200)
  })
})

// docs/behaviour.md: "Tools"
describe('tools', () => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }

  test('are registered, changed in part, switched and deleted', async () => {
    const gateway = startGateway()
    const made = await gateway.call('POST', '/tools', { body: { name: 'weather', parameters } })
    expect([made.status, made.body]).toMatchObject([
      201,
      {
        name: 'weather',
        kind: 'function',
        owner: 'global',
        tenant_id: null,
        safety: 'safe',
        enabled: true,
        parameters,
      },
    ])
    expect(made.body.executable as unknown).toBe(false)
    const path = `/tools/${made.body.id}`
    const edited = await put(gateway, path, { description: 'the weather', enabled: false })
    expect(edited.body).toMatchObject({ description: 'the weather', enabled: false, parameters })
    const same = await put(gateway, path, edited.body)
    expect([same.status, same.body]).toEqual([200, edited.body])
    expect((await gateway.call('POST', `${path}/enabled`, { body: { enabled: true } })).body.enabled).toBe(true)
    expect((await gateway.call('GET', '/tools')).body).toMatchObject({ total: 1, tools: [{ enabled: true }] })
    expect((await gateway.call('POST', '/tools', { body: { name: 'WEATHER' } })).status).toBe(409)
    expect((await gateway.call('DELETE', path)).body).toEqual({ deleted: true, id: made.body.id })
    expect((await gateway.call('GET', path)).status).toBe(404)
  })

  test.each([
    [{}, 400, 'name'],
    [{ name: 'with space' }, 400, 'name'],
    [{ name: 'a', safety: 'unknown' }, 400, 'safety'],
    [{ name: 'a', kind: 'magic' }, 400, 'kind'],
    [{ name: 'a', kind: 'builtin' }, 400, 'kind'],
    [{ name: 'a', owner: 'tenant' }, 400, 'tenant_id'],
    [{ name: 'a', owner: 'global', tenant_id: 'ten_other' }, 400, 'tenant_id'],
    [{ name: 'a', owner: 'tenant', tenant_id: 'none' }, 404, 'tenant_id'],
    [{ name: 'a', parameters: [] }, 400, 'parameters'],
    [{ name: 'a', parameters: { properties: { b: { typ: 'x' } } } }, 400, 'parameters.properties.b.typ'],
  ])('%j is %d and names %s', async (body, status, param) => {
    const answer = await startGateway().call('POST', '/tools', { body })
    expect([answer.status, answer.body.error]).toMatchObject([status, { param }])
  })

  test.each([
    [{ name: 'other' }, 'name'],
    [{ kind: 'builtin' }, 'kind'],
    [{ owner: 'tenant' }, 'owner'],
    [{ parameters: { a: 1 } }, 'parameters.a'],
  ])('a change of %j is 400 and names %s', async (body, param) => {
    const gateway = startGateway()
    const { body: made } = await gateway.call('POST', '/tools', { body: { name: 'weather' } })
    const answer = await put(gateway, `/tools/${made.id}`, body)
    expect([answer.status, answer.body.error]).toMatchObject([400, { param }])
  })

  test('global ones follow the scope; another tenant’s are 404', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['providers:admin'])
    const post = async (body: object, as?: string) => (await gateway.call('POST', '/tools', { key: as, body })).body
    const foreign = await post({ name: 'a', tenant_id: 'ten_other' })
    const global = await post({ name: 'b' }, key)
    const own = await post({ name: 'c', owner: 'tenant' }, key)
    expect([global.tenant_id, own.tenant_id]).toEqual([null, 'ten_default'])
    expect(ids((await gateway.call('GET', '/tools', { key })).body, 'tools')).toEqual([global.id, own.id].map(String))
    for (const [method, path, body] of [
      ['GET', `/tools/${foreign.id}`, undefined],
      ['PUT', `/tools/${foreign.id}`, { description: 'x' }],
      ['POST', `/tools/${foreign.id}/enabled`, { enabled: false }],
      ['DELETE', `/tools/${foreign.id}`, undefined],
      ['POST', '/tools', { name: 'd', tenant_id: 'ten_other' }],
    ] as const)
      expect((await gateway.call(method, path, { key, body })).status).toBe(404)
    expect((await put(gateway, `/tools/${global.id}`, { safety: 'sensitive' }, { key })).status).toBe(200)
  })
})

// docs/behaviour.md: "Tools"
describe('tool policies', () => {
  test('are upserted by name; bounds are answered clamped; `enabled` is kept where it is absent', async () => {
    const gateway = startGateway()
    const wide = { name: 'default', mode: 'automatic', max_steps: 50, max_tool_calls: 0, max_run_seconds: 601 }
    const made = await put(gateway, '/tool-policies', wide)
    expect([made.status, made.body]).toMatchObject([
      200,
      { mode: 'automatic', max_steps: 10, max_tool_calls: 1, max_run_seconds: 600, enabled: true, tenant_id: null },
    ])
    await put(gateway, '/tool-policies', { ...wide, enabled: false })
    expect((await put(gateway, '/tool-policies', { name: 'DEFAULT' })).body).toMatchObject({
      ...{ id: made.body.id, name: 'default', enabled: false, mode: 'manual' },
      ...{ max_steps: 5, max_tool_calls: 16, max_run_seconds: 60 },
    })
    expect((await gateway.call('GET', '/tool-policies')).body).toMatchObject({
      total: 1,
      policies: [{ enabled: false }],
    })
    const path = `/tool-policies/${made.body.id}`
    expect((await gateway.call('DELETE', path)).body).toEqual({ deleted: true, id: made.body.id })
    expect((await gateway.call('GET', path)).status).toBe(404)
  })

  test.each([
    [{}, 'name'],
    [{ name: 'a', mode: 'sometimes' }, 'mode'],
    [{ name: 'a', max_steps: 1.5 }, 'max_steps'],
    [{ name: 'a', max_steps: '3' }, 'max_steps'],
  ])('%j is 400 and names %s', async (body, param) => {
    const answer = await put(startGateway(), '/tool-policies', body)
    expect([answer.status, answer.body.error]).toMatchObject([400, { param }])
  })

  test('a key without * has its own tenant’s and the global ones; another’s are 404', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['providers:admin'])
    const upsert = async (body: object, as?: string) => (await put(gateway, '/tool-policies', body, { key: as })).body
    const foreign = await upsert({ name: 'p', tenant_id: 'ten_other' })
    const global = await upsert({ name: 'p' })
    const own = await upsert({ name: 'p' }, key)
    expect(own.tenant_id as string).toBe('ten_default')
    const { body } = await gateway.call('GET', '/tool-policies', { key })
    expect(ids(body, 'policies')).toEqual([global.id, own.id].map(String))
    for (const method of ['GET', 'DELETE'])
      expect((await gateway.call(method, `/tool-policies/${foreign.id}`, { key })).status).toBe(404)
    const theirs = { name: 'p', tenant_id: 'ten_other' }
    expect((await put(gateway, '/tool-policies', theirs, { key })).status).toBe(404)
  })
})

test('all of it goes with its tenant, is frozen with it, and only * deletes a tenant that has some', async () => {
  const gateway = startGateway()
  await put(gateway, '/budgets', { tenant_id: 'ten_other', limit_usd: 1 })
  await put(gateway, '/cache/policies', { name: 'r', tenant_id: 'ten_other', ttl_seconds: 1 })
  await gateway.call('POST', '/tools', { body: { name: 't', tenant_id: 'ten_other' } })
  const { body: policy } = await put(gateway, '/tool-policies', { name: 'p', tenant_id: 'ten_other' })
  const key = gateway.keyWith(['tenants:admin'])
  expect((await gateway.call('DELETE', '/tenants/ten_other', { key })).status).toBe(403)
  const freeze = (enabled: boolean) =>
    gateway.call('POST', '/overrides', { body: { kind: 'freeze', tenant_id: 'ten_other', enabled } })
  await freeze(true)
  expect((await gateway.call('DELETE', `/tool-policies/${policy.id}`)).status).toBe(403)
  await freeze(false)
  expect((await gateway.call('DELETE', '/tenants/ten_other')).status).toBe(200)
  for (const table of ['budgets', 'cache_rules', 'tools', 'tool_policies'] as const)
    expect(gateway.state.table(table).size).toBe(0)
})
