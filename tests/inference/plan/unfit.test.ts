// A provider whose wire format cannot express the request is skipped, like one without a capability: another provider
// may accept the request.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'
import type { KeyEntry } from '../../../src/state/port.ts'
import { eventually } from '../../services/eventually.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const narrow = startUpstream()
const wide = startUpstream()
let gateway: TestGateway
afterAll(async () => {
  gateway.close()
  await narrow.stop()
  await wide.stop()
})

/** Anthropic gives one choice only. */
const claude = { kind: 'anthropic', baseUrl: narrow.origin, provider: 'narrow' }
const openai = { kind: 'openai', baseUrl: wide.baseUrl, provider: 'wide' }
let standing: (key: KeyEntry) => boolean = () => true
const open = (...entries: Parameters<typeof entry>[0][]) => {
  gateway = testGateway({
    kinds: [...KINDS.values()],
    entries: entries.map((fields, at) => entry({ ...fields, priority: at + 1 })),
    policies: [policyRow({ strategy: 'priority', retry: { attempts: 0 } })],
    standing: (key) => standing(key),
  })
}
beforeEach(() => {
  gateway?.close()
  standing = () => true
  for (const upstream of [narrow, wide]) {
    upstream.behave({})
    upstream.received.length = 0
  }
})

const two = { model: 'small', messages: [{ role: 'user', content: 'hi' }], n: 2 }
const DEBUG = { 'x-gateway-debug': 'true' }
const attemptsOf = async (response: Response) =>
  ((await response.json()) as { gateway: { attempts: unknown[] } }).gateway.attempts

// docs/behaviour.md: "Failover"
describe('a provider that cannot be asked this', () => {
  test('is passed over, and the next one is recorded before it is called', async () => {
    open(claude, openai)
    const response = await gateway.chat(two, DEBUG)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-gateway-provider')).toBe('wide')
    expect(await attemptsOf(response)).toMatchObject([
      { n: 1, provider: 'narrow', outcome: 'skipped', error_code: 'invalid_request', upstream_status: null },
      { n: 2, provider: 'wide', outcome: 'success' },
    ])
    expect(gateway.spool.attempted()).toMatchObject([{ n: 2, provider: 'wide' }])
    expect(narrow.received).toHaveLength(0)
  })

  test('says nothing of its health', async () => {
    open(claude, openai)
    for (let i = 0; i < 20; i++) await gateway.chat(two)
    expect(JSON.stringify(gateway.events)).not.toContain('narrow')
  })

  test('does not stand in for the failure of one that was asked', async () => {
    open(openai, claude)
    wide.behave({ status: 503 })
    const response = await gateway.chat(two, DEBUG)
    expect(response.status).toBe(502)
    expect(response.headers.get('x-gateway-retryable')).toBe('true')
    expect(response.headers.get('x-gateway-upstream-status')).toBe('503')
    expect(await attemptsOf(response)).toMatchObject([
      { provider: 'wide', outcome: 'error', upstream_status: 503 },
      { provider: 'narrow', outcome: 'skipped', error_code: 'invalid_request' },
    ])
  })

  test('nor for one that was left out for its health: the last one left is tried', async () => {
    for (const order of [
      [openai, claude],
      [claude, openai],
    ]) {
      open(...order)
      wide.behave({ status: 503 })
      for (let i = 0; i < 20; i++) {
        const response = await gateway.chat(two)
        expect(response.status).toBe(502)
        expect(response.headers.get('x-gateway-retryable')).toBe('true')
      }
      // By now its breaker is open, and no other provider is left.
      expect(gateway.spool.settled().at(-1)!.attempts).toMatchObject([
        { provider: 'narrow', outcome: 'skipped', error_code: 'invalid_request' },
        { provider: 'wide', outcome: 'error', upstream_status: 503 },
      ])
      gateway.close()
    }
  })

  test('is what the client is told of where nobody else is left', async () => {
    open(claude)
    for (const headers of [undefined, { 'x-gateway-no-fallback': 'true' }]) {
      const response = await gateway.chat(two, headers)
      expect(response.status).toBe(400)
      expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', param: 'n' } })
    }
    expect(narrow.received).toHaveLength(0)
    expect(gateway.spool.settled()).toMatchObject([
      { outcome: 'error', status: 400, attempts: [{ outcome: 'skipped' }], cost_nano_usd: 0 },
      { outcome: 'error', status: 400 },
    ])
  })

  test('is told of also where the client wants the first candidate or nobody', async () => {
    open(claude, openai)
    const response = await gateway.chat(two, { 'x-gateway-no-fallback': 'true' })
    expect(response.status).toBe(400)
    expect(wide.received).toHaveLength(0)
  })

  test('is passed over for every field that its wire lacks', async () => {
    open(claude, openai)
    const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
    for (const more of [
      { n: 1, functions: [{ name: 'f' }] },
      { n: 1, messages: [{ role: 'user', content: [audio] }] },
      { n: 2, stream: true },
    ]) {
      const response = await gateway.chat({ ...two, ...more })
      expect(response.status).toBe(200)
      expect(response.headers.get('x-gateway-provider')).toBe('wide')
      await response.text()
    }
  })
})

test('what was dropped for one that could be asked and was not called is told of nobody', async () => {
  open(openai, { ...claude, maxConcurrency: 1 })
  wide.behave({ status: 503 })
  narrow.behave({ delayMs: Number.POSITIVE_INFINITY })
  const one = { ...two, n: 1, logit_bias: { 5: 1 } }
  const leaving = new AbortController()
  const busy = gateway.chat(one, {}, leaving.signal)
  await eventually('the only place is taken', () => narrow.received.length === 1)
  const response = await gateway.chat(one, DEBUG)
  expect(await response.json()).toMatchObject({
    gateway: { provider: 'wide', shaping: [], attempts: [{ outcome: 'error' }, { outcome: 'skipped' }] },
  })
  leaving.abort()
  await busy
  const shaping = gateway.spool.settled().map((settled) => settled.shaping)
  expect(shaping).toEqual([[], ['dropped logit_bias']])
})

describe('a key that is revoked while its request is under way', () => {
  test('has nobody else called, and the client is told', async () => {
    open(openai, { ...openai, provider: 'other' })
    wide.behave(() => {
      standing = () => false
      return { status: 503 }
    })
    const response = await gateway.chat({ ...two, n: 1 })
    expect(response.status).toBe(401)
    expect(await response.json()).toMatchObject({ error: { code: 'authentication_error' } })
    expect(wide.received).toHaveLength(1)
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'error', status: 401, attempts: [{ outcome: 'error' }] }])
  })

  test('still gets the answer of the call that was made before', async () => {
    open(openai)
    wide.behave(() => {
      standing = () => false
      return {}
    })
    expect((await gateway.chat({ ...two, n: 1 })).status).toBe(200)
  })
})
