// A request whose body arrives long after its head uses the key's revision at the time of the body: the record names
// that revision.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect } from '../lib/http-server/serving.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = startGateway()
  await gateway.until('serving')
}, 60_000)
afterAll(() => gateway.remove(), 40_000)

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
const BODY = JSON.stringify({ model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] })

const newKey = async (): Promise<{ id: string; plaintext: string }> => {
  const { tenants } = (await (await gateway.request('/admin/v1/tenants')).json()) as { tenants: { id: string }[] }
  const body = { tenant_id: tenants[0]!.id, name: `late ${crypto.randomUUID()}`, scopes: ['inference'] }
  const answer = await gateway.request('/admin/v1/keys', { method: 'POST', body })
  expect(answer.status).toBe(201)
  return (await answer.json()) as { id: string; plaintext: string }
}

/**
 * Sends the head of a request. Once the gateway wants the body, which it does for a known key, runs `meanwhile`, then
 * sends the body. Returns the status.
 */
const chatLate = async (key: string, meanwhile: () => Promise<unknown>): Promise<number> => {
  const head =
    `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\nExpect: 100-continue\r\n` +
    `Connection: close\r\n\r\n`
  const client = await connect(Number(new URL(gateway.url).port), head)
  await client.until((received) => received.startsWith(CONTINUE))
  await meanwhile()
  client.write(BODY)
  return Number((await client.closed).slice(CONTINUE.length).split(' ')[1])
}

test('a key that is revoked before the body has come is refused', async () => {
  const { id, plaintext } = await newKey()
  const status = await chatLate(plaintext, async () => {
    expect((await gateway.request(`/admin/v1/keys/${id}`, { method: 'DELETE' })).status).toBe(200)
  })
  expect(status).toBe(401)
}, 30_000)

test('a key that may not ask any more is refused', async () => {
  const { id, plaintext } = await newKey()
  const status = await chatLate(plaintext, async () => {
    const body = { scopes: ['usage:read'] }
    expect((await gateway.request(`/admin/v1/keys/${id}`, { method: 'PATCH', body })).status).toBe(200)
  })
  expect(status).toBe(403)
}, 30_000)

test('any other decision in the meantime keeps no request from its answer', async () => {
  const { plaintext } = await newKey()
  expect(await chatLate(plaintext, newKey)).toBe(200)
}, 30_000)
