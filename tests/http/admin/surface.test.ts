// What holds for every route: bodies, lists, write headers. The tests are made from the route table; permissions are
// tested in `tests/http/admin/access/matrix.test.ts`.
import { describe, expect, test } from 'bun:test'
import { adminTable } from '../../../src/http/admin/runner.ts'
import { CommitFailure } from '../../../src/state/port.ts'
import { startGateway } from './world/gateway.ts'

const table = adminTable(startGateway().deps)
const routes = table.map((route) => [`${route.method} ${route.path}`, route] as const)
const pathOf = (path: string): string => path.replaceAll(/:\w+/g, 'none')
const writes = routes.filter(([, { bodySchema }]) => bodySchema !== null)

// docs/behaviour.md: "Authentication", "Admin writes"
describe('every admin route', () => {
  test.each(writes)(
    '%s: what is no JSON object, or not JSON by its type, is 400 or 415',
    async (_, { method, path, bodyOptional }) => {
      const gateway = startGateway()
      for (const raw of ['{"bad', '[]', 'null', '"x"', ...(bodyOptional ? [] : [''])]) {
        expect((await gateway.call(method, pathOf(path), { raw })).status).toBe(400)
      }
      const headers = { 'content-type': 'text/plain' }
      expect((await gateway.call(method, pathOf(path), { raw: '{}', headers })).status).toBe(415)
    },
  )

  test.each(writes)('%s: an unknown field is 400 and named', async (_, { method, path }) => {
    const { status, body } = await startGateway().call(method, pathOf(path), { body: { surprise: 1 } })
    expect([status, body.error]).toMatchObject([400, { code: 'invalid_request', param: 'surprise' }])
  })

  test('the name of an unknown field is shown no longer than a reader needs', async () => {
    const { status, body } = await startGateway().call('POST', '/tenants', { body: { ['x'.repeat(100_000)]: 1 } })
    const { param, message } = body.error as { param: string; message: string }
    expect([status, param]).toEqual([400, `${'x'.repeat(256)}...`])
    expect(message.length).toBeLessThan(400)
  })

  test.each(routes.filter(([, { path }]) => path.includes(':id')))('%s: an unknown id is 404', async (_, route) => {
    const gateway = startGateway()
    const bodies: Record<string, unknown> = {
      'PUT /tenants/:id': { name: 'x' },
      'PUT /providers/:id': { kind: 'openai' },
      'PUT /providers/:id/credential': { secret: 'sk-1' },
      'POST /providers/:id/kill': { kill: true },
      'POST /tools/:id/enabled': { enabled: true },
      'PUT /operators/:id/password': { password: 'correct horse battery' },
    }
    const body = route.bodySchema === null ? undefined : (bodies[`${route.method} ${route.path}`] ?? {})
    const answer = await gateway.call(route.method, pathOf(route.path), { body, headers: { 'if-match': 'x' } })
    expect([answer.status, answer.body.error]).toMatchObject([404, { code: 'not_found' }])
    expect(gateway.vault.size).toBe(0)
  })

  test('text that no database could keep is 400 and named', async () => {
    const gateway = startGateway()
    for (const raw of ['{"slug":"a","name":"x\\u0000y"}', '{"slug":"a","name":"\\ud800"}']) {
      const { status, body } = await gateway.call('POST', '/tenants', { raw })
      expect([status, body.error]).toMatchObject([400, { param: 'name' }])
    }
  })

  test('a body beyond the limit is 413', async () => {
    const raw = JSON.stringify({ slug: 'a', name: 'x'.repeat(1_100_000) })
    expect((await startGateway().call('POST', '/tenants', { raw })).status).toBe(413)
  })
})

// docs/behaviour.md: "Admin reads"
describe('lists', () => {
  test.each([
    ...['tenants', 'providers', 'models', 'policies', 'endpoints', 'budgets', 'tools'].map((noun) => [noun, noun]),
    ['cache/policies', 'policies'],
    ['tool-policies', 'policies'],
  ] as [string, string][])('/%s pages, clamps, and refuses what is no number', async (path, noun) => {
    const gateway = startGateway()
    const { body } = await gateway.call('GET', `/${path}?limit=5000&offset=0`)
    expect(body).toMatchObject({ limit: 1000, offset: 0 })
    expect(Array.isArray(body[noun])).toBe(true)
    expect((await gateway.call('GET', `/${path}`)).body).toMatchObject({ limit: 50, offset: 0 })
    expect((await gateway.call('GET', `/${path}?limit=${'9'.repeat(20)}`)).body).toMatchObject({ limit: 1000 })
    for (const [name, value] of [
      ['limit', '0'],
      ['limit', 'x'],
      ['limit', '-1'],
      ['offset', '1.5'],
      ['offset', ''],
    ]) {
      const refused = await gateway.call('GET', `/${path}?${name}=${value}`)
      expect([refused.status, refused.body.error]).toMatchObject([400, { param: name }])
    }
  })

  test('a page is a slice of the whole', async () => {
    const gateway = startGateway()
    for (const slug of ['a', 'b', 'c']) await gateway.call('POST', '/tenants', { body: { slug, name: slug } })
    const { body } = await gateway.call('GET', '/tenants?limit=2&offset=3')
    expect(body).toMatchObject({ total: 5, limit: 2, offset: 3, tenants: [{ slug: 'b' }, { slug: 'c' }] })
  })
})

// docs/behaviour.md: "Admin writes"
describe('writes', () => {
  test('carry the revision that they made, or the tip when nothing had to change', async () => {
    const gateway = startGateway()
    const made = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' } })
    expect(made.headers.get('x-gateway-revision')).toBe(made.body.revision as string)
    expect(made.headers.get('x-gateway-applied-by')).toBe('1/1')
    const decisions = gateway.events.length
    const same = await gateway.call('PUT', `/tenants/${made.body.id}`, { body: made.body })
    expect(same.status).toBe(200)
    expect(same.body).toEqual(made.body)
    expect(same.headers.get('x-gateway-revision')).toBe(made.body.revision as string)
    expect(gateway.events.length).toBe(decisions)
  })

  test('If-Match refuses what is stale and what is not there, and takes what is current, quoted or not', async () => {
    const gateway = startGateway()
    const { body: tenant } = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' } })
    const put = (name: string, match: string) =>
      gateway.call('PUT', `/tenants/${tenant.id}`, { body: { name }, headers: { 'if-match': match } })
    const second = await put('B', `"${tenant.revision}"`)
    expect(second.status).toBe(200)
    const stale = await put('C', tenant.revision as string)
    expect([stale.status, stale.body.error]).toMatchObject([
      409,
      { type: 'conflict_error', code: 'invalid_request', param: 'If-Match' },
    ])
    const { body: current, status } = await put('C', '*')
    expect(status).toBe(200)
    expect((await put('D', `"${tenant.revision}", "${second.body.revision}"`)).status).toBe(409)
    expect((await put('D', `"x,${current.revision}"`)).status).toBe(409)
    const listed = await put('D', `"${tenant.revision}" , W/"${current.revision}","x"`)
    expect([listed.status, listed.body.name]).toEqual([200, 'D'])
    expect((await put('E', `x, ${listed.body.revision}`)).status).toBe(200)
    expect((await put('F', '')).status).toBe(409)
    const creation = { body: { slug: 'b', name: 'B' }, headers: { 'if-match': '*' } }
    expect((await gateway.call('POST', '/tenants', creation)).status).toBe(409)
  })

  test('of the reload of policies If-Match is about everything, as of now', async () => {
    const gateway = startGateway()
    const reload = (match: string) => gateway.call('POST', '/policies/reload', { headers: { 'if-match': match } })
    const { body, status } = await reload('*')
    expect(status).toBe(200)
    expect((await reload(`"${body.revision}"`)).status).toBe(200)
    const stale = await reload('"stale"')
    expect([stale.status, stale.body.error]).toMatchObject([409, { param: 'If-Match' }])
  })

  test('a repeat with the same Idempotency-Key answers the first result; another body is 409, another path another write', async () => {
    const gateway = startGateway()
    const headers = { 'idempotency-key': 'once' }
    const first = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' }, headers })
    const again = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' }, headers })
    expect([again.status, again.body]).toEqual([201, first.body])
    const other = await gateway.call('POST', '/tenants', { body: { slug: 'b', name: 'A' }, headers })
    expect([other.status, other.body.error]).toMatchObject([409, { param: 'Idempotency-Key' }])
    const elsewhere = { body: { tenant_id: first.body.id, name: 'k', scopes: ['inference'] }, headers }
    expect((await gateway.call('POST', '/keys', elsewhere)).status).toBe(201)
    expect(
      (await gateway.call('POST', '/tenants', { body: {}, headers: { 'idempotency-key': 'x'.repeat(256) } })).status,
    ).toBe(400)
  })

  test('no digest in the log reveals a body by itself', async () => {
    const gateway = startGateway()
    const other = startGateway()
    ;(other.deps as { causeKey: Uint8Array }).causeKey = new Uint8Array(32).fill(1)
    const causes = []
    for (const each of [gateway, other]) {
      await each.call('POST', '/tenants', { body: { slug: 'a', name: 'A' }, headers: { 'idempotency-key': 'k' } })
      causes.push([...each.state.table('causes').rows()].map(([id, { body }]) => [id, body]))
    }
    expect(causes[0]).toHaveLength(1)
    expect(causes[0]![0]![0]).not.toBe(causes[1]![0]![0])
    expect(causes[0]![0]![1]).not.toBe(causes[1]![0]![1])
  })

  test.each(['unknown', 'unavailable'] as const)(
    'a log that does not answer (%s) is 504, worth a repeat',
    async (kind) => {
      const gateway = startGateway()
      gateway.failure = new CommitFailure(kind, 'no')
      const { status, body, headers } = await gateway.call('POST', '/tenants', { body: { slug: 'a', name: 'A' } })
      expect([status, body.error]).toMatchObject([504, { code: 'timeout' }])
      expect(headers.get('x-gateway-retryable')).toBe('true')
    },
  )
})

// docs/behaviour.md: "Admin writes"
describe('X-Gateway-Min-Revision', () => {
  const tipOf = async (gateway: ReturnType<typeof startGateway>) =>
    (await gateway.call('POST', '/policies/reload')).body.revision as string

  test('lets through what is folded, is 504 and retryable for what is not, 400 for what is no revision', async () => {
    const gateway = startGateway()
    const ask = (revision: string, key?: string | null) =>
      gateway.call('GET', '/tenants', { key, headers: { 'x-gateway-min-revision': revision } })
    expect((await ask(await tipOf(gateway))).status).toBe(200)
    const unknown = await ask('f'.repeat(64))
    expect([unknown.status, unknown.headers.get('x-gateway-retryable')]).toEqual([504, 'true'])
    expect((await ask('yesterday')).body.error).toMatchObject({ param: 'X-Gateway-Min-Revision' })
    expect((await ask('f'.repeat(64), null)).status).toBe(401)
  })

  test('a key that this instance learns of while it waits is let in', async () => {
    const gateway = startGateway()
    const key = 'gw_live_made_on_another_instance'
    const live = gateway.deps.live as unknown as { reached(revision: string): Promise<boolean> }
    live.reached = async () => {
      const { keyIssued } = await import('../../domain/world.ts')
      const { sha256Hex } = await import('../../../src/lib/crypto/digest.ts')
      gateway.apply([keyIssued('key_new', 'ten_default', { scopes: ['*'], digest: sha256Hex(key) })])
      return true
    }
    const headers = { 'x-gateway-min-revision': 'f'.repeat(64) }
    expect((await gateway.call('GET', '/tenants', { key, headers })).status).toBe(200)
  })
})
