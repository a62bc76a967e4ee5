// What holds for every tenant is written by keys of the tenant `default` and by `*`: a key of another tenant, whatever
// its scopes, writes what belongs to its own tenant.
import { describe, expect, test } from 'bun:test'
import type { AdminRoute } from '../../../../src/http/admin/route.ts'
import { ACCESS, FOR_ALL, nameOf } from '../world/access.ts'
import { bodyOf, type Furnished, furnish, OTHER, OWN, pathOf } from '../world/furnished.ts'
import { expectRefusal, FORBIDDEN } from '../world/refusal.ts'

const ALL = await furnish()
const SCOPES = ['providers:admin', 'policies:admin', 'tenants:admin', 'keys:admin', 'usage:read'] as const
const keyOf = ({ gateway }: Furnished, tenantId: string) => gateway.keyWith(SCOPES, tenantId)
const stranger = keyOf(ALL, OTHER)

const send = (world: Furnished, route: AdminRoute, key: string, raw?: string) =>
  world.gateway.call(route.method, pathOf(route.path, world.own), {
    key,
    ...(raw === undefined ? { body: bodyOf(route, world.own, OWN) } : { raw }),
  })

const expectNothing = async (what: string, call: () => ReturnType<typeof send>, param: string | null = null) => {
  const before = ALL.fingerprint()
  expectRefusal(what, await call(), param === null ? FORBIDDEN : [403, 'permission_error', param])
  expect([what, ALL.fingerprint()]).toEqual([what, before])
}

// docs/behaviour.md: "Tenants"
describe('writes of what holds for every tenant', () => {
  const writes = ALL.table.filter(({ method, forAll }) => method !== 'GET' && forAll)

  test('are those of the list that is written by hand: every write of the registry, and what acts on all', () => {
    expect(writes.map(nameOf).toSorted()).toEqual(FOR_ALL.toSorted())
    const shared = ACCESS.filter(({ method, belongs }) => method !== 'GET' && belongs === 'shared')
    const open = shared
      .map(nameOf)
      .filter((name) => !FOR_ALL.includes(name) && !/ \/(tenants|log|instances|operators)/.test(name))
    expect(open).toEqual([])
  })

  test.each(writes.map((route) => [nameOf(route), route] as const))('S41: %s', async (_, route) => {
    await expectNothing('stranger', () => send(ALL, route, stranger))
    await expectNothing('stranger, malformed', () => send(ALL, route, stranger, '{"bad json'))
    const world = await furnish()
    const { status } = await send(world, route, keyOf(world, OWN))
    expect([200, 201]).toContain(status)
  })
})

const GLOBAL: readonly (readonly [method: string, path: string, body: object])[] = [
  ['POST', '/policies', { name: 'all', tenant_id: null }],
  ['PUT', '/policies', { name: 'all', tenant_id: null }],
  ['PUT', '/endpoints', { slug: 'all', tenant_id: null }],
  ['PUT', '/cache/policies', { name: 'all', tenant_id: null, ttl_seconds: 60 }],
  ['PUT', '/cache/policies', { name: 'all', scopes: ['global'], ttl_seconds: 60 }],
  ['PUT', '/tool-policies', { name: 'all', tenant_id: null }],
  ['POST', '/tools', { name: 'all', owner: 'global' }],
  ['POST', '/tools', { name: 'all', tenant_id: null }],
  ...['kill', 'force', 'cap', 'block', 'disable', 'freeze'].map(
    (kind) => ['POST', '/overrides', { kind, target: kind === 'kill' ? 'vendor' : null, tenant_id: null }] as const,
  ),
]

describe('rows of no tenant', () => {
  test.each(GLOBAL)('S41: %s %s %j is 403 for a key of another tenant', async (method, path, body) => {
    await expectNothing(`${method} ${path}`, () => ALL.gateway.call(method, path, { key: stranger, body }), 'tenant_id')
  })

  test('S41: are neither changed nor deleted by a key of another tenant', async () => {
    const { gateway } = ALL
    const made = async (method: string, path: string, body: object) =>
      (await gateway.call(method, path, { body })).body.id as string
    const rows = [
      ['/policies', await made('POST', '/policies', { name: 'global', tenant_id: null })],
      ['/cache/policies', await made('PUT', '/cache/policies', { name: 'global', tenant_id: null, ttl_seconds: 60 })],
      ['/tool-policies', await made('PUT', '/tool-policies', { name: 'global', tenant_id: null })],
      ['/tools', await made('POST', '/tools', { name: 'global', owner: 'global' })],
    ]
    for (const [path, id] of rows)
      await expectNothing(`DELETE ${path}`, () => gateway.call('DELETE', `${path}/${id}`, { key: stranger }))
    const [, tool] = rows.at(-1)!
    const changes = [
      ['PUT', `/tools/${tool}`, { description: 'mine now' }],
      ['POST', `/tools/${tool}/enabled`, { enabled: false }],
    ] as const
    for (const [method, path, body] of changes)
      await expectNothing(`${method} ${path}`, () => gateway.call(method, path, { key: stranger, body }))
  })

  test('what names no tenant means the own one', async () => {
    const world = await furnish()
    const key = keyOf(world, OTHER)
    const bodies = [
      ['POST', '/policies', { name: 'mine' }],
      ['PUT', '/endpoints', { slug: 'mine' }],
      ['PUT', '/cache/policies', { name: 'mine', ttl_seconds: 60 }],
      ['PUT', '/tool-policies', { name: 'mine' }],
      ['POST', '/tools', { name: 'mine' }],
      ['POST', '/overrides', { kind: 'kill', target: 'vendor' }],
      ['POST', '/overrides', { kind: 'force', target: 'model:resident', value: { model: 'resident' } }],
    ] as const
    for (const [method, path, body] of bodies) {
      const { status, body: row } = await world.gateway.call(method, path, { key, body })
      expect([path, [200, 201].includes(status), row.tenant_id]).toEqual([path, true, OTHER])
    }
  })

  test('a key of the tenant `default` writes them with its scope', async () => {
    const world = await furnish()
    for (const [method, path, body] of GLOBAL.filter(([, path]) => path !== '/overrides')) {
      const answer = await world.gateway.call(method, path, {
        key: keyOf(world, OWN),
        body: { ...body, name: `of ${path.length}${method}` },
      })
      expect([path, [200, 201, 400, 409].includes(answer.status)]).toEqual([path, true])
      expect([path, answer.status]).not.toEqual([path, 403])
    }
  })
})
