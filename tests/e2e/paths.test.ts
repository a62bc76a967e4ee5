// Access to administration on a real process: what other spellings of its paths reach, and what is printed while set-up
// is open.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { exchange, statusesIn } from '../security/raw-client.ts'
import { ADMIN_KEY, type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = startGateway({ settings: { worker: { enabled: false }, server: { host: '0.0.0.0' } } })
  await gateway.until('serving', 60_000)
}, 90_000)
afterAll(() => gateway.remove())

const get = async (path: string, key: string | null): Promise<number> => {
  const lines = [`GET ${path} HTTP/1.1`, 'Host: gw', 'Connection: close']
  if (key !== null) lines.push(`Authorization: Bearer ${key}`)
  return statusesIn(await exchange(Number(new URL(gateway.url).port), `${lines.join('\r\n')}\r\n\r\n`))[0]!
}

const among = (path: string, status: number, expected: readonly number[]) =>
  expect([path, expected.includes(status) ? expected : status]).toEqual([path, expected])

test('S12: no spelling of a path of administration lets anybody in whom it would not let in as it is', async () => {
  const spellings = [
    '/admin/v1/tenants',
    '//admin/v1/tenants',
    '/admin//v1/tenants',
    '/admin/v1//tenants',
    '/admin/v1/tenants/',
    '/admin/v1/tenants.',
    '/admin/v1/tenants;a=b',
    '/admin;a/v1/tenants',
    '/Admin/v1/tenants',
    '/ADMIN/V1/TENANTS',
    '/admin%2fv1%2ftenants',
    '/admin/v1%2ftenants',
    '/%61dmin/v1/tenants',
    '/admin/v1/%74enants',
    '/v1/../admin/v1/tenants',
    '/v1/%2e%2e/admin/v1/tenants',
    '/v1/..%2fadmin/v1/tenants',
    '/v1/models/../../admin/v1/tenants',
    '/health/../admin/v1/tenants',
    '/health/..;/admin/v1/tenants',
    '/admin/v1/tenants%00',
    '/admin/v1/tenants%20',
    '/admin/v1/tenants?key=x',
    '/admin/v1/tenants#/health',
    '/admin\\v1\\tenants',
    '/./admin/./v1/./tenants',
    '/admin/v1/auth/../tenants',
    '/admin/v1/auth/login/../../tenants',
  ]
  let opened = 0
  for (const path of spellings) {
    const [stranger, weak, admin] = [await get(path, null), await get(path, INFERENCE_KEY), await get(path, ADMIN_KEY)]
    among(path, stranger, [400, 401, 404])
    among(path, weak, [400, 403, 404, 405])
    // Served or not there: never something else, and never served to one and checked as another.
    among(path, admin, [200, 400, 404, 405])
    if (admin === 200) {
      opened++
      expect([path, stranger, weak]).toEqual([path, 401, 403])
    }
  }
  expect(opened).toBeGreaterThan(3)
})

test('S17: while anybody who reaches the port could set it up, a start says so', async () => {
  expect(gateway.output()).toContain('setup_open')
  const body = { username: 'ada', password: 'correct horse battery', confirm: 'correct horse battery' }
  const made = await gateway.request('/admin/v1/auth/setup', { body, key: null })
  expect(made.status).toBe(201)
  const before = gateway.output().length
  await gateway.end()
  gateway.start()
  await gateway.until('serving', 60_000)
  expect(gateway.output().slice(before)).not.toContain('setup_open')
  const again = await gateway.request('/admin/v1/auth/setup', { body: { ...body, username: 'eve' }, key: null })
  expect(again.status).toBe(403)
}, 90_000)
