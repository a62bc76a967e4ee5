// One app behind each listener: the same requests get the same answers, chat completions included, which the own
// server answers without the runtime's `Request`.
import { afterAll, beforeEach, expect, test } from 'bun:test'
import { entry, KEY, type TestGateway, testGateway } from '../inference/gateway.ts'
import {
  answersIn,
  chunked,
  connect,
  get,
  inChunks,
  isWhole,
  post,
  type RawAnswer,
} from '../lib/http-server/serving.ts'
import { EACH_LISTENER, type Listener, serveApp } from '../services/serve-app.ts'
import { type Behaviour, startUpstream } from '../services/upstream.ts'

const upstream = startUpstream()
const gatewayOf = () => testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
const behind = EACH_LISTENER.map((listener) => {
  const gateway = gatewayOf()
  return { listener, gateway, server: serveApp(gateway.app, listener) }
})
beforeEach(() => upstream.behave({}))
afterAll(async () => {
  for (const { gateway, server } of behind) {
    gateway.close()
    server.stop()
  }
  await upstream.stop()
})

const CHAT = '/v1/chat/completions'
const HEAD =
  `Authorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n` +
  `X-Request-ID: mine\r\ntraceparent: 00-${'a'.repeat(32)}-00f067aa0ba902b7-01\r\n`
const ask = (more: object = {}) =>
  JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hi' }], ...more })

/** Each server chooses the framing of a body, and what it reports of a connection that stays open. */
const FRAMING = /^(content-length|transfer-encoding|connection)$/
/** Without what differs between two answers to one request. */
const comparable = ({ status, headers, body }: RawAnswer) => ({
  status,
  headers: headers
    .filter(([name]) => !FRAMING.test(name))
    .map(([name, value]) => `${name}: ${value.replace(/^req_\w+$/, 'req')}`)
    .filter((line) => !/^x-trace-id: (?!a{32})/.test(line))
    .sort(),
  body: body.replace(/"latency_ms":\d+/g, '"latency_ms":0').replace(/req_\w+/g, 'req'),
})

const answerTo = async (port: number, request: string): Promise<RawAnswer> => {
  const client = await connect(port, request)
  const [answer] = answersIn(await client.until(isWhole()))
  client.leave()
  return answer!
}

const cases: [name: string, request: string, status: number, behaviour: Behaviour][] = [
  ['a completion', post(CHAT, ask(), HEAD), 200, {}],
  ['a completion whose body comes in chunks', chunked(CHAT, inChunks(ask(), 7), HEAD), 200, {}],
  ['a completion with a query', post(`${CHAT}?a=b`, ask(), HEAD), 200, {}],
  ['a stream', post(CHAT, ask({ stream: true }), HEAD), 200, { chunks: 3 }],
  ['a stream with usage', post(CHAT, ask({ stream: true, stream_options: { include_usage: true } }), HEAD), 200, {}],
  [
    'a stream that breaks',
    post(CHAT, ask({ stream: true }), HEAD),
    200,
    { chunks: 3, chunkDelayMs: 50, stopAfter: 1, stop: 'error' },
  ],
  ['a failure of the provider', post(CHAT, ask(), HEAD), 502, { status: 503 }],
  ['no JSON', post(CHAT, '{broken', HEAD), 400, {}],
  ['no body', `POST ${CHAT} HTTP/1.1\r\nHost: a\r\n${HEAD}\r\n`, 400, {}],
  ['a model that is not there', post(CHAT, ask({ model: 'nope' }), HEAD), 404, {}],
  ['no key', post(CHAT, ask(), 'Content-Type: application/json\r\nX-Request-ID: mine\r\n'), 401, {}],
  ['another method', get(CHAT, HEAD), 405, {}],
  ['a list of models', get('/v1/models', HEAD), 200, {}],
  ['nothing there', get('/nope', HEAD), 404, {}],
]

test.each(cases)(
  'S45: %s: no browser takes it for another type than it names',
  async (_, request, status, behaviour) => {
    upstream.behave(behaviour)
    for (const { server } of behind) {
      const answer = await answerTo(server.port, request)
      expect(answer.status).toBe(status)
      expect(answer.headers).toContainEqual(['x-content-type-options', 'nosniff'])
    }
  },
)

test.each(cases)('%s is answered the same', async (_, request, status, behaviour) => {
  upstream.behave(behaviour)
  const answers: object[] = []
  for (const { server } of behind) answers.push(comparable(await answerTo(server.port, request)))
  expect(answers[0]).toMatchObject({ status })
  for (const answer of answers) expect(answer).toEqual(answers[0]!)
})

test('a body that is announced as too large is refused before it is sent', async () => {
  const request = `POST ${CHAT} HTTP/1.1\r\nHost: a\r\n${HEAD}Content-Length: ${11 * 1024 * 1024}\r\n\r\n`
  for (const { server } of behind) {
    const { status, body } = await answerTo(server.port, request)
    expect([status, JSON.parse(body)]).toMatchObject([413, { error: { code: 'invalid_request' } }])
  }
})

test('a body without an announced length is refused where it is too large', async () => {
  for (const { server } of behind) {
    const client = await connect(server.port, chunked(CHAT, inChunks('x'.repeat(11 * 1024 * 1024), 65_536), HEAD))
    expect(answersIn(await client.until(isWhole()))).toMatchObject([{ status: 413 }])
    client.reset()
  }
})

/** Sends the request, leaves once it has begun, and answers the outcome that was settled. */
const leaving = async (
  gateway: TestGateway,
  port: number,
  request: string,
  begun: Promise<unknown>,
  way: 'leave' | 'reset',
) => {
  const count = gateway.spool.settled().length
  const client = await connect(port, request)
  await begun
  client[way]()
  return (await gateway.spool.untilSettled(count + 1)).at(-1)
}

test.each([
  [false, 'reset'],
  [true, 'reset'],
  [false, 'leave'],
  [true, 'leave'],
] as const)('a client that leaves ends the call of the provider (stream: %p, %s)', async (stream, way) => {
  for (const { gateway, server } of behind) {
    upstream.aborted.length = 0
    const asked = Promise.withResolvers<void>()
    upstream.behave(() => {
      asked.resolve()
      return stream ? { chunks: 3, stopAfter: 1, stop: 'hang' } : { delayMs: Number.POSITIVE_INFINITY }
    })
    const settled = await leaving(gateway, server.port, post(CHAT, ask({ stream }), HEAD), asked.promise, way)
    expect(settled).toMatchObject({ outcome: 'canceled', attempts: [{ outcome: 'canceled' }] })
    expect(gateway.app.inFlight()).toBe(0)
  }
})

test.each(EACH_LISTENER)(
  'while load balancers notice a stop, everything is taken on new connections, and each ends after its answer (%p)',
  async (listener: Listener) => {
    const gateway = gatewayOf()
    const server = serveApp(gateway.app, listener)
    upstream.behave(() => ({ text: 'still here' }))
    gateway.app.leave()
    const taken = [
      [get('/ready'), 503],
      [post(CHAT, ask(), HEAD), 200],
      [post(CHAT, ask({ stream: true }), HEAD), 200],
      [post('/v1/feedback', '{}', HEAD), 400],
      [get('/v1/models', HEAD), 200],
    ] as const
    for (const [request, status] of taken) {
      const client = await connect(server.port, request)
      const [answer] = answersIn(await client.closed)
      expect(answer).toMatchObject({ status })
      expect(answer!.headers).toContainEqual(['connection', 'close'])
    }
  },
)

test.each(EACH_LISTENER)(
  'while it stops, what comes is refused and what runs ends well (%p)',
  async (listener: Listener) => {
    const gateway = gatewayOf()
    const server = serveApp(gateway.app, listener)
    const asked = Promise.withResolvers<void>()
    upstream.behave(() => {
      asked.resolve()
      return { delayMs: 200, text: 'late' }
    })
    const running = answerTo(server.port, post(CHAT, ask(), HEAD))
    await asked.promise
    gateway.app.prepareToStop()
    const drained = gateway.app.drain(10_000)
    const closing = [
      [post(CHAT, ask(), HEAD), 503],
      [post(`${CHAT}?a=b`, ask(), HEAD), 503],
      [post('/v1/feedback', '{}', HEAD), 503],
      [get('/ready'), 503],
      [get('/v1/models', HEAD), 200],
    ] as const
    for (const [request, status] of closing) {
      const client = await connect(server.port, request)
      const [answer] = answersIn(await client.closed)
      expect(answer).toMatchObject({ status })
      expect(answer!.headers).toContainEqual(['connection', 'close'])
    }
    const { status, body } = await running
    expect([status, body]).toEqual([200, expect.stringContaining('late')])
    await drained
    // The refused completions leave an outcome, the refused feedback none.
    expect(
      gateway.spool
        .settled()
        .map((settled) => settled.outcome)
        .sort(),
    ).toEqual(['error', 'error', 'success'])
    gateway.close()
    server.stop()
  },
)
