import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const first = startUpstream()
const second = startUpstream()
let gateway: TestGateway
beforeEach(() => {
  gateway?.close()
  for (const upstream of [first, second]) {
    upstream.behave({})
    upstream.received.length = 0
  }
  gateway = testGateway({
    entries: [
      entry({ baseUrl: first.baseUrl, provider: 'alpha', priority: 1 }),
      entry({ baseUrl: second.baseUrl, provider: 'beta', priority: 2 }),
    ],
    policies: [policyRow({ retry: { attempts: 0 } })],
  })
})
afterAll(async () => {
  gateway.close()
  await first.stop()
  await second.stop()
})

const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const blockOf = async (response: Response) => ((await response.json()) as { gateway: Record<string, unknown> }).gateway

// docs/behaviour.md: "Failover"
describe('failing over', () => {
  test('takes the next provider, and records the attempt before it is made', async () => {
    first.behave({ status: 500 })
    const order: string[] = []
    gateway.spool.before = (type) => {
      order.push(type)
    }
    second.behave(() => {
      order.push('second')
      return {}
    })
    const response = await gateway.chat(ask, { 'x-gateway-debug': 'true' })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-gateway-provider')).toBe('beta')
    expect(await blockOf(response)).toMatchObject({
      provider: 'beta',
      fallback_used: true,
      attempts: [
        { n: 1, provider: 'alpha', outcome: 'error', error_code: 'upstream_error', upstream_status: 500 },
        { n: 2, provider: 'beta', outcome: 'success' },
      ],
    })
    expect(order).toEqual(['request.admitted', 'request.attempted', 'second', 'request.settled'])
    expect(gateway.spool.attempted()).toMatchObject([{ n: 2, provider: 'beta', reserved_nano_usd: expect.any(Number) }])
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'success', provider: 'beta', fallback_used: true }])
  })

  const faults = {
    'a refused connection': { entry: { baseUrl: 'http://127.0.0.1:1/v1' } },
    'a 503': { behaviour: { status: 503 } },
    'a 429': { behaviour: { status: 429, headers: { 'retry-after': '30' } } },
    'a 402': { behaviour: { status: 402 } },
    'an answer that is no JSON': { behaviour: { body: '<html>' } },
    'an error inside the stream': { behaviour: { stopAfter: 0, stop: 'error' as const }, stream: true },
    'an empty stream': { behaviour: { stopAfter: 0, stop: 'end' as const }, stream: true },
    'a stream cut before its content': { behaviour: { stopAfter: 0, stop: 'cut' as const }, stream: true },
  }
  for (const [name, fault] of Object.entries(faults)) {
    test(`is invisible to the client after ${name}`, async () => {
      const broken = testGateway({
        entries: [
          entry({ baseUrl: first.baseUrl, provider: 'alpha', priority: 1, ...('entry' in fault ? fault.entry : {}) }),
          entry({ baseUrl: second.baseUrl, provider: 'beta', priority: 2 }),
        ],
      })
      if ('behaviour' in fault) first.behave(fault.behaviour)
      const response = await broken.chat('stream' in fault ? { ...ask, stream: true } : ask)
      expect(response.status).toBe(200)
      expect(response.headers.get('x-gateway-provider')).toBe('beta')
      const text = await response.text()
      expect(text).toContain('Hello')
      expect(text).not.toContain('event: error')
      expect(broken.spool.settled()).toMatchObject([{ outcome: 'success', fallback_used: true }])
      broken.close()
    })
  }

  test('follows a first token that does not come in time', async () => {
    gateway.setPolicy(policyRow({ timeouts: { first_token_ms: 1_000 } }))
    first.behave({ stopAfter: 0, stop: 'hang' })
    const response = await gateway.chat({ ...ask, stream: true })
    expect(response.headers.get('x-gateway-provider')).toBe('beta')
    await framesOf(response)
    expect(gateway.spool.settled()[0]!.attempts[0]).toMatchObject({ provider: 'alpha', error_code: 'timeout' })
  })

  test('does not happen for what another provider would refuse too', async () => {
    first.behave({ status: 400 })
    const response = await gateway.chat(ask)
    expect(response.status).toBe(400)
    expect(response.headers.get('x-gateway-upstream-status')).toBe('400')
    expect(response.headers.get('x-gateway-retryable')).toBe('false')
    expect(second.received).toHaveLength(0)
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'error', status: 400, cost_basis: 'none' }])
  })

  test('does not happen after the first byte', async () => {
    first.behave({ stopAfter: 1, stop: 'cut' })
    await framesOf(await gateway.chat({ ...ask, stream: true }))
    expect(second.received).toHaveLength(0)
  })

  test('ends with the last failure when nobody answers', async () => {
    first.behave({ status: 500 })
    second.behave({ status: 429, headers: { 'retry-after': '7' } })
    const response = await gateway.chat(ask)
    expect(response.status).toBe(429)
    expect(response.headers.get('retry-after')).toBe('7')
    expect(response.headers.get('x-gateway-retryable')).toBe('true')
    expect(response.headers.get('x-should-retry')).toBe('true')
    expect(response.headers.get('x-gateway-provider')).toBe('beta')
    expect(gateway.spool.settled()).toMatchObject([
      { outcome: 'error', error_code: 'rate_limited', attempts: [{}, {}] },
    ])
  })

  test('makes no more attempts than the policy has', async () => {
    gateway.setPolicy(policyRow({ fallback: { max_attempts: 2 }, retry: { attempts: 5, backoff_initial_ms: 1 } }))
    first.behave({ status: 500 })
    expect((await gateway.chat(ask)).status).toBe(502)
    expect(first.received).toHaveLength(2)
    expect(second.received).toHaveLength(0)
  })

  test('goes to the models that the policy names', async () => {
    const named = testGateway({
      entries: [entry({ baseUrl: first.baseUrl }), entry({ baseUrl: second.baseUrl, provider: 'beta', name: 'large' })],
      policies: [policyRow({ retry: { attempts: 0 }, fallback: { models: ['LARGE'] } })],
    })
    first.behave({ status: 500 })
    expect(await blockOf(await named.chat(ask))).toMatchObject({
      requested_model: 'small',
      routed_model: 'large',
      fallback_used: true,
    })
    named.close()
  })
})

// docs/behaviour.md: "Failover"
describe('a repeat on the same candidate', () => {
  test('comes before the next one', async () => {
    gateway.setPolicy(policyRow({ retry: { backoff_initial_ms: 1 } }))
    first.next({ status: 500 })
    expect(await blockOf(await gateway.chat(ask))).toMatchObject({ provider: 'alpha', fallback_used: false })
    expect(gateway.spool.attempted()).toMatchObject([{ n: 2, provider: 'alpha' }])
  })

  test('never waits long for a Retry-After', async () => {
    const alone = testGateway({ entries: [entry({ baseUrl: first.baseUrl })] })
    first.behave({ status: 429, headers: { 'retry-after': '20' } })
    expect((await alone.chat(ask)).status).toBe(429)
    expect(first.received).toHaveLength(1)
    alone.close()
  })
})

// docs/behaviour.md: "Failover"
describe('X-Gateway-No-Fallback', () => {
  for (const [status, expected] of [
    [500, 502],
    [429, 429],
    [402, 402],
  ] as const) {
    test(`asks the primary alone: ${status} is ${expected}`, async () => {
      first.behave({ status })
      const response = await gateway.chat(ask, { 'x-gateway-no-fallback': 'true' })
      expect(response.status).toBe(expected)
      expect(second.received).toHaveLength(0)
    })
  }
})

// docs/behaviour.md: "Time limits"
describe('the time that is left is shared', () => {
  const timeouts = { total_ms: 3_000 }

  for (const stream of [false, true]) {
    test(`one that hangs leaves half of it to the next (${stream ? 'stream' : 'JSON'})`, async () => {
      gateway.setPolicy(policyRow({ retry: { attempts: 0 }, timeouts }))
      first.behave({ delayMs: Number.POSITIVE_INFINITY })
      const response = await gateway.chat({ ...ask, stream })
      expect(response.status).toBe(200)
      await response.text()
      expect(gateway.spool.settled()[0]).toMatchObject({
        outcome: 'success',
        attempts: [
          { provider: 'alpha', error_code: 'timeout' },
          { provider: 'beta', outcome: 'success' },
        ],
      })
    })
  }

  test('the last one has all that is left of it', async () => {
    gateway.setPolicy(policyRow({ retry: { attempts: 0 }, timeouts, fallback: { enabled: false } }))
    first.behave({ delayMs: 1_700 })
    expect((await gateway.chat(ask)).status).toBe(200)
  })
})
