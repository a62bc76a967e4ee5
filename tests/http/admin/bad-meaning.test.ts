// Well-formed requests that have no valid meaning: unknown ids, ids of another kind or of another shape; immutable
// fields; duplicates; queries.
import { afterAll, describe, expect, test } from 'bun:test'
import type { AdminRoute } from '../../../src/http/admin/route.ts'
import { nameOf } from './world/access.ts'
import { bodyOf, furnish, nounOf, OTHER, OWN, pathOf } from './world/furnished.ts'
import { counting, expectRefusal, type Refusal } from './world/refusal.ts'

const ALL = await furnish()
const { gateway, own, other } = ALL
const routes = ALL.table.map((route) => [nameOf(route), route] as const)

const cells = counting()
afterAll(() => console.log(`requests that cannot be meant: ${cells()} over ${routes.length} routes`))

const expectRefused = async (method: string, path: string, body: object | undefined, refusal: Refusal) => {
  const before = ALL.fingerprint()
  const cell = `${method} ${path} ${JSON.stringify(body ?? null).slice(0, 200)}`
  expectRefusal(cell, await gateway.call(method, path, { body }), refusal)
  expect([cell, ALL.fingerprint()]).toEqual([cell, before])
}

/** No id of anything, however it is written. */
const ODD_IDS = [
  ...[
    'none',
    '0',
    '-1',
    '*',
    'null',
    'undefined',
    '__proto__',
    'constructor',
    'toString',
    '%5B%5D',
    '%7B%7D',
    '$where',
  ],
  ...['%00', 'a%00b', '%ff', '%e0%a4', '%', '%zz', '%2F', '..%2F..', '%2e%2e', '%252e%252e', '%0a', '%20', ';', "'--"],
  ...['%F0%9F%92%A5', 'x'.repeat(65), 'x'.repeat(10_000), 'f'.repeat(64), 'F'.repeat(64), '999999999999999999999'],
]

describe.each(routes.filter(([, { path }]) => path.includes(':id')))('%s', (_, route) => {
  const body = bodyOf(route, own, OWN)
  const noun = nounOf(route.path)
  const at = (id: string) => route.path.replace(':id', id)

  test('an id that nothing has is 404', async () => {
    for (const id of ODD_IDS) await expectRefused(route.method, at(id), body, notThere(route, at(id)))
  })

  test('nor has it the id of another kind, or its own in other letters', async () => {
    const foreign = Object.entries(own).filter(([kind]) => kind !== noun)
    const ids = foreign.map(([, id]) => id).filter((id) => id !== own[noun] && id !== other[noun])
    const same = own[noun]!
    for (const id of [...ids, same.toUpperCase(), `${same}x`, same.slice(0, -1), `%20${same}`, `${same}%00`]) {
      if (noun === 'log' && id === same.toUpperCase()) continue
      await expectRefused(route.method, at(id), body, [404, 'not_found'])
    }
  })
})

/** Two dots leave the path before any route sees it. */
const notThere = ({ method, path }: AdminRoute, asked: string): Refusal => {
  const real = new URL(`http://x/admin/v1${asked}`).pathname.slice('/admin/v1'.length)
  const parts = real.replace(/\/$/, '').split('/')
  const fits = ALL.table.filter((each) => {
    const pattern = each.path.split('/')
    return pattern.length === parts.length && pattern.every((part, i) => part.startsWith(':') || part === parts[i])
  })
  const isOther = real !== asked && path !== real && fits.length > 0 && fits.every((each) => each.method !== method)
  return isOther ? [405, 'invalid_request'] : [404, 'not_found']
}

/** Of bodies that their schema takes: what is wrong, by route. `changed` stands over the good body. */
const MEANINGLESS: Readonly<Record<string, readonly (readonly [changed: object, ...Refusal])[]>> = {
  'POST /tenants': [
    [{ slug: 'default' }, 409, 'invalid_request', 'slug'],
    [{ slug: 'DEFAULT' }, 400, 'invalid_request', 'slug'],
    [{ slug: '-x' }, 400, 'invalid_request', 'slug'],
  ],
  'PUT /tenants/:id': [[{ slug: 'another' }, 400, 'invalid_request', 'slug']],
  'POST /keys': [
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ tenant_id: own.providers }, 404, 'not_found', 'tenant_id'],
    [{ scopes: ['everything'] }, 400, 'invalid_request', 'scopes'],
    [{ routing_policy_id: 'pol_none' }, 400, 'invalid_request', 'routing_policy_id'],
    [{ routing_policy_id: other.policies }, 400, 'invalid_request', 'routing_policy_id'],
    [{ expires_at: 'tomorrow' }, 400, 'invalid_request', 'expires_at'],
    [{ expires_at: '2026-13-41T00:00:00Z' }, 400, 'invalid_request', 'expires_at'],
    [{ expires_at: '2027-02-30T00:00:00Z' }, 400, 'invalid_request', 'expires_at'],
    [{ expires_at: '2020-01-01T00:00:00Z' }, 400, 'invalid_request', 'expires_at'],
    [{ expires_at: '2027-01-01T00:00:00Z', expires_in_hours: 1 }, 400, 'invalid_request', 'expires_at'],
    [{ status: 'revoked' }, 400, 'invalid_request', 'status'],
  ],
  'PATCH /keys/:id': [
    [{ tenant_id: OTHER }, 400, 'invalid_request', 'tenant_id'],
    [{ expires_in_hours: 1 }, 400, 'invalid_request', 'expires_in_hours'],
    [{ expires_at: '2020-01-01T00:00:00Z' }, 400, 'invalid_request', 'expires_at'],
    [{ routing_policy_id: other.policies }, 400, 'invalid_request', 'routing_policy_id'],
  ],
  'POST /providers': [
    [{ name: 'VENDOR' }, 409, 'invalid_request', 'name'],
    [{ kind: 'nobody' }, 400, 'invalid_request', 'kind'],
    [{ base_url: 'not a url' }, 400, 'invalid_request', 'base_url'],
    [{ base_url: 'file:///etc/passwd' }, 400, 'invalid_request', 'base_url'],
    [{ base_url: 'http://169.254.169.254/v1' }, 400, 'invalid_request', 'base_url'],
    [{ api_key_env: 'PATH' }, 400, 'invalid_request', 'api_key_env'],
    [{ api_key_env: 'GATEWAY_MASTER_KEY' }, 400, 'invalid_request', 'api_key_env'],
    [{ status: 'active', enabled: false }, 400, 'invalid_request', 'enabled'],
    [{ options: { nobody: 1 } }, 400, 'invalid_request', 'options.nobody'],
  ],
  'PUT /providers/:id': [
    [{ name: 'another' }, 400, 'invalid_request', 'name'],
    [{ kind: 'nobody' }, 400, 'invalid_request', 'kind'],
  ],
  'PATCH /providers/:id': [[{ name: 'another' }, 400, 'invalid_request', 'name']],
  'POST /providers/:id/test': [
    [{ checks: ['everything'] }, 400, 'invalid_request', 'checks'],
    [{ model: 'nobody' }, 404, 'not_found', 'model'],
  ],
  'POST /providers/:id/detect-capabilities': [[{ models: ['nobody'] }, 404, 'not_found', 'models']],
  'POST /models': [
    [{ name: 'RESIDENT' }, 409, 'invalid_request', 'name'],
    [{ provider_id: 'prov_none' }, 404, 'not_found', 'provider_id'],
    [{ provider_id: own.keys }, 404, 'not_found', 'provider_id'],
    [{ aliases: ['resident'] }, 409, 'invalid_request', 'aliases'],
    [{ capabilities: ['flight'] }, 400, 'invalid_request', 'capabilities'],
  ],
  'PUT /models/:id': [
    [{ name: 'another' }, 400, 'invalid_request', 'name'],
    [{ provider_id: 'prov_none' }, 400, 'invalid_request', 'provider_id'],
  ],
  'PATCH /models/:id': [[{ name: 'another' }, 400, 'invalid_request', 'name']],
  'POST /policies': [
    [{ name: 'Resident' }, 409, 'invalid_request', 'name'],
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ strategy: 'best' }, 400, 'invalid_request', 'strategy'],
  ],
  'PUT /policies': [
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ fallback: { on: ['everything'] } }, 400, 'invalid_request', 'fallback.on'],
  ],
  'PUT /endpoints': [
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ aliases: ['resident'] }, 409, 'invalid_request', 'aliases'],
    [{ forced_model: 'nobody' }, 400, 'invalid_request', 'forced_model'],
    [{ overrides: { strategy: 'best' } }, 400, 'invalid_request', 'overrides.strategy'],
  ],
  'PUT /budgets': [
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ scope: { type: 'key', id: 'key_none' } }, 400, 'invalid_request', 'scope.id'],
    [{ scope: { type: 'key', id: other.keys } }, 400, 'invalid_request', 'scope.id'],
    [{ window: '0h' }, 400, 'invalid_request', 'window'],
    [{ timezone: 'Mars/Olympus' }, 400, 'invalid_request', 'timezone'],
  ],
  'PUT /cache/policies': [
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ scopes: ['key:key_none'] }, 400, 'invalid_request', 'scopes'],
    [{ scopes: ['planet:mars'] }, 400, 'invalid_request', 'scopes'],
  ],
  'POST /tools': [
    [{ name: 'resident' }, 409, 'invalid_request', 'name'],
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ tenant_id: undefined }, 400, 'invalid_request', 'tenant_id'],
    [{ kind: 'builtin' }, 400, 'invalid_request', 'kind'],
    [{ parameters: { typo: 'object' } }, 400, 'invalid_request', 'parameters.typo'],
  ],
  'PUT /tools/:id': [
    [{ name: 'another' }, 400, 'invalid_request', 'name'],
    [{ kind: 'builtin' }, 400, 'invalid_request', 'kind'],
    [{ owner: 'global' }, 400, 'invalid_request', 'owner'],
    [{ tenant_id: OTHER }, 400, 'invalid_request', 'tenant_id'],
  ],
  'PUT /tool-policies': [
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ mode: 'sometimes' }, 400, 'invalid_request', 'mode'],
  ],
  'POST /operators': [
    [{ username: 'GRACE' }, 409, 'invalid_request', 'username'],
    [{ password: 'short', confirm: 'short' }, 400, 'invalid_request', 'password'],
    [{ confirm: 'another one of many words' }, 400, 'invalid_request', 'confirm'],
  ],
  'PUT /operators/:id/password': [[{ password: 'short' }, 400, 'invalid_request', 'password']],
  'POST /instances/:id/retire': [[{ reason: 'x'.repeat(1_025) }, 400, 'invalid_request', 'reason']],
  'POST /prices/corrections': [
    [{ provider: 'nobody' }, 404, 'not_found', 'provider'],
    [{ model: 'nobody' }, 404, 'not_found', 'model'],
    [{ from: 'yesterday' }, 400, 'invalid_request', 'from'],
    [{ from: '24h' }, 400, 'invalid_request', 'from'],
    [{ to: '2026-02-30' }, 400, 'invalid_request', 'to'],
    [{ to: '2026-10-02T00:00:30Z' }, 400, 'invalid_request', 'to'],
    [{ to: '2026-10-01' }, 400, 'invalid_request', 'from'],
    [{ input_cost_per_million: 0.0000001 }, 400, 'invalid_request', 'input_cost_per_million'],
    [{ output_cost_per_million: -1 }, 400, 'invalid_request', 'output_cost_per_million'],
    [{ cached_input_cost_per_million: 'free' }, 400, 'invalid_request', 'cached_input_cost_per_million'],
  ],
  'POST /overrides': [
    [{ kind: 'wish' }, 400, 'invalid_request', 'kind'],
    [{ target: 'planet:mars' }, 400, 'invalid_request', 'target'],
    [{ kind: 'kill', target: 'provider:prov_none' }, 404, 'not_found', 'target'],
    [{ target: `key:${own.models}` }, 404, 'not_found', 'target'],
    [{ tenant_id: 'ten_none' }, 404, 'not_found', 'tenant_id'],
    [{ kind: 'cap', value: { max_cost_usd: -1 } }, 400, 'invalid_request', 'value.max_cost_usd'],
    [{ expires_at: 'never' }, 400, 'invalid_request', 'expires_at'],
  ],
}

describe.each(routes.filter(([name]) => MEANINGLESS[name] !== undefined))('%s', (name, route) => {
  test.each([...MEANINGLESS[name]!])('%j is %d %s %s', async (changed, status, code, param) => {
    const refusal: Refusal = param === undefined ? [status, code] : [status, code, param]
    await expectRefused(route.method, pathOf(route.path, own), { ...bodyOf(route, own, OWN), ...changed }, refusal)
  })
})

test('every write with a body has some that cannot be meant', () => {
  const without = new Set(['PUT /providers/:id/credential', 'POST /providers/:id/kill', 'POST /tools/:id/enabled'])
  const writes = routes.filter(([name, { bodySchema }]) => bodySchema !== null && !without.has(name))
  expect(Object.keys(MEANINGLESS).toSorted()).toEqual(writes.map(([name]) => name).toSorted())
})

const NO_NUMBER = ['-1', '1.5', '1e3', '0x10', 'x', '', '%20', '+1', 'NaN', '%00', '1%001', '١']
/** Nothing is at such a place; a limit of that size is clamped. */
const NO_WHOLE = ['99999999999999999999', ...NO_NUMBER]
const NO_TIME = [
  'yesterday',
  '',
  '2026-02-30',
  '2026-13-01T00:00:00Z',
  '2026-01-01T25:00:00Z',
  '%00',
  'x'.repeat(65),
  '{}',
]
/** By parameter of a query: what cannot be meant by it. */
const QUERIES: Readonly<Record<string, readonly string[]>> = {
  limit: ['0', ...NO_NUMBER],
  offset: NO_WHOLE,
  before: NO_WHOLE,
  format: ['xml', '', 'CSV', '%00'],
  as_of: [...NO_TIME, 'f'.repeat(63), 'g'.repeat(64)],
  from: ['7d', '-1h', ...NO_TIME],
  to: ['7d', '-1h', ...NO_TIME],
  status_min: ['99', '600', '-1', 'x', '', '4e2'],
  outcome: ['well', '', '%00'],
  in_force: ['maybe', '', '1', 'TRUE'],
  force: ['maybe', '', '1', 'TRUE'],
  dry_run: ['maybe', '', '1', 'TRUE'],
  tenant_id: ['%00', 'a%00b'],
}

describe.each(routes)('the query of %s', (_, route) => {
  const body = bodyOf(route, own, OWN)
  const path = pathOf(route.path, own)
  const known = Object.keys((route.querySchema?.properties ?? {}) as object)

  test('is refused where it cannot be meant', async () => {
    const more = route.path === '/keys' ? `&tenant_id=${OWN}` : ''
    for (const name of known)
      for (const value of QUERIES[name] ?? ['%00', 'a%00b'])
        await expectRefused(route.method, `${path}?${name}=${value}${name === 'tenant_id' ? '' : more}`, body, [
          400,
          'invalid_request',
          name,
        ])
    if (known.includes('from'))
      await expectRefused(route.method, `${path}?from=2026-01-02&to=2026-01-01`, body, [400, 'invalid_request', 'from'])
    if (known.includes('kind'))
      await expectRefused(route.method, `${path}?kind=nothing`, body, [400, 'invalid_request', 'kind'])
  })

  test('a moment that never was is 404, and none is known of what has no past', async () => {
    if (route.method !== 'GET') return
    const ask = (moment: string, refusal: Refusal) =>
      expectRefused('GET', `${path}?as_of=${moment}&tenant_id=${OWN}`, undefined, refusal)
    if (route.past === true)
      for (const moment of ['f'.repeat(64), '2001-01-01']) await ask(moment, [404, 'not_found', 'as_of'])
    else if (!known.includes('as_of')) await ask('2026-11-20', [400, 'invalid_request', 'as_of'])
  })
})
