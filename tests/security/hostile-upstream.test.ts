// Providers whose answers cost time out of all proportion to their size: JSON that is nested without end, names without
// end, comments without end.
import { afterAll, describe, expect, test } from 'bun:test'
import { KINDS } from '../../src/providers/kinds.ts'
import { entry, testGateway } from '../inference/gateway.ts'
import { startUpstream } from '../services/upstream.ts'

const upstream = startUpstream()
afterAll(() => upstream.stop())

const DEEP = '['.repeat(40_000) + ']'.repeat(40_000)
const DEEP_OBJECT = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
const named = (names: number): string => `{${Array.from({ length: names }, (_, i) => `"n${i}":0`).join(',')}}`
const NAMES = named(190_000)
/** Some more than the bound, and far fewer than 64 MiB hold. */
const MANY = `[${'0,'.repeat(1_000_001)}0]`
/** Far more than a refusal takes on a slow machine, and far less than parsing and printing take. */
const MOST_MS = 700

/** Whole answers and events of a stream, by the kind of the provider; `@` is where the hostile value stands. */
const WIRES: Readonly<Record<string, { readonly whole: readonly string[]; readonly events: readonly string[] }>> = {
  openai_compatible: {
    whole: [
      '{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":@},"finish_reason":"stop"}]}',
      '{"id":"a","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":@}',
      '{"id":"a","choices":[{"index":0,"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":@}}]}}]}',
      '{"error":@}',
    ],
    events: [
      '{"id":"a","choices":[{"index":0,"delta":{"content":@}}]}',
      '{"id":"a","choices":[],"usage":@}',
      '{"id":"a","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":@}}]}}]}',
    ],
  },
  anthropic: {
    whole: [
      '{"type":"message","content":[{"type":"text","text":@}],"stop_reason":"end_turn"}',
      '{"type":"message","content":[{"type":"tool_use","id":"t","name":"f","input":@}],"stop_reason":"tool_use"}',
      '{"type":"message","content":[{"type":"text","text":"a"}],"usage":@}',
    ],
    events: [
      '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":@}}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":@}}',
      '{"type":"message_delta","delta":{},"usage":@}',
    ],
  },
  gemini: {
    whole: [
      '{"candidates":[{"content":{"parts":[{"text":@}]},"finishReason":"STOP"}]}',
      '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":@}}]}}]}',
      '{"candidates":[],"usageMetadata":@}',
    ],
    events: ['{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":@}}]}}]}', '{"usageMetadata":@}'],
  },
  ollama: {
    whole: [
      '{"message":{"role":"assistant","content":@},"done":true}',
      '{"message":{"tool_calls":[{"function":{"name":"f","arguments":@}}]},"done":true}',
    ],
    events: [],
  },
  cohere: {
    whole: [
      '{"message":{"content":[{"type":"text","text":@}]},"finish_reason":"COMPLETE"}',
      '{"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":@}}]},"usage":@}',
    ],
    events: ['{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":@}}}}'],
  },
  bedrock: {
    whole: [
      '{"output":{"message":{"content":[{"toolUse":{"toolUseId":"t","name":"f","input":@}}]}},"stopReason":"tool_use"}',
    ],
    events: [],
  },
}

const gatewayOf = (kind: string) =>
  testGateway({
    entries: [
      entry({
        kind,
        baseUrl: upstream.baseUrl,
        secret: 'sk-secret-0123456789',
        region: 'us-east-1',
        contextWindow: 10_000_000,
      }),
    ],
    kinds: [...KINDS.values()],
  })

/** How long the event loop stands still at most while the work runs. */
const standstillOf = async <Result>(work: () => Promise<Result>): Promise<[Result, number]> => {
  let last = performance.now()
  let most = 0
  const look = () => {
    most = Math.max(most, performance.now() - last)
    last = performance.now()
  }
  const timer = setInterval(look, 5)
  const result = await work()
  look()
  clearInterval(timer)
  return [result, most]
}

describe.each(Object.entries(WIRES))('an answer of %s', (kind, { whole, events }) => {
  const asked = async (stream: boolean, body: string, status = 200) => {
    const gateway = gatewayOf(kind)
    upstream.behave({ body, status, headers: { 'content-type': stream ? 'text/event-stream' : 'application/json' } })
    const messages = [{ role: 'user', content: 'hi' }]
    const [answer, standstillMs] = await standstillOf(async () => {
      const response = await gateway.chat({ model: 'small', stream, messages })
      return { status: response.status, text: await response.text() }
    })
    gateway.close()
    expect(standstillMs).toBeLessThan(MOST_MS)
    return answer
  }

  for (const [name, value] of Object.entries({ lists: DEEP, objects: DEEP_OBJECT, names: NAMES })) {
    test.each([...whole])(`S43: nested or named without end is an upstream error (${name}): %s`, async (template) => {
      const { status, text } = await asked(false, template.replaceAll('@', value))
      expect([status, JSON.parse(text).error.code]).toEqual([502, 'upstream_error'])
    })

    test.each([...events])(`S43: so is an event of a stream (${name}): %s`, async (template) => {
      const { status, text } = await asked(true, `data: ${template.replaceAll('@', value)}\n\n`)
      expect([status, JSON.parse(text).error.code]).toEqual([502, 'upstream_error'])
    })
  }

  test('S43: so is one with more values than any answer has', async () => {
    const { status, text } = await asked(false, whole[0]!.replaceAll('@', MANY))
    expect([status, JSON.parse(text).error.code]).toEqual([502, 'upstream_error'])
  })

  test('S43: a failure that is nested without end is one without words', async () => {
    const deep = `{"error":{"message":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`
    const { status, text } = await asked(false, deep, 400)
    expect([status, text.length < 2_000]).toEqual([400, true])
  })
})

test('S43: comments without end are no stream, as they are and in gzip', async () => {
  const comments = Buffer.alloc(320 * 1024 * 1024, ': keep-alive\n\n')
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const isPlain = (await request.text()).includes('plain')
      const headers = { 'content-type': 'text/event-stream' }
      if (isPlain) return new Response(comments, { headers })
      return new Response(Bun.gzipSync(comments, { level: 1 }), { headers: { ...headers, 'content-encoding': 'gzip' } })
    },
  })
  const gateway = testGateway({ entries: [entry({ baseUrl: `http://127.0.0.1:${server.port}/v1` })] })
  for (const content of ['plain', 'gzip']) {
    const beganMs = performance.now()
    const response = await gateway.chat({ model: 'small', stream: true, messages: [{ role: 'user', content }] })
    const { error } = (await response.json()) as { error: { code: string } }
    expect([content, response.status, error.code]).toEqual([content, 502, 'upstream_error'])
    expect(performance.now() - beganMs).toBeLessThan(10_000)
  }
  gateway.close()
  await server.stop(true)
}, 60_000)

const INNER: [name: string, value: string][] = [
  ['nested', DEEP_OBJECT],
  // Not longer than what is checked at all.
  ['named', named(30_000)],
]

test.each(INNER)('S43: arguments of a tool that are %s without end in a request are refused', async (_, value) => {
  for (const kind of ['anthropic', 'gemini', 'ollama', 'bedrock']) {
    const gateway = gatewayOf(kind)
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: `{"a":${value}}` } }
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c', content: 'a' },
    ]
    const [response, standstillMs] = await standstillOf(() => gateway.chat({ model: 'small', messages }))
    const { error } = (await response.json()) as { error: { message: string } }
    expect([kind, response.status, error.message]).toEqual([kind, 400, 'arguments must be the JSON text of an object'])
    expect(standstillMs).toBeLessThan(MOST_MS)
    gateway.close()
  }
})

test.each(INNER)('S43: an answer whose content is JSON that is %s without end breaks its format', async (_, text) => {
  const gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl, capabilities: ['chat', 'json_mode'] })] })
  upstream.behave({ text })
  const messages = [{ role: 'user', content: 'hi' }]
  const [response, standstillMs] = await standstillOf(() =>
    gateway.chat({ model: 'small', messages, response_format: { type: 'json_object' } }),
  )
  const { error } = (await response.json()) as { error: { message: string } }
  expect([response.status, error.message]).toEqual([400, expect.stringContaining('the answer is not JSON')])
  expect(standstillMs).toBeLessThan(MOST_MS)
  gateway.close()
})
