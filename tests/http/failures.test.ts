// Every code of the table through a real gateway over sockets: its envelope, its headers, and nothing in it that is nobody's business.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { KINDS } from '../../src/providers/kinds.ts'
import { ERRORS, type ErrorCode } from '../../src/wire/errors.ts'
import { entry, framesOf, KEY, policyRow, READ_KEY, testGateway } from '../inference/gateway.ts'
import { type Behaviour, startUpstream } from '../services/upstream.ts'

const SECRET = 'topsecretcredential-0123'
const upstream = startUpstream()
const openai = (fields: Parameters<typeof entry>[0]) =>
  entry({ kind: 'openai', baseUrl: upstream.baseUrl, secret: SECRET, ...fields })
const gateway = testGateway({
  kinds: [...KINDS.values()],
  entries: [
    openai({}),
    openai({ name: 'chatonly', capabilities: ['chat'] }),
    openai({ name: 'off', unroutable: 'disabled' }),
    openai({ name: 'refusing', baseUrl: 'http://127.0.0.1:1/v1' }),
    openai({ name: 'nameless', baseUrl: 'http://nowhere.invalid/v1' }),
    openai({ name: 'plaintext', baseUrl: upstream.baseUrl.replace('http:', 'https:') }),
    openai({ name: 'metadata', baseUrl: 'http://169.254.169.254/v1' }),
  ],
  policies: [
    policyRow({ retry: { attempts: 0 } }),
    policyRow({ id: 'pol_hasty', name: 'hasty', retry: { attempts: 0 }, timeouts: { total_ms: 80 } }),
  ],
})
const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: gateway.app.fetch, ...gateway.app.serve })
beforeEach(() => {
  upstream.behave({})
  gateway.spool.before = null
})
afterAll(async () => {
  gateway.close()
  await server.stop(true)
  await upstream.stop()
})

/** All that answers have said, for the scan at the end. */
const said: string[] = []

interface Wanted {
  code: ErrorCode
  status?: number
  param?: string | null
  upstreamStatus?: number
  retryAfter?: string
  retryable?: boolean
  /** Who failed; null: nobody was asked. */
  provider?: string | null
}

const expectFailure = async (response: Response, wanted: Wanted): Promise<void> => {
  const { code, status = ERRORS[code].status, retryable = ERRORS[code].retryable, provider = null } = wanted
  const text = await response.text()
  said.push(text, JSON.stringify([...response.headers]))
  const body = JSON.parse(text) as { error: Record<string, unknown>; gateway: Record<string, unknown> }
  expect([response.status, body.error.code]).toEqual([status, code])
  expect(Object.keys(body)).toEqual(['error', 'gateway'])
  expect(Object.keys(body.error)).toEqual(['message', 'type', 'param', 'code', 'details'])
  expect(body.error.message).toBeString()
  expect(body.error.message).not.toBe('')
  expect(body.error.type).toBe(ERRORS[code].type)
  if (wanted.param !== undefined) expect(body.error.param).toBe(wanted.param)
  expect(Object.keys(body.gateway).slice(0, 8)).toEqual([
    'request_id',
    'provider',
    'requested_model',
    'routed_model',
    'fallback_used',
    'cache_hit',
    'latency_ms',
    'estimated_cost_usd',
  ])
  const { headers } = response
  expect(headers.get('content-type')).toStartWith('application/json')
  expect(headers.get('x-request-id')).toBe(body.gateway.request_id as string)
  expect(headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
  expect(headers.get('x-gateway-retryable')).toBe(String(retryable))
  expect(headers.get('x-should-retry')).toBe(String(retryable))
  expect(headers.get('x-gateway-upstream-status')).toBe(
    wanted.upstreamStatus === undefined ? null : String(wanted.upstreamStatus),
  )
  expect(headers.get('retry-after')).toBe(wanted.retryAfter ?? null)
  expect([body.gateway.provider, headers.get('x-gateway-provider')]).toEqual([provider, provider])
}

const post = (body: unknown, headers: Record<string, string> = {}, path = '/v1/chat/completions') =>
  fetch(new URL(path, server.url), {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
  })
const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }

const failing = (status: number, error: Record<string, unknown>, headers: Record<string, string> = {}): Behaviour => ({
  status,
  headers,
  body: JSON.stringify({ error: { message: 'scripted', type: null, param: null, code: null, ...error } }),
})

describe('every code of the table', () => {
  const cases: [code: ErrorCode, how: string, act: () => Promise<Response>, wanted?: Partial<Wanted>][] = [
    ['invalid_request', 'by the gateway', () => post({ ...ask, top_k: 0 }), { param: 'top_k' }],
    [
      'invalid_request',
      'by the provider',
      () => fails(400, { param: 'messages[0].name' }),
      { param: 'messages[0].name', upstreamStatus: 400, provider: 'alpha' },
    ],
    [
      'invalid_request',
      'for want of a capability',
      () => post({ ...ask, model: 'chatonly', seed: 1 }),
      { param: 'seed' },
    ],
    [
      'context_length_exceeded',
      'by the provider',
      () => fails(400, { code: 'context_length_exceeded' }),
      { upstreamStatus: 400, provider: 'alpha' },
    ],
    ['authentication_error', 'without a key', () => post(ask, { authorization: '' })],
    [
      'authentication_error',
      'by the provider',
      () => fails(401, { message: `Incorrect API key provided: ${SECRET}` }),
      { upstreamStatus: 401, provider: 'alpha' },
    ],
    ['permission_error', 'without the scope', () => post(ask, { authorization: `Bearer ${READ_KEY}` })],
    ['permission_error', 'by the provider', () => fails(403, {}), { upstreamStatus: 403, provider: 'alpha' }],
    ['not_found', 'an unknown model', () => post({ ...ask, model: 'nope' }), { param: 'model' }],
    ['not_found', 'an unknown policy', () => post(ask, { 'x-gateway-policy': 'nope' }), { param: 'X-Gateway-Policy' }],
    ['not_found', 'an unknown path', () => post(ask, {}, '/v1/chat')],
    ['not_found', 'by the provider', () => fails(404, {}), { upstreamStatus: 404, provider: 'alpha' }],
    [
      'content_filtered',
      'by the provider',
      () => fails(400, { code: 'content_filter' }),
      { upstreamStatus: 400, provider: 'alpha' },
    ],
    [
      'rate_limited',
      'by the provider',
      () => fails(429, {}, { 'retry-after': '7' }),
      { upstreamStatus: 429, retryAfter: '7', provider: 'alpha' },
    ],
    [
      'quota_exceeded',
      'by the gateway',
      () => post(ask, { 'x-gateway-max-cost-usd': '0' }),
      { param: 'X-Gateway-Max-Cost-USD' },
    ],
    ['quota_exceeded', 'by the provider', () => fails(402, {}), { upstreamStatus: 402, provider: 'alpha' }],
    [
      'quota_exceeded',
      'as a 429 of the provider',
      () => fails(429, { code: 'insufficient_quota' }),
      { upstreamStatus: 429, provider: 'alpha' },
    ],
    ['timeout', 'of the whole request', () => hanging(), { provider: 'alpha' }],
    ['upstream_error', 'a 500', () => fails(500, {}), { upstreamStatus: 500, provider: 'alpha' }],
    ['upstream_error', 'a 503', () => fails(503, {}), { upstreamStatus: 503, provider: 'alpha' }],
    ['upstream_error', 'no answer at all', () => answers('<html>oops</html>'), { provider: 'alpha' }],
    ['upstream_error', 'refused', () => post({ ...ask, model: 'refusing' }), { provider: 'alpha' }],
    ['upstream_error', 'no such host', () => post({ ...ask, model: 'nameless' }), { provider: 'alpha' }],
    ['upstream_error', 'no TLS', () => post({ ...ask, model: 'plaintext' }), { provider: 'alpha' }],
    [
      'upstream_error',
      'an address that is never called',
      () => post({ ...ask, model: 'metadata' }),
      { provider: 'alpha' },
    ],
    ['provider_unavailable', 'a disabled model', () => post({ ...ask, model: 'off' })],
    ['internal_error', 'an outcome that cannot be written', () => unwritten(), { provider: 'alpha' }],
    ['not_implemented', 'a planned endpoint', () => post({}, {}, '/v1/embeddings')],
  ]
  const fails = (status: number, error: Record<string, unknown>, headers?: Record<string, string>) => {
    upstream.behave(failing(status, error, headers))
    return post(ask, { 'x-gateway-debug': 'true' })
  }
  const hanging = () => {
    upstream.behave({ delayMs: Number.POSITIVE_INFINITY })
    return post(ask, { 'x-gateway-policy': 'hasty' })
  }
  const answers = (body: string) => {
    upstream.behave({ body })
    return post(ask)
  }
  const unwritten = () => {
    gateway.spool.before = (type) => {
      if (type === 'request.settled') throw new Error(`EIO ${SECRET}`)
    }
    return post(ask)
  }

  test.each(cases.map(([code, how, act, wanted = {}]) => [code, how, act, wanted] as const))(
    '%s: %s',
    async (code, _, act, wanted) => {
      await expectFailure(await act(), { code, ...wanted })
    },
  )

  test('request_canceled, which its client does not see', async () => {
    upstream.behave({ delayMs: Number.POSITIVE_INFINITY })
    const leaving = new AbortController()
    const answered = gateway.chat(ask, {}, leaving.signal)
    while (upstream.received.length === 0) await Bun.sleep(1)
    leaving.abort()
    await expectFailure(await answered, { code: 'request_canceled', provider: 'alpha' })
  })

  test('none was forgotten', () => {
    const tried = new Set<string>([...cases.map(([code]) => code), 'request_canceled'])
    expect(Object.keys(ERRORS).filter((code) => !tried.has(code))).toEqual([])
  })
})

describe('what a framework or the wire would answer by itself', () => {
  const send = (method: string, path: string, init: RequestInit = {}) =>
    fetch(new URL(path, server.url), {
      ...init,
      method,
      headers: { authorization: `Bearer ${KEY}`, ...(init.headers as Record<string, string> | undefined) },
    })
  const json = { 'content-type': 'application/json' }

  test.each([
    ['GET', '/v1/chat/completions', 'POST'],
    ['PATCH', '/v1/models', 'GET, HEAD'],
    ['DELETE', '/v1/models/a', 'GET, HEAD'],
    ['POST', '/health', 'GET, HEAD'],
    ['OPTIONS', '/v1/feedback', 'POST'],
  ])('%s %s is 405 and says what is allowed', async (method, path, allow) => {
    const response = await send(method, path)
    expect(response.headers.get('allow')).toBe(allow)
    await expectFailure(response, { code: 'invalid_request', status: 405 })
  })

  test.each([
    ['no JSON', '{"model":', 400, {}, null],
    ['a list', '[]', 400, {}, null],
    ['a text', '"x"', 400, {}, null],
    ['nothing', '', 400, {}, null],
    ['bytes that are no text', Buffer.from([0x7b, 0xff, 0x7d]), 400, {}, null],
    ['levels without end', `{"a":${'['.repeat(100)}${']'.repeat(100)}}`, 400, {}, null],
    ['11 MiB', `{"a":"${'x'.repeat(11 * 1024 * 1024)}"}`, 413, {}, null],
    ['a form', 'a=1', 415, { 'content-type': 'application/x-www-form-urlencoded' }, 'Content-Type'],
    ['another alphabet', '{}', 415, { 'content-type': 'application/json; charset=utf-16' }, 'Content-Type'],
    ['what is compressed', '{}', 415, { 'content-encoding': 'gzip' }, 'Content-Encoding'],
    ['an encoding that does not exist', '{}', 415, { 'content-encoding': 'none/such' }, 'Content-Encoding'],
  ])('%s as a body', async (_, body, status, headers, param) => {
    const response = await send('POST', '/v1/chat/completions', { body, headers: { ...json, ...headers } })
    await expectFailure(response, { code: 'invalid_request', status, param })
  })

  test.each([
    '/v1/models/%00',
    '/v1/models/%F0%9F%98%80',
    `/v1/models/${'a'.repeat(4_000)}`,
    '/%2e%2e/%2e%2e/etc/passwd',
    '//evil.example/v1',
    '/v1//models/x/',
    '/?'.padEnd(4_000, 'x').replace('/', '/nope'),
    '/v1/chat/completions/',
    '/nope#fragment',
  ])('%s is 404', async (path) => {
    const response = await fetch(`${server.url.origin}${path}`, { headers: { authorization: `Bearer ${KEY}` } })
    const status = path === '/v1/chat/completions/' ? 405 : 404
    await expectFailure(response, status === 405 ? { code: 'invalid_request', status } : { code: 'not_found' })
  })

  test('HEAD has the status and the headers of GET, and no body', async () => {
    for (const [path, status] of [
      ['/v1/models', 200],
      ['/nope', 404],
      ['/v1/chat/completions', 405],
    ] as const) {
      const response = await send('HEAD', path)
      expect([path, response.status, await response.text()]).toEqual([path, status, ''])
      expect(response.headers.get('x-request-id')).not.toBeNull()
    }
  })
})

describe('in a stream', () => {
  const streamed = { ...ask, stream: true, stream_options: { include_usage: true } }

  test('before the first word a failure is the envelope', async () => {
    upstream.behave(failing(503, { message: `no route to ${upstream.origin}` }))
    await expectFailure(await post(streamed), { code: 'upstream_error', upstreamStatus: 503, provider: 'alpha' })
  })

  test('after it, an error frame with the same members, before [DONE]', async () => {
    upstream.behave({ stopAfter: 2, stop: 'error', chunkDelayMs: 2 })
    const frames = await framesOf(await post(streamed))
    said.push(JSON.stringify(frames))
    expect(frames.at(-1)).toBe('[DONE]')
    expect(frames.at(-2)).toMatchObject({
      event: 'error',
      data: { error: { code: 'upstream_error', type: 'upstream_error', param: null }, gateway: { provider: 'alpha' } },
    })
  })
})

test('a provider of any name is named in the header', async () => {
  const foreign = testGateway({
    kinds: [...KINDS.values()],
    entries: [
      openai({ provider: 'プロバイダ' }),
      openai({ name: 'off', provider: 'zwei\nzeilen', baseUrl: 'http://127.0.0.1:1' }),
    ],
  })
  for (const stream of [false, true]) {
    const response = await foreign.chat({ ...ask, stream })
    expect([response.status, response.headers.get('x-gateway-provider')]).toEqual([
      200,
      encodeURIComponent('プロバイダ'),
    ])
    expect(await response.text()).toContain('Hello')
  }
  const failed = await foreign.chat({ ...ask, model: 'off' })
  expect([failed.status, failed.headers.get('x-gateway-provider')]).toEqual([502, 'zwei%0Azeilen'])
  foreign.close()
})

describe('nothing that is nobody’s business', () => {
  const leaks = [
    `connect to ${upstream.baseUrl} failed`,
    `upstream 127.0.0.1:${upstream.port} and localhost:${upstream.port} are down`,
    `port ${upstream.port} on [::1]:${upstream.port}, fe80::1 and 2001:db8:0:0:0:0:0:1`,
    `key ${SECRET} is not valid for vllm-7.models.svc.cluster.local:8000 or db.internal`,
    `Authorization: Bearer ${SECRET}`,
  ]
  const forbidden = [
    SECRET,
    '127.0.0.1',
    String(upstream.port),
    '::1',
    'fe80',
    '2001:db8',
    'cluster.local',
    'db.internal',
    '169.254',
    'nowhere.invalid',
  ]

  test.each(leaks)('of what a provider says: %s', async (message) => {
    for (const status of [400, 403, 404, 429, 500, 503]) {
      upstream.behave(failing(status, { message, param: message }))
      const response = await post(ask, { 'x-gateway-debug': 'true' })
      const text = `${await response.text()}${JSON.stringify([...response.headers])}`
      said.push(text)
      expect(forbidden.filter((word) => text.includes(word))).toEqual([])
    }
    upstream.behave({ body: `data: ${JSON.stringify({ error: { message, code: 500 } })}\n\n` })
    const frames = await (await post({ ...ask, stream: true })).text()
    expect(forbidden.filter((word) => frames.includes(word))).toEqual([])
  })

  test('in any answer of this file', () => {
    expect(said.length).toBeGreaterThan(100)
    const found = said.flatMap((text) => forbidden.filter((word) => text.includes(word)).map((word) => [word, text]))
    expect(found).toEqual([])
  })
})
