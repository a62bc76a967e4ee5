// `/v1` without upstream calls: models, refused routes, and requests over a socket behind each listener.
import { afterAll, describe, expect, test } from 'bun:test'
import { entry, KEY, policyRow, READ_KEY, TIP, testGateway } from '../inference/gateway.ts'
import { EACH_LISTENER, serveApp } from '../services/serve-app.ts'
import { startUpstream } from '../services/upstream.ts'

const upstream = startUpstream()
const gateway = testGateway({
  entries: [
    entry({ baseUrl: upstream.baseUrl }),
    entry({ provider: 'beta', priority: 1, contextWindow: null, inputCostPerMillion: null }),
    entry({ name: 'org/large-2', provider: 'beta' }),
    entry({ name: 'off', unroutable: 'disabled' }),
  ],
  policies: [policyRow({ strategy: 'priority' })],
  aliases: { 'Best/Model': 'org/large-2', gone: 'off', cheap: 'small' },
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

interface Envelope {
  error: { message: string; type: string; param: string | null; code: string; details: unknown }
  gateway: Record<string, unknown>
}
const envelopeOf = async (response: Response): Promise<Envelope> => {
  expect(response.headers.get('content-type')).toStartWith('application/json')
  const body = (await response.json()) as Envelope
  expect(Object.keys(body)).toEqual(['error', 'gateway'])
  expect(Object.keys(body.error)).toEqual(['message', 'type', 'param', 'code', 'details'])
  expect(body.gateway.request_id).toBe(response.headers.get('x-request-id')!)
  expect(response.headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
  expect(response.headers.get('x-should-retry')).toBe(response.headers.get('x-gateway-retryable'))
  return body
}

describe('models', () => {
  test('are listed by name and alias, routable ones only, the first in priority order speaking', async () => {
    const response = await gateway.send('/v1/models')
    const list = (await response.json()) as { object: string; data: Record<string, unknown>[] }
    expect(list.object).toBe('list')
    expect(list.data.map(({ id }) => id)).toEqual(['org/large-2', 'small', 'Best/Model', 'cheap'])
    expect(list.data[1]).toEqual({
      id: 'small',
      object: 'model',
      created: 1_760_000_000,
      owned_by: 'beta',
      gateway_provider: 'beta',
      gateway_context_window: null,
      gateway_input_cost_per_million: null,
      gateway_output_cost_per_million: 2,
      gateway_capabilities: entry().capabilities,
    })
  })

  test('are shown singly, with slashes plain or encoded, by alias in any case, and unroutable ones too', async () => {
    const idOf = async (path: string) => ((await (await gateway.send(path)).json()) as { id: string }).id
    expect(await idOf('/v1/models/org/large-2')).toBe('org/large-2')
    expect(await idOf('/v1/models/org%2Flarge-2')).toBe('org/large-2')
    expect(await idOf('/v1/models/best/MODEL')).toBe('Best/Model')
    expect(await idOf('/v1/models/off')).toBe('off')
  })

  test('that are not registered are 404', async () => {
    const { error } = await envelopeOf(await gateway.send('/v1/models/nope'))
    expect(error).toMatchObject({ code: 'not_found', type: 'not_found_error', param: 'model' })
    expect((await gateway.send('/v1/models/%zz')).status).toBe(400)
  })

  test('need a key with the scope', async () => {
    expect((await gateway.send('/v1/models', { key: null })).status).toBe(401)
    expect((await gateway.send('/v1/models/small', { key: READ_KEY })).status).toBe(403)
  })
})

describe('what is not served', () => {
  for (const path of ['/v1/completions', '/v1/embeddings', '/v1/responses']) {
    test(`${path} is 501, for strangers 401`, async () => {
      const refused = await gateway.send(path, { body: {} })
      expect(refused.headers.get('x-should-retry')).toBe('false')
      const { error } = await envelopeOf(refused)
      expect(error).toMatchObject({ code: 'not_implemented', type: 'not_implemented_error' })
      expect(error.message.includes('/v1/chat/completions')).toBe(path === '/v1/responses')
      expect((await gateway.send(path, { body: {}, key: null })).status).toBe(401)
      expect((await gateway.send(path, { raw: '{broken', key: READ_KEY, method: 'POST' })).status).toBe(501)
    })
  }

  test('an unknown path is 404', async () => {
    for (const path of ['/nope', '/v1', '/v1/', '/v1/nope', '/v2/chat/completions', '/..%2f', '/%zz']) {
      const response = await gateway.send(path)
      expect(response.status).toBe(404)
      expect((await envelopeOf(response)).error.code).toBe('not_found')
    }
  })

  test('a wrong method is 405 with Allow', async () => {
    const cases = [
      ['DELETE', '/v1/chat/completions', 'POST'],
      ['POST', '/v1/models/a/b', 'GET, HEAD'],
      ['PUT', '/health', 'GET, HEAD'],
      ['GET', '/v1/embeddings', 'POST'],
    ] as const
    for (const [method, path, allow] of cases) {
      const response = await gateway.send(path, { method })
      expect(response.status).toBe(405)
      expect(response.headers.get('allow')).toBe(allow)
      expect((await envelopeOf(response)).error.code).toBe('invalid_request')
    }
  })
})

/** The status line that a raw request gets. */
const statusLine = async (port: number, lines: readonly string[]): Promise<string> => {
  const answered = Promise.withResolvers<string>()
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data: (_, bytes) => answered.resolve(new TextDecoder().decode(bytes).split('\r\n')[0]!),
      close: () => answered.resolve('closed'),
    },
  })
  socket.write(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`)
  const line = await answered.promise
  socket.end()
  return line
}

describe.each(EACH_LISTENER)('over a socket, behind the %s listener', (listener) => {
  const server = serveApp(gateway.app, listener)
  afterAll(() => server.stop())

  test.each(['x', 'gw', 'gw:80', '[::1]'])('the host may be as short as %p', async (host) => {
    for (const path of ['/health', '/v1/models', '/v1/models/cheap', '/health?x=1']) {
      const line = await statusLine(server.port, [
        `GET ${path} HTTP/1.1`,
        `Host: ${host}`,
        `Authorization: Bearer ${KEY}`,
      ])
      expect(`${path} ${line}`).toBe(`${path} HTTP/1.1 200 OK`)
    }
  })

  const post = (body: BodyInit, headers: Record<string, string> = {}) =>
    fetch(new URL('/v1/chat/completions', `http://127.0.0.1:${server.port}`), {
      method: 'POST',
      body,
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
    })

  test('a malformed, an oversized and a compressed body get the envelope', async () => {
    const cases = [
      ['{broken', {}, 400],
      [`{"a":"${'x'.repeat(11 * 1024 * 1024)}"}`, {}, 413],
      ['{}', { 'content-encoding': 'gzip' }, 415],
    ] as const
    for (const [body, headers, status] of cases) {
      const response = await post(body, headers)
      expect(response.status).toBe(status)
      expect((await envelopeOf(response)).error.code).toBe('invalid_request')
    }
  })

  test('an answer has the identity headers, whatever the client sends as its label', async () => {
    const response = await post(JSON.stringify({ model: 'cheap', messages: [{ role: 'user', content: 'x' }] }), {
      'x-request-id': '<script>"é',
      'x-gateway-no-fallback': 'false',
    })
    // The first candidate, beta, listens nowhere: alpha answers.
    expect(response.status).toBe(200)
    expect(response.headers.get('x-request-id')).toBe('script')
    const { gateway: block } = (await response.json()) as Envelope
    expect(block).toMatchObject({
      requested_model: 'cheap',
      routed_model: 'small',
      provider: 'alpha',
      fallback_used: true,
    })
  })

  test('X-Gateway-Min-Revision is waited for, and no stranger learns of revisions', async () => {
    const ask = JSON.stringify({ model: 'cheap', messages: [{ role: 'user', content: 'x' }] })
    expect((await post(ask, { 'x-gateway-min-revision': TIP })).status).toBe(200)
    expect((await post(ask, { 'x-gateway-min-revision': 'b'.repeat(64) })).status).toBe(504)
    expect((await post(ask, { 'x-gateway-min-revision': 'b'.repeat(64), authorization: 'Bearer no' })).status).toBe(401)
    expect((await post(ask, { 'x-gateway-min-revision': 'nonsense' })).status).toBe(400)
  })
})
