// Costs of failed attempts: known usage is charged, usage that may have been billed is estimated, and a refused attempt
// costs nothing.
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'
import { type Behaviour, startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const first = startUpstream()
const second = startUpstream()
let gateway: TestGateway
afterEach(() => gateway.close())
afterAll(async () => {
  await first.stop()
  await second.stop()
})

const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
/** Of the prompt above without an answer, at alpha's 1 USD per million: "hi" is one token, its message four. */
const PROMPT_NANO = 5 * 1_000
/** 11 and 7 tokens at beta's 10 and 20 USD per million. */
const ANSWER_NANO = 11 * 10_000 + 7 * 20_000

interface Options {
  kind?: string
  alpha?: Parameters<typeof entry>[0]
  beta?: Parameters<typeof entry>[0]
  policy?: Parameters<typeof policyRow>[0]
}

const failing = (behaviour: Behaviour, { kind = 'openai_compatible', alpha, beta, policy }: Options = {}) => {
  first.behave(behaviour)
  second.behave({})
  const revision = 'c'.repeat(16)
  const prices = { inputCostPerMillion: 10, outputCostPerMillion: 20, revision }
  gateway = testGateway({
    kinds: [kindOf(kind)!, kindOf('openai_compatible')!],
    entries: [
      entry({ kind, baseUrl: first.baseUrl, provider: 'alpha', priority: 1, secret: 's', ...alpha }),
      entry({ kind: 'openai_compatible', baseUrl: second.baseUrl, provider: 'beta', priority: 2, ...prices, ...beta }),
    ],
    policies: [policyRow({ strategy: 'priority', retry: { attempts: 0 }, ...policy })],
  })
}
const outcome = () => gateway.spool.settled()[0]!
const debug = { 'x-gateway-debug': 'true' }

interface Block {
  estimated_cost_usd: number | null
  attempts: { cost_usd?: number | null; cost_nano_usd?: number }[]
}
const blockOf = async (response: Response) => ((await response.json()) as { gateway: Block }).gateway

describe('an attempt that may have been billed is estimated, and part of the cost of its request', () => {
  const may: Record<string, Behaviour> = {
    'an answer that is no JSON': { body: '<html>' },
    'an answer without choices': { body: '{"object":"chat.completion"}' },
    'a connection that breaks after the headers': { body: '{"id":', headers: { 'content-length': '5000' } },
  }
  for (const [name, behaviour] of Object.entries(may)) {
    test(name, async () => {
      failing(behaviour)
      const block = await blockOf(await gateway.chat(ask, debug))
      expect(outcome()).toMatchObject({
        outcome: 'success',
        cost_nano_usd: PROMPT_NANO + ANSWER_NANO,
        cost_basis: 'estimated',
        prompt_tokens: 11,
        completion_tokens: 7,
        price_version: 'c'.repeat(16),
        attempts: [
          {
            provider: 'alpha',
            prompt_tokens: 5,
            completion_tokens: 0,
            cost_nano_usd: PROMPT_NANO,
            cost_basis: 'estimated',
            price_version: 'b'.repeat(16),
          },
          { provider: 'beta', cost_nano_usd: ANSWER_NANO, cost_basis: 'measured', price_version: 'c'.repeat(16) },
        ],
      })
      expect(block.estimated_cost_usd).toBe((PROMPT_NANO + ANSWER_NANO) / 1e9)
      expect(block.attempts.map(({ cost_usd }) => cost_usd)).toEqual([PROMPT_NANO / 1e9, ANSWER_NANO / 1e9])
      expect(block.attempts[0]).not.toHaveProperty('cost_nano_usd')
    })
  }

  test('a stream that is cut before its first content', async () => {
    failing({ stopAfter: 0, stop: 'cut' })
    await framesOf(await gateway.chat({ ...ask, stream: true, stream_options: { include_usage: true } }))
    expect(outcome()).toMatchObject({ cost_nano_usd: PROMPT_NANO + ANSWER_NANO, cost_basis: 'estimated' })
  })

  test('a provider that does not answer in time', async () => {
    failing({ delayMs: Number.POSITIVE_INFINITY }, { alpha: { timeoutMs: 30 } })
    await (await gateway.chat(ask)).text()
    expect(outcome()).toMatchObject({
      cost_nano_usd: PROMPT_NANO + ANSWER_NANO,
      attempts: [{ error_code: 'timeout', cost_nano_usd: PROMPT_NANO }, { cost_nano_usd: ANSWER_NANO }],
    })
  })

  test('several of them', async () => {
    failing(
      { body: '<html>' },
      { policy: { fallback: { max_attempts: 4 }, retry: { attempts: 2, backoff_initial_ms: 1 } } },
    )
    await (await gateway.chat(ask)).text()
    expect(outcome()).toMatchObject({ cost_nano_usd: 3 * PROMPT_NANO + ANSWER_NANO, attempts: [{}, {}, {}, {}] })
  })

  test('also when nobody answers, and the last one refused', async () => {
    failing({ body: '<html>' })
    second.behave({ status: 503 })
    const block = await blockOf(await gateway.chat(ask))
    expect(outcome()).toMatchObject({
      outcome: 'error',
      cost_nano_usd: PROMPT_NANO,
      cost_basis: 'estimated',
      price_version: null,
      attempts: [{ cost_nano_usd: PROMPT_NANO }, { upstream_status: 503 }],
    })
    expect(outcome().attempts[1]).not.toHaveProperty('cost_nano_usd')
    expect(block.estimated_cost_usd).toBe(PROMPT_NANO / 1e9)
  })
})

describe('usage that was seen is charged although the attempt failed', () => {
  test('in a stream that is cut before its first content', async () => {
    failing({ stopAfter: 0, stop: 'cut', usage: { prompt: 100, completion: 0 } }, { kind: 'anthropic' })
    await framesOf(await gateway.chat({ ...ask, stream: true, stream_options: { include_usage: true }, max_tokens: 9 }))
    // `message_start` says 100 tokens in and 1 out.
    expect(outcome()).toMatchObject({
      cost_nano_usd: 102 * 1_000 + ANSWER_NANO,
      cost_basis: 'measured',
      attempts: [{ prompt_tokens: 100, completion_tokens: 1, cost_nano_usd: 102_000, cost_basis: 'measured' }, {}],
    })
  })

  test('in a stream that refuses in the same piece in which it said what it used', async () => {
    const start = { type: 'message_start', message: { usage: { input_tokens: 100, output_tokens: 1 } } }
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'busy' } }
    const body = [start, overloaded].map((data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`).join('')
    failing({ body, headers: { 'content-type': 'text/event-stream' } }, { kind: 'anthropic' })
    await framesOf(await gateway.chat({ ...ask, stream: true, max_tokens: 9 }))
    expect(outcome().attempts[0]).toMatchObject({ cost_nano_usd: 102_000, cost_basis: 'measured' })
  })

  const usage = { prompt_tokens: 100, completion_tokens: 50 }
  const refused: Record<string, string> = {
    openai_compatible: JSON.stringify({ object: 'chat.completion', choices: [], usage }),
    anthropic: JSON.stringify({ type: 'message', usage: { input_tokens: 100, output_tokens: 50 } }),
    cohere: JSON.stringify({ id: 'x', usage: { tokens: { input_tokens: 100, output_tokens: 50 } } }),
    gemini: JSON.stringify({ candidates: [], usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 50 } }),
    bedrock: JSON.stringify({ output: {}, usage: { inputTokens: 100, outputTokens: 50 } }),
    ollama: JSON.stringify({ model: 'small', prompt_eval_count: 100, eval_count: 50 }),
  }
  for (const [kind, body] of Object.entries(refused)) {
    test(`in an answer of ${kind} that is none`, async () => {
      failing({ body }, { kind, alpha: { options: { region: 'us-east-1' } } })
      await (await gateway.chat({ ...ask, max_tokens: 9 })).text()
      expect(outcome()).toMatchObject({
        outcome: 'success',
        cost_nano_usd: 100 * 1_000 + 50 * 2_000 + ANSWER_NANO,
        cost_basis: 'measured',
        attempts: [{ prompt_tokens: 100, completion_tokens: 50, cost_nano_usd: 200_000 }, {}],
      })
    })
  }
})

// docs/behaviour.md: "Money and prices"
describe('an attempt that was refused before any content costs nothing', () => {
  const refusals: Record<string, Options & { behaviour: Behaviour; stream?: boolean }> = {
    'a refused connection': { behaviour: {}, alpha: { baseUrl: 'http://127.0.0.1:1/v1' } },
    'a 500': { behaviour: { status: 500 } },
    'a 503': { behaviour: { status: 503 } },
    'a 429': { behaviour: { status: 429 } },
    'a 402': { behaviour: { status: 402 } },
    'a status inside a success': { behaviour: { body: '{"error":{"code":429,"message":"slow down"}}' } },
    'a status inside a stream': { behaviour: { stopAfter: 0, stop: 'error' }, stream: true },
  }
  for (const [name, { behaviour, stream, ...options }] of Object.entries(refusals)) {
    test(name, async () => {
      failing(behaviour, options)
      await (await gateway.chat({ ...ask, ...(stream && { stream, stream_options: { include_usage: true } }) })).text()
      expect(outcome()).toMatchObject({ outcome: 'success', cost_nano_usd: ANSWER_NANO, cost_basis: 'measured' })
      for (const attempt of outcome().attempts) expect(attempt).not.toHaveProperty('cost_nano_usd')
    })
  }
})

describe('the basis of the whole', () => {
  test('a part without a price leaves an estimate of the rest', async () => {
    failing({ body: '<html>' }, { alpha: { inputCostPerMillion: null } })
    await (await gateway.chat(ask)).text()
    expect(outcome()).toMatchObject({
      cost_nano_usd: ANSWER_NANO,
      cost_basis: 'estimated',
      attempts: [{ cost_nano_usd: null, cost_basis: 'unpriced', price_version: null }, {}],
    })
  })

  test('nothing has a price', async () => {
    failing({ body: '<html>' }, { alpha: { inputCostPerMillion: null }, beta: { outputCostPerMillion: null } })
    const block = await blockOf(await gateway.chat(ask))
    expect(outcome()).toMatchObject({ cost_nano_usd: null, cost_basis: 'unpriced' })
    expect(block.estimated_cost_usd).toBeNull()
  })

  test('nothing was called: it cost nothing, and the answer says so', async () => {
    failing({ status: 503 })
    const block = await blockOf(await gateway.chat(ask, { 'x-gateway-no-fallback': 'true' }))
    expect(outcome()).toMatchObject({ cost_nano_usd: 0, cost_basis: 'none' })
    expect(block.estimated_cost_usd).toBe(0)
  })

  test('an only attempt has its numbers in the outcome alone', async () => {
    failing({})
    await (await gateway.chat(ask)).text()
    expect(outcome().attempts[0]).not.toHaveProperty('cost_nano_usd')
  })
})
