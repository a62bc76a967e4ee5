// Endpoint scopes through the admin surface.
import { describe, expect, test } from 'bun:test'
import { type Gateway, startGateway } from '../world/gateway.ts'

const withModel = async (): Promise<Gateway> => {
  const gateway = startGateway()
  const { body } = await gateway.call('POST', '/providers', { body: { name: 'oa', kind: 'openai' } })
  await gateway.call('POST', '/models', { body: { name: 'gpt', provider_id: body.id, aliases: ['fast'] } })
  return gateway
}
const put = (gateway: Gateway, body: object, more: object = {}) => gateway.call('PUT', '/endpoints', { body, ...more })

// docs/behaviour.md: "Endpoint scopes"
describe('endpoint scopes', () => {
  const full = {
    slug: 'support',
    name: 'Support',
    description: 'what the help desk calls',
    enabled: false,
    aliases: ['desk'],
    overrides: {
      forced_model: 'gpt',
      preferred_models: ['gpt'],
      preferred_providers: ['oa'],
      strategy: 'latency-based-routing',
      max_cost_usd: 0.5,
      latency_target_ms: 800,
      no_fallback: true,
    },
  }

  test('every field is kept; PUT replaces all of them; a GET goes back as PUT', async () => {
    const gateway = await withModel()
    const made = await put(gateway, full)
    expect(made.status).toBe(200)
    const overrides = { ...full.overrides, strategy: 'lowest_latency' }
    expect(made.body).toMatchObject({ ...full, overrides, tenant_id: null })
    const path = `/endpoints/${made.body.id}`
    const read = await gateway.call('GET', path)
    expect(read.body).toEqual(made.body)
    const same = await put(gateway, read.body)
    expect([same.status, same.body.revision]).toEqual([200, read.body.revision])
    expect((await gateway.call('GET', '/endpoints')).body).toEqual({
      endpoints: [read.body],
      total: 1,
      limit: 50,
      offset: 0,
    })
    const bare = await put(gateway, { slug: 'SUPPORT' })
    expect(bare.body).toMatchObject({
      id: made.body.id,
      slug: 'support',
      name: 'SUPPORT',
      description: null,
      enabled: true,
      aliases: [],
      overrides: { forced_model: null, preferred_models: [], strategy: null, no_fallback: false },
    })
    expect((await gateway.call('DELETE', path)).body).toEqual({ deleted: true, id: made.body.id })
    expect((await gateway.call('GET', path)).status).toBe(404)
  })

  test('override fields are taken flat too; given twice they must be equal', async () => {
    const gateway = await withModel()
    const { overrides, ...rest } = full
    expect((await put(gateway, { ...rest, ...overrides })).body.overrides).toMatchObject({
      ...overrides,
      strategy: 'lowest_latency',
    })
    expect((await put(gateway, { ...full, max_cost_usd: 0.5 })).status).toBe(200)
    const twice = await put(gateway, { ...full, max_cost_usd: 1 })
    expect([twice.status, twice.body.error]).toMatchObject([400, { param: 'max_cost_usd' }])
  })

  test.each([
    [{}, 400, 'slug'],
    [{ slug: 'with space' }, 400, 'slug'],
    [{ slug: 'a', overrides: { forced_model: 'none' } }, 400, 'overrides.forced_model'],
    [{ slug: 'a', strategy: 'best' }, 400, 'strategy'],
    [{ slug: 'a', overrides: { strategy: 'best' } }, 400, 'overrides.strategy'],
    [{ slug: 'a', forced_model: 'none' }, 400, 'forced_model'],
    [{ slug: 'a', overrides: { speed: 1 } }, 400, 'overrides.speed'],
    [{ slug: 'a', max_cost_usd: -1 }, 400, 'max_cost_usd'],
    [{ slug: 'a', aliases: ['GPT'] }, 409, 'aliases'],
    [{ slug: 'a', aliases: ['Fast'] }, 409, 'aliases'],
    [{ slug: 'a', tenant_id: 'ten_none' }, 404, 'tenant_id'],
    [{ slug: 'a', enabled: true, status: 'disabled' }, 400, 'enabled'],
  ])('%j is %d and names %s', async (body, status, param) => {
    const answer = await put(await withModel(), body)
    expect([answer.status, answer.body.error]).toMatchObject([status, { param }])
  })

  test('a model takes no name or alias that a scope has', async () => {
    const gateway = await withModel()
    await put(gateway, { slug: 'support', aliases: ['desk'] })
    const { body: list } = await gateway.call('GET', '/models')
    const [{ id, provider_id }] = list.models as [{ id: string; provider_id: string }]
    const named = await gateway.call('POST', '/models', { body: { name: 'Desk', provider_id } })
    expect([named.status, named.body.error]).toMatchObject([409, { type: 'conflict_error', param: 'name' }])
    const aliased = await gateway.call('PATCH', `/models/${id}`, { body: { aliases: ['desk'] } })
    expect([aliased.status, aliased.body.error]).toMatchObject([409, { param: 'aliases' }])
  })

  test('If-Match is about the scope of that slug', async () => {
    const gateway = await withModel()
    expect((await put(gateway, { slug: 'a' }, { headers: { 'if-match': '*' } })).status).toBe(409)
    const { body } = await put(gateway, { slug: 'a' })
    const headers = { 'if-match': `"${body.revision}"` }
    expect((await put(gateway, { slug: 'a', name: 'x' }, { headers })).status).toBe(200)
    expect((await put(gateway, { slug: 'a', name: 'y' }, { headers })).status).toBe(409)
  })

  test('a key without * has its own tenant’s and the global ones; another’s are 404; only * deletes', async () => {
    const gateway = await withModel()
    const key = gateway.keyWith(['policies:admin'], 'ten_other')
    const { body: foreign } = await put(gateway, { slug: 'p', tenant_id: 'ten_default' })
    const { body: global } = await put(gateway, { slug: 'p' })
    const { body: own } = await put(gateway, { slug: 'p' }, { key })
    expect(own.tenant_id as string).toBe('ten_other')
    const { body: list } = await gateway.call('GET', '/endpoints', { key })
    expect((list.endpoints as { id: string }[]).map(({ id }) => id)).toEqual([global.id as string, own.id as string])
    expect((await gateway.call('GET', `/endpoints/${foreign.id}`, { key })).status).toBe(404)
    expect((await put(gateway, { slug: 'p', tenant_id: 'ten_default' }, { key })).status).toBe(404)
    expect((await gateway.call('DELETE', `/endpoints/${own.id}`, { key })).status).toBe(403)
    expect((await gateway.call('DELETE', `/endpoints/${own.id}`)).status).toBe(200)
  })

  test('go with their tenant', async () => {
    const gateway = await withModel()
    await put(gateway, { slug: 'p', tenant_id: 'ten_other' })
    await gateway.call('DELETE', '/tenants/ten_other')
    expect((await gateway.call('GET', '/endpoints')).body.total).toBe(0)
  })
})
