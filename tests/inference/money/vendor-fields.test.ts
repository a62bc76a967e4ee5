// Vendor fields of a client's body count where the upstream reads them: a cap does not admit a request that would
// exceed it.
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import { outputBound, promptTokensEstimate, reservedNanoUsd } from '../../../src/inference/money/estimate.ts'
import { KINDS } from '../../../src/providers/kinds.ts'
import { VENDOR_FIELDS } from '../../../src/providers/shared/vendor-fields-table.ts'
import { entry, type TestGateway, testGateway } from '../gateway.ts'

const MODEL = { maxOutputTokens: 4_096, contextWindow: 128_000 }
const asked = (own: Record<string, unknown>, more: Record<string, unknown> = { max_tokens: 10 }) => {
  const body = { model: 'small', messages: [{ role: 'user', content: 'hi' }], ...more, ...own }
  return readIntent(JSON.stringify(body), body, new Headers())
}
const bound = (kind: string, own: Record<string, unknown>, more?: Record<string, unknown>) =>
  outputBound(asked(own, more), { kind, ...MODEL })
const nested = (name: string, value: unknown): Record<string, unknown> =>
  name
    .split('.')
    .filter((part) => part !== '*')
    .reduceRight<unknown>((inner, part) => ({ [part]: inner }), value) as Record<string, unknown>

describe('every row of the table is counted for its kind, and for no other', () => {
  for (const [kind, rows] of Object.entries(VENDOR_FIELDS))
    for (const { names, counts, yields } of rows)
      for (const name of names.filter(() => counts !== undefined))
        test(`${kind}: ${name}`, () => {
          const more = yields === true ? {} : { max_tokens: 10 }
          const without = bound(kind, {}, more)
          // What an upstream that obeys may generate.
          const obeyed = {
            limit: 60_000,
            thinking: without + 60_000,
            answers: 60_000 * without,
            text: without + 15_000,
          }
          const value = counts === 'text' ? 'x'.repeat(60_000) : 60_000
          expect(bound(kind, nested(name, value), more)).toBeGreaterThanOrEqual(obeyed[counts!])
          expect(bound('together', nested(name, value), more)).toBe(without)
        })
})

test('numbers are read as servers read them', () => {
  const limit = (value: unknown) => bound('llamacpp', { n_predict: value })
  expect([64_000, '64000', 6.4e4, 63_999.5].map(limit)).toEqual([64_000, 64_000, 64_000, 64_000])
  // No limit at all: as much as the model gives.
  expect([-1, 0, '-1'].map(limit)).toEqual([4_096, 4_096, 4_096])
  // A smaller one, or what is no number, lowers nothing.
  expect([5, null, true, {}, [9], '', 'many'].map(limit)).toEqual([10, 10, 10, 10, 10, 10, 10])
  expect(bound('llamacpp', { n_predict: 5 }, {})).toBe(4_096)
  expect([limit(1e300), bound('vllm', { best_of: 1e300 })].every(Number.isSafeInteger)).toBe(true)
  expect(bound('vllm', { best_of: 3 }, { max_tokens: 10, n: 5 })).toBe(50)
  expect(bound('vllm', { best_of: 7, Best_Of: 3 }, { max_tokens: 10, n: 5 })).toBe(70)
  expect(bound('cohere', { thinking: { type: 'enabled', token_budget: 0 } })).toBe(10)
  expect(bound('gemini', { extra_body: { google: { thinking_config: { thinking_budget: -1 } } } })).toBe(4_106)
  expect(bound('gemini', { generationConfig: { maxOutputTokens: 60_000 } })).toBe(10)
  // Claude's thinking is within max_tokens.
  expect(bound('anthropic', { thinking: { type: 'enabled', budget_tokens: 9 } })).toBe(10)
})

test('a prediction is reserved by its bytes, and fields of no known wire are prompt', () => {
  const plain = { content: 'x'.repeat(998) }
  const row = entry({ kind: 'openai', inputCostPerMillion: 0 })
  const own = { prediction: plain }
  expect(reservedNanoUsd(asked(own), row)! - reservedNanoUsd(asked({}), row)!).toBe(
    JSON.stringify(plain).length * 2_000,
  )
  const prompt = (more: Record<string, unknown>) => promptTokensEstimate(asked(more)) - promptTokensEstimate(asked({}))
  expect(prompt({ documents: ['x'.repeat(4_000)] })).toBe(1_001)
  expect(prompt({ ...own, metadata: { a: 'x'.repeat(400) }, top_k: 3, service_tier: 'auto' })).toBe(0)
})

let upstreamCalls = 0
let answer: unknown = {}
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    await request.text()
    upstreamCalls++
    return Response.json(answer)
  },
})
let gateway: TestGateway
afterEach(() => {
  gateway?.close()
  upstreamCalls = 0
})
afterAll(() => server.stop(true))

const SENT: Readonly<Record<string, Record<string, unknown>>> = {
  openai: { prediction: { type: 'content', content: 'x'.repeat(400_000) } },
  openai_compatible: { extra_body: { max_output_tokens: 100_000 } },
  vllm: { best_of: 10_000 },
  llamacpp: { n_predict: -1 },
  openrouter: { reasoning: { max_tokens: 100_000 } },
  gemini: { extra_body: { google: { thinking_config: { thinking_budget: 100_000 } } } },
  cohere: { thinking: { type: 'enabled', token_budget: 100_000 } },
  bedrock: { additionalModelRequestFields: { textGenerationConfig: { maxTokenCount: 100_000 } } },
}
const choice = (index: number, content: string) => ({
  index,
  message: { role: 'assistant', content },
  finish_reason: 'stop',
})
const open = (kind: string) => {
  const target = { kind, baseUrl: `http://127.0.0.1:${server.port}/v1`, secret: 'sk-test', region: 'us-east-1' }
  const caps = { capabilities: KINDS.get(kind)!.capabilities }
  gateway = testGateway({ kinds: [...KINDS.values()], entries: [entry({ ...target, ...caps })] })
}
const BODY = { model: 'small', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] }

for (const [kind, own] of Object.entries(SENT))
  test(`${kind}: a cap that admits the request refuses it with what its upstream would read`, async () => {
    open(kind)
    const header = { 'x-gateway-max-cost-usd': '0.001' }
    await (await gateway.chat(BODY, header)).text()
    expect(upstreamCalls).toBeGreaterThan(0)
    const calls = upstreamCalls
    const refused = await gateway.chat({ ...BODY, ...own }, header)
    expect([refused.status, upstreamCalls]).toEqual([402, calls])
    expect((await refused.json()).error.code).toBe('quota_exceeded')
  })

test('every choice that such words bring is held to the format', async () => {
  open('llamacpp')
  answer = { id: 'x', object: 'chat.completion', choices: [choice(0, '{"a":1}'), choice(1, 'no JSON')] }
  const response = await gateway.chat({ ...BODY, response_format: { type: 'json_object' }, n_cmpl: 2 })
  expect([response.status, (await response.json()).error.param]).toEqual([400, 'response_format'])
})
