// Overrides, guardrails, the kill switch and the freeze, as an operator meets them.
import { describe, expect, test } from 'bun:test'
import { adminTable } from '../../../../src/http/admin/runner.ts'
import { type Gateway, startGateway } from '../world/gateway.ts'

const provider = async (gateway: Gateway, name = 'oa'): Promise<string> =>
  (await gateway.call('POST', '/providers', { body: { name, kind: 'openai' } })).body.id as string
const impose = (gateway: Gateway, body: object, key?: string) => gateway.call('POST', '/overrides', { body, key })
const make = async (gateway: Gateway, word: string, name: string, tenant_id: string | null, key?: string) => {
  const made =
    word === 'tool'
      ? await gateway.call('POST', '/tools', { body: { name, tenant_id }, key })
      : await gateway.call('PUT', '/endpoints', { body: { slug: name, tenant_id }, key })
  expect(made.status).toBe(word === 'tool' ? 201 : 200)
}
const freeze = { kind: 'freeze', reason: 'audit' }

// docs/behaviour.md: "Overrides"
describe('POST /overrides', () => {
  test('adds a row that says who, what and until when; lists show the newest first, and what holds', async () => {
    const gateway = startGateway()
    const id = await provider(gateway)
    const expires_at = '2026-11-20T02:00:00+01:00'
    const made = await impose(gateway, { kind: 'kill', target: 'OA', reason: 'it lies', expires_at })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      kind: 'kill',
      target: `provider:${id}`,
      tenant_id: null,
      value: null,
      enabled: true,
      reason: 'it lies',
      expires_at: '2026-11-20T01:00:00.000Z',
      actor: { type: 'key', id: 'key_admin' },
      in_force: true,
      revision: made.headers.get('x-gateway-revision'),
    })
    expect(made.body).not.toHaveProperty('superseded')
    await impose(gateway, { kind: 'cap', value: { max_cost_usd: 1 } })
    await impose(gateway, { kind: 'kill', target: id, enabled: false })
    const { body } = await gateway.call('GET', '/overrides')
    expect(body).toMatchObject({ total: 3, limit: 100, offset: 0 })
    const rows = (body.overrides as Record<string, unknown>[]).map((row) => [row.kind, row.enabled, row.in_force])
    expect(rows).toEqual([
      ['kill', false, false],
      ['cap', true, true],
      ['kill', true, false],
    ])
    expect((await gateway.call('GET', '/guardrails')).body).toEqual(body)
    const filtered = (query: string) => gateway.call('GET', `/guardrails?${query}`)
    expect((await filtered('in_force=true')).body).toMatchObject({ total: 1, overrides: [{ kind: 'cap' }] })
    expect((await filtered('kind=kill&limit=1&offset=1')).body).toMatchObject({
      total: 2,
      overrides: [{ reason: 'it lies' }],
    })
    expect((await filtered('kind=explode')).body.error).toMatchObject({ code: 'invalid_request', param: 'kind' })
  })

  test('what holds is looked at when it is asked', async () => {
    const gateway = startGateway()
    const id = await provider(gateway)
    await impose(gateway, { kind: 'kill', target: id, expires_at: '2026-11-20T01:00:00Z' })
    const killed = async () => (await gateway.call('GET', `/providers/${id}`)).body.killed
    expect(await killed()).toBe(true)
    gateway.nowMs = Date.UTC(2026, 10, 20, 1)
    expect(await killed()).toBe(false)
    expect((await gateway.call('GET', '/overrides')).body.overrides).toMatchObject([{ enabled: true, in_force: false }])
  })

  test.each([
    [{ kind: 'explode' }, 400, 'kind'],
    [{}, 400, 'kind'],
    [{ kind: 'kill' }, 400, 'target'],
    [{ kind: 'kill', target: 'nobody' }, 404, 'target'],
    [{ kind: 'cap', value: { max_cost_usd: '1' } }, 400, 'value.max_cost_usd'],
    [{ kind: 'force', value: { model: 'none' } }, 400, 'value.model'],
    [{ kind: 'freeze', expires_at: 'tomorrow' }, 400, 'expires_at'],
    [{ kind: 'freeze', expires_at: '2026-13-40T00:00:00Z' }, 400, 'expires_at'],
    [{ kind: 'freeze', expires_at: '2020-01-01T00:00:00Z' }, 400, 'expires_at'],
    [{ kind: 'freeze', enabled: 'yes' }, 400, 'enabled'],
    [{ kind: 'freeze', tenant_id: 'ten_none' }, 404, 'tenant_id'],
  ])('%j is %d and names %s', async (body, status, param) => {
    const answer = await impose(startGateway(), body)
    expect([answer.status, answer.body.error]).toMatchObject([status, { param }])
  })

  test('the same Idempotency-Key adds one row', async () => {
    const gateway = startGateway()
    const options = { body: { kind: 'cap', value: { max_cost_usd: 1 } }, headers: { 'idempotency-key': 'k' } }
    const [first, second] = [
      await gateway.call('POST', '/overrides', options),
      await gateway.call('POST', '/overrides', options),
    ]
    expect([second.status, second.body]).toEqual([201, first.body])
    expect(gateway.state.table('overrides').size).toBe(1)
  })

  test('a key without * means its own tenant, and sees of others’ nothing', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['providers:admin'], 'ten_other')
    const cap = { kind: 'cap', value: { max_cost_usd: 1 } }
    const own = await impose(gateway, cap, key)
    expect(own.body.tenant_id as string).toBe('ten_other')
    expect((await impose(gateway, { ...cap, tenant_id: 'ten_default' }, key)).status).toBe(404)
    expect((await impose(gateway, { kind: 'block', target: 'key:key_admin', tenant_id: null }, key)).status).toBe(403)
    await impose(gateway, { ...cap, tenant_id: 'ten_default' })
    const global = await impose(gateway, { kind: 'disable', value: 'cache' })
    const { body } = await gateway.call('GET', '/overrides', { key })
    expect((body.overrides as { id: string }[]).map(({ id }) => id)).toEqual([global.body.id, own.body.id] as string[])
    expect((await gateway.call('GET', '/overrides?tenant_id=ten_default', { key })).status).toBe(404)
    expect((await gateway.call('GET', '/overrides?tenant_id=ten_other')).body).toMatchObject({ total: 1 })
  })

  test('a key without * is not shown an override about what only another tenant has, also when it holds for everybody', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['usage:read'], 'ten_other')
    for (const tenant_id of ['ten_default', 'ten_other'])
      expect((await gateway.call('PUT', '/endpoints', { body: { slug: 'shared', tenant_id } })).status).toBe(200)
    await gateway.call('PUT', '/endpoints', { body: { slug: 'secret', tenant_id: 'ten_default' } })
    const [own] = [...gateway.state.table('keys').rows()].filter(([, row]) => row.tenant_id === 'ten_other')
    const targets = ['key:key_admin', 'endpoint:secret', `key:${own![0]}`, 'endpoint:shared']
    for (const target of targets)
      expect((await impose(gateway, { kind: 'block', target, reason: `of ${target}` })).status).toBe(201)
    const foreign = { kind: 'block', target: 'key:key_admin', tenant_id: 'ten_other' }
    const { status, body: refused } = await impose(gateway, foreign)
    expect([status, refused.error]).toMatchObject([400, { param: 'tenant_id' }])
    // As an earlier build took it.
    const written = { id: 'ovr_foreign', ...foreign, value: null, enabled: true, reason: null, expires_at: null }
    gateway.apply([{ type: 'override.written', data: written }])
    for (const path of ['/overrides', '/guardrails', '/overrides?tenant_id=ten_other']) {
      const { body } = await gateway.call('GET', path, { key })
      const shown = (body.overrides as { target: string }[]).map(({ target }) => target)
      const visible = path.includes('?') ? [] : ['endpoint:shared', `key:${own![0]}`]
      expect([body.total, shown]).toEqual([visible.length, visible])
    }
    expect((await gateway.call('GET', '/overrides')).body.total).toBe(5)
  })

  test('nor one about a deleted row of only another tenant, whose owner is no longer known; its own overrides it is', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['providers:admin'], 'ten_other')
    const shown = async () => {
      const { body } = await gateway.call('GET', '/overrides', { key })
      return (body.overrides as { target: string }[]).map(({ target }) => target)
    }
    const { body: scope } = await gateway.call('PUT', '/endpoints', {
      body: { slug: 'secret', tenant_id: 'ten_default' },
    })
    const tool = await gateway.call('POST', '/tools', { body: { name: 'secret', tenant_id: 'ten_default' } })
    expect(tool.status).toBe(201)
    for (const target of ['endpoint:secret', 'tool:secret']) await impose(gateway, { kind: 'block', target })
    expect(await shown()).toEqual([])
    expect((await gateway.call('DELETE', `/endpoints/${scope.id}`)).status).toBe(200)
    expect((await gateway.call('DELETE', `/tools/${tool.body.id}`)).status).toBe(200)
    expect(await shown()).toEqual([])
    const all = gateway.keyWith(['*'], 'ten_other')
    expect((await impose(gateway, { kind: 'block', target: 'tool:mine', tenant_id: null }, all)).status).toBe(201)
    await impose(gateway, { kind: 'block', target: 'tool:for-them', tenant_id: 'ten_other' })
    expect(await shown()).toEqual(['tool:for-them', 'tool:mine'])
  })

  test.each(['endpoint', 'tool'])(
    'what other tenants have of an %s changes nothing in what it is shown',
    async (word) => {
      const gateway = startGateway()
      const key = gateway.keyWith(['providers:admin', 'policies:admin'], 'ten_other')
      const targets = async () => {
        const { body } = await gateway.call('GET', '/overrides', { key })
        return (body.overrides as { target: string; tenant_id: string }[]).map(({ tenant_id }) => tenant_id)
      }
      for (const tenant_id of [null, 'ten_other'])
        await impose(gateway, { kind: 'block', target: `${word}:ghost`, tenant_id })
      const shown = await targets()
      expect(shown).toEqual(['ten_other'])
      await make(gateway, word, 'ghost', 'ten_default')
      expect(await targets()).toEqual(shown)
      await make(gateway, word, 'ghost', 'ten_other', key)
      expect(await targets()).toEqual(['ten_other', null] as string[])
    },
  )

  test.each(['endpoint', 'tool'])(
    'nor does it impose one on everybody about an %s, or take it back: who has one of the name, itself included, changes nothing',
    async (word) => {
      const gateway = startGateway()
      const key = gateway.keyWith(['providers:admin', 'policies:admin'], 'ten_default')
      const names = ['theirs', 'nobodys', 'mine', 'shared']
      await make(gateway, word, 'theirs', 'ten_other')
      await make(gateway, word, 'mine', 'ten_default', key)
      await make(gateway, word, 'shared', null, key)
      const send = (name: string, more: object, as?: string) =>
        impose(gateway, { kind: 'block', target: `${word}:${name}`, ...more }, as)
      const expectRefused = async (name: string, enabled: boolean) => {
        const { status, body } = await send(name, { tenant_id: null, enabled }, key)
        const message = 'an override for everybody about an endpoint scope or a tool needs a key with the scope "*"'
        expect([name, status, body.error]).toMatchObject([name, 403, { param: 'tenant_id', message }])
      }
      for (const name of names) await expectRefused(name, true)
      for (const name of names) await send(name, { tenant_id: null })
      for (const name of names) await expectRefused(name, false)
      // Rows that the key makes under the name, for itself or for every tenant, open nothing.
      await make(gateway, word, 'theirs', 'ten_default', key)
      await make(gateway, word, 'nobodys', null, key)
      for (const enabled of [true, false]) for (const name of names) await expectRefused(name, enabled)
      for (const name of names) expect((await send(name, {}, key)).body.tenant_id as string).toBe('ten_default')
      const { body } = await gateway.call('GET', '/overrides?in_force=true')
      expect(body.total).toBe(2 * names.length)
    },
  )

  test('nor one about another tenant’s tool whose name is its own but for the case', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['providers:admin'], 'ten_other')
    await gateway.call('POST', '/tools', { body: { name: 'lookup', tenant_id: 'ten_default' } })
    await gateway.call('POST', '/tools', { body: { name: 'LookUp', tenant_id: 'ten_other' } })
    for (const target of ['tool:lookup', 'tool:LookUp']) await impose(gateway, { kind: 'block', target })
    const { body } = await gateway.call('GET', '/overrides', { key })
    expect((body.overrides as { target: string }[]).map(({ target }) => target)).toEqual(['tool:LookUp'])
  })

  test('a tenant whose overrides another would take with it is not that other’s to delete', async () => {
    const gateway = startGateway()
    await impose(gateway, { kind: 'cap', value: { max_cost_usd: 1 }, tenant_id: 'ten_other' })
    const key = gateway.keyWith(['tenants:admin'])
    expect((await gateway.call('DELETE', '/tenants/ten_other', { key })).status).toBe(403)
    expect((await gateway.call('DELETE', '/tenants/ten_other')).status).toBe(200)
    expect(gateway.state.table('overrides').size).toBe(0)
  })
})

describe('POST /providers/{id}/kill', () => {
  test('kills and revives, in the list of providers and in the rows', async () => {
    const gateway = startGateway()
    const id = await provider(gateway)
    const kill = (body: object, headers = {}) => gateway.call('POST', `/providers/${id}/kill`, { body, headers })
    const killed = async () => (await gateway.call('GET', '/providers')).body.providers
    expect(await killed()).toMatchObject([{ id, killed: false }])
    const gone = await kill({ kill: true, reason: 'it lies' })
    expect([gone.status, gone.body]).toMatchObject([
      200,
      { id, killed: true, override: { kind: 'kill', target: `provider:${id}`, in_force: true, reason: 'it lies' } },
    ])
    expect(await killed()).toMatchObject([{ id, killed: true }])
    expect((await kill({ kill: false })).body).toMatchObject({ killed: false, override: { enabled: false } })
    expect(await killed()).toMatchObject([{ id, killed: false }])
    expect((await gateway.call('GET', '/overrides')).body.total).toBe(2)
    expect((await kill({ kill: true }, { 'if-match': 'x' })).status).toBe(409)
    expect((await kill({})).body.error).toMatchObject({ param: 'kill' })
  })

  test('a GET of a killed provider goes back as PUT', async () => {
    const gateway = startGateway()
    const id = await provider(gateway)
    await gateway.call('POST', `/providers/${id}/kill`, { body: { kill: true } })
    const { body } = await gateway.call('GET', `/providers/${id}`)
    expect((await gateway.call('PUT', `/providers/${id}`, { body })).status).toBe(200)
    expect((await gateway.call('GET', `/providers/${id}`)).body.killed).toBe(true)
  })
})

// docs/behaviour.md: "Overrides"
describe('a freeze', () => {
  test('refuses every admin write with 403, but what ends it, a kill, and the renewal of breakers', async () => {
    const gateway = startGateway()
    const id = await provider(gateway)
    await impose(gateway, freeze)
    const open: string[] = []
    for (const { method, path } of adminTable(gateway.deps)) {
      if (method === 'GET') continue
      const { status, body } = await gateway.call(method, path.replaceAll(/:\w+/g, id), { body: {} })
      if (status !== 403) open.push(`${method} ${path}`)
      else expect(body.error).toMatchObject({ code: 'permission_error', message: expect.stringContaining('audit') })
    }
    expect(open).toEqual(['POST /policies/reload', 'POST /overrides', 'POST /providers/:id/kill'])
    expect((await gateway.call('POST', `/providers/${id}/kill`, { body: { kill: true } })).status).toBe(200)
    expect((await gateway.call('GET', '/providers')).status).toBe(200)
    expect((await impose(gateway, { ...freeze, enabled: false })).status).toBe(201)
    expect((await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' } })).status).toBe(201)
  })

  test('of a tenant holds for its keys, and for others’ writes of what is its own', async () => {
    const gateway = startGateway()
    const key = gateway.keyWith(['tenants:admin', 'policies:admin'], 'ten_other')
    await impose(gateway, { ...freeze, tenant_id: 'ten_other' })
    const policy = (tenant_id: string, by?: string) =>
      gateway.call('POST', '/policies', { body: { name: 'p', tenant_id }, key: by })
    expect((await policy('ten_other', key)).status).toBe(403)
    expect((await policy('ten_other')).status).toBe(403)
    expect((await policy('ten_default')).status).toBe(201)
  })

  test('that counts while a write is under way refuses it: it is part of the decision', async () => {
    const gateway = startGateway()
    const commit = gateway.deps.commit
    const deps = {
      ...gateway.deps,
      commit: (async (request) => {
        const data = { id: 'ovr_race', kind: 'freeze', target: '*', tenant_id: null, value: null, enabled: true }
        gateway.apply([{ type: 'override.written', data: { ...data, reason: null, expires_at: null } }])
        return commit(request)
      }) satisfies typeof commit,
    }
    const create = adminTable(deps).find(({ method, path }) => method === 'POST' && path === '/tenants')!
    const principal = { actor: { type: 'key', id: 'key_admin' }, tenantId: 'ten_default', scopes: ['*'] } as const
    const call = {
      request: new Request('http://x'),
      principal,
      params: {},
      query: {},
      intent: { cause: null, ifMatch: null },
      principalNow: () => principal,
    }
    await expect(async () => create.handle({ ...call, body: { slug: 'a', name: 'A' } })).toThrow('frozen')
    expect(gateway.state.table('tenants').find('slug', 'a')).toEqual([])
  })
})

test('POST /policies/reload closes the breakers, and says on how many instances', async () => {
  const gateway = startGateway()
  const { body, headers } = await gateway.call('POST', '/policies/reload')
  expect(body).toMatchObject({ reloaded: true })
  expect(headers.get('x-gateway-applied-by')).toBe('2/3')
  expect(gateway.breakersCleared).toBe(1)
})
