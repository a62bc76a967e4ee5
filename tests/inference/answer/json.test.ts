import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { decisionName } from '../../../src/domain/events/request-reading.ts'
import type { ProviderKind } from '../../../src/providers/port.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, policyRow, type TestGateway, TIP, testGateway } from '../gateway.ts'
import { plainKind } from '../plain-kind.ts'

const upstream = startUpstream()
let gateway: TestGateway
beforeEach(() => {
  gateway?.close()
  upstream.behave({})
  upstream.received.length = 0
  gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl, upstreamModel: 'up-small' })] })
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
interface Body {
  model: string
  choices: { message: { content: string } }[]
  gateway: Record<string, unknown>
  error: { message: string; code: string; param: string | null; type: string }
}
const bodyOf = async (response: Response): Promise<Body> => (await response.json()) as Body

describe('a JSON answer', () => {
  test('is the upstream answer with the gateway block and the headers', async () => {
    const response = await gateway.chat(ask, {
      'x-request-id': 'my label/1',
      traceparent: `00-${'c'.repeat(32)}-${'d'.repeat(16)}-01`,
    })
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(response.headers.get('x-request-id')).toBe('mylabel1')
    expect(response.headers.get('x-trace-id')).toBe('c'.repeat(32))
    expect(response.headers.get('x-gateway-provider')).toBe('alpha')
    const { gateway: block, ...answer } = await bodyOf(response)
    expect(answer.model).toBe('up-small')
    expect(answer.choices[0]!.message.content).toContain('Hello')
    expect(block).toEqual({
      request_id: 'mylabel1',
      provider: 'alpha',
      requested_model: 'small',
      routed_model: 'small',
      fallback_used: false,
      cache_hit: false,
      latency_ms: expect.any(Number),
      estimated_cost_usd: 0.000025,
    })
  })

  test('keeps every byte that nobody needed to change, both ways', async () => {
    upstream.next({
      body: '{"id":"x", "n": 12345678901234567890, "choices":[{"index":0,"message":{"role":"assistant","content":"é€"},"finish_reason":"stop"}] }',
    })
    const raw =
      '{"model":"small","messages":[{"role":"user","content":"hi"}],  "seed": 12345678901234567890,"x_unknown":{"a":1.0}}'
    const response = await gateway.send('/v1/chat/completions', {
      raw,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    })
    expect(await response.text()).toStartWith(
      '{"id":"x", "n": 12345678901234567890, "choices":[{"index":0,"message":{"role":"assistant","content":"é€"},"finish_reason":"stop"}] ,"usage":{',
    )
    expect(upstream.received[0]!.text).toBe(raw.replace('"small"', '"up-small"'))
  })

  test('is admitted before the upstream is called and settled before it is answered', async () => {
    const order: string[] = []
    upstream.behave(() => {
      order.push('upstream')
      return {}
    })
    gateway.spool.before = (type) => {
      order.push(type)
    }
    await gateway.chat({ ...ask, user: 'me@example.org' })
    expect(order).toEqual(['request.admitted', 'upstream', 'request.settled'])
    const [admitted] = gateway.spool.admitted()
    const [settled] = gateway.spool.settled()
    expect(admitted).toMatchObject({
      key_id: 'key_1',
      plan: { revision: decisionName(TIP) },
      provider: 'alpha',
    })
    expect(admitted!.user).toMatch(/^[0-9a-f]{64}$/)
    // Every byte of the prompt at the input price and the output ceiling at the output price, in nano-USD.
    const bytes = Buffer.byteLength(JSON.stringify({ ...ask, user: 'me@example.org' }))
    expect(admitted!.reserved_nano_usd).toBe(bytes * 1_000 + 4_096 * 2_000)
    expect(settled).toMatchObject({
      id: admitted!.id,
      admission: 'ins_test.e1.0',
      outcome: 'success',
      status: 200,
      provider: 'alpha',
      prompt_tokens: 11,
      completion_tokens: 7,
      cost_nano_usd: 25_000,
      cost_basis: 'measured',
      price_version: 'b'.repeat(16),
      raw_usage: null,
      finish_reason: 'stop',
    })
    expect(JSON.stringify(gateway.spool.records)).not.toContain('me@example.org')
  })

  test('lets nothing but numbers of the reported usage into the log', async () => {
    const answer = {
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'small',
      choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
      usage: {
        prompt_tokens: 11,
        completion_tokens: 7,
        note: 'the prompt of the customer',
        'the prompt of the customer': 1,
        seen: ['the prompt of the customer'],
        details: { cached: 1, more: { audio: 2, deeper: { x: 1 } }, cached_flag: true, none: null },
      },
    }
    upstream.behave({ body: JSON.stringify(answer) })
    await gateway.chat(ask)
    expect(gateway.spool.settled()[0]!.raw_usage).toEqual({
      prompt_tokens: 11,
      completion_tokens: 7,
      details: { cached: 1, more: { audio: 2 }, cached_flag: true },
    })
    expect(JSON.stringify(gateway.spool.records)).not.toContain('customer')
  })

  test('without usage is estimated, without a price is unpriced', async () => {
    upstream.behave({ usage: null, text: 'x'.repeat(40) })
    const estimated = { usage: { prompt_tokens: 5, completion_tokens: 10, total_tokens: 15 } }
    expect(await (await gateway.chat(ask)).json()).toMatchObject(estimated)
    expect(gateway.spool.settled()[0]).toMatchObject({
      cost_basis: 'estimated',
      prompt_tokens: 5,
      completion_tokens: 10,
    })
    const free = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl, inputCostPerMillion: null })] })
    const { gateway: block } = await bodyOf(await free.chat(ask))
    expect(block.estimated_cost_usd).toBeNull()
    expect(free.spool.admitted()[0]!.reserved_nano_usd).toBeUndefined()
    expect(free.spool.settled()[0]).toMatchObject({ cost_basis: 'unpriced', cost_nano_usd: null, price_version: null })
    free.close()
  })

  test('what the provider says that it charges is believed before any price', async () => {
    const costs = [1_234.2, 0, -5, Number.NaN, null]
    const saying: ProviderKind = {
      ...plainKind,
      response(body, reading) {
        const answer = plainKind.response(body, reading)
        return { ...answer, usage: { ...answer.usage!, reportedNanoUsd: costs.shift()! } }
      },
    }
    const billing = testGateway({ kinds: [saying], entries: [entry({ baseUrl: upstream.baseUrl })] })
    for (let i = 0; i < 5; i++) await billing.chat(ask)
    const measured = { cost_basis: 'measured', cost_nano_usd: 25_000 }
    expect(billing.spool.settled()).toMatchObject([
      { cost_basis: 'provider_reported', cost_nano_usd: 1_235, price_version: 'b'.repeat(16) },
      { cost_basis: 'provider_reported', cost_nano_usd: 0 },
      measured,
      measured,
      measured,
    ])
    billing.close()
  })

  test('shows the routing internals on X-Gateway-Debug', async () => {
    gateway.setPolicy(policyRow({ name: 'default' }))
    const { gateway: block } = await bodyOf(await gateway.chat(ask, { 'x-gateway-debug': 'true' }))
    expect(block).toMatchObject({
      policy_id: 'pol_default',
      policy_name: 'default',
      strategy: 'balanced',
      task: 'chat',
      shaping: [],
      route_reason: expect.stringContaining('alpha/small'),
      trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      attempts: [{ n: 1, provider: 'alpha', model: 'small', outcome: 'success' }],
    })
  })

  test('that was cut short says so, with the ceiling that the client set', async () => {
    upstream.behave({ finishReason: 'length' })
    const capped = (await bodyOf(await gateway.chat({ ...ask, max_tokens: 9, max_completion_tokens: 7 }))).gateway
    expect(capped.completion).toEqual({
      finish_reason: 'length',
      truncated: true,
      reason: 'max_tokens',
      requested_tokens: 7,
      applied_tokens: 7,
      prompt_tokens: 11,
      completion_tokens: 7,
      budget_ms: 600_000,
    })
    const free = (await bodyOf(await gateway.chat(ask))).gateway
    expect(free.completion).not.toHaveProperty('requested_tokens')
  })

  test('with tool calls says that the client runs them', async () => {
    upstream.behave({ tool: { name: 'weather', arguments: '{}' } })
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
    const { gateway: block } = await bodyOf(
      await gateway.chat({ ...ask, tools, tool_execution: { mode: 'automatic' } }, { 'x-gateway-debug': 'true' }),
    )
    expect(block).toMatchObject({
      task: 'tools',
      shaping: ['tool_execution clamped to manual'],
      tool_run: { mode: 'manual', status: 'client_executed', calls: 1, executed: 0, tools: ['weather'] },
    })
    expect(upstream.received[0]!.body).not.toHaveProperty('tool_execution')
  })
})

// docs/behaviour.md: "Chat requests"
describe('shorthands', () => {
  test('`prompt` becomes one user message, `system` leads', async () => {
    await gateway.chat({ model: 'small', prompt: 'say "hi"', system: 'be brief' })
    const { model, ...sent } = upstream.received[0]!.body!
    expect(model).toBe('up-small')
    expect(sent).toEqual({
      messages: [
        { role: 'system', content: 'be brief' },
        { role: 'user', content: 'say "hi"' },
      ],
    })
  })

  test('`system` is put in front of the messages, whose bytes stay', async () => {
    const raw = '{"model":"small","system":"s","messages":[ {"role":"user","content":"h\\u0069", "n":1.0} ]}'
    await gateway.send('/v1/chat/completions', { raw, method: 'POST' })
    expect(upstream.received[0]!.text).toContain(
      '[{"role":"system","content":"s"}, {"role":"user","content":"h\\u0069", "n":1.0} ]',
    )
  })
})

describe('structured answers', () => {
  const format = {
    type: 'json_schema',
    json_schema: { name: 'pair', schema: { type: 'object', required: ['a'], properties: { a: { type: 'number' } } } },
  }

  test('that conform are marked valid', async () => {
    upstream.behave({ text: '{"a":1}' })
    const { gateway: block } = await bodyOf(await gateway.chat({ ...ask, response_format: format }))
    expect(block.structured).toEqual({
      requested: 'json_schema',
      valid: true,
      schema: 'pair',
      error: null,
      repaired: false,
      unchecked: [],
    })
  })

  test('inside a fence are extracted and marked repaired', async () => {
    upstream.behave({ text: 'Here:\n```json\n{"a": 1}\n```' })
    const answer = await bodyOf(await gateway.chat({ ...ask, response_format: format }))
    expect(answer.choices[0]!.message.content).toBe('{"a": 1}')
    expect(answer.gateway.structured).toMatchObject({ valid: true, repaired: true })
  })

  test('that violate are 400, settled with their cost', async () => {
    upstream.behave({ text: '{"a":"one"}' })
    const response = await gateway.chat({ ...ask, response_format: format })
    const { error, gateway: block } = await bodyOf(response)
    expect(response.status).toBe(400)
    expect(error).toMatchObject({ code: 'invalid_request', param: 'response_format' })
    expect(block.structured).toMatchObject({ valid: false, error: expect.stringContaining('/a') })
    expect(block.estimated_cost_usd).toBe(0.000025)
    expect(gateway.spool.settled()[0]).toMatchObject({ outcome: 'error', status: 400, cost_nano_usd: 25_000 })
  })

  test.each(['text', 'xml', 'odd "type"'])(
    'of a type that nobody here checks are sent on and reported: %s',
    async (type) => {
      const plain = testGateway({
        entries: [entry({ baseUrl: upstream.baseUrl, capabilities: ['chat', 'streaming'] })],
      })
      const block = { requested: type, valid: null, schema: null, error: null, repaired: false, unchecked: [] }
      const response = await plain.chat({ ...ask, response_format: { type, extra: 1 } })
      expect([response.status, (await bodyOf(response)).gateway.structured]).toEqual([200, block])
      expect(upstream.received[0]!.body!.response_format).toEqual({ type, extra: 1 })
      const stream_options = { include_usage: true }
      const streamed = await plain.chat({ ...ask, stream: true, stream_options, response_format: { type } })
      expect(await streamed.text()).toContain(`"structured":${JSON.stringify(block)}`)
      plain.close()
    },
  )

  test.each(['json', 1, [[]], {}, { type: 1 }, { type: 'x'.repeat(65) }])(
    '%j is no format: 400',
    async (response_format) => {
      const response = await gateway.chat({ ...ask, response_format })
      expect(response.status).toBe(400)
      expect((await bodyOf(response)).error.param).toStartWith('response_format')
      expect(upstream.received).toEqual([])
    },
  )

  test('tool calls and truncated answers violate nothing', async () => {
    upstream.next({ text: '{"a', finishReason: 'length' })
    const short = await gateway.chat({ ...ask, response_format: { type: 'json_object' } })
    expect(short.status).toBe(200)
    expect((await bodyOf(short)).gateway.structured).toMatchObject({ requested: 'json_object', valid: null })
    const tools = [{ type: 'function', function: { name: 'f' } }]
    upstream.next({ tool: { name: 'f', arguments: '{}' } })
    expect((await gateway.chat({ ...ask, tools, response_format: { type: 'json_object' } })).status).toBe(200)
  })
})
