// `/`, `/health`, `/version`, `/ready` and `/metrics`: open without a credential, also while the gateway stops.
import { describe, expect, test } from 'bun:test'
import { entry, type TestGateway } from '../inference/gateway.ts'
import { gatewaysOnUpstream } from './gateways.ts'

const { gatewayWith } = gatewaysOnUpstream()
const read = async (gateway: TestGateway, path: string, headers: Record<string, string> = {}) => {
  const response = await gateway.send(path, { key: null, headers })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

describe('operations need no credential', () => {
  const gateway = gatewayWith({})
  test('/ speaks HTML to a browser and JSON to others', async () => {
    expect((await read(gateway, '/')).body).toMatchObject({
      name: 'gatelog',
      endpoints: expect.arrayContaining(['POST /v1/chat/completions', 'POST /v1/feedback']),
    })
    const page = await gateway.send('/', { key: null, headers: { accept: 'text/html,*/*;q=0.8' } })
    expect(page.headers.get('content-type')).toStartWith('text/html')
    expect(await page.text()).toContain('/v1/chat/completions')
  })

  test.each([
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'text/html'],
    ['Text/HTML;charset=utf-8', 'text/html'],
    ['application/json;q=0.5, text/html;q=0.9', 'text/html'],
    ['text/html;q=0', 'application/json'],
    ['text/html; q=0.000, */*', 'application/json'],
    ['text/html;q=often', 'application/json'],
    ['application/json, text/html;q=0.9', 'application/json'],
    ['text/html-like', 'application/json'],
    ['*/*', 'application/json'],
  ])('/ for who accepts %s is %s', async (accept, type) => {
    const { headers } = await gateway.send('/', { key: null, headers: { accept } })
    expect(headers.get('content-type')).toStartWith(type)
    expect(headers.get('vary')).toBe('accept')
  })

  test('/ loads, runs and frames nothing but its own style, as /docs does', async () => {
    const page = await gateway.send('/', { key: null, headers: { accept: 'text/html' } })
    const style = /<style>(.*)<\/style>/s.exec(await page.text())![1]!
    const digest = new Bun.CryptoHasher('sha256').update(style).digest('base64')
    const docs = await gateway.send('/docs', { key: null })
    const ofDocs = docs.headers.get('content-security-policy')!
    expect(page.headers.get('content-security-policy')).toBe(ofDocs.replace(/sha256-[^']*/, `sha256-${digest}`))
    for (const [name, value] of [
      ['x-content-type-options', 'nosniff'],
      ['referrer-policy', 'no-referrer'],
    ] as const)
      expect([page.headers.get(name), docs.headers.get(name)]).toEqual([value, value])
  })

  test('/health and /healthz look at nothing but themselves', async () => {
    const closed = gatewayWith({
      readiness: [{ name: 'postgres', run: () => ({ text: 'degraded: down', ready: false }) }],
    })
    for (const path of ['/health', '/healthz']) {
      expect(await read(closed, path)).toEqual({ status: 200, body: { status: 'ok', components: { log: 'memory' } } })
    }
  })

  test('/version says what runs', async () => {
    expect((await read(gateway, '/version')).body).toMatchObject({
      name: 'gatelog',
      version: '0.0.0',
      environment: 'test',
      uptime_seconds: expect.any(Number),
      goroutines: 3,
    })
  })

  test('a HEAD is the GET without its body', async () => {
    const response = await gateway.send('/health', { key: null, method: 'HEAD' })
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('')
  })
})

// docs/behaviour.md: "Starting"
describe('/ready', () => {
  test('says what every part says', async () => {
    const gateway = gatewayWith({
      readiness: [{ name: 'redis', run: () => ({ text: 'degraded: unreachable', ready: true }) }],
    })
    for (const path of ['/ready', '/readiness']) {
      expect(await read(gateway, path)).toEqual({
        status: 200,
        body: {
          status: 'degraded',
          checks: { control: 'ok', spool: 'ok', providers: '1 configured', redis: 'degraded: unreachable' },
        },
      })
    }
  })

  test('is 503 with the envelope beside the checks when a part is missing', async () => {
    const gateway = gatewayWith({
      entries: [entry({ unroutable: 'disabled' })],
      readiness: [
        {
          name: 'postgres',
          run: () => {
            throw new Error('connect postgres://user:secret@host')
          },
        },
      ],
    })
    gateway.spool.open = false
    const response = await gateway.send('/ready', { key: null })
    const body = (await response.json()) as { checks: Record<string, string> }
    expect(response.status).toBe(503)
    expect(['x-gateway-retryable', 'x-should-retry'].map((name) => response.headers.get(name))).toEqual([
      'true',
      'true',
    ])
    for (const text of Object.values(body.checks)) expect(text).toMatch(/^(ok|degraded: .+|\d+ configured)$/)
    expect(body).toMatchObject({
      status: 'unavailable',
      checks: {
        providers: 'degraded: 0 configured, no provider can be called',
        postgres: 'degraded: the check failed',
        spool: 'degraded: the disk is full',
      },
      error: { code: 'provider_unavailable' },
      gateway: { request_id: expect.any(String) },
    })
    expect(JSON.stringify(body)).not.toContain('secret')
  })
})

// docs/behaviour.md: "Stopping"
test('on its way out it says so, answers what is read, and takes nothing more; every answer ends its connection', async () => {
  const gateway = gatewayWith({})
  gateway.app.prepareToStop()
  const ready = await gateway.send('/ready', { key: null })
  expect(ready.status).toBe(503)
  expect(await ready.json()).toMatchObject({
    status: 'unavailable',
    checks: { process: 'degraded: stopping' },
    error: { code: 'provider_unavailable' },
  })
  const reads = await Promise.all(['/health', '/v1/models'].map((path) => gateway.send(path)))
  expect(reads.map(({ status }) => status)).toEqual([200, 200])
  const writes = await Promise.all(
    ['/v1/feedback', '/v1/chat/completions', '/admin/v1/tenants'].map((path) => gateway.send(path, { body: {} })),
  )
  for (const answer of writes) {
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toBe('1')
    expect(answer.headers.get('x-gateway-retryable')).toBe('true')
    expect(await answer.json()).toMatchObject({ error: { code: 'provider_unavailable' }, gateway: {} })
  }
  for (const answer of [ready, ...reads, ...writes]) expect(answer.headers.get('connection')).toBe('close')
})

// docs/behaviour.md: "Stopping"
test('while load balancers notice a stop, `/ready` is 503 and changes and completions are taken', async () => {
  const gateway = gatewayWith({})
  gateway.app.leave()
  const ready = await gateway.send('/ready', { key: null })
  expect([ready.status, ((await ready.json()) as { checks: object }).checks]).toEqual([
    503,
    { process: 'degraded: stopping' },
  ])
  const chat = await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'x' }] })
  const feedback = await gateway.send('/v1/feedback', { body: {} })
  expect([chat.status, feedback.status]).toEqual([200, 400])
  for (const answer of [ready, chat, feedback]) expect(answer.headers.get('connection')).toBe('close')
})

// docs/behaviour.md: "Starting"
test('a process whose request path is not compiled yet serves, but is not ready', async () => {
  let isWarm = false
  const gateway = gatewayWith({ isWarm: () => isWarm })
  const { status, body } = await read(gateway, '/ready')
  expect([status, body.checks]).toMatchObject([
    503,
    { process: 'degraded: the request path is being compiled', control: 'ok', providers: '1 configured' },
  ])
  expect((await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'x' }] })).status).toBe(200)
  isWarm = true
  expect((await read(gateway, '/ready')).status).toBe(200)
})

describe('/metrics', () => {
  test('counts outcomes by closed labels', async () => {
    const gateway = gatewayWith({})
    await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'x' }] })
    await gateway.chat({ model: 'a-name-that-a-stranger-chose', messages: [{ role: 'user', content: 'x' }] })
    await gateway.send('/v1/chat/completions', { key: null, body: {} })
    const text = await (await gateway.send('/metrics', { key: null })).text()
    expect(text).toContain('gateway_requests_total{outcome="success",code="none",mode="json"} 1')
    expect(text).toContain('gateway_requests_total{outcome="denied",code="not_found",mode="json"} 1')
    expect(text).toContain('gateway_requests_total{outcome="denied",code="authentication_error",mode="json"} 1')
    expect(text).toContain('gateway_tokens_total{direction="prompt"} 11')
    expect(text).toContain('gateway_spool_records ')
    expect(text).not.toContain('stranger')
  })

  test('is 404 when it is switched off', async () => {
    expect((await gatewayWith({ prometheusEnabled: false }).send('/metrics', { key: null })).status).toBe(404)
  })
})
