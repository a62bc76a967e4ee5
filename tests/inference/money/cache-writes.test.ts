// Tokens that are written to a vendor's cache cost more than other prompt tokens: they are reserved at the highest
// price and charged by the reported usage.
import { afterEach, describe, expect, test } from 'bun:test'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import { reservedNanoUsd } from '../../../src/inference/money/estimate.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { startUpstream } from '../../services/upstream.ts'
import { budgetRow, budgetWorld } from '../../state/budgets/world.ts'
import { entry, testGateway } from '../gateway.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const PRICES = { inputCostPerMillion: 1, outputCostPerMillion: 1, contextWindow: null }
const HARD = budgetRow({ limit_nano_usd: 1_000_000_000 })

const setUp = (row: Partial<CatalogueEntry>, body: object) => {
  const world = budgetWorld(HARD)
  world.nowMs = Date.now()
  const upstream = startUpstream()
  upstream.behave({ body: JSON.stringify(body) })
  const budgets = world.open('i')
  const gateway = testGateway({
    entries: [
      entry({ ...PRICES, secret: 'AKID:secretsecret', region: 'us-east-1', baseUrl: upstream.baseUrl, ...row }),
    ],
    kinds: [kindOf(row.kind!)!],
    budgets,
  })
  closing.push(
    () => gateway.close(),
    () => upstream.stop(),
    () => world.close(),
  )
  return { gateway, budgets, upstream }
}

const written = (cache_control: object | null) => ({
  model: 'small',
  max_tokens: 10,
  messages: [
    { role: 'user', content: [{ type: 'text', text: 'x'.repeat(1_000), ...(cache_control && { cache_control }) }] },
  ],
})
const HOUR = { type: 'ephemeral', ttl: '1h' }
const claude = (usage: object) => ({
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'a', stop_reason: 'end_turn' },
  ...{ content: [{ type: 'text', text: 'hi' }], usage: { input_tokens: 10, output_tokens: 0, ...usage } },
})
const converse = (usage: object) => ({
  output: { message: { role: 'assistant', content: [{ text: 'hi' }] } },
  stopReason: 'end_turn',
  usage: { inputTokens: 10, outputTokens: 0, ...usage },
})

const chat = (details: object) => ({
  ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'a' },
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 200, completion_tokens: 0, total_tokens: 200, prompt_tokens_details: details },
})

const split = { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 }
const CHARGED: readonly (readonly [string, Partial<CatalogueEntry>, object, object | null, number])[] = [
  [
    'split by time',
    { kind: 'anthropic' },
    claude({ cache_creation_input_tokens: 300, cache_creation: split }),
    HOUR,
    10 + 125 + 400,
  ],
  [
    'five minutes where nothing else was asked for',
    { kind: 'anthropic' },
    claude({ cache_creation_input_tokens: 100 }),
    { type: 'ephemeral' },
    10 + 125,
  ],
  [
    'an hour where it was asked for, and the usage does not say',
    { kind: 'anthropic' },
    claude({ cache_creation_input_tokens: 100 }),
    HOUR,
    10 + 200,
  ],
  [
    'beside what is read',
    { kind: 'anthropic' },
    claude({ cache_creation_input_tokens: 100, cache_read_input_tokens: 50 }),
    { type: 'ephemeral' },
    10 + 125 + 50,
  ],
  [
    'Claude on Bedrock',
    { kind: 'bedrock', upstreamModel: 'anthropic.claude-x' },
    converse({ cacheWriteInputTokens: 100, cacheDetails: [{ ttl: '1h', inputTokens: 100 }] }),
    HOUR,
    10 + 200,
  ],
  [
    'Nova on Bedrock, which takes no more for it',
    { kind: 'bedrock', upstreamModel: 'amazon.nova-lite-v1:0' },
    converse({ cacheWriteInputTokens: 100 }),
    HOUR,
    110,
  ],
  [
    'GPT-5.6, which writes without being asked',
    { kind: 'openai', upstreamModel: 'gpt-5.6-sol' },
    chat({ cached_tokens: 40, cache_write_tokens: 100 }),
    null,
    100 + 125,
  ],
  [
    'a later one behind a deployment',
    { kind: 'azure_openai', upstreamModel: 'prod-chat', cachedInputCostPerMillion: 0.1 },
    chat({ cached_tokens: 40, cache_write_tokens: 100 }),
    null,
    60 + 4 + 125,
  ],
  [
    'GPT before 5.6, which takes no more for it',
    { kind: 'openai', upstreamModel: 'gpt-5.5' },
    chat({ cache_write_tokens: 100 }),
    null,
    200,
  ],
  [
    'GPT-5.6 on Bedrock',
    { kind: 'bedrock', upstreamModel: 'us.openai.gpt-5.6-luna' },
    converse({ cacheWriteInputTokens: 100 }),
    HOUR,
    10 + 125,
  ],
  ['nothing written', { kind: 'anthropic' }, claude({}), HOUR, 10],
]

describe('charged for what was written to a cache', () => {
  test.each(CHARGED)('%s', async (_, row, body, control, tokens) => {
    const { gateway, budgets } = setUp(row, body)
    const response = await gateway.chat(written(control))
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
    await gateway.spool.untilSettled()
    const [settled] = gateway.spool.settled()
    expect(settled!.cost_nano_usd).toBe(tokens * 1_000)
    expect(settled!.cost_basis).toBe('measured')
    expect(budgets.standing(HARD)!.spent.nano_usd).toBe(tokens * 1_000)
    expect(gateway.spool.admitted()[0]!.reserved_nano_usd!).toBeGreaterThanOrEqual(tokens * 1_000)
  })
})

describe('reserved for what may be written to a cache', () => {
  const factorOf = (kind: string, body: object, raw = JSON.stringify(body), upstreamModel = 'small') => {
    const intent = readIntent(raw, JSON.parse(raw), new Headers())
    const row = entry({ ...PRICES, kind, upstreamModel, outputCostPerMillion: 0 })
    return Math.floor(reservedNanoUsd(intent, row)! / 10 / intent.promptBytes) / 100
  }

  test('the dearest time that the body asks for, at the vendors that charge for it', () => {
    expect(factorOf('anthropic', written(null))).toBe(1)
    expect(factorOf('anthropic', written({ type: 'ephemeral' }))).toBe(1.25)
    for (const kind of ['anthropic', 'bedrock', 'openrouter']) expect(factorOf(kind, written(HOUR))).toBe(2)
    expect(factorOf('anthropic', { ...written(null), cache_control: HOUR })).toBe(2)
    expect(factorOf('groq', written(HOUR))).toBe(1)
  })

  test('by OpenAI since GPT-5.6 whatever the body says, and never before', () => {
    const of = (kind: string, model: string, control: object | null = null) =>
      factorOf(kind, written(control), JSON.stringify(written(control)), model)
    // biome-ignore format: by family
    const older = [
      'gpt-3.5-turbo', 'gpt-35-turbo', 'gpt-4o', 'gpt-4.1-mini', 'chatgpt-4o-latest', 'o3', 'gpt-5', 'gpt-5-mini', 'gpt-5-2025-08-07', 'gpt-5.1', 'gpt-5.5-pro',
      'gpt-oss-120b', 'ft:gpt-4.1:me::1',
    ]
    const later = [
      'gpt-5.6-sol',
      'gpt-5.6',
      'gpt-5.10',
      'gpt-6-luna',
      'gpt-56',
      'gpt-10',
      'ft:gpt-5.6-luna:me::1',
      'prod',
    ]
    for (const kind of ['openai', 'azure_openai']) {
      for (const model of older) expect([model, of(kind, model, HOUR)]).toEqual([model, 1])
      for (const model of later) expect([model, of(kind, model)]).toEqual([model, 1.25])
    }
    for (const [kind, at] of [
      ['openrouter', 'openai/'],
      ['bedrock', 'us.openai.'],
    ] as const) {
      expect(of(kind, `${at}gpt-6-luna`)).toBe(1.25)
      expect(of(kind, `${at}gpt-oss-20b`)).toBe(1)
    }
    expect(of('bedrock', 'openai.gpt-oss-20b-1:0', HOUR)).toBe(1)
    expect(of('groq', 'openai/gpt-5.6')).toBe(1)
  })

  test('not for words of a prompt', () => {
    for (const content of [
      'how long is 1h in the cache?',
      '{"cache_control": {"ttl": "1h"}}',
      'a \\u003c b, \\u0063ache_control',
      'the cachePoint of "1h"',
    ]) {
      const body = { ...written(null), messages: [{ role: 'user', content }] }
      expect([content, factorOf('anthropic', body)]).toEqual([content, 1])
      const marked = { ...body, cache_control: { type: 'ephemeral' } }
      expect([content, factorOf('anthropic', marked)]).toEqual([content, 1.25])
    }
    // Some libraries write these signs as escapes.
    const raw = JSON.stringify({ ...written(null), user: '<' }).replace('<', '\\u003c')
    expect(factorOf('anthropic', {}, raw)).toBe(1)
  })

  test('however it is spelled in JSON', () => {
    const body = written(HOUR)
    const raw = JSON.stringify(body).replace('cache_control', '\\u0063ache_control').replace('"1h"', '"\\u0031h"')
    expect(factorOf('anthropic', body, raw)).toBe(2)
  })
})

test('a dearer service has no price where money is limited: refused by the name of the field', async () => {
  const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }] }
  const ask = { model: 'small', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] }
  const { gateway, upstream } = setUp({ kind: 'openai' }, answer)
  const refused = await gateway.chat({ ...ask, service_tier: 'priority' })
  expect(refused.status).toBe(402)
  expect(await refused.json()).toMatchObject({
    error: { code: 'quota_exceeded', param: 'service_tier', details: { rejected_reason: 'no_price' } },
  })
  expect(upstream.received).toHaveLength(0)
  expect((await gateway.chat({ ...ask, service_tier: 'flex' })).status).toBe(200)
  expect(upstream.received[0]).toMatchObject({ body: { service_tier: 'flex' } })
})
