// A request whose body comes long after its head is its key's as that stands when the body is there: the record names that revision.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { deferred, lastResolve } from '../../src/lib/deferred.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = startGateway()
  await gateway.until('serving')
}, 60_000)
afterAll(() => gateway.remove(), 40_000)

const BODY = JSON.stringify({ model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] })

const newKey = async (): Promise<{ id: string; plaintext: string }> => {
  const { tenants } = (await (await gateway.request('/admin/v1/tenants')).json()) as { tenants: { id: string }[] }
  const body = { tenant_id: tenants[0]!.id, name: `late ${crypto.randomUUID()}`, scopes: ['inference'] }
  const answer = await gateway.request('/admin/v1/keys', { method: 'POST', body })
  expect(answer.status).toBe(201)
  return (await answer.json()) as { id: string; plaintext: string }
}

/** Sends the head of a request; once the gateway wants the body, which it does for a key that it knows, does `meanwhile`, then sends the body. Answers the status. */
const chatLate = async (key: string, meanwhile: () => Promise<void>): Promise<number> => {
  const { hostname, port } = new URL(gateway.url)
  const wanted = deferred<void>()
  const isWanted = lastResolve<void>()
  const answered = deferred<number>()
  const isAnswered = lastResolve<number>()
  let text = ''
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data(_, bytes) {
        text += bytes.toString('latin1')
        if (text.startsWith('HTTP/1.1 100')) isWanted()
        const status = /HTTP\/1\.1 ([2-5]\d\d)/.exec(text)?.[1]
        if (status !== undefined) isAnswered(Number(status))
      },
      close: () => isAnswered(0),
    },
  })
  try {
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${BODY.length}\r\n\r\n`,
    )
    await wanted
    await meanwhile()
    socket.write(BODY)
    return await answered
  } finally {
    socket.end()
  }
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

test('any other decision meanwhile keeps nobody from being answered', async () => {
  const { plaintext } = await newKey()
  expect(await chatLate(plaintext, async () => void (await newKey()))).toBe(200)
}, 30_000)
