// What a client sent reaches the upstream of every kind as it was sent, through the whole gateway.
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'
import { entry, type TestGateway, testGateway } from '../gateway.ts'

let sent = ''
let answer = ''
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    sent = await request.text()
    return new Response(answer, { headers: { 'content-type': 'application/json' } })
  },
})
let gateway: TestGateway | null = null
afterEach(() => gateway?.close())
afterAll(() => server.stop(true))

const open = (kind: string): TestGateway => {
  gateway = testGateway({
    kinds: [...KINDS.values()],
    entries: [
      entry({
        kind,
        baseUrl: `http://127.0.0.1:${server.port}/v1`,
        secret: 'sk-test',
        contextWindow: null,
        upstreamModel: 'claude-sonnet-4-5',
      }),
    ],
  })
  return gateway
}

/** An answer that the ceiling cut, in the wire of the kind. */
const cutAnswers: Readonly<Record<string, unknown>> = {
  anthropic: {
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'cut' }],
    stop_reason: 'max_tokens',
    usage: { input_tokens: 11, output_tokens: 7 },
  },
  bedrock: {
    output: { message: { role: 'assistant', content: [{ text: 'cut' }] } },
    stopReason: 'max_tokens',
    usage: { inputTokens: 11, outputTokens: 7, totalTokens: 18 },
  },
  gemini: {
    candidates: [{ content: { role: 'model', parts: [{ text: 'cut' }] }, finishReason: 'MAX_TOKENS' }],
    usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 },
  },
  cohere: {
    id: 'c',
    finish_reason: 'MAX_TOKENS',
    message: { role: 'assistant', content: [{ type: 'text', text: 'cut' }] },
    usage: { billed_units: { input_tokens: 11, output_tokens: 7 }, tokens: { input_tokens: 11, output_tokens: 7 } },
  },
  ollama: {
    model: 'm',
    created_at: '2026-01-01T00:00:00Z',
    message: { role: 'assistant', content: 'cut' },
    done: true,
    done_reason: 'length',
    prompt_eval_count: 11,
    eval_count: 7,
  },
}
const OPENAI = {
  id: 'x',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'cut' }, finish_reason: 'length' }],
  usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
}
const kinds = [...KINDS.keys()].filter((kind) => kind !== 'sandbox')
const LIMITS = ['max_tokens', 'max_completion_tokens', 'maxTokens', 'maxOutputTokens', 'num_predict']

/** Every number that stands under one of these names, however deep. */
const limitsIn = (value: unknown, name = ''): number[] => {
  if (typeof value === 'number') return LIMITS.includes(name) ? [value] : []
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([key, member]) => limitsIn(member, key))
}

describe('numbers beyond 2^53 and unknown fields', () => {
  const BIG = '12345678901234567890'
  const raw = `{"model":"small","xUnknown":{"n":${BIG},"f":1.10e3,"s":"\\u00e9"},
    "tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"type":"integer","maximum":${BIG}}}}}}],
    "messages":[{"role":"user","content":"hi"}]}`

  test.each(kinds)('S25: %s keeps them', async (kind) => {
    answer = JSON.stringify(cutAnswers[kind] ?? OPENAI)
    const response = await open(kind).send('/v1/chat/completions', { raw, method: 'POST' })
    expect(response.status).toBe(200)
    // Bedrock has a place of its own for what is not its own.
    const holder = JSON.parse(sent) as Record<string, Record<string, unknown>>
    expect(holder.xUnknown ?? holder.additionalModelRequestFields?.xUnknown).toEqual({
      n: Number(BIG),
      f: 1100,
      s: 'é',
    })
    expect(sent.split(BIG)).toHaveLength(3)
  })
})

// docs/behaviour.md: "Chat requests"
describe('of two limits max_completion_tokens is sent, alone, and said to be applied', () => {
  test.each(kinds)('%s', async (kind) => {
    answer = JSON.stringify(cutAnswers[kind] ?? OPENAI)
    const body = { model: 'small', messages: [{ role: 'user', content: 'hi' }], max_tokens: 9 }
    const both = await open(kind).chat({ ...body, max_completion_tokens: 7 })
    expect(limitsIn(JSON.parse(sent))).toEqual([7])
    const { gateway: block } = (await both.json()) as { gateway: { completion: unknown } }
    expect(block.completion).toEqual({
      finish_reason: 'length',
      truncated: true,
      reason: 'max_tokens',
      requested_tokens: 7,
      applied_tokens: 7,
      prompt_tokens: 11,
      completion_tokens: 7,
      budget_ms: 600_000,
    })
    await gateway!.chat(body)
    expect(limitsIn(JSON.parse(sent))).toEqual([9])
  })

  test.each(kinds)('%s: a client without a limit is told of none', async (kind) => {
    answer = JSON.stringify(cutAnswers[kind] ?? OPENAI)
    const response = await open(kind).chat({ model: 'small', messages: [{ role: 'user', content: 'hi' }] })
    // Anthropic's wire requires one: the catalogue's.
    expect(limitsIn(JSON.parse(sent))).toEqual(kind === 'anthropic' ? [4_096] : [])
    const { gateway: block } = (await response.json()) as { gateway: { completion: object } }
    expect(block.completion).toMatchObject({ truncated: true, reason: 'max_tokens' })
    expect(block.completion).not.toHaveProperty('requested_tokens')
    expect(block.completion).not.toHaveProperty('applied_tokens')
  })
})

test('a body of 10 MiB and 64 levels goes through, more does not', async () => {
  answer = JSON.stringify(OPENAI)
  const { send } = open('openai_compatible')
  const limit = 10 * 1024 * 1024
  const bodyOf = (bytes: number) => {
    const head = '{"model":"small","messages":[{"role":"user","content":"hi"}],"x":"'
    return `${head}${'x'.repeat(bytes - head.length - 2)}"}`
  }
  expect((await send('/v1/chat/completions', { raw: bodyOf(limit), method: 'POST' })).status).toBe(200)
  expect(sent.length).toBeGreaterThan(limit)
  expect((await send('/v1/chat/completions', { raw: bodyOf(limit + 1), method: 'POST' })).status).toBe(413)
  const nested = (levels: number) =>
    `{"model":"small","messages":[{"role":"user","content":"hi"}],"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
  expect((await send('/v1/chat/completions', { raw: nested(64), method: 'POST' })).status).toBe(200)
  expect((await send('/v1/chat/completions', { raw: nested(65), method: 'POST' })).status).toBe(400)
})

test('the end user is metadata.user_id, else user, as a digest; both are sent on', async () => {
  answer = JSON.stringify(OPENAI)
  const { chat, spool } = open('openai_compatible')
  const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
  await chat({ ...ask, user: 'ada' })
  await chat({ ...ask, user: 'bob', metadata: { user_id: 'ada', more: 1 } })
  expect(JSON.parse(sent)).toMatchObject({ user: 'bob', metadata: { user_id: 'ada', more: 1 } })
  await chat({ ...ask, metadata: { user_id: 7 }, user: 'ada' })
  await chat({ ...ask, metadata: {} })
  const users = spool.admitted().map(({ user }) => user)
  expect(users[0]).toMatch(/^[0-9a-f]{64}$/)
  expect(users).toEqual([users[0]!, users[0]!, users[0]!, undefined])
  expect((await chat({ ...ask, metadata: 'ada' })).status).toBe(400)
})
