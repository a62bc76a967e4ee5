// Requests over providers that fail: what the book of health makes of it, and what the client sees.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import type { PolicyRow } from '../../../src/domain/steering/policy.ts'
import { eventually } from '../../services/eventually.ts'
import { type Behaviour, startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const first = startUpstream()
const second = startUpstream()
const ALPHA = entry({ baseUrl: first.baseUrl, provider: 'alpha', priority: 1 })
const BETA = entry({ baseUrl: second.baseUrl, provider: 'beta', priority: 2 })
const ASK = { model: 'small', messages: [{ role: 'user', content: 'Hello' }] }

let gateway: TestGateway
/** How far the clock of the book of health is ahead. */
let aheadMs = 0
const start = (entries = [ALPHA, BETA], policy: Partial<PolicyRow> = {}) => {
  gateway?.close()
  aheadMs = 0
  gateway = testGateway({
    entries,
    policies: [policyRow({ strategy: 'priority', retry: { attempts: 0 }, ...policy })],
    monotonicMs: () => performance.now() + aheadMs,
  })
}
beforeEach(() => {
  for (const upstream of [first, second]) {
    upstream.behave({})
    upstream.received.length = 0
  }
  start()
})
afterAll(async () => {
  gateway.close()
  await Promise.all([first.stop(), second.stop()])
})

const ask = async (body: Record<string, unknown> = {}, headers?: Record<string, string>) => {
  const response = await gateway.chat({ ...ASK, ...body }, headers)
  const text = await response.text()
  return { status: response.status, provider: response.headers.get('x-gateway-provider'), text }
}
const after = (behaviour: Behaviour, way: () => Promise<unknown>) => {
  first.next(behaviour)
  return way()
}
const inFlight = () =>
  [...gateway.health.candidates()].map((candidate) => candidate.inFlight + candidate.provider.inFlight)
const opened = () => gateway.events.filter(({ type }) => type === 'breaker.opened')

describe('a provider that fails', () => {
  test('is called five times, then no more, and nobody notices', async () => {
    first.behave({ status: 500 })
    for (let i = 0; i < 12; i++) expect(await ask()).toMatchObject({ status: 200, provider: 'beta' })
    expect(first.received).toHaveLength(5)
    expect(opened()).toMatchObject([{ data: { provider: 'alpha', reason: 'consecutive', failures: 5 } }])
    expect(inFlight()).toEqual([0, 0])
  })

  test('is tried again after the cooldown, by one request, and is back when that goes well', async () => {
    start([ALPHA, BETA], { breaker: { failure_threshold: 1, cooldown_ms: 60_000 } })
    first.next({ status: 500 })
    await ask()
    expect(await ask()).toMatchObject({ provider: 'beta' })
    aheadMs = 60_001
    first.behave({ delayMs: 300 })
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask()))
    expect(answers.filter(({ provider }) => provider === 'alpha')).toHaveLength(1)
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(await ask()).toMatchObject({ provider: 'alpha' })
    expect(gateway.health.current().signals(ALPHA.modelId).breaker).toBe('closed')
  })

  test('lists who was passed over', async () => {
    start([ALPHA, BETA], { breaker: { failure_threshold: 1, cooldown_ms: 60_000 } })
    first.next({ status: 500 })
    await ask()
    aheadMs = 60_001
    first.behave({ delayMs: 300 })
    await Promise.all([ask(), ask()])
    const lists = gateway.spool
      .settled()
      .map(({ attempts }) => attempts.map(({ provider, outcome }) => `${provider} ${outcome}`))
    expect(lists).toContainEqual(['alpha skipped', 'beta success'])
    expect(gateway.spool.attempted()).toHaveLength(2)
  })

  test('and is the only one is always tried', async () => {
    start([ALPHA])
    first.behave({ status: 500 })
    for (let i = 0; i < 8; i++) expect((await ask()).status).toBe(502)
    expect(first.received).toHaveLength(8)
    first.behave({})
    expect((await ask()).status).toBe(200)
  })

  test('and is wanted alone is 502 provider_unavailable while its breaker is open', async () => {
    first.behave({ status: 500 })
    for (let i = 0; i < 5; i++) await ask()
    const { status, text } = await ask({}, { 'X-Gateway-No-Fallback': 'true' })
    expect([status, JSON.parse(text).error.code]).toEqual([502, 'provider_unavailable'])
    expect(first.received).toHaveLength(5)
  })

  test('for what the client sent is no failure of its health', async () => {
    first.behave({ status: 400 })
    for (let i = 0; i < 8; i++) expect((await ask()).status).toBe(400)
    expect(opened()).toEqual([])
  })

  test('after the first byte counts as well', async () => {
    first.behave({ chunks: 4, stopAfter: 1, stop: 'cut' })
    for (let i = 0; i < 5; i++) await framesOf(await gateway.chat({ ...ASK, stream: true }))
    expect(opened()).toHaveLength(1)
    expect(inFlight()).toEqual([0])
  })
})

describe('a 429', () => {
  test('sends the next requests elsewhere for as long as it asks', async () => {
    first.behave({ status: 429, headers: { 'retry-after': '60' } })
    for (let i = 0; i < 4; i++) expect(await ask()).toMatchObject({ status: 200, provider: 'beta' })
    expect(first.received).toHaveLength(1)
    expect(opened()).toEqual([])
    expect(gateway.health.current().signals(ALPHA.modelId).coolingDown).toBe(true)
  })
})

describe('concurrency of a provider', () => {
  test('is kept, and who is full is passed over', async () => {
    start([{ ...ALPHA, maxConcurrency: 2 }, BETA])
    first.behave({ delayMs: 300 })
    const answers = await Promise.all(Array.from({ length: 6 }, () => ask()))
    expect(answers.filter(({ provider }) => provider === 'alpha')).toHaveLength(2)
    expect(answers.filter(({ provider }) => provider === 'beta')).toHaveLength(4)
    expect(await ask()).toMatchObject({ provider: 'alpha' })
  })

  test('with nobody else is a 429 with Retry-After', async () => {
    start([{ ...ALPHA, maxConcurrency: 1 }])
    first.behave({ delayMs: 300 })
    const running = ask()
    const response = await gateway.chat(ASK)
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '1'])
    expect((await running).status).toBe(200)
  })

  test('is given back by every way out: answers, failures, streams that end, break, stall or are left', async () => {
    start([{ ...ALPHA, maxConcurrency: 1 }], { timeouts: { stream_idle_ms: 500 }, breaker: { failure_threshold: 100 } })
    const stream = { ...ASK, stream: true }
    const ways = [
      () => ask(),
      () => after({ status: 500 }, () => ask()),
      () => after({ body: 'no JSON' }, () => ask()),
      async () => framesOf(await gateway.chat(stream)),
      () => after({ chunks: 4, stopAfter: 1, stop: 'cut' }, async () => framesOf(await gateway.chat(stream))),
      () => after({ chunks: 4, stopAfter: 1, stop: 'hang' }, async () => framesOf(await gateway.chat(stream))),
      async () => {
        first.next({ chunks: 40, chunkDelayMs: 20 })
        const reader = (await gateway.chat(stream)).body!.getReader()
        await reader.read()
        await reader.cancel()
      },
      async () => {
        first.next({ delayMs: 500 })
        const leaving = new AbortController()
        const before = first.received.length
        const response = gateway.chat(ASK, {}, leaving.signal)
        await eventually('it is asked', () => first.received.length > before)
        leaving.abort()
        return response
      },
    ]
    let settled = 0
    for (const way of ways) {
      await way()
      settled += 1
      await gateway.spool.untilSettled(settled)
      expect(inFlight()).toEqual([0])
    }
  })
})

test('a place is given back though the attempt could not be recorded and was never made', async () => {
  first.behave({ status: 500 })
  gateway.spool.before = (type) => {
    if (type === 'request.attempted') throw new Error('the disk fails')
  }
  expect((await ask()).status).toBe(500)
  expect(second.received).toHaveLength(0)
  expect(inFlight()).toEqual([0, 0])
})

test('what the provider says of its limits is its headroom, and its speed is seen', async () => {
  first.behave({ headers: { 'x-ratelimit-remaining-requests': '10', 'x-ratelimit-limit-requests': '40' } })
  await ask()
  await framesOf(await gateway.chat({ ...ASK, stream: true }))
  const signals = gateway.health.signals(ALPHA.modelId)
  expect(signals).toMatchObject({ headroom: 0.25, health: 1 })
  expect(signals.ttftMs).not.toBeNull()
  expect(signals.e2eMs).not.toBeNull()
})

test('metrics show the breakers of each provider', async () => {
  first.behave({ status: 500 })
  for (let i = 0; i < 6; i++) await ask()
  const text = await (await gateway.send('/metrics')).text()
  expect(text).toContain('gateway_breakers{provider="alpha",state="open"} 1')
  expect(text).toContain('gateway_breakers{provider="beta",state="closed"} 1')
})
