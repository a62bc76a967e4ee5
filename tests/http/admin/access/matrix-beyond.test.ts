// Requests besides the served routes: planned routes, other methods, unknown paths, and the console's own routes.
// Without credentials, none of them reveals anything.
import { afterAll, describe, expect, test } from 'bun:test'
import { SCOPES } from '../../../../src/domain/access/api-key.ts'
import { PLANNED } from '../../../../src/http/admin/planned.ts'
import { nameOf } from '../world/access.ts'
import { nobodies, withHeaders } from '../world/credentials.ts'
import { furnish, OWN, PASSWORD, pathOf } from '../world/furnished.ts'
import type { CallOptions } from '../world/gateway.ts'
import { ABSENT, counting, expectRefusal, NOBODY, type Refusal } from '../world/refusal.ts'

const ALL = await furnish()
const { gateway, table } = ALL
const cells = counting()
afterAll(() => console.log(`authorisation beyond the routes: ${cells()} cells`))

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
const NOBODIES = nobodies(ALL)
const SOMEBODIES: readonly (readonly [string, CallOptions])[] = [
  ...SCOPES.map((scope) => [scope, { key: gateway.keyWith([scope], OWN) }] as const),
  ['signed in', withHeaders({ cookie: ALL.cookie })],
]
const bodyless = (method: string): CallOptions => (method === 'GET' ? {} : { raw: '{"bad json' })

/** A caller without valid credentials gets 401, every other caller the same refusal, with any body; nothing changes. */
const expectOfAll = async (method: string, path: string, refusal: Refusal): Promise<readonly (string | null)[]> => {
  const before = ALL.fingerprint()
  const allowed: (string | null)[] = []
  for (const [who, options] of NOBODIES) {
    const answer = await gateway.call(method, path, { ...options, ...bodyless(method) })
    expectRefusal(`${who}: ${method} ${path}`, answer, NOBODY)
    expect(answer.headers.get('allow')).toBeNull()
  }
  for (const [who, options] of SOMEBODIES) {
    const answer = await gateway.call(method, path, { ...options, ...bodyless(method) })
    expectRefusal(`${who}: ${method} ${path}`, answer, refusal)
    allowed.push(answer.headers.get('allow'))
  }
  expect(ALL.fingerprint()).toBe(before)
  return allowed
}

test.each(PLANNED.map((planned) => [nameOf(planned), planned] as const))(
  '%s is planned',
  async (_, { method, path }) => {
    await expectOfAll(method, pathOf(path, ALL.own), [501, 'not_implemented'])
  },
)

const paths = [...new Set([...table, ...PLANNED].map(({ path }) => path))]
test.each(paths)('%s: another method is 405 and names those that are possible', async (path) => {
  const fits = (pattern: string) =>
    pattern === path ||
    pattern.split('/').every((part, i, { length }) => {
      const parts = path.split('/')
      return length === parts.length && (part.startsWith(':') || part === parts[i])
    })
  const methodsOf = (is: (pattern: string) => boolean) =>
    new Set([...table, ...PLANNED].filter((each) => is(each.path)).map(({ method }) => method))
  // What has the form of `/policies/:id` is answered by it, but is named for itself.
  const answered = methodsOf(fits)
  const possible = methodsOf((pattern) => pattern === path)
  for (const method of METHODS.filter((each) => !answered.has(each))) {
    const allowed = await expectOfAll(method, pathOf(path, ALL.own), [405, 'invalid_request'])
    for (const header of allowed) expect(header?.split(', ').toSorted()).toEqual([...possible].toSorted())
  }
})

test.each(['/nope', '/tenantss', '/keys/a/b/c', '/auth', '/auth/nope', '', '/', '/keys//rotate', '/Tenants'])(
  'there is nothing at "%s"',
  async (path) => {
    for (const method of METHODS) await expectOfAll(method, path, ABSENT)
  },
)

describe('the doors of the console', () => {
  const signedIn = withHeaders({ cookie: ALL.cookie })

  test('ask for no credential, and a bad one is no hindrance', async () => {
    for (const [who, options] of [...NOBODIES, ...SOMEBODIES]) {
      const state = await gateway.call('GET', '/auth/state', options)
      expect([who, state.status, state.body.setup_required]).toEqual([who, 200, false])
      const wrong = { username: 'grace', password: 'not the right one' }
      const closed = await gateway.call('POST', '/auth/setup', {
        ...options,
        body: { ...wrong, confirm: wrong.password },
      })
      expectRefusal(`${who}: set-up`, closed, [403, 'permission_error'])
    }
  })

  test('a key is no session', async () => {
    for (const [who, options] of [...NOBODIES.slice(0, 10), ...SOMEBODIES.slice(0, -1)]) {
      const answer = await gateway.call('GET', '/auth/me', options)
      expect([who, answer.status, (answer.body.error as { code: string }).code]).toEqual([
        who,
        401,
        'authentication_error',
      ])
      expect((await gateway.call('POST', '/auth/logout', options)).status).toBe(204)
    }
    expect((await gateway.call('GET', '/auth/me', signedIn)).body.username).toBe('grace')
  })

  test('another site neither signs in nor out, nor sets up', async () => {
    const fresh = await furnish()
    const body = { username: 'grace', password: PASSWORD }
    for (const [param, headers] of [
      ['Sec-Fetch-Site', { 'sec-fetch-site': 'cross-site' }],
      ['Origin', { origin: 'https://elsewhere.test' }],
    ] as const) {
      const answer = await fresh.gateway.call('POST', '/auth/login', { key: null, body, headers })
      expectRefusal(`login by ${param}`, answer, [403, 'permission_error', param])
    }
    const headers = { 'content-type': 'text/plain' }
    const typed = await fresh.gateway.call('POST', '/auth/login', { key: null, body, headers })
    expectRefusal('login by a form', typed, [415, 'invalid_request', 'Content-Type'])
    const out = await fresh.gateway.call(
      'POST',
      '/auth/logout',
      withHeaders({ cookie: fresh.cookie, 'sec-fetch-site': 'cross-site' }),
    )
    expect([out.status, out.headers.get('set-cookie')]).toEqual([204, null])
    expect((await fresh.gateway.call('GET', '/auth/me', withHeaders({ cookie: fresh.cookie }))).status).toBe(200)
  })
})
