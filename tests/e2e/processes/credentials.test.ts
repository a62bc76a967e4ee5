// A key, or a session, that was just made or taken away is known to each of two processes: the next request may reach
// the other one.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { NO_READ_MODELS } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'

const ROUNDS = 20
/** Connections of their own are spread over the processes. */
const CONNECTIONS = 8
const PASSWORD = 'correct horse battery'

let gateway: GatewayProcess
let tenantId: string
beforeAll(async () => {
  gateway = startGateway({ settings: { server: { processes: 2 }, ...NO_READ_MODELS } })
  await gateway.until('serving', 60_000)
  const known = async () => {
    const answer = await gateway.request('/admin/v1/instances', { headers: { connection: 'close' } })
    const { instances = [] } = (await answer.json()) as { instances?: { live: boolean }[] }
    return instances.filter(({ live }) => live).length === 2
  }
  await eventually('each knows the other', async () => {
    const answers = await Promise.all(Array.from({ length: CONNECTIONS }, known))
    return answers.every((isKnown) => isKnown)
  })
  const made = await gateway.request('/admin/v1/tenants', { body: { slug: 'acme', name: 'Acme' } })
  tenantId = ((await made.json()) as { id: string }).id
}, 120_000)
afterAll(() => gateway.remove(), 40_000)

const statuses = (path: string, init: { key: string | null; headers?: Record<string, string> }) =>
  Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const headers = { connection: 'close', ...init.headers }
      const answer = await gateway.request(path, { ...init, headers })
      await answer.arrayBuffer()
      return answer.status
    }),
  )
const all = (status: number) => Array.from({ length: CONNECTIONS }, () => status)

// docs/behaviour.md: "Admin writes"
test('a key that was just issued is taken by both, and by none once it is revoked', async () => {
  let byBoth = 0
  for (let round = 0; round < ROUNDS; round++) {
    const body = { tenant_id: tenantId, name: `app ${round}`, scopes: ['inference'] }
    const made = await gateway.request('/admin/v1/keys', { body, headers: { connection: 'close' } })
    const { id, plaintext } = (await made.json()) as { id: string; plaintext: string }
    // The wait is bounded: on a machine that is too busy an answer names one of two.
    if (made.headers.get('x-gateway-applied-by') !== '2/2') continue
    byBoth++
    expect(await statuses('/v1/models', { key: plaintext })).toEqual(all(200))
    await gateway.request(`/admin/v1/keys/${id}`, { method: 'DELETE' })
    expect(await statuses('/v1/models', { key: plaintext })).toEqual(all(401))
  }
  expect(byBoth).toBeGreaterThan(ROUNDS / 2)
}, 60_000)

// docs/behaviour.md: "Admin writes"
test('so is a session, and an operator who was just made can sign in', async () => {
  const door = async (path: string, body: object, headers = {}) => {
    const answer = await gateway.request(`/admin/v1/auth/${path}`, {
      body,
      key: null,
      headers: { connection: 'close', Origin: gateway.url, ...headers },
    })
    return { status: answer.status, cookie: answer.headers.get('set-cookie')?.split(';')[0] ?? '' }
  }
  const credentials = { username: 'ada', password: PASSWORD }
  expect((await door('setup', { ...credentials, confirm: PASSWORD })).status).toBe(201)
  for (let round = 0; round < ROUNDS / 2; round++) {
    const { status, cookie } = await door('login', credentials)
    expect(status).toBe(200)
    expect(await statuses('/admin/v1/tenants', { key: null, headers: { cookie } })).toEqual(all(200))
    expect((await door('logout', {}, { cookie })).status).toBe(204)
    expect(await statuses('/admin/v1/tenants', { key: null, headers: { cookie } })).toEqual(all(401))
  }
}, 60_000)
