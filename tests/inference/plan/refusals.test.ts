import { afterAll, describe, expect, test } from 'bun:test'
import { wholeText } from '../../../src/lib/text/text-pieces.ts'
import { REFUSABLE, SpoolClosed } from '../../../src/log/spool/port.ts'
import { appended } from '../../log/appended.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, policyRow, READ_KEY, testGateway } from '../gateway.ts'

const upstream = startUpstream()
const gateway = testGateway({
  entries: [
    entry({ baseUrl: upstream.baseUrl }),
    entry({ name: 'plain', provider: 'beta', baseUrl: upstream.baseUrl, capabilities: ['chat'] }),
    entry({ name: 'off', unroutable: 'disabled' }),
    entry({ name: 'bare', unroutable: 'no_adapter' }),
    entry({ name: 'unpriced', inputCostPerMillion: null }),
    entry({ name: 'tiny', contextWindow: 1 }),
  ],
  policies: [
    policyRow({ id: 'pol_narrow', name: 'narrow', models: ['small'], providers: { only: ['alpha'] } }),
    policyRow({ id: 'pol_ignore', name: 'ignore', providers: { ignore: ['prov_alpha'] } }),
    policyRow({ id: 'pol_local', name: 'local', regions: ['eu'], allow_region_override: false }),
    policyRow({ id: 'pol_other', name: 'other', tenant_id: 'ten_2' }),
    policyRow({ id: 'pol_phi', name: 'phi', sensitivity: { phi: { providers: ['beta'] } } }),
  ],
  keys: {
    gw_live_expiredexpiredexpiredexpiredexpiredexpired: { expiresAtMs: 1 },
    gw_live_boundboundboundboundboundboundboundboundbo: { routingPolicyId: 'pol_narrow' },
  },
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const messages = [{ role: 'user', content: 'hi' }]
const tool = (name: unknown) => ({ type: 'function', function: { name } })
const errorOf = async (response: Response) =>
  ((await response.json()) as { error: { code: string; param: string | null; message: string } }).error

type Case = [name: string, body: Record<string, unknown>, param: string | null, status?: number, code?: string]
const BODIES: Case[] = [
  ['no model', { messages }, 'model'],
  ['a model that is no string', { model: 7, messages }, 'model'],
  ['an unknown model', { model: 'nope', messages }, 'model', 404, 'not_found'],
  ['no messages', { model: 'small' }, 'messages'],
  ['messages that are no list', { model: 'small', messages: 'hi' }, 'messages'],
  ['an empty list of messages', { model: 'small', messages: [] }, 'messages'],
  ['a message without a role', { model: 'small', messages: [{ content: 'x' }] }, 'messages[0].role'],
  ['content that is a number', { model: 'small', messages: [{ role: 'user', content: 7 }] }, 'messages[0].content'],
  [
    'a part without a type',
    { model: 'small', messages: [{ role: 'user', content: [{}] }] },
    'messages[0].content[0].type',
  ],
  ['prompt and messages', { model: 'small', messages, prompt: 'x' }, 'prompt'],
  ['a prompt that is a list', { model: 'small', prompt: ['x'] }, 'prompt'],
  ['a system that is no string', { model: 'small', messages, system: {} }, 'system'],
  ['a stream that is no boolean', { model: 'small', messages, stream: 'yes' }, 'stream'],
  [
    'stream options without a stream',
    { model: 'small', messages, stream_options: { include_usage: true } },
    'stream_options',
  ],
  ['a top_k of 0', { model: 'small', messages, top_k: 0 }, 'top_k'],
  ['a min_p of 2', { model: 'small', messages, min_p: 2 }, 'min_p'],
  ['a negative repetition penalty', { model: 'small', messages, repetition_penalty: -1 }, 'repetition_penalty'],
  ['a max_tokens of 0', { model: 'small', messages, max_tokens: 0 }, 'max_tokens'],
  [
    'a fractional max_completion_tokens',
    { model: 'small', messages, max_completion_tokens: 1.5 },
    'max_completion_tokens',
  ],
  ['tools that are no list', { model: 'small', messages, tools: {} }, 'tools'],
  ['a tool without a function', { model: 'small', messages, tools: [{ type: 'function' }] }, 'tools[0].function'],
  ['a tool without a name', { model: 'small', messages, tools: [tool(undefined)] }, 'tools[0].function.name'],
  ['a tool declared twice', { model: 'small', messages, tools: [tool('a'), tool('a')] }, 'tools[1]'],
  [
    'tool parameters that are a list',
    { model: 'small', messages, tools: [{ type: 'function', function: { name: 'a', parameters: [] } }] },
    'tools[0].function.parameters',
  ],
  ['an unknown tool choice', { model: 'small', messages, tools: [tool('a')], tool_choice: 'maybe' }, 'tool_choice'],
  [
    'a tool choice that is not declared',
    { model: 'small', messages, tools: [tool('a')], tool_choice: { type: 'function', function: { name: 'b' } } },
    'tool_choice.function.name',
  ],
  [
    'an unknown tool execution mode',
    { model: 'small', messages, tool_execution: { mode: 'magic' } },
    'tool_execution.mode',
  ],
  [
    'a response format without a schema name',
    { model: 'small', messages, response_format: { type: 'json_schema', json_schema: {} } },
    'response_format.json_schema.name',
  ],
  [
    'a schema that is none',
    {
      model: 'small',
      messages,
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'strng' } } },
    },
    'response_format.json_schema.schema',
  ],
  ['a missing capability: tools', { model: 'plain', messages, tools: [tool('a')] }, 'tools'],
  [
    'a missing capability: parallel tools',
    { model: 'plain', messages, parallel_tool_calls: true },
    'parallel_tool_calls',
  ],
  ['a missing capability: streaming', { model: 'plain', messages, stream: true }, 'stream'],
  ['a missing capability: seed', { model: 'plain', messages, seed: 1 }, 'seed'],
  [
    'a missing capability: JSON',
    { model: 'plain', messages, response_format: { type: 'json_object' } },
    'response_format',
  ],
  [
    'a missing capability: vision',
    { model: 'plain', messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x' } }] }] },
    'messages',
  ],
  ['a prompt that cannot fit', { model: 'tiny', messages }, 'messages', 400, 'context_length_exceeded'],
  ['a disabled model', { model: 'off', messages }, null, 502, 'provider_unavailable'],
  ['a model without an adapter', { model: 'bare', messages }, null, 502, 'provider_unavailable'],
]
const HEADERS: [header: string, value: string, status: number, code?: string, model?: string][] = [
  ['X-Gateway-No-Fallback', 'yes', 400],
  ['X-Gateway-Debug', '1', 400],
  ['X-Gateway-Batch', '', 400],
  ['X-Gateway-Max-Cost-USD', '-1', 400],
  ['X-Gateway-Max-Cost-USD', 'NaN', 400],
  ['X-Gateway-Latency-Target-Ms', '1.5', 400],
  ['X-Gateway-Sensitivity', 'pii,secret', 400],
  ['X-Gateway-Policy', 'nope', 404, 'not_found'],
  ['X-Gateway-Policy', 'pol_other', 404, 'not_found'],
  ['X-Gateway-Endpoint', 'anything', 404, 'not_found'],
  ['X-Gateway-Region', 'eu', 400],
]

describe('a body that cannot be served', () => {
  for (const [name, body, param, status = 400, code = 'invalid_request'] of BODIES) {
    test(`${name}: ${status}, naming ${param ?? 'nothing'}`, async () => {
      const before = gateway.spool.settled().length
      const response = await gateway.chat(body)
      expect(response.status).toBe(status)
      expect(await errorOf(response)).toMatchObject({ code, param })
      expect(response.headers.get('x-request-id')).toStartWith('req_')
      const settled = gateway.spool.settled().slice(before)
      expect(settled).toMatchObject([
        { admission: null, outcome: status < 500 ? 'denied' : 'error', error_code: code, cost_basis: 'none' },
      ])
    })
  }
  test('no upstream was called for any of them, and nothing was admitted', () => {
    expect(upstream.received).toHaveLength(0)
    expect(gateway.spool.admitted()).toHaveLength(0)
  })
})

describe('a header that cannot be met', () => {
  for (const [header, value, status, code = 'invalid_request'] of HEADERS) {
    test(`S30: ${header}: ${value || '(empty)'} is ${status} naming it`, async () => {
      const response = await gateway.chat({ model: 'small', messages }, { [header]: value })
      expect(response.status).toBe(status)
      expect(await errorOf(response)).toMatchObject({ code, param: header })
    })
  }
})

describe('policies', () => {
  const ask = (policy: string, model = 'small', headers: Record<string, string> = {}) =>
    gateway.chat({ model, messages }, { 'x-gateway-policy': policy, ...headers })

  test('allow by model and provider', async () => {
    expect((await ask('NARROW')).status).toBe(200)
    const refused = await ask('pol_narrow', 'plain')
    expect(refused.status).toBe(400)
    expect(await errorOf(refused)).toMatchObject({ details: { rejected_reason: 'not_in_policy' } } as object)
  })

  test('ignore providers', async () => {
    expect(await errorOf(await ask('ignore'))).toMatchObject({ details: { rejected_reason: 'ignored' } } as object)
    expect((await ask('ignore', 'plain')).status).toBe(200)
  })

  test('may forbid choosing a region, and name their own', async () => {
    expect((await ask('local', 'small', { 'x-gateway-region': 'eu' })).status).toBe(403)
    expect((await ask('local')).status).toBe(400)
  })

  test('keep labelled payloads from other providers', async () => {
    expect((await ask('phi', 'small', { 'x-gateway-sensitivity': 'phi' })).status).toBe(400)
    expect((await ask('phi', 'plain', { 'x-gateway-sensitivity': 'phi, pii' })).status).toBe(200)
  })

  test('bound to the key narrow what a header picks', async () => {
    const response = await gateway.send('/v1/chat/completions', {
      key: 'gw_live_boundboundboundboundboundboundboundboundbo',
      body: { model: 'plain', messages },
      headers: { 'x-gateway-policy': 'phi' },
    })
    expect(await errorOf(response)).toMatchObject({ details: { rejected_reason: 'not_in_policy' } } as object)
  })

  test('and caps refuse before any call: 402, and an unknown price is no zero', async () => {
    const cap = { 'x-gateway-max-cost-usd': '0.000001' }
    expect(await errorOf(await gateway.chat({ model: 'small', messages }, cap))).toMatchObject({
      code: 'quota_exceeded',
      details: { rejected_reason: 'cost_cap' },
    } as object)
    const unpriced = await gateway.chat({ model: 'unpriced', messages }, cap)
    expect(unpriced.status).toBe(402)
    expect(await errorOf(unpriced)).toMatchObject({ details: { rejected_reason: 'no_price' } } as object)
    expect(
      (await gateway.chat({ model: 'small', messages, max_tokens: 1 }, { 'x-gateway-max-cost-usd': '0.01' })).status,
    ).toBe(200)
  })
})

// docs/behaviour.md: "Outcomes"
describe('callers', () => {
  const ask = { model: 'small', messages }
  const cases: [string, string | null, Record<string, string>][] = [
    ['without a key', null, {}],
    ['with an unknown key', 'gw_live_unknownunknownunknownunknownunknown', {}],
    ['with a short key', 'short', {}],
    ['with an expired key', 'gw_live_expiredexpiredexpiredexpiredexpiredexpired', {}],
    ['with two keys', null, { authorization: 'Bearer gw_live_inferenceinferenceinferenceinference, Bearer x' }],
    ['with another scheme', null, { authorization: 'Basic Z3c6Z3c=' }],
  ]
  for (const [name, key, headers] of cases) {
    test(`${name} get 401 and leave no record`, async () => {
      const before = gateway.spool.records.length
      const response = await gateway.send('/v1/chat/completions', { key, headers, raw: '{not json', method: 'POST' })
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toBe('Bearer')
      expect(await errorOf(response)).toMatchObject({ code: 'authentication_error' })
      expect(gateway.spool.records).toHaveLength(before)
    })
  }

  test('without the scope get 403 before their body is looked at, and a record', async () => {
    const before = gateway.spool.settled().length
    const response = await gateway.send('/v1/chat/completions', { key: READ_KEY, raw: '{not json', method: 'POST' })
    expect(response.status).toBe(403)
    expect(gateway.spool.settled().slice(before)).toMatchObject([{ outcome: 'denied', status: 403, key_id: 'key_3' }])
  })

  test('are refused with 503 and the reason while the disk is full, before any call', async () => {
    const closed = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
    closed.spool.open = false
    const calls = upstream.received.length
    const response = await closed.chat(ask)
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5'])
    expect(response.headers.get('x-gateway-retryable')).toBe('true')
    expect(await errorOf(response)).toMatchObject({
      code: 'provider_unavailable',
      message: 'no request is admitted now: the disk is full',
    })
    expect(upstream.received).toHaveLength(calls)
    closed.close()
  })

  test('are refused with 429 while too much waits for the log', async () => {
    const waiting = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
    waiting.spool.before = () => {
      throw new SpoolClosed('9 bytes wait to be shipped, 8 is the bound')
    }
    const response = await waiting.chat(ask)
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await errorOf(response)).toMatchObject({ code: 'rate_limited' })
    waiting.close()
  })

  test('get a failure when the outcome of their answer cannot be written', async () => {
    const failing = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
    failing.spool.before = (type) => {
      if (type === 'request.settled') throw new Error('EIO with a secret path')
    }
    const response = await failing.chat(ask)
    expect(response.status).toBe(500)
    const text = await response.text()
    expect(text).not.toContain('Hello')
    expect(text).not.toContain('secret path')
    failing.close()
  })

  test('are refused with 429 when their admission was not shipped in time, and it is settled', async () => {
    const late = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
    late.spool.before = () => {
      throw new SpoolClosed('the log has not taken it', appended('ins_test.e1.7'))
    }
    const calls = upstream.received.length
    const records: string[] = []
    const { append } = late.spool
    late.spool.append = (topic, type, subject, data, of) => {
      records.push(
        `${type} ${(JSON.parse(wholeText(data)) as { admission?: number }).admission ?? ''} ${of === REFUSABLE}`,
      )
      return append(topic, type, subject, data, of)
    }
    const response = await late.chat(ask)
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '1'])
    expect(upstream.received).toHaveLength(calls)
    expect(records).toEqual(['request.admitted  true', 'request.settled 7 false'])
    late.close()
  })

  test('beyond the limit of requests in flight get 429', async () => {
    const narrow = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })], inference: { maxActive: 0 } })
    expect((await narrow.chat(ask)).status).toBe(429)
    narrow.close()
  })
})
