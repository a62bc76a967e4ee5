// `?as_of=`: which routes take it, what is refused, and that the past is shown with the present names.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { adminTable } from '../../../../src/http/admin/runner.ts'
import { eventually } from '../../../services/eventually.ts'
import { startGateway } from '../world/gateway.ts'
import { type RealGateway, startRealGateway } from '../world/real-history.ts'

const table = adminTable(startGateway().deps)
const reads = table.filter(({ past }) => past === true)

/** A gateway with a row of everything that can be read by id. */
const furnished = async () => {
  const gateway = startGateway()
  const ids: Record<string, string> = { tenants: 'ten_default', keys: 'key_admin' }
  const make = async (noun: string, method: string, body: Record<string, unknown>) => {
    ids[noun] = String((await gateway.call(method, `/${noun}`, { body })).body.id)
  }
  await make('providers', 'POST', { name: 'p', kind: 'openai', base_url: 'https://p.example/v1' })
  await make('models', 'POST', { name: 'm', provider_id: ids.providers! })
  await make('policies', 'PUT', { name: 'policy' })
  await make('endpoints', 'PUT', { slug: 'scope' })
  await make('overrides', 'POST', { kind: 'block', target: 'model:m' })
  await make('operators', 'POST', { username: 'operator', password: 'a password of some length' })
  await make('budgets', 'PUT', { tenant_id: 'ten_default', scope: { type: 'tenant' }, limit_usd: 1 })
  await make('cache/policies', 'PUT', { name: 'rule', ttl_seconds: 60, scopes: ['global'] })
  await make('tools', 'POST', { name: 'tool', kind: 'function' })
  await make('tool-policies', 'PUT', { name: 'default' })
  const byId = (path: string) => path.replace(/^\/(.+)\/:\w+/, (_, noun) => `/${noun}/${ids[noun]}`)
  return {
    gateway,
    pathOf: (path: string) => `${byId(path)}?${path === '/keys' ? 'tenant_id=ten_default' : 'limit=10'}`,
  }
}

/** Where members are, not what is in them: `null` stands for what only the present knows. */
const shapeOf = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shapeOf)
  if (value === null || typeof value !== 'object') return '.'
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, VOLATILE.has(name) ? '.' : shapeOf(member)]),
  )
}
const VOLATILE = new Set(['health', 'adapter_ready', 'last_used_at'])

// docs/behaviour.md: "History"
describe('every configuration read', () => {
  test('is there', () => {
    const expected = [
      ...['/tenants', '/tenants/:id', '/keys', '/providers', '/providers/:id', '/providers/:id/credential'],
      ...['/models', '/models/:id', '/policies', '/policies/:id', '/endpoints', '/endpoints/:id'],
      ...['/overrides', '/guardrails', '/operators', '/operators/:id', '/budgets', '/budgets/:id'],
      ...['/cache/policies', '/cache/policies/:id', '/tools', '/tools/:id', '/tool-policies', '/tool-policies/:id'],
    ]
    expect(reads.map(({ path }) => path)).toEqual(expect.arrayContaining(expected))
  })

  test.each(reads.map((route) => [route.path, route] as const))('%s looks in the past as it does now', async (path) => {
    const { gateway, pathOf } = await furnished()
    const now = await gateway.call('GET', pathOf(path))
    const { tip } = gateway.deps.live.status()
    const then = await gateway.call('GET', `${pathOf(path)}&as_of=${tip}`)
    expect([now.status, then.status, then.headers.get('x-gateway-as-of')]).toEqual([200, 200, tip])
    expect(shapeOf(then.body)).toEqual(shapeOf(now.body))
    for (const row of [then.body, ...Object.values(then.body).flat()]) {
      for (const name of VOLATILE) if (row instanceof Object && name in row) expect(row).toHaveProperty(name, null)
    }
  })

  test.each(reads.map(({ path }) => path))('%s names as_of when it is no moment, or before the first', async (path) => {
    const { gateway, pathOf } = await furnished()
    for (const [asOf, status] of [
      ['yesterday', 400],
      ['2026-02-30', 400],
      ['', 400],
      ['f'.repeat(63), 400],
      ['f'.repeat(64), 404],
      [new Date(gateway.nowMs + 1).toISOString(), 400],
      ['2999-01-01', 400],
      ['2001-01-01T00:00:00Z', 404],
    ] as const) {
      const answer = await gateway.call('GET', `${pathOf(path)}&as_of=${asOf}`)
      expect([asOf, answer.status, answer.body.error]).toMatchObject([asOf, status, { param: 'as_of' }])
    }
  })
})

test('a route without a past refuses it, and a write with `as_of` is not made', async () => {
  const gateway = startGateway()
  for (const [method, path, body] of [
    ['GET', '/log', undefined],
    ['POST', '/tenants', { slug: 'a', name: 'A' }],
  ] as const) {
    const answer = await gateway.call(method, `${path}?as_of=2026-11-01`, { body })
    expect([answer.status, answer.body.error]).toMatchObject([400, { param: 'as_of' }])
  }
  expect(gateway.state.table('tenants').size).toBe(2)
})

/** When the clock of the log shows a later time than now, that time. */
const nextMillisecond = () => {
  const nowMs = Date.now()
  return eventually('a later millisecond', () => Date.now() > nowMs && Date.now(), { everyMs: 1 })
}

describe('a real chain', () => {
  let gateway: RealGateway
  beforeAll(async () => {
    gateway = await startRealGateway()
  })
  afterAll(() => gateway.close())

  test('a decision, and a time between two, show the configuration as it was then', async () => {
    const made = await gateway.call('POST', '/tenants', { body: { slug: 'then', name: 'First' } })
    const id = String(made.body.id)
    const first = made.headers.get('x-gateway-revision')!
    const between = new Date(await nextMillisecond()).toISOString()
    await nextMillisecond()
    await gateway.call('PUT', `/tenants/${id}`, { body: { name: 'Second' } })
    await gateway.call('DELETE', `/tenants/${id}`)
    expect((await gateway.call('GET', `/tenants/${id}`)).status).toBe(404)
    for (const moment of [first, between, String(made.body.updated_at), first.toUpperCase()]) {
      const then = await gateway.call('GET', `/tenants/${id}?as_of=${moment}`)
      expect([then.status, then.body]).toEqual([200, made.body])
      expect(then.headers.get('x-gateway-as-of')).toBe(first)
    }
    const list = await gateway.call('GET', `/tenants?as_of=${first}&limit=1`)
    expect(list.body).toMatchObject({ total: 2, limit: 1 })
  })

  test('a key that may not see a tenant now may not see its past', async () => {
    const { body } = await gateway.call('POST', '/keys', {
      body: { tenant_id: 'ten_default', name: 'reader', scopes: ['usage:read'] },
    })
    const other = await gateway.call('POST', '/tenants', { body: { slug: 'foreign', name: 'Foreign' } })
    const revision = other.headers.get('x-gateway-revision')
    const answer = await gateway.call('GET', `/keys?tenant_id=${other.body.id}&as_of=${revision}`, {
      key: String(body.plaintext),
    })
    expect(answer.status).toBe(404)
  })
})
