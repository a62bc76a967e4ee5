// Kinds whose wire is their own, through the whole data plane: what their fixtures say is what a client gets.
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { UpstreamStream } from '../../../src/inference/attempt/upstream-stream.ts'
import { KINDS } from '../../../src/providers/kinds.ts'
import type { StreamPart } from '../../../src/providers/port.ts'
import { entry, framesOf, type TestGateway, testGateway } from '../gateway.ts'

interface Call {
  readonly path: string
  readonly body: Record<string, unknown>
}
const FIXTURES = `${import.meta.dir}/../../fixtures/providers`
const calls: Call[] = []
let answer: string | Uint8Array<ArrayBuffer> = ''
/** The connection stays open after the answer, for ever. */
let hangs = false
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    calls.push({ path: new URL(request.url).pathname, body: (await request.json()) as Call['body'] })
    if (!hangs) return new Response(answer)
    return new Response(
      new ReadableStream({
        start: (controller) =>
          controller.enqueue(typeof answer === 'string' ? new TextEncoder().encode(answer) : answer),
        pull: () => new Promise<void>(() => {}),
      }),
    )
  },
})
let gateway: TestGateway
afterEach(() => {
  gateway.close()
  calls.length = 0
  hangs = false
})
afterAll(() => server.stop(true))

const open = (kind: string, path = '') => {
  const baseUrl = `http://127.0.0.1:${server.port}${path}`
  gateway = testGateway({
    kinds: [...KINDS.values()],
    entries: [entry({ kind, baseUrl, secret: 'sk-test', upstreamModel: 'upstream-name' })],
  })
}
const fixture = (name: string) => readFileSync(`${FIXTURES}/${name}`, 'utf8')
const firstAnswer = (kind: string): string =>
  (JSON.parse(fixture(`${kind}/answer.json`)) as { body: string }[])[0]!.body
const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const contentOf = (frames: readonly unknown[]): string =>
  (frames as { choices?: { delta?: { content?: string } }[] }[])
    .map((frame) => frame.choices?.[0]?.delta?.content ?? '')
    .join('')

describe('cohere', () => {
  test('an answer is charged at what is billed, and says what was counted', async () => {
    open('cohere', '/v1')
    answer = firstAnswer('cohere')
    const response = await gateway.chat(ask)
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({
      model: 'upstream-name',
      usage: { prompt_tokens: 500, completion_tokens: 9 },
      gateway: { routed_model: 'small', estimated_cost_usd: (5 * 1 + 7 * 2) / 1e6 },
    })
    expect(calls).toMatchObject([{ path: '/v2/chat', body: { model: 'upstream-name' } }])
    expect(gateway.spool.settled()).toMatchObject([
      {
        prompt_tokens: 500,
        completion_tokens: 9,
        cached_prompt_tokens: 448,
        cost_nano_usd: 19_000,
        cost_basis: 'measured',
      },
    ])
  })

  test('a stream', async () => {
    open('cohere')
    answer = fixture('cohere/text.sse')
    const frames = await framesOf(await gateway.chat({ ...ask, stream: true, stream_options: { include_usage: true } }))
    expect(contentOf(frames)).toBe('Été 😀')
    expect(frames.at(-1)).toBe('[DONE]')
    expect(frames.at(-2)).toMatchObject({ choices: [], usage: { prompt_tokens: 1394, completion_tokens: 9 } })
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'success', cost_nano_usd: 8 * 1_000 + 5 * 2_000 }])
  })
})

test.each([
  ['cohere', 'failed.sse', { prompt_tokens: 1_394, completion_tokens: 9, cost_nano_usd: 8 * 1_000 + 5 * 2_000 }],
  ['bedrock', 'malformed-tool.eventstream', { prompt_tokens: 12, completion_tokens: 5, cost_nano_usd: 22_000 }],
  ['gemini', 'malformed-call.sse', { prompt_tokens: 7, completion_tokens: 98 }],
])('what %s says that a failed stream has used is what it costs', async (kind, file, used) => {
  open(kind)
  answer = new Uint8Array(readFileSync(`${FIXTURES}/${kind}/${file}`))
  expect((await gateway.chat({ ...ask, stream: true })).status).toBe(502)
  const [settled] = gateway.spool.settled()
  expect(settled!.attempts[0]).toMatchObject({ outcome: 'error', ...used, cost_basis: 'measured' })
})

describe('ollama', () => {
  test('an answer', async () => {
    open('ollama', '/api/')
    answer = firstAnswer('ollama')
    const response = await gateway.chat({ ...ask, max_tokens: 20 })
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({
      model: 'llama3.2',
      choices: [{ message: { content: 'Hello there' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 26, completion_tokens: 298 },
    })
    expect(calls).toMatchObject([{ path: '/api/chat', body: { model: 'upstream-name', options: { num_predict: 20 } } }])
    expect(gateway.spool.settled()).toMatchObject([
      { cost_basis: 'measured', raw_usage: { prompt_eval_count: 26, eval_duration: 4_709_213_000 } },
    ])
  })

  test('a stream of lines becomes a stream of events', async () => {
    open('ollama')
    answer = fixture('ollama/tools.ndjson')
    const frames = await framesOf(await gateway.chat({ ...ask, stream: true }))
    expect(contentOf(frames)).toBe('I look.')
    expect(frames.at(-1)).toBe('[DONE]')
    expect(frames.at(-2)).toMatchObject({ choices: [{ finish_reason: 'tool_calls' }] })
    expect(calls[0]!.body).toMatchObject({ stream: true })
    expect(gateway.spool.settled()).toMatchObject([
      { outcome: 'success', prompt_tokens: 26, completion_tokens: 5, cost_basis: 'measured' },
    ])
  })

  test('one that ends without done: true is interrupted, and says so', async () => {
    open('ollama')
    answer = fixture('ollama/early-end.ndjson')
    const frames = await framesOf(await gateway.chat({ ...ask, stream: true }))
    expect(contentOf(frames)).toBe('half')
    expect(frames.slice(-2)).toMatchObject([{ event: 'error', data: { error: { code: 'upstream_error' } } }, '[DONE]'])
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'interrupted', error_code: 'upstream_error' }])
  })

  test('one that never ends a line is given up', async () => {
    open('ollama')
    answer = `{"message":{"content":"${'x'.repeat(9 * 1024 * 1024)}`
    const response = await gateway.chat({ ...ask, stream: true })
    expect(response.status).toBe(502)
    expect(await response.json()).toMatchObject({
      error: { code: 'upstream_error', message: 'the provider sent an event that is too large' },
    })
  })

  test('a remote image costs no call', async () => {
    open('ollama')
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }
    const response = await gateway.chat({ ...ask, messages: [{ role: 'user', content: [image] }] })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      error: { code: 'invalid_request', param: 'messages[0].content[0].image_url.url' },
    })
    expect(calls).toEqual([])
  })
})

describe('gemini', () => {
  const streamed = { ...ask, stream: true, stream_options: { include_usage: true } }
  const path = '/v1beta/models/upstream-name:streamGenerateContent'

  test('an answer keeps its model and id, and thinking is paid for', async () => {
    open('gemini')
    answer = firstAnswer('gemini')
    const response = await gateway.chat(ask)
    expect(await response.json()).toMatchObject({
      id: 'resp-1',
      model: 'gemini-2.5-flash',
      choices: [{ message: { role: 'assistant', content: 'Hello there' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 12, completion_tokens: 23, completion_tokens_details: { reasoning_tokens: 20 } },
      gateway: { routed_model: 'small' },
    })
    expect(calls).toEqual([
      {
        path: '/v1beta/models/upstream-name:generateContent',
        body: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
      },
    ])
    expect(gateway.spool.settled()).toMatchObject([
      { prompt_tokens: 12, completion_tokens: 23, cost_basis: 'measured' },
    ])
  })

  test('a stream of text', async () => {
    open('gemini', '/v1beta')
    answer = fixture('gemini/text.sse')
    const frames = await framesOf(await gateway.chat(streamed))
    expect(contentOf(frames)).toBe('Été 😀')
    expect(frames.at(-1)).toBe('[DONE]')
    expect(frames.at(-2)).toMatchObject({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 98 } })
    expect(calls.map((call) => call.path)).toEqual([path])
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'success', completion_tokens: 98 }])
  })

  test('a stream of calls, the signature with the first', async () => {
    open('gemini')
    answer = fixture('gemini/thinking-tools.sse')
    const tools = [{ type: 'function', function: { name: 'look' } }]
    const frames = (await framesOf(await gateway.chat({ ...streamed, tools }))) as {
      choices?: { delta: { tool_calls?: object[] }; finish_reason: string | null }[]
    }[]
    const choices = frames.flatMap(({ choices = [] }) => choices)
    expect(choices.flatMap(({ delta }) => delta.tool_calls ?? [])).toMatchObject([
      { index: 0, function: { name: 'look' }, extra_content: { google: { thought_signature: 'c2ln' } } },
      { index: 1, id: 'fc-1', function: { name: 'rest', arguments: '{}' } },
      { index: 2, function: { name: 'rest' } },
    ])
    expect(choices.at(-1)?.finish_reason).toBe('tool_calls')
  })

  test('a blocked prompt is 400, streaming or not: nothing was said yet', async () => {
    for (const [body, file] of [
      [ask, JSON.stringify({ promptFeedback: { blockReason: 'SAFETY' } })],
      [streamed, fixture('gemini/blocked.sse')],
    ] as const) {
      open('gemini')
      answer = file
      const response = await gateway.chat(body)
      expect(response.status).toBe(400)
      expect(response.headers.get('x-gateway-retryable')).not.toBe('true')
      expect(await response.json()).toMatchObject({ error: { code: 'content_filtered' } })
      expect(calls).toHaveLength(1)
      calls.length = 0
      gateway.close()
    }
  })

  test('an error between the events of a stream is what it says', async () => {
    open('gemini')
    answer = fixture('gemini/error-bare.sse')
    const frames = await framesOf(await gateway.chat(streamed))
    expect(contentOf(frames)).toBe('one')
    expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'rate_limited' } } })
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'interrupted', error_code: 'rate_limited' }])
  })

  test('what comes along with a failure goes out before it, though the connection stays open', async () => {
    const left = fixture('gemini/malformed-beside-text.sse').split(/(?<=\n\n)/)
    const read = () => Promise.resolve({ done: false, value: Buffer.from(left.shift()!) })
    const reader = { read: () => (left.length > 0 ? read() : new Promise<never>(() => {})), cancel: async () => {} }
    const kind = KINDS.get('gemini')!
    const source = new UpstreamStream(reader, kind.stream(), kind.framing, true)
    const textOf = (parts: readonly StreamPart[] | null) => parts!.map(({ text }) => text).join('')
    expect(textOf(await source.next())).toBe('one')
    source.shown = true
    expect(textOf(await source.next())).toBe(' two')
    await expect(source.next()).rejects.toThrow('MALFORMED_FUNCTION_CALL')
  })
})

test.each([
  ['cohere', 'cohere/text.sse', 'Été 😀'],
  ['ollama', 'ollama/text.ndjson', 'Été 😀'],
  ['anthropic', 'anthropic/text.sse', 'Été 😀'],
])('%s: the last event ends a stream whose connection stays open', async (kind, file, text) => {
  open(kind)
  answer = fixture(file)
  hangs = true
  const frames = await framesOf(await gateway.chat({ ...ask, stream: true }))
  expect(contentOf(frames)).toBe(text)
  expect(frames.at(-1)).toBe('[DONE]')
  expect(gateway.spool.settled()).toMatchObject([{ outcome: 'success', cost_basis: 'measured' }])
})

describe('bedrock', () => {
  const streamed = { ...ask, stream: true, stream_options: { include_usage: true } }
  const frames = (name: string): Uint8Array<ArrayBuffer> =>
    new Uint8Array(readFileSync(`${FIXTURES}/bedrock/${name}.eventstream`))

  test('an answer; the cache is counted and paid for', async () => {
    open('bedrock')
    answer = firstAnswer('bedrock')
    const response = await gateway.chat({ ...ask, max_tokens: 9 })
    expect(await response.json()).toMatchObject({
      model: 'upstream-name',
      choices: [{ message: { role: 'assistant', content: 'Hello there' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 115, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 100 } },
    })
    expect(calls).toEqual([
      {
        path: '/model/upstream-name/converse',
        body: { messages: [{ role: 'user', content: [{ text: 'hi' }] }], inferenceConfig: { maxTokens: 9 } },
      },
    ])
    expect(gateway.spool.settled()).toMatchObject([
      { prompt_tokens: 115, cached_prompt_tokens: 100, completion_tokens: 7, cost_basis: 'measured' },
    ])
  })

  test.each([false, true])('a stream of frames becomes a stream of events (open for ever: %p)', async (open_) => {
    open('bedrock')
    hangs = open_
    answer = frames('text')
    const got = await framesOf(await gateway.chat(streamed))
    expect(contentOf(got)).toBe('Grüße 👋')
    expect(got.at(-1)).toBe('[DONE]')
    expect(got.at(-2)).toMatchObject({ choices: [], usage: { prompt_tokens: 120, completion_tokens: 5 } })
    expect(calls.map(({ path }) => path)).toEqual(['/model/upstream-name/converse-stream'])
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'success', completion_tokens: 5 }])
  })

  test('numbers beyond 2^53 come back as they were written', async () => {
    open('bedrock')
    answer = frames('thinking-tools')
    const tools = [{ type: 'function', function: { name: 'look' } }]
    const got = (await framesOf(await gateway.chat({ ...streamed, tools }))) as {
      choices?: { delta: { tool_calls?: { index: number; function: { arguments: string } }[] } }[]
    }[]
    const pieces = got.flatMap(({ choices = [] }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []))
    const args = pieces.filter(({ index }) => index === 0).map((call) => call.function.arguments)
    expect(args.join('')).toBe('{"at": 12345678901234567890}')
  })

  test('throttled before the first word: a failure, with its code', async () => {
    open('bedrock')
    answer = frames('throttled')
    const response = await gateway.chat(streamed)
    expect(response.status).toBe(429)
    expect(await response.json()).toMatchObject({ error: { code: 'rate_limited' } })
  })

  test('a failure in one breath with the first word has reached nobody', async () => {
    open('bedrock')
    answer = frames('model-error')
    const response = await gateway.chat(streamed)
    expect(response.status).toBe(502)
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_error', message: 'Model Stream Error' } })
  })

  test('a damaged frame is an error of its own', async () => {
    open('bedrock')
    answer = frames('text').slice()
    answer[20]! ^= 1
    const response = await gateway.chat(streamed)
    expect(response.status).toBe(502)
    expect(await response.json()).toMatchObject({
      error: { code: 'upstream_error', message: 'the provider sent a frame that is damaged' },
    })
  })
})
