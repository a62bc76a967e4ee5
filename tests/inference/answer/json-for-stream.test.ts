// Servers that answer a streaming request with JSON: an error, which some send with a success status, or the whole
// answer, from servers without streaming.
import { afterEach, describe, expect, test } from 'bun:test'
import { BareJson, mayBegin } from '../../../src/lib/json/bare-json.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, type TestGateway, testGateway } from '../gateway.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const answered = async (kind: string, body: unknown): Promise<{ gateway: TestGateway; response: Response }> => {
  const upstream = startUpstream()
  // No terminator of a frame behind it, and blanks before it.
  upstream.behave({ body: ` \n${JSON.stringify(body, null, 2)}`, headers: { 'content-type': 'application/json' } })
  const gateway = testGateway({
    entries: [entry({ kind, baseUrl: upstream.baseUrl, secret: 'sk-test' })],
    kinds: [kindOf(kind)!],
  })
  closing.push(
    () => gateway.close(),
    () => upstream.stop(),
  )
  const ask = { model: 'small', stream: true, messages: [{ role: 'user', content: 'hi' }] }
  return { gateway, response: await gateway.chat({ ...ask, stream_options: { include_usage: true } }) }
}

describe('an error', () => {
  test.each([
    ['openai_compatible', { error: { code: 402, message: 'Insufficient credits' } }, 402, 'quota_exceeded'],
    ['openai_compatible', { error: { code: 429, message: 'Too many at once' } }, 429, 'rate_limited'],
    ['anthropic', { type: 'error', error: { type: 'rate_limit_error', message: 'slow' } }, 429, 'rate_limited'],
    ['cohere', { message: 'it broke' }, 502, 'upstream_error'],
  ])('of %s is what it says: %j', async (kind, body, status, code) => {
    const { response } = await answered(kind, body)
    expect(response.status).toBe(status)
    const { error } = (await response.json()) as { error: { code: string; message: string } }
    expect(error.code).toBe(code)
    expect(JSON.stringify(body)).toContain(error.message)
  })

  test('what is neither an error nor an answer is a stream that ended early', async () => {
    const { response } = await answered('openai_compatible', { hello: 'world' })
    expect([response.status, await response.text()]).toEqual([502, expect.stringContaining('ended early')])
  })
})

test('a whole answer is streamed in one chunk, and charged by its usage', async () => {
  const tool_calls = [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: { at: 1 } } }]
  const { gateway, response } = await answered('openai_compatible', {
    ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1_700_000_000, model: 'm' },
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello', tool_calls }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  })
  expect(response.status).toBe(200)
  const frames = await framesOf(response)
  const called = { name: 'look', arguments: '{"at":1}' }
  expect(frames).toMatchObject([
    {
      object: 'chat.completion.chunk',
      choices: [
        {
          delta: { role: 'assistant', content: 'Hello', tool_calls: [{ index: 0, id: 'call_1', function: called }] },
          finish_reason: 'stop',
        },
      ],
    },
    { choices: [], usage: { prompt_tokens: 10, completion_tokens: 5 } },
    '[DONE]',
  ])
  expect(JSON.stringify(frames)).not.toContain('"message"')
  await gateway.spool.untilSettled()
  expect(gateway.spool.settled()[0]).toMatchObject({ outcome: 'success', prompt_tokens: 10, completion_tokens: 5 })
})

test('a message at the end of a stream, which says all of it again, adds nothing', () => {
  const decoder = kindOf('openai_compatible')!.stream()
  const chunk = (choice: object) => ({
    event: null,
    data: JSON.stringify({
      ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' },
      choices: [choice],
    }),
  })
  const parts = [
    ...decoder.push(chunk({ index: 0, delta: { role: 'assistant', content: 'Hello' }, finish_reason: null })),
    ...decoder.push(chunk({ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' })),
  ]
  expect(parts.map(({ text }) => text)).toEqual(['Hello', ''])
  expect(JSON.parse(parts[1]!.json!).choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
})

describe('a body that may be JSON', () => {
  test('is told by its first sign', () => {
    const told = (text: string) => [mayBegin(text), mayBegin(Buffer.from(text))]
    for (const text of ['{', ' \r\n\t{"a":1}']) expect(told(text)).toEqual([true, true])
    for (const text of ['data: {}', ': comment', '<html>', '[1]']) expect(told(text)).toEqual([false, false])
    for (const text of ['', '\n \n']) expect(told(text)).toEqual([null, null])
  })

  test('comes whole wherever it is cut, is none without its end, and is not held beyond a MiB', () => {
    const json = '{"a":"é€😀"}'
    const bytes = Buffer.from(json)
    for (let at = 1; at < bytes.length; at++) {
      const body = new BareJson()
      expect([body.takes(bytes.subarray(0, at)), body.takes(bytes.subarray(at))]).toEqual([true, true])
      expect(body.end()).toBe(json)
    }
    const cut = new BareJson()
    cut.takes('{"a":')
    expect(cut.end()).toBeNull()
    expect(new BareJson().takes(`{${' '.repeat(1024 * 1024)}`)).toBe(false)
  })
})
