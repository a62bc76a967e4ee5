// What a list is narrowed to must be there: a slip is no list of nothing. And what a write names as too large.
import { describe, expect, test } from 'bun:test'
import { configurationRoutes } from '../../../src/http/admin/runner.ts'
import { startGateway } from './world/gateway.ts'

describe('a list of the configuration', () => {
  const gateway = startGateway()
  const narrowed = (param: string) =>
    configurationRoutes(gateway.deps)
      .filter(({ method, rows, querySchema }) => method === 'GET' && rows !== null && querySchema?.properties?.[param])
      .map(({ path }) => path)

  test('of a tenant that is not there is 404 and names the parameter, on every route that takes one', async () => {
    const paths = narrowed('tenant_id')
    expect(paths.toSorted()).toEqual([
      '/budgets',
      '/cache/policies',
      '/endpoints',
      '/guardrails',
      '/keys',
      '/overrides',
      '/policies',
      '/tool-policies',
      '/tools',
    ])
    const { body: tenant } = await gateway.call('POST', '/tenants', { body: { slug: 'here', name: 'Here' } })
    for (const path of paths) {
      const none = await gateway.call('GET', `${path}?tenant_id=nope`)
      expect([path, none.status, none.body.error]).toMatchObject([path, 404, { code: 'not_found', param: 'tenant_id' }])
      const one = await gateway.call('GET', `${path}?tenant_id=${tenant.id}`)
      expect([path, one.status, one.body.total]).toEqual([path, 200, 0])
    }
  })

  test('beyond 2^53 an offset is refused for what it is, and one below it is taken', async () => {
    const ask = (offset: string) => gateway.call('GET', `/tenants?offset=${offset}`)
    const most = String(Number.MAX_SAFE_INTEGER)
    for (const offset of ['9007199254740993', '9'.repeat(40)]) {
      const { status, body } = await ask(offset)
      const message = `"offset" may be at most ${most}`
      expect([offset, status, body.error]).toMatchObject([offset, 400, { param: 'offset', message }])
    }
    for (const offset of ['-1', '1.5', 'x', '1e3'])
      expect(((await ask(offset)).body.error as { message: string }).message).toContain('a whole number of at least 0')
    for (const offset of [most, '1000000000000000', '007']) {
      const { status, body } = await ask(offset)
      expect([offset, status, body.offset]).toEqual([offset, 200, Number(offset)])
    }
  })

  test('of models by a provider that is not there is 404; by its name, in any case, and by its id it is not', async () => {
    const { body: provider } = await gateway.call('POST', '/providers', { body: { name: 'Alpha', kind: 'openai' } })
    await gateway.call('POST', '/models', { body: { name: 'm', provider_id: provider.id } })
    for (const named of ['alpha', 'ALPHA', provider.id])
      expect((await gateway.call('GET', `/models?provider=${named}`)).body.total).toBe(1)
    const none = await gateway.call('GET', '/models?provider=zzz')
    expect([none.status, none.body.error]).toMatchObject([404, { param: 'provider' }])
  })
})

test('a number of a schema that would be rounded is 400 and named; one that is kept comes back as it was sent', async () => {
  const gateway = startGateway()
  const send = (maximum: string) =>
    gateway.call('POST', '/tools', {
      raw: `{"name":"t","parameters":{"type":"object","properties":{"n":{"type":"integer","maximum":${maximum}}}}}`,
    })
  const rounded = await send('9007199254740993')
  expect([rounded.status, rounded.body.error]).toMatchObject([400, { param: 'parameters.properties.n.maximum' }])
  expect(gateway.state.table('tools').size).toBe(0)
  const kept = await send('9007199254740992')
  expect([kept.status, kept.body.parameters]).toMatchObject([201, { properties: { n: { maximum: 2 ** 53 } } }])
})

test('what is too large is 400 and names the field that makes it so', async () => {
  const gateway = startGateway()
  const parameters = { type: 'object', description: 'x'.repeat(60_000) }
  const tool = await gateway.call('POST', '/tools', { body: { name: 't', parameters } })
  expect([tool.status, tool.body.error]).toMatchObject([400, { param: 'parameters' }])
  const { body: small } = await gateway.call('POST', '/tools', { body: { name: 't', description: 'y'.repeat(2_000) } })
  const grown = await gateway.call('PUT', `/tools/${small.id}`, { body: { parameters } })
  expect([grown.status, grown.body.error]).toMatchObject([400, { param: 'parameters' }])
  const aliases = Array.from({ length: 32 }, (_, at) => `${at}${'é'.repeat(250)}`)
  const preferred = Array.from({ length: 64 }, (_, at) => `${at}${'é'.repeat(250)}`)
  const scope = await gateway.call('PUT', '/endpoints', {
    body: { slug: 's', aliases, preferred_models: preferred, preferred_providers: preferred },
  })
  expect([scope.status, scope.body.error]).toMatchObject([400, { param: 'overrides' }])
})
