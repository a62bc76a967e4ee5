// A web page whose name is rebound to the address of a gateway: its scripts send requests that the browser counts as
// same-origin. What it has is its own name, in `Host` and `Origin`.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eventually } from '../services/eventually.ts'
import { ADMIN_KEY, type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'
import { exchange, statusesIn } from './raw-client.ts'

const OPERATOR = { username: 'mallory', password: 'correct horse battery', confirm: 'correct horse battery' }
const SECRET = 'ghp_the_token_of_the_environment'
const worker = { enabled: false }

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

const ask = async (gateway: GatewayProcess, path: string, host: string, { method, headers = {}, body }: Sent = {}) => {
  const text = body === undefined ? '' : JSON.stringify(body)
  const lines = Object.entries({ Host: host, Connection: 'close', 'Content-Type': 'application/json', ...headers })
  const head = `${method ?? (body === undefined ? 'GET' : 'POST')} ${path} HTTP/1.1\r\n`
  const sent = `${head}${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}`
  const received = await exchange(
    Number(new URL(gateway.url).port),
    `${sent}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
  return { status: statusesIn(received)[0], received }
}

const asAdmin = { authorization: `Bearer ${ADMIN_KEY}` }

describe.each(['own', 'bun'] as const)('a gateway on loopback, listener %s', (listener) => {
  let gateway: GatewayProcess
  let stolen = ''
  const thief = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      stolen += `${JSON.stringify([...request.headers])}${await request.text()}`
      return Response.json({ data: [] })
    },
  })
  beforeAll(async () => {
    gateway = startGateway({ settings: { server: { listener }, worker }, env: { GITHUB_TOKEN: SECRET } })
    await gateway.until('serving', 60_000)
  }, 90_000)
  afterAll(async () => {
    await gateway.remove()
    await thief.stop(true)
  })
  const port = () => new URL(gateway.url).port
  /** As a rebound page is seen. */
  const page = (name = 'rebound.example') => ({ host: `${name}:${port()}`, origin: `http://${name}:${port()}` })

  test('S39: the page neither sets up nor reads, by any route of the admin surface, with or without a key', async () => {
    const { host, origin } = page()
    const from = { origin, 'sec-fetch-site': 'same-origin' }
    const setup = await ask(gateway, '/admin/v1/auth/setup', host, { headers: from, body: OPERATOR })
    expect([setup.status, setup.received.includes('"permission_error"')]).toEqual([403, true])
    const paths = ['/admin/v1/auth/state', '/admin/v1/providers', '/admin/v1', '/admin/v1/', '/console', '/console/x']
    const spelt = ['/%61dmin/v1/providers', '/admin/v1/%70roviders', '//admin/v1/providers', '/Admin/V1/providers']
    for (const path of [...paths, ...spelt])
      for (const method of ['GET', 'POST', 'OPTIONS', 'DELETE'])
        for (const headers of [from, { ...from, ...asAdmin }]) {
          const { status, received } = await ask(gateway, path, host, { method, headers })
          expect([method, path, status]).toEqual([method, path, 403])
          expect(received.toLowerCase()).not.toContain('access-control-')
        }
    const state = await ask(gateway, '/admin/v1/auth/state', `127.0.0.1:${port()}`)
    expect(state.received).toContain('"setup_required":true')
  })

  test('S39: no other name is taken: what looks like loopback, what ends in it, the address of another machine', async () => {
    for (const name of [
      '127.0.0.1.rebound.example',
      'localhost.rebound.example',
      'notlocalhost',
      '10.0.0.1',
      '0.0.0.0',
    ])
      expect([name, (await ask(gateway, '/admin/v1/auth/state', `${name}:${port()}`)).status]).toEqual([name, 403])
    for (const name of ['localhost', 'LOCALHOST', '127.0.0.1', '[::1]', '127.0.0.2'])
      expect([name, (await ask(gateway, '/admin/v1/auth/state', `${name}:${port()}`)).status]).toEqual([name, 200])
  })

  test('S39: a page of another site that posts to the address itself sets nothing up', async () => {
    const host = `127.0.0.1:${port()}`
    const send = async (headers: Record<string, string>) =>
      (await ask(gateway, '/admin/v1/auth/setup', host, { headers, body: OPERATOR })).status
    expect(await send({ origin: 'http://rebound.example' })).toBe(403)
    expect(await send({ 'sec-fetch-site': 'cross-site' })).toBe(403)
    expect(await send({ 'content-type': 'text/plain' })).toBe(415)
    expect(await send({ 'x-forwarded-for': '203.0.113.9' })).toBe(403)
    const preflight = { origin: 'http://rebound.example', 'access-control-request-method': 'POST' }
    const { status, received } = await ask(gateway, '/admin/v1/auth/setup', host, {
      method: 'OPTIONS',
      headers: preflight,
    })
    expect([status, /access-control/i.test(received)]).toEqual([405, false])
  })

  test('S39: the inference surface answers under any name, and shows no page its answers', async () => {
    const headers = { origin: 'http://rebound.example', authorization: `Bearer ${INFERENCE_KEY}` }
    const { status, received } = await ask(gateway, '/v1/models', 'gateway.internal', { headers })
    expect([status, /access-control/i.test(received)]).toEqual([200, false])
  })

  test('S39: whoever writes providers reads no other secret of the environment at an address of its own', async () => {
    const base_url = `http://127.0.0.1:${thief.port}/v1`
    for (const api_key_env of ['GITHUB_TOKEN', 'GATEWAY_BOOTSTRAP_ADMIN_KEY', 'PATH']) {
      const body = { name: 'thief', kind: 'openai_compatible', base_url, api_key_env }
      const { status, received } = await ask(gateway, '/admin/v1/providers', 'localhost', { headers: asAdmin, body })
      expect([api_key_env, status, received.includes('"param":"api_key_env"')]).toEqual([api_key_env, 400, true])
    }
    expect(stolen).not.toContain(SECRET)
  })

  test('a browser on this machine sets up as ever: no token for loopback by a name of loopback', async () => {
    const host = `localhost:${port()}`
    const state = await ask(gateway, '/admin/v1/auth/state', host)
    expect(state.received).toContain('"setup_token_required":false')
    const headers = { origin: `http://${host}`, 'sec-fetch-site': 'same-origin' }
    expect((await ask(gateway, '/admin/v1/auth/setup', host, { headers, body: OPERATOR })).status).toBe(201)
  })
})

describe.each(['own', 'bun'] as const)('a gateway on loopback that trusts proxies there, listener %s', (listener) => {
  let gateway: GatewayProcess
  const server = { listener, trusted_proxies: ['127.0.0.0/8'], allowed_hosts: ['gateway.example.com', 'inside'] }
  beforeAll(async () => {
    gateway = startGateway({ settings: { server, worker } })
    await gateway.until('serving', 60_000)
  }, 90_000)
  afterAll(() => gateway.remove())
  const setUp = async (host: string, headers: Record<string, string>) =>
    (await ask(gateway, '/admin/v1/auth/setup', host, { headers, body: OPERATOR })).status
  const stateOf = (host: string, headers: Record<string, string>) =>
    ask(gateway, '/admin/v1/auth/state', host, { headers })

  test('S39: a page that writes the headers of a proxy stays at its own name', async () => {
    for (const name of ['localhost', '127.0.0.1', 'gateway.example.com']) {
      const headers = { 'x-forwarded-host': name, 'x-forwarded-for': '127.0.0.1', 'sec-fetch-site': 'same-origin' }
      expect([name, await setUp('rebound.example', headers)]).toEqual([name, 403])
      expect([name, (await stateOf('rebound.example', headers)).status]).toEqual([name, 403])
    }
    expect((await stateOf('inside', { 'x-forwarded-host': 'rebound.example' })).status).toBe(403)
  })

  test('S39: what comes through a proxy needs the token, also for a client on this machine', async () => {
    const host = new URL(gateway.url).host
    const forwarded = { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-host': 'gateway.example.com' }
    const sent: Record<string, string>[] = [forwarded, { 'x-forwarded-for': '127.0.0.1' }, { via: '1.1 proxy' }, {}]
    for (const headers of sent)
      for (const named of [host, 'inside']) {
        const { status, received } = await stateOf(named, headers)
        expect([status, received.includes('"setup_token_required":true')]).toEqual([200, true])
        expect(await setUp(named, headers)).toBe(403)
      }
  })
})

describe('a gateway that others reach', () => {
  let gateway: GatewayProcess
  const server = { host: '0.0.0.0', public_url: 'https://gateway.example.com/', allowed_hosts: ['inside:9000'] }
  beforeAll(async () => {
    gateway = startGateway({ settings: { server, worker } })
    await gateway.until('serving', 60_000)
  }, 90_000)
  afterAll(() => gateway.remove())

  test('S39: the first set-up from elsewhere takes the token that the start prints, and no other', async () => {
    const LINK = /https:\/\/gateway\.example\.com(\/admin\/v1\/auth\/setup\?token=([0-9a-f]{64}))/
    // The start prints it once it serves.
    await eventually('the link is printed', () => LINK.test(gateway.output()))
    const link = LINK.exec(gateway.output())
    const [, path, token] = link ?? []
    expect(path).toBeString()
    const host = 'gateway.example.com'
    const elsewhere = { 'x-forwarded-for': '203.0.113.9' }
    const send = async (to: string, headers: Record<string, string> = {}, named = host) =>
      (await ask(gateway, to, named, { headers: { ...elsewhere, ...headers }, body: OPERATOR })).status
    const plain = '/admin/v1/auth/setup'
    expect(await send(plain)).toBe(403)
    expect(await send(`${plain}?token=${'0'.repeat(64)}`)).toBe(403)
    expect(await send(`${plain}?token=${token}&token=${token}`)).toBe(403)
    expect(await send(plain, { 'x-gateway-setup-token': `${token}0` })).toBe(403)
    expect(await send(path!, {}, 'rebound.example')).toBe(403)
    expect(await send(path!, {}, 'inside:9001')).toBe(403)
    const state = await ask(gateway, '/admin/v1/auth/state', 'inside:9000', { headers: elsewhere })
    expect(state.received).toContain('"setup_token_required":true')
    expect(await send(path!)).toBe(201)
    expect(await send(path!)).toBe(403)
  })
})

test('S39: GATEWAY_SETUP=off closes set-up', async () => {
  const gateway = startGateway({ settings: { worker }, env: { GATEWAY_SETUP: 'off' } })
  try {
    await gateway.until('serving', 60_000)
    const host = new URL(gateway.url).host
    expect((await ask(gateway, '/admin/v1/auth/state', host)).received).toContain('"setup_required":false')
    expect((await ask(gateway, '/admin/v1/auth/setup', host, { body: OPERATOR })).status).toBe(403)
    expect(gateway.output()).not.toContain('token=')
  } finally {
    await gateway.remove()
  }
}, 90_000)
