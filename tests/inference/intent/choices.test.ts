// Several choices, and answers that are cut short.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const upstream = startUpstream()
let gateway: TestGateway
beforeEach(() => {
  gateway?.close()
  upstream.behave({})
  gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const json = { response_format: { type: 'json_object' } }
const withUsage = { stream: true, stream_options: { include_usage: true } }

type Message = Record<string, unknown>
const whole = (...choices: [message: Message, finish: string][]) =>
  JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: choices.map(([message, finish_reason], index) => ({ index, message, finish_reason })),
  })
const chunk = (index: number, delta: Message, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index, delta, finish_reason }] })}\n\n`
const said = (content: string): [Message, string] => [{ role: 'assistant', content }, 'stop']

interface Frame {
  choices?: { index: number; finish_reason: string | null }[]
  gateway?: Record<string, unknown>
  event?: string
  data?: { error: Record<string, unknown>; gateway: Record<string, unknown> }
}
const frames = async (response: Response): Promise<Frame[]> => (await framesOf(response)) as Frame[]

// docs/behaviour.md: "Structured answers"
describe('of several choices', () => {
  test('each one must conform; what stood in a fence is put right in its place', async () => {
    upstream.behave({ body: whole(said('{"a":1}'), said('```json\n{"b":2}\n```'), said('{}')) })
    const body = (await (await gateway.chat({ ...ask, ...json, n: 3 })).json()) as {
      choices: { message: { content: string } }[]
      gateway: Record<string, unknown>
    }
    expect(body.choices.map(({ message }) => message.content)).toEqual(['{"a":1}', '{"b":2}', '{}'])
    expect(body.gateway.structured).toMatchObject({ valid: true, repaired: true })
  })

  test('one that does not breaks the answer, and is named', async () => {
    upstream.behave({ body: whole(said('{"a":1}'), said('no')) })
    const response = await gateway.chat({ ...ask, ...json, n: 2 })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      error: { code: 'invalid_request', param: 'response_format', message: expect.stringContaining('choice 1') },
      gateway: { structured: { requested: 'json_object', valid: false, repaired: false } },
    })
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'error', error_code: 'invalid_request' }])
  })

  test('those that call tools, refuse or were cut break nothing', async () => {
    const call = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }]
    upstream.behave({
      body: whole(
        [{ role: 'assistant', content: null, tool_calls: call }, 'tool_calls'],
        [{ role: 'assistant', content: null, refusal: 'no' }, 'stop'],
        [{ role: 'assistant', content: '{"a' }, 'length'],
      ),
    })
    const response = await gateway.chat({ ...ask, ...json, n: 3 })
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ gateway: { structured: { valid: null, error: null } } })
  })

  test('of a stream are told apart', async () => {
    const end = chunk(0, {}, 'stop') + chunk(1, {}, 'stop')
    upstream.next(
      {
        body: `${chunk(0, { content: '{"a"' }) + chunk(1, { content: '{' }) + chunk(0, { content: ':1}' }) + chunk(1, { content: '}' }) + end}data: [DONE]\n\n`,
      },
      { body: `${chunk(0, { content: '{}' }) + chunk(1, { content: 'no' }) + end}data: [DONE]\n\n` },
      { body: `${chunk(0, { content: '{}' }) + chunk(1, { refusal: 'no' }) + end}data: [DONE]\n\n` },
    )
    const two = { ...ask, ...json, ...withUsage, n: 2 }
    expect((await frames(await gateway.chat(two))).at(-2)!.gateway!.structured).toMatchObject({ valid: true })
    const broken = await frames(await gateway.chat(two))
    expect(broken.at(-2)).toMatchObject({
      event: 'error',
      data: {
        error: { code: 'invalid_request', param: 'response_format', message: expect.stringContaining('choice 1') },
        gateway: { provider: 'alpha', structured: { valid: false } },
      },
    })
    expect((await frames(await gateway.chat(two))).at(-2)!.gateway!.structured).toMatchObject({ valid: true })
  })

  test('the end of each is held until the outcome is written', async () => {
    upstream.behave({
      body: `${chunk(0, { content: 'a' }) + chunk(1, { content: 'b' }) + chunk(0, {}, 'stop') + chunk(1, {}, 'stop')}data: [DONE]\n\n`,
    })
    gateway.spool.before = (type) => {
      if (type === 'request.settled') throw new Error('disk')
    }
    const got = await frames(await gateway.chat({ ...ask, stream: true, n: 2 }))
    expect(got.flatMap(({ choices = [] }) => choices).map(({ finish_reason }) => finish_reason)).toEqual([null, null])
    expect(got.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'internal_error' } } })
  })
})

describe('of one choice in a stream', () => {
  const sends = (...pieces: string[]) => upstream.next({ body: `${pieces.join('')}data: [DONE]\n\n` })
  const last = async () => (await frames(await gateway.chat({ ...ask, ...json, ...withUsage }))).at(-2)!

  test('thoughts without an answer are a violation, a refusal is none', async () => {
    sends(chunk(0, { reasoning_content: 'hm' }), chunk(0, { content: '' }, 'stop'))
    expect(await last()).toMatchObject({ event: 'error', data: { gateway: { structured: { valid: false } } } })
    sends(chunk(0, { refusal: 'no' }), chunk(0, {}, 'stop'))
    expect((await last()).gateway!.structured).toMatchObject({ valid: null })
    sends(chunk(0, { content: 'Well: ' }), chunk(0, { refusal: 'no' }), chunk(0, {}, 'stop'))
    expect((await last()).gateway!.structured).toMatchObject({ valid: null })
  })

  test('a fence cannot be taken back: it is valid, and says so', async () => {
    sends(chunk(0, { content: '```json\n{"a"' }), chunk(0, { content: ':1}\n```' }), chunk(0, {}, 'stop'))
    expect((await last()).gateway!.structured).toMatchObject({ valid: true, repaired: true })
  })

  test('one that is too long to be kept is a violation that says so', async () => {
    const piece = chunk(0, { content: 'x'.repeat(600_000) })
    sends(
      chunk(0, { content: '{"a":"' }),
      piece,
      piece,
      piece,
      piece,
      chunk(0, { content: '"}' }),
      chunk(0, {}, 'stop'),
    )
    expect((await last()).data!.error.message).toContain('too long')
  })
})

describe('an error frame has the gateway block', () => {
  const breaking = { stopAfter: 2, stop: 'cut', chunks: 5, chunkDelayMs: 2 } as const

  test('with who answered for those who asked for usage or for the internals, without it for others', async () => {
    upstream.behave(breaking)
    const plain = (await frames(await gateway.chat({ ...ask, stream: true }))).at(-2)!
    expect(Object.keys(plain.data!)).toEqual(['error', 'gateway'])
    expect(Object.keys(plain.data!.gateway)).toEqual(['request_id', 'requested_model', 'routed_model', 'completion'])
    const usage = (await frames(await gateway.chat({ ...ask, ...withUsage }))).at(-2)!
    expect(usage.data!.gateway).toMatchObject({ provider: 'alpha', fallback_used: false, attempts: 1 })
    const debug = (await frames(await gateway.chat({ ...ask, stream: true }, { 'x-gateway-debug': 'true' }))).at(-2)!
    expect(debug.data!.gateway).toMatchObject({ attempts: [{ n: 1, outcome: 'interrupted' }], strategy: 'balanced' })
  })
})

// docs/behaviour.md: "The gateway block"
describe('an answer that broke off', () => {
  const breaking = { stopAfter: 2, chunks: 5, chunkDelayMs: 2 } as const

  test('says so, and what had come of it; of a reason that is none of the two there is the error', async () => {
    upstream.next({ ...breaking, stop: 'cut' })
    const cut = (await frames(await gateway.chat({ ...ask, ...withUsage, max_tokens: 50 }))).at(-2)!
    expect(cut.data).toMatchObject({
      error: { code: 'upstream_error' },
      gateway: {
        completion: { finish_reason: null, truncated: true, reason: null, requested_tokens: 50, budget_ms: 600_000 },
      },
    })
    gateway.setPolicy(policyRow({ timeouts: { stream_idle_ms: 200 } }))
    upstream.next({ ...breaking, stop: 'hang' })
    const idle = (await frames(await gateway.chat({ ...ask, stream: true }))).at(-2)!
    expect(idle.data).toMatchObject({
      error: { code: 'timeout' },
      gateway: { completion: { finish_reason: null, truncated: true, reason: 'timeout' } },
    })
  })

  test('among several: what had come of each goes out, with the ends of those that had ended', async () => {
    upstream.behave({
      body: chunk(0, { content: 'a' }) + chunk(1, { content: 'b' }) + chunk(0, { content: ' last words' }, 'stop'),
    })
    const openai = testGateway({
      entries: [entry({ kind: 'openai', baseUrl: upstream.baseUrl })],
      kinds: [...KINDS.values()],
    })
    const got = await frames(await openai.chat({ ...ask, stream: true, n: 2 }))
    expect(got.slice(0, -2).flatMap(({ choices = [] }) => choices)).toMatchObject([
      { index: 0, delta: { content: 'a' } },
      { index: 1, delta: { content: 'b' } },
      { index: 0, delta: { content: ' last words' }, finish_reason: 'stop' },
    ])
    expect(got.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'upstream_error' } } })
    expect(openai.spool.settled()).toMatchObject([{ outcome: 'interrupted' }])
    openai.close()
  })
})

describe('an answer that its ceiling cut', () => {
  test('says so on the terminal frame of a stream, with what was asked for and sent', async () => {
    upstream.behave({ finishReason: 'length' })
    const got = await frames(await gateway.chat({ ...ask, ...withUsage, max_completion_tokens: 7, max_tokens: 9 }))
    expect(got.at(-2)!.gateway!.completion).toEqual({
      finish_reason: 'length',
      truncated: true,
      reason: 'max_tokens',
      requested_tokens: 7,
      applied_tokens: 7,
      prompt_tokens: 11,
      completion_tokens: 7,
      budget_ms: 600_000,
    })
  })

  test('says so to a client that did not ask for usage on the last frame of the answer', async () => {
    upstream.behave({ finishReason: 'length' })
    const last = (await frames(await gateway.chat({ ...ask, stream: true }))).at(-2)!
    expect(last).toMatchObject({ choices: [{ finish_reason: 'length' }], gateway: { completion: { truncated: true } } })
  })

  test('without a limit of the client names none, and an answer that ended by itself has no such block', async () => {
    upstream.next({ finishReason: 'length' }, {})
    const cut = (await frames(await gateway.chat({ ...ask, ...withUsage }))).at(-2)!.gateway!.completion as object
    expect(Object.keys(cut)).toEqual([
      'finish_reason',
      'truncated',
      'reason',
      'prompt_tokens',
      'completion_tokens',
      'budget_ms',
    ])
    expect((await frames(await gateway.chat({ ...ask, ...withUsage }))).at(-2)!.gateway).not.toHaveProperty(
      'completion',
    )
  })
})

test('one of several choices that was cut makes the block say so', async () => {
  upstream.next(
    { body: whole(said('a'), [{ role: 'assistant', content: 'b' }, 'length']) },
    {
      body: `${chunk(0, { content: 'a' }) + chunk(1, { content: 'b' }) + chunk(0, {}, 'stop') + chunk(1, {}, 'length')}data: [DONE]\n\n`,
    },
  )
  const answer = (await (await gateway.chat({ ...ask, n: 2 })).json()) as { gateway: object }
  expect(answer.gateway).toMatchObject({ completion: { finish_reason: 'length', reason: 'max_tokens' } })
  const got = await frames(await gateway.chat({ ...ask, ...withUsage, n: 2 }))
  expect(got.at(-2)!.gateway).toMatchObject({ completion: { finish_reason: 'length', reason: 'max_tokens' } })
})

test('an upstream that is a gateway too has its block replaced, not repeated', async () => {
  const theirs = { ...JSON.parse(whole(said('a'))), gateway: { provider: 'theirs' } }
  upstream.next({ body: JSON.stringify(theirs) })
  const text = await (await gateway.chat(ask)).text()
  expect(text.split('"gateway"')).toHaveLength(2)
  expect(JSON.parse(text)).toMatchObject({ gateway: { provider: 'alpha' } })
  const first = JSON.parse(chunk(0, { content: 'a' }).slice(6))
  const head = `data: ${JSON.stringify({ ...first, gateway: { request_id: 'theirs' } })}\n\n`
  upstream.next({ body: `${head + chunk(0, {}, 'stop')}data: [DONE]\n\n` })
  const got = await frames(await gateway.chat({ ...ask, stream: true }))
  expect(got[0]!.gateway).toMatchObject({ requested_model: 'small', routed_model: 'small' })
})

describe('time that runs out', () => {
  /** Enough for the first words on a busy machine. */
  const BUDGET_MS = 1_500
  beforeEach(() => gateway.setPolicy(policyRow({ timeouts: { total_ms: BUDGET_MS } })))

  test('before the first word is 504, streaming or not', async () => {
    upstream.behave({ delayMs: Number.POSITIVE_INFINITY })
    for (const stream of [false, true]) {
      const response = await gateway.chat({ ...ask, stream })
      expect(response.status).toBe(504)
      expect(await response.json()).toMatchObject({ error: { code: 'timeout' }, gateway: { provider: 'alpha' } })
    }
  })

  test('in the middle of a stream ends it as cut, without attribution where none was asked for', async () => {
    upstream.behave({ stopAfter: 2, stop: 'hang' })
    const got = await frames(await gateway.chat({ ...ask, stream: true, max_tokens: 50 }))
    expect(got.at(-1)).toBe('[DONE]' as never)
    const last = got.at(-2)!
    expect(last.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'length' } as never])
    expect(Object.keys(last.gateway!)).toEqual(['request_id', 'requested_model', 'routed_model', 'completion'])
    expect(last.gateway!.completion).toMatchObject({
      finish_reason: 'length',
      truncated: true,
      reason: 'timeout',
      requested_tokens: 50,
      applied_tokens: 50,
      budget_ms: BUDGET_MS,
    })
  })

  test('ends those of several choices that had not ended', async () => {
    const pieces = [chunk(0, { content: 'a' }), chunk(1, { content: 'b' }), chunk(0, {}, 'stop')]
    const slow = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () =>
        new Response(
          new ReadableStream<Uint8Array>({
            async pull(controller) {
              const piece = pieces.shift()
              if (piece === undefined) await new Promise(() => {})
              controller.enqueue(new TextEncoder().encode(piece))
            },
          }),
          { headers: { 'content-type': 'text/event-stream' } },
        ),
    })
    const two = testGateway({
      entries: [entry({ kind: 'openai', baseUrl: `${slow.url}v1` })],
      kinds: [...KINDS.values()],
      policies: [policyRow({ timeouts: { total_ms: BUDGET_MS } })],
    })
    const got = await frames(await two.chat({ ...ask, stream: true, n: 2 }))
    const ends = got.flatMap(({ choices = [] }) => choices).filter((choice) => choice.finish_reason !== null)
    expect(ends.map(({ index, finish_reason }) => [index, finish_reason])).toEqual([
      [0, 'stop'],
      [1, 'length'],
    ])
    two.close()
    void slow.stop(true)
  })
})
