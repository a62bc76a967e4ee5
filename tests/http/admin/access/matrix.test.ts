// Every route of `/admin/v1` with every kind of credential, with the exact status and the whole envelope. The routes
// are those of the route table; the permissions are those of `tests/http/admin/world/access.ts`, which is written by
// hand.
import { afterAll, describe, expect, test } from 'bun:test'
import { SCOPES } from '../../../../src/domain/access/api-key.ts'
import type { AdminRoute } from '../../../../src/http/admin/route.ts'
import { ACCESS, type Access, nameOf } from '../world/access.ts'
import { nobodies, withHeaders } from '../world/credentials.ts'
import { bodyOf, type Furnished, furnish, type Ids, nounOf, OTHER, OWN, PASSWORD, pathOf } from '../world/furnished.ts'
import type { Answer, CallOptions } from '../world/gateway.ts'
import { ABSENT, count, counting, expectRefusal, FORBIDDEN, NOBODY } from '../world/refusal.ts'

const ALL = await furnish()
const routes = ALL.table.map((route) => [nameOf(route), route] as const)
const accessOf = (route: { readonly method: string; readonly path: string }): Access => {
  const access = ACCESS.find((each) => nameOf(each) === nameOf(route))
  if (access === undefined) throw new Error(`access.ts does not say who may ${nameOf(route)}`)
  return access
}

const cells = counting()
afterAll(() => console.log(`authorisation matrix: ${cells()} cells over ${routes.length} routes`))

const expectSuccess = (cell: string, { status, headers, body }: Answer, { method, status: wanted }: Access) => {
  count()
  expect([cell, status, body.error]).toEqual([cell, wanted, undefined])
  if (method !== 'GET') expect([cell, headers.get('x-gateway-revision') ?? 'none']).not.toEqual([cell, 'none'])
}

/** What `GET /keys` cannot do without; what makes the deletion of a tenant that holds keys possible. */
const queryOf = (route: AdminRoute, tenantId: string): string =>
  nameOf(route) === 'GET /keys' ? `?tenant_id=${tenantId}` : ''

/** Sends the request of a route that is valid except for its credentials. */
const send = ({ gateway }: Furnished, route: AdminRoute, ids: Ids, tenantId: string, options: CallOptions) =>
  gateway.call(route.method, `${pathOf(route.path, ids)}${queryOf(route, tenantId)}`, {
    body: options.raw === undefined ? bodyOf(route, ids, tenantId) : undefined,
    ...options,
  })

/** Reads share a gateway; a write that succeeds has one of its own. */
const worldOf = async (route: AdminRoute): Promise<Furnished> => (route.method === 'GET' ? ALL : furnish())

const OF_THE_OWN_TENANT = ['GET /tenants/:id', 'DELETE /tenants/:id/content']
/** What the own tenant is called in the path of a tenant. */
const idsOf = ({ own }: Furnished, route: AdminRoute): Ids =>
  OF_THE_OWN_TENANT.includes(nameOf(route)) ? { ...own, tenants: OWN } : own

const NOBODIES = nobodies(ALL)

const MALFORMED = { raw: '{"bad json' }
/** The request as it should be, and of a write the malformed one too: a refusal of the caller comes first. */
const forms = (route: { readonly method: string }): readonly CallOptions[] =>
  route.method === 'GET' ? [{}] : [{}, MALFORMED]

// docs/behaviour.md: "Scopes"
test('the table has the routes of the list that is written by hand, with its scopes, and no other', () => {
  const scopesOf = ({ scopes }: { readonly scopes: readonly string[] }) => scopes.toSorted().join(' ')
  const rows = (table: readonly { method: string; path: string; scopes: readonly string[] }[]) =>
    table.map((row) => `${nameOf(row)}: ${scopesOf(row)}`).toSorted()
  expect(rows(ALL.table)).toEqual(rows(ACCESS))
})

describe.each(routes)('%s', (_, route) => {
  const access = accessOf(route)

  test('S8: nobody is let in', async () => {
    const before = ALL.fingerprint()
    for (const [who, options] of NOBODIES)
      for (const form of forms(route))
        expectRefusal(who, await send(ALL, route, ALL.own, OWN, { ...options, ...form }), NOBODY)
    expect(ALL.fingerprint()).toBe(before)
  })

  test('S8: a key needs one of its scopes', async () => {
    for (const scope of SCOPES) {
      const isEnough = scope === '*' || access.scopes.includes(scope)
      const world = isEnough ? await worldOf(route) : ALL
      const key = world.gateway.keyWith([scope], OWN)
      const before = world.fingerprint()
      if (isEnough) expectSuccess(scope, await send(world, route, idsOf(world, route), OWN, { key }), access)
      else
        for (const form of forms(route))
          expectRefusal(scope, await send(world, route, world.own, OWN, { key, ...form }), FORBIDDEN)
      if (!isEnough || route.method === 'GET') expect(world.fingerprint()).toBe(before)
    }
    const others = SCOPES.filter((scope) => scope !== '*' && !access.scopes.includes(scope))
    const key = ALL.gateway.keyWith(others, OWN)
    expectRefusal('every other scope', await send(ALL, route, ALL.own, OWN, { key }), FORBIDDEN)
  })

  test('S14: an operator who is signed in may do it, on the own page', async () => {
    const world = await worldOf(route)
    const headers = { cookie: world.cookie, 'sec-fetch-site': 'same-origin', origin: 'http://gateway.test' }
    expectSuccess('signed in', await send(world, route, idsOf(world, route), OWN, withHeaders(headers)), access)
    const elsewhere = [
      ['Sec-Fetch-Site', { 'sec-fetch-site': 'cross-site' }],
      ['Sec-Fetch-Site', { 'sec-fetch-site': 'same-site' }],
      ['Origin', { origin: 'https://elsewhere.test' }],
      ['Origin', { origin: 'null' }],
      ['Origin', {}],
      ['Content-Type', { origin: 'http://gateway.test', 'content-type': 'text/plain' }],
    ] as const
    for (const [param, more] of elsewhere) {
      if (param === 'Content-Type' && route.bodySchema === null) continue
      const cell = `signed in, ${JSON.stringify(more)}`
      const before = ALL.fingerprint()
      const answer = await send(ALL, route, idsOf(ALL, route), OWN, withHeaders({ cookie: ALL.cookie, ...more }))
      // A read shows nothing to another site, and changes nothing.
      if (route.method === 'GET') expectSuccess(cell, answer, access)
      else expectRefusal(cell, answer, [403, 'permission_error', param])
      expect(ALL.fingerprint()).toBe(before)
    }
  })

  test('S15: a session ends', async () => {
    const { gateway } = ALL
    const login = await gateway.call('POST', '/auth/login', {
      key: null,
      body: { username: 'grace', password: PASSWORD },
    })
    const cookie = login.headers.get('set-cookie')!.split(';')[0]!
    gateway.nowMs += 13 * 3_600_000
    expectRefusal('expired', await send(ALL, route, ALL.own, OWN, withHeaders({ cookie })), NOBODY)
    gateway.nowMs -= 13 * 3_600_000
    await gateway.call('POST', '/auth/logout', withHeaders({ cookie }))
    expectRefusal('signed out', await send(ALL, route, ALL.own, OWN, withHeaders({ cookie })), NOBODY)
  })
})

describe.each(routes.filter(([, route]) => accessOf(route).belongs === 'tenant'))('%s', (_, route) => {
  const access = accessOf(route)
  const scopes = access.scopes.filter((scope) => scope !== '*')

  test('S8: of another tenant does not exist for a key without *', async () => {
    for (const scope of scopes) {
      for (const [mine, theirs] of [
        [OWN, OTHER],
        [OTHER, OWN],
      ] as const) {
        const key = ALL.gateway.keyWith([scope], mine)
        const ids = theirs === OWN ? ALL.own : ALL.other
        const before = ALL.fingerprint()
        const cell = `${scope} of ${mine}`
        if (route.path.includes(':id')) {
          expectRefusal(`${cell}, by id`, await send(ALL, route, ids, mine, { key }), ABSENT)
        } else if (route.method === 'GET') {
          const answer = await ALL.gateway.call('GET', `${route.path}?tenant_id=${theirs}`, { key })
          expectRefusal(`${cell}, by query`, answer, [404, 'not_found', 'tenant_id'])
        } else {
          expectRefusal(`${cell}, by body`, await send(ALL, route, ids, theirs, { key }), [
            404,
            'not_found',
            'tenant_id',
          ])
        }
        expect(ALL.fingerprint()).toBe(before)
      }
    }
  })

  test('of any tenant is there for *, and of the own for a key of that tenant', async () => {
    for (const [scope, tenantId] of [['*', OWN], ...scopes.map((scope) => [scope, OTHER])] as const) {
      const world = await worldOf(route)
      const key = world.gateway.keyWith([scope], tenantId)
      expectSuccess(`${scope} of ${tenantId}`, await send(world, route, world.other, OTHER, { key }), access)
    }
  })

  test('S8: a list shows no row of another tenant', async () => {
    if (route.rows === null) return
    for (const scope of scopes) {
      const key = ALL.gateway.keyWith([scope], OWN)
      const answer = await ALL.gateway.call('GET', route.path, { key })
      expectSuccess(`${scope}, unnamed tenant`, answer, access)
      const owners = (answer.body[route.rows] as { tenant_id: string | null }[]).map(({ tenant_id }) => tenant_id)
      expect(owners).not.toContain(OTHER)
      if (nounOf(route.path) in ALL.own && route.path !== '/requests') expect(owners).toContain(OWN)
      else if (!route.path.match(/overrides|guardrails/)) expect(ALL.tenantsRead.at(-1)).toBe(OWN)
    }
  })
})

// docs/behaviour.md: "Tenants"
describe('the registry of tenants', () => {
  const ask = (world: Furnished, scope: string, method: string, path: string, body?: object) =>
    world.gateway.call(method, path, { key: world.gateway.keyWith([scope], OWN), body })

  test('is seen whole by who keeps it; a reader sees the own tenant', async () => {
    expectRefusal('reader', await ask(ALL, 'usage:read', 'GET', `/tenants/${OTHER}`), ABSENT)
    expectSuccess(
      'keeper',
      await ask(ALL, 'tenants:admin', 'GET', `/tenants/${OTHER}`),
      accessOf({ method: 'GET', path: '/tenants/:id' }),
    )
    const listed = async (scope: string) => (await ask(ALL, scope, 'GET', '/tenants')).body.tenants as { id: string }[]
    expect((await listed('usage:read')).map(({ id }) => id)).toEqual([OWN])
    expect((await listed('tenants:admin')).map(({ id }) => id)).toEqual([OWN, OTHER, ALL.own.tenants!])
  })

  test('limits another tenant only by *', async () => {
    const body = { name: 'B', rate_limits: { rpm: 1 } }
    const refused = [403, 'permission_error', 'rate_limits'] as const
    expectRefusal('keeper', await ask(ALL, 'tenants:admin', 'PUT', `/tenants/${OTHER}`, body), refused)
    expect(ALL.gateway.state.table('tenants').get(OTHER)?.rate_limits).toBeNull()
  })

  test('loses a tenant with what it owns only by *', async () => {
    for (const query of ['', '?force=true'])
      expectRefusal(
        `keeper ${query}`,
        await ask(ALL, 'tenants:admin', 'DELETE', `/tenants/${OTHER}${query}`),
        FORBIDDEN,
      )
    expectRefusal('active keys', await ask(ALL, '*', 'DELETE', `/tenants/${OTHER}`), [400, 'invalid_request', 'force'])
    expect(ALL.gateway.state.table('keys').get(ALL.other.keys!)?.status).toBe('active')
  })
})
