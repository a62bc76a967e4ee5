// Rate limits as a client meets them: headers, refusals, and what is given back on every way out.
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { processLimits } from '../../../src/inference/limits/local.ts'
import type { Limits } from '../../../src/inference/limits/port.ts'
import { durationText, limitLines } from '../../../src/inference/limits/station.ts'
import { limitRule, openLimitRules } from '../../../src/state/indexes/limit-rules.ts'
import type { FoldedBatch, KeyEntry } from '../../../src/state/port.ts'
import { keyIssued, newWorld, tenantCreated } from '../../domain/world.ts'
import { eventually } from '../../services/eventually.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const upstream = startUpstream()
const clock = { nowMs: 0 }
let gateway: TestGateway
/** What was settled, by request: tokens. */
let given: number[]
let limits: Limits

const limitedTo = (rate_limits: { rpm?: number; tpm?: number; max_parallel?: number }): void => {
  gateway?.close()
  const own = processLimits(() => clock.nowMs)
  given = []
  limits = {
    async take(ask) {
      const held = await own.take(ask)
      return {
        verdict: held.verdict,
        settle(tokens) {
          given.push(tokens)
          held.settle(tokens)
        },
      }
    },
    status: own.status,
  }
  gateway = testGateway({
    entries: [entry({ baseUrl: upstream.baseUrl })],
    policies: [policyRow({ rate_limits })],
    limits,
  })
}

beforeEach(() => {
  clock.nowMs = 1_000_000
  upstream.behave({})
})
afterEach(() => gateway.close())
afterAll(() => upstream.stop())

const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const rateHeaders = (response: Response) =>
  Object.fromEntries([...response.headers].filter(([name]) => name.startsWith('x-ratelimit-')))

// docs/behaviour.md: "Rate limits"
describe('what a client sees', () => {
  test('without limits there are no headers', async () => {
    limitedTo({})
    expect(rateHeaders(await gateway.chat(ask))).toEqual({})
  })

  test('what remains is told on every answer, and the refusal says when to come again', async () => {
    limitedTo({ rpm: 2, tpm: 1_000 })
    const first = await gateway.chat({ ...ask, max_tokens: 100 })
    expect(first.status).toBe(200)
    expect(rateHeaders(first)).toEqual({
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-reset-requests': '1m1s',
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': '895',
      'x-ratelimit-reset-tokens': '1m1s',
    })
    expect(given).toEqual([18])
    upstream.behave({ status: 400 })
    const failed = await gateway.chat(ask)
    expect(failed.status).toBe(400)
    expect(rateHeaders(failed)).toMatchObject({
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-remaining-tokens': '977',
    })
    // A minute and a second from now: SDKs give up when they are asked to wait for more than a minute.
    const early = await gateway.chat(ask)
    expect([early.status, early.headers.get('retry-after')]).toEqual([429, '59'])
    expect(rateHeaders(early)).toMatchObject({ 'x-ratelimit-reset-requests': '1m1s' })
    clock.nowMs += 20_500
    const refused = await gateway.chat(ask)
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('41')
    expect(refused.headers.get('x-should-retry')).toBe('true')
    expect(rateHeaders(refused)).toMatchObject({
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '40.5s',
    })
    expect(await refused.json()).toMatchObject({
      error: { code: 'rate_limited', type: 'rate_limit_error', details: { scope: 'policy', limit: 'rpm', value: 2 } },
    })
    expect(gateway.spool.settled().at(-1)).toMatchObject({ outcome: 'denied', status: 429, error_code: 'rate_limited' })
    expect(given).toHaveLength(2)
  })

  test('a request that can never fit is not to be repeated', async () => {
    limitedTo({ tpm: 50 })
    const refused = await gateway.chat({ ...ask, max_tokens: 4_096 })
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBeNull()
    expect(refused.headers.get('x-should-retry')).toBe('false')
    expect(await refused.json()).toMatchObject({ error: { message: expect.stringContaining('max_tokens') } })
    expect((await gateway.chat(ask)).status).toBe(200)
  })

  test('more output than the model can give is not reserved', async () => {
    limitedTo({ tpm: 5_000 })
    expect((await gateway.chat({ ...ask, max_tokens: 1_000_000 })).status).toBe(200)
  })

  test('an answer longer than reserved holds back those after it', async () => {
    limitedTo({ tpm: 20 })
    upstream.behave({ usage: { prompt: 11, completion: 500 } })
    expect((await gateway.chat(ask)).status).toBe(200)
    expect((await gateway.chat(ask)).status).toBe(429)
    clock.nowMs += 61_000
    expect((await gateway.chat(ask)).status).toBe(200)
  })
})

describe('slots and reserved tokens are given back', () => {
  const ways: Record<string, () => Promise<unknown>> = {
    'a JSON answer': async () => (await gateway.chat(ask)).text(),
    'a stream': async () => (await gateway.chat({ ...ask, stream: true })).text(),
    'an upstream that fails': async () => {
      upstream.behave({ status: 500 })
      return (await gateway.chat(ask)).text()
    },
    'a stream that is cut': async () => {
      upstream.behave({ stopAfter: 1, stop: 'cut', chunks: 4 })
      return (await gateway.chat({ ...ask, stream: true })).text()
    },
    'a client that leaves before the answer': async () => {
      upstream.behave({ delayMs: Number.POSITIVE_INFINITY })
      const leaving = new AbortController()
      const answer = gateway.chat(ask, {}, leaving.signal)
      await eventually('it is admitted', () => gateway.spool.admitted().length > 0)
      leaving.abort()
      await answer
    },
    'a client that leaves a stream': async () => {
      upstream.behave({ stopAfter: 1, stop: 'hang', chunks: 4 })
      const reader = (await gateway.chat({ ...ask, stream: true })).body!.getReader()
      await reader.read()
      await reader.cancel()
    },
    'an admission that the spool refuses': async () => {
      gateway.spool.close_()
      expect((await gateway.chat(ask)).status).toBe(503)
    },
    'an outcome that cannot be written': async () => {
      gateway.spool.before = (type) => {
        if (type === 'request.settled') throw new Error('the disk is gone')
      }
      expect((await gateway.chat(ask)).status).toBe(500)
    },
    'an answer that breaks its format': async () => {
      const response_format = { type: 'json_object' }
      expect((await gateway.chat({ ...ask, response_format })).status).toBe(400)
    },
  }
  for (const [name, way] of Object.entries(ways)) {
    test(`once, after ${name}`, async () => {
      limitedTo({ max_parallel: 1, tpm: 1_000 })
      await way()
      expect(given).toHaveLength(1)
      expect(limits.status().held).toBe(0)
      gateway.spool.open = true
      gateway.spool.before = null
      upstream.behave({})
      expect((await gateway.chat(ask)).status).toBe(200)
    })
  }

  test('a request under way keeps its slot', async () => {
    limitedTo({ max_parallel: 1 })
    upstream.behave({ stopAfter: 1, stop: 'hang', chunks: 4 })
    const stream = await gateway.chat({ ...ask, stream: true })
    const refused = await gateway.chat(ask)
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(await refused.json()).toMatchObject({
      error: { details: { scope: 'policy', limit: 'max_parallel', value: 1 } },
    })
    await stream.body!.cancel()
    upstream.behave({})
    expect((await gateway.chat(ask)).status).toBe(200)
  })
})

// docs/behaviour.md: "Rate limits"
describe('the rules of a request', () => {
  const key = (id: string): KeyEntry => ({
    id,
    tenantId: 'ten_a',
    scopes: ['inference'],
    expiresAtMs: null,
    routingPolicyId: null,
  })

  test('are those of key, tenant and policies, and follow the fold', () => {
    const world = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a', { rate_limits: { rpm: 5 } })])
    const listeners: ((batch: FoldedBatch) => void)[] = []
    const rulesOf = openLimitRules({
      control: world.state,
      subscribe(listener) {
        listeners.push(listener)
        return () => {}
      },
    })
    const apply = (type: string, data: Record<string, unknown>) => {
      const changes = world.apply([{ type, data }])
      for (const listener of listeners) listener({ changes, refused: [] })
    }
    const subjects = (id: string) => rulesOf(key(id), ofPolicies).map(({ subject }) => subject)
    const ofPolicies = [limitRule('policy', 'pol_1', { tpm: 10 })!]
    expect(subjects('key_1')).toEqual(['key:key_1', 'policy:pol_1'])
    expect(rulesOf(key('key_2'), ofPolicies)).toBe(ofPolicies)
    const tenant = { id: 'ten_a', name: 'a', plan: null }
    apply('tenant.replaced', { ...tenant, rate_limits: { max_parallel: 2 } })
    expect(subjects('key_1')).toEqual(['key:key_1', 'tenant:ten_a', 'policy:pol_1'])
    expect(rulesOf(key('key_2'), [])).toEqual([
      { scope: 'tenant', subject: 'tenant:ten_a', rpm: null, tpm: null, maxParallel: 2 },
    ])
    apply('api_key.changed', { id: 'key_1', rate_limits: { rpm: null } })
    apply('tenant.replaced', { ...tenant, rate_limits: null })
    expect(rulesOf(key('key_1'), ofPolicies)).toBe(ofPolicies)
  })

  test('the headers are of the tightest', () => {
    const rules = [limitRule('key', 'a', { rpm: 10, tpm: 500 })!, limitRule('tenant', 'b', { rpm: 20 })!]
    const counted = [
      { requests: 2, tokens: 600, resetMs: 1_500 },
      { requests: 19, tokens: 0, resetMs: 500 },
    ]
    expect(limitLines(rules, counted).split('\r\n')).toEqual([
      'x-ratelimit-limit-requests: 20',
      'x-ratelimit-remaining-requests: 1',
      'x-ratelimit-reset-requests: 500ms',
      'x-ratelimit-limit-tokens: 500',
      'x-ratelimit-remaining-tokens: 0',
      'x-ratelimit-reset-tokens: 1.5s',
      '',
    ])
    expect(limitLines([limitRule('key', 'a', { max_parallel: 1 })!], [counted[0]!])).toBe('')
    expect([0, 820, 1_000, 60_000, 61_250].map(durationText)).toEqual(['0s', '820ms', '1s', '1m0s', '1m1.25s'])
  })
})
