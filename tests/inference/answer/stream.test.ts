import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'
import { eventually, standsStill } from '../../services/eventually.ts'
import { EACH_LISTENER, serveApp } from '../../services/serve-app.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const upstream = startUpstream()
let gateway: TestGateway
beforeEach(() => {
  gateway?.close()
  upstream.behave({})
  upstream.received.length = 0
  upstream.aborted.length = 0
  gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const ask = { model: 'small', stream: true, messages: [{ role: 'user', content: 'hi' }] }
interface Chunk {
  choices: { delta: { content?: string }; finish_reason: string | null }[]
  usage?: { completion_tokens: number }
  gateway?: Record<string, unknown>
  event?: string
  data?: { error: { code: string; message: string } }
}
const chunksOf = async (response: Response): Promise<Chunk[]> => (await framesOf(response)).slice(0, -1) as Chunk[]
const textOf = (chunks: Chunk[]): string => chunks.map((chunk) => chunk.choices?.[0]?.delta.content ?? '').join('')

// docs/behaviour.md: "Streams"
describe('a stream', () => {
  test('has the headers, the text, the route in its first frame and ends with [DONE]', async () => {
    upstream.behave({ text: 'Grüße, 世界', chunks: 3 })
    const response = await gateway.chat(ask)
    expect(response.headers.get('content-type')).toStartWith('text/event-stream')
    expect(response.headers.get('cache-control')).toBe('no-cache, no-transform')
    expect(response.headers.get('x-accel-buffering')).toBe('no')
    expect(response.headers.get('x-gateway-provider')).toBe('alpha')
    const frames = await framesOf(response)
    expect(frames.at(-1)).toBe('[DONE]')
    const chunks = frames.slice(0, -1) as Chunk[]
    expect(textOf(chunks)).toBe('Grüße, 世界')
    expect(chunks[0]!.gateway).toEqual({
      request_id: response.headers.get('x-request-id'),
      requested_model: 'small',
      routed_model: 'small',
    })
    expect(chunks.filter((chunk) => chunk.gateway !== undefined)).toHaveLength(1)
    expect(chunks.filter((chunk) => chunk.usage !== undefined)).toHaveLength(0)
    expect(gateway.spool.settled()).toMatchObject([
      { outcome: 'success', stream: true, cost_basis: 'estimated', ttft_ms: expect.any(Number) },
    ])
  })

  test('carries attribution on its terminal usage frame when that was asked for', async () => {
    const chunks = await chunksOf(await gateway.chat({ ...ask, stream_options: { include_usage: true } }))
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { completion_tokens: 7 },
      gateway: { provider: 'alpha', fallback_used: false, attempts: 1, estimated_cost_usd: 0.000025 },
    })
    expect(gateway.spool.settled()).toMatchObject([{ cost_basis: 'measured', completion_tokens: 7 }])
  })

  test('gets a usage frame of ours when the provider sends none', async () => {
    upstream.behave({ usage: null, text: 'x'.repeat(40) })
    const chunks = await chunksOf(await gateway.chat({ ...ask, stream_options: { include_usage: true } }))
    expect(chunks.at(-1)).toMatchObject({
      id: 'chatcmpl-fake',
      choices: [],
      usage: { completion_tokens: 10 },
      gateway: { provider: 'alpha' },
    } as object)
  })

  test('is settled before the frames that make it complete', async () => {
    upstream.behave({ chunkDelayMs: 2 })
    const asked = Promise.withResolvers<void>()
    const { promise, resolve } = Promise.withResolvers<void>()
    gateway.spool.before = (type) => {
      if (type !== 'request.settled') return
      asked.resolve()
      return promise
    }
    const response = await gateway.chat(ask)
    const reader = response.body!.getReader()
    const decoder = new TextDecoder()
    let seen = ''
    while (!seen.includes('opback.')) seen += decoder.decode((await reader.read()).value)
    const last = reader.read()
    await asked.promise
    await new Promise((turned) => setImmediate(turned)) // whatever was written with it has come by then
    expect(Bun.peek.status(last)).toBe('pending')
    expect(seen).not.toContain('"finish_reason":"stop"')
    resolve()
    let rest = decoder.decode((await last).value)
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      rest += decoder.decode(value)
    }
    expect(rest).toContain('"finish_reason":"stop"')
    expect(rest).toEndWith('data: [DONE]\n\n')
  })

  test('comes whole and in order, however much of it comes at once', async () => {
    gateway.close()
    const long = entry({ kind: 'openai_compatible', baseUrl: upstream.baseUrl })
    gateway = testGateway({ entries: [long], kinds: [...KINDS.values()] })
    const text = Array.from({ length: 20_000 }, (_, word) => `word ${word} `).join('')
    upstream.behave({ text, chunks: 10_000 })
    const chunks = await chunksOf(await gateway.chat(ask))
    expect(textOf(chunks) === text).toBe(true)
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe('stop')
  })

  test('reads no more of the upstream than its client does', async () => {
    const text = 'x'.repeat(4_000_000)
    upstream.behave({ text, chunks: 4_000 })
    const response = await gateway.chat(ask)
    const reader = response.body!.getReader()
    await reader.read()
    expect(gateway.app.inFlight()).toBe(1)
    await reader.cancel()
    const [settled] = await gateway.spool.untilSettled()
    expect(settled!.outcome).toBe('canceled')
    expect(settled!.completion_tokens!).toBeLessThan(1_000_000)
  })
})

// docs/behaviour.md: "Streams"
describe('a stream that breaks', () => {
  for (const stop of ['cut', 'end', 'error'] as const) {
    test(`after the first byte (${stop}) ends with an error frame and [DONE], and is interrupted`, async () => {
      upstream.behave({ stopAfter: 2, stop, chunks: 5, chunkDelayMs: 2 })
      const response = await gateway.chat({ ...ask, stream_options: { include_usage: true } })
      expect(response.status).toBe(200)
      const frames = (await framesOf(response)) as Chunk[]
      expect(frames.at(-1)).toBe('[DONE]' as never)
      expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'upstream_error' } } })
      expect(gateway.spool.settled()).toMatchObject([
        {
          outcome: 'interrupted',
          status: 200,
          error_code: 'upstream_error',
          cost_basis: 'estimated',
          attempts: [{ outcome: 'interrupted' }],
        },
      ])
      expect(upstream.received).toHaveLength(1)
    })
  }

  for (const stalls of [false, true]) {
    test(`while one of two choices is half sent is interrupted (the upstream ${stalls ? 'stalls' : 'closes'})`, async () => {
      const delta = (index: number, content: string, reason: string | null) =>
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index, delta: { content }, finish_reason: reason }] })}\n\n`
      const pieces = [delta(0, 'whole', null), delta(1, 'ha', null), delta(0, '', 'stop')]
      const twoFold = Bun.serve({
        hostname: '127.0.0.1',
        port: 0,
        fetch: () => {
          const body = new ReadableStream<Uint8Array>({
            async pull(controller) {
              const piece = pieces.shift()
              if (piece !== undefined) controller.enqueue(new TextEncoder().encode(piece))
              else if (!stalls) controller.close()
              else await new Promise(() => {})
            },
          })
          return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
        },
      })
      const two = testGateway({
        entries: [entry({ kind: 'openai', baseUrl: `${twoFold.url}v1` })],
        kinds: [...KINDS.values()],
      })
      two.setPolicy(policyRow({ timeouts: { stream_idle_ms: 500 } }))
      const frames = (await framesOf(await two.chat({ ...ask, n: 2 }))) as Chunk[]
      expect(frames.at(-2)).toMatchObject({ event: 'error' })
      expect(two.spool.settled()).toMatchObject([{ outcome: 'interrupted' }])
      two.close()
      void twoFold.stop(true)
    })
  }

  test('names the event behind its data: a client that reads `data:` lines alone still sees the error', async () => {
    upstream.behave({ text: 'half an answer', chunks: 2, stopAfter: 1, stop: 'cut' })
    const text = await (await gateway.chat(ask)).text()
    expect(text).toMatch(/\n\ndata: \{"error":\{[^\n]*\}\nevent: error\n\ndata: \[DONE\]\n\n$/)
    // Another gateway that has this one as its provider reads it too.
    upstream.behave({ headers: { 'content-type': 'text/event-stream' }, body: text })
    const behind = await gateway.chat(ask)
    expect([behind.status, await behind.json()]).toMatchObject([502, { error: { code: 'upstream_error' } }])
  })

  test('because the upstream stalls is ended by the idle limit', async () => {
    gateway.setPolicy(policyRow({ timeouts: { stream_idle_ms: 500 } }))
    upstream.behave({ stopAfter: 2, stop: 'hang' })
    const frames = (await framesOf(await gateway.chat(ask))) as Chunk[]
    expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'timeout' } } })
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'interrupted', error_code: 'timeout' }])
  })

  test('because its total time is over ends as a truncated answer', async () => {
    gateway.setPolicy(policyRow({ timeouts: { total_ms: 1_500 } }))
    upstream.behave({ stopAfter: 2, stop: 'hang' })
    const chunks = await chunksOf(await gateway.chat({ ...ask, stream_options: { include_usage: true } }))
    expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe('length')
    expect(chunks.at(-1)!.gateway).toMatchObject({
      completion: { finish_reason: 'length', reason: 'timeout', truncated: true, budget_ms: 1_500 },
    })
    expect(gateway.spool.settled()).toMatchObject([
      { outcome: 'interrupted', error_code: 'timeout', finish_reason: 'length' },
    ])
  })

  test('by the answer violating its format says so before [DONE]', async () => {
    upstream.behave({ text: 'no json' })
    const frames = (await framesOf(await gateway.chat({ ...ask, response_format: { type: 'json_object' } }))) as Chunk[]
    expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'invalid_request' } } })
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'error', error_code: 'invalid_request' }])
  })

  test('because the outcome cannot be written gives the client a failure', async () => {
    gateway.spool.before = (type) => {
      if (type === 'request.settled') throw new Error('disk')
    }
    const frames = (await framesOf(await gateway.chat(ask))) as Chunk[]
    expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'internal_error' } } })
    expect(JSON.stringify(frames)).not.toContain('"finish_reason":"stop"')
  })
})

describe('a client that leaves', () => {
  test('while reading aborts the upstream and is settled as canceled with what was seen', async () => {
    upstream.behave({ stopAfter: 2, stop: 'hang', text: 'y'.repeat(50), chunks: 5 })
    const response = await gateway.chat(ask)
    const reader = response.body!.getReader()
    const decoder = new TextDecoder()
    while (!decoder.decode((await reader.read()).value).includes('yyyyyyyyyy'));
    await reader.cancel()
    const [settled] = await gateway.spool.untilSettled()
    expect(settled).toMatchObject({
      outcome: 'canceled',
      status: 499,
      error_code: 'request_canceled',
      cost_basis: 'estimated',
    })
    expect(settled!.completion_tokens!).toBeGreaterThan(0)
    await eventually('the upstream is let go', () => upstream.aborted.length > 0)
    expect(gateway.app.inFlight()).toBe(0)
  })

  test('before the answer aborts the upstream and is settled as canceled, once', async () => {
    upstream.behave({ delayMs: Number.POSITIVE_INFINITY })
    const client = new AbortController()
    const response = gateway.chat({ ...ask, stream: false }, {}, client.signal)
    await eventually('the upstream is asked', () => upstream.received.length > 0)
    client.abort()
    expect((await response).status).toBe(499)
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'canceled', attempts: [{ outcome: 'canceled' }] }])
    await eventually('the upstream is let go', () => upstream.aborted.length > 0)
  })

  test.each(EACH_LISTENER)('over a socket is noticed even when it does not read (%p)', async (listener) => {
    const server = serveApp(gateway.app, listener)
    upstream.behave({ stopAfter: 1, stop: 'hang' })
    const client = new AbortController()
    const response = await fetch(new URL('/v1/chat/completions', `http://127.0.0.1:${server.port}`), {
      method: 'POST',
      signal: client.signal,
      headers: {
        authorization: 'Bearer gw_live_inferenceinferenceinferenceinference',
        'content-type': 'application/json',
      },
      body: JSON.stringify(ask),
    })
    expect(response.status).toBe(200)
    client.abort()
    expect((await gateway.spool.untilSettled())[0]!.outcome).toBe('canceled')
    server.stop()
  })
})

// docs/behaviour.md: "Stopping"
describe('stopping', () => {
  test('lets requests end, then ends them and settles them', async () => {
    upstream.behave({ stopAfter: 1, stop: 'hang' })
    const response = await gateway.chat(ask)
    expect(gateway.app.inFlight()).toBe(1)
    const drained = gateway.app.drain(50)
    expect((await gateway.chat(ask)).status).toBe(503)
    const frames = (await framesOf(response)) as Chunk[]
    await drained
    expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'provider_unavailable' } } })
    expect(gateway.app.inFlight()).toBe(0)
    expect(
      gateway.spool
        .settled()
        .map(({ outcome }) => outcome)
        .sort(),
    ).toEqual(['error', 'interrupted'])
  })
})

const WAYS = EACH_LISTENER.flatMap((listener) => ['', '?x=1'].map((query) => [listener, query] as const))
test.each(WAYS)(
  'a client that does not read stops the upstream, over sockets too (%p, %p)',
  async (listener, query) => {
    const piece = `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta: { content: 'z'.repeat(65_536) } }] })}\n\n`
    let pulled = 0
    const endless = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      idleTimeout: 0,
      fetch: () =>
        new Response(
          new ReadableStream({
            pull(controller) {
              pulled++
              controller.enqueue(piece)
            },
          }),
          { headers: { 'content-type': 'text/event-stream' } },
        ),
    })
    const slow = testGateway({ entries: [entry({ baseUrl: `${endless.url}v1` })] })
    const server = serveApp(slow.app, listener)
    const body = JSON.stringify(ask)
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: server.port,
      socket: {
        open(opened) {
          opened.write(
            `POST /v1/chat/completions${query} HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer gw_live_inferenceinferenceinferenceinference\r\n` +
              `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
          )
          opened.pause()
        },
        data() {},
      },
    })
    await standsStill(() => pulled)
    // Buffers of the kernel and of the pool only: far from what an endless upstream would have sent by now.
    expect(pulled).toBeLessThan(1_000)
    expect(slow.app.inFlight()).toBe(1)
    socket.terminate()
    expect(await slow.spool.untilSettled()).toMatchObject([{ outcome: 'canceled' }])
    slow.close()
    server.stop()
    await endless.stop(true)
  },
)
