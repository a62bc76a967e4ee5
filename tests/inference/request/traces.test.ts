// Traces as a collector receives them: spans and their parents, names of the GenAI conventions, incoming and outgoing
// context. With traces off, none of this is sent.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { openTraces } from '../../../src/inference/request/trace.ts'
import { createDialer } from '../../../src/lib/http-client/dialer.ts'
import { openTraceExporter, type TraceExporter } from '../../../src/upkeep/watch/trace-exporter.ts'
import { type Collector, startCollector } from '../../services/collector.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, KEY, type TestGateway, testGateway } from '../gateway.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`
const CANARY = 'canary-of-the-prompt'
const SERVER = 2
const CLIENT = 3
const silent = { debug() {}, info() {}, warn() {}, error() {} }

const upstream = startUpstream()
const dialer = createDialer({ allowPrivate: true })
let collector: Collector
let exporter: TraceExporter
let gateway: TestGateway

const start = (options: { samplePercent?: number; propagate?: boolean } = {}) => {
  exporter = openTraceExporter({
    url: `${collector.url}/v1/traces`,
    headers: { 'x-tenant': 'ops' },
    resource: { 'service.name': 'gatelog' },
    version: '0',
    dial: dialer.dial,
    diagnostics: silent,
    tuning: { waitMs: 1 },
  })
  const traces = openTraces({ samplePercent: 100, propagate: true, ...options, take: (trace) => exporter.take(trace) })
  gateway = testGateway({
    entries: [
      entry({ baseUrl: 'http://127.0.0.1:9/v1', provider: 'alpha', secret: 'sk-canary-of-the-provider' }),
      entry({ baseUrl: upstream.baseUrl, provider: 'beta', priority: 200, upstreamModel: 'small-2026' }),
    ],
    traces,
  })
}

beforeAll(() => upstream.behave({ text: `an answer with ${CANARY}` }))
beforeEach(() => {
  collector = startCollector()
  upstream.received.length = 0
})
afterEach(async () => {
  gateway?.close()
  await exporter?.close()
  await collector.stop()
})
afterAll(async () => {
  dialer.close()
  await upstream.stop()
})

const ask = async (headers: Record<string, string> = {}, more: object = {}) => {
  const answer = await gateway.chat({ model: 'small', messages: [{ role: 'user', content: CANARY }], ...more }, headers)
  await answer.text()
  return answer
}

test('a request is a SERVER span that continues the trace, with a CLIENT span for each call below it', async () => {
  start()
  const answer = await ask({ traceparent: TRACEPARENT, tracestate: 'vendor=1' }, { max_tokens: 64 })
  expect([answer.status, answer.headers.get('x-trace-id')]).toEqual([200, TRACE])
  await collector.until('spans', 4)
  const [server, first, again, second] = collector.spans
  expect(server).toMatchObject({
    traceId: TRACE,
    parentSpanId: PARENT,
    traceState: 'vendor=1',
    name: 'POST /v1/chat/completions',
    kind: SERVER,
    status: {},
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/v1/chat/completions',
      'http.response.status_code': 200,
      'gatelog.model': 'small',
      'gatelog.provider': 'beta',
      'gatelog.outcome': 'success',
      'gatelog.fallback_used': true,
      'gatelog.cost_nano_usd': 25_000,
    },
  })
  for (const failed of [first, again]) {
    expect(failed).toMatchObject({
      traceId: TRACE,
      parentSpanId: server!.spanId,
      kind: CLIENT,
      status: { code: 2 },
      attributes: {
        'gen_ai.operation.name': 'chat',
        'server.address': '127.0.0.1',
        'server.port': 9,
        'gatelog.provider': 'alpha',
        'error.type': 'upstream_error',
      },
    })
    expect(Object.keys(failed!.attributes).filter((name) => /^gen_ai\.(usage|response)/.test(name))).toEqual([])
  }
  expect(second).toMatchObject({
    parentSpanId: server!.spanId,
    name: 'chat small-2026',
    kind: CLIENT,
    status: {},
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'plain',
      'gen_ai.request.model': 'small-2026',
      'gen_ai.request.max_tokens': 64,
      'gen_ai.response.model': 'small-2026',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 11,
      'gen_ai.usage.output_tokens': 7,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(upstream.baseUrl).port),
      'gatelog.provider': 'beta',
      'gatelog.attempt': 3,
    },
  })
  // What is summed stands on one span.
  expect(Object.keys(server!.attributes).filter((name) => name.startsWith('gen_ai.'))).toEqual([])
  expect(new Set(collector.spans.map(({ spanId }) => spanId)).size).toBe(4)
  for (const span of collector.spans) {
    expect(span.spanId).toMatch(/^(?!0{16})[0-9a-f]{16}$/)
    const [from, to] = [BigInt(span.startTimeUnixNano), BigInt(span.endTimeUnixNano)]
    expect(from >= BigInt(server!.startTimeUnixNano) && to >= from && to <= BigInt(server!.endTimeUnixNano)).toBe(true)
  }
  expect(collector.resource).toMatchObject({ 'service.name': 'gatelog' })
  expect(collector.headers[0]!.get('x-tenant')).toBe('ops')
})

test('the provider is told of its own span, and of the state', async () => {
  start()
  await ask({ traceparent: TRACEPARENT, tracestate: 'vendor=1' })
  await collector.until('spans', 4)
  const called = collector.spans.at(-1)!
  const { headers } = upstream.received[0]!
  expect(headers.get('traceparent')).toBe(`00-${TRACE}-${called.spanId}-01`)
  expect(headers.get('tracestate')).toBe('vendor=1')
})

test('no prompt, answer, key or secret is in a span', async () => {
  start()
  await ask()
  await ask({}, { stream: true })
  await ask({}, { model: 'nobody-has-this', top_k: -1 })
  await exporter.close()
  expect(collector.spans.filter(({ kind }) => kind === SERVER)).toHaveLength(3)
  const sent = collector.bodies.join('\n')
  for (const canary of [CANARY, KEY, 'sk-canary', 'http://'])
    expect([canary, sent.includes(canary)]).toEqual([canary, false])
})

test('where no provider answered, none is named as the model that did', async () => {
  start()
  expect((await ask({ 'x-gateway-no-fallback': 'true' })).status).toBe(502)
  await collector.until('spans', 1)
  const server = collector.spans.find(({ kind }) => kind === SERVER)!
  expect(server.attributes).toMatchObject({ 'gatelog.model': 'small', 'gatelog.outcome': 'error' })
  for (const { attributes } of collector.spans) expect(attributes).not.toHaveProperty(['gen_ai.response.model'])
})

test('a refusal is a span of its own, without an error of the server', async () => {
  start()
  expect((await ask({}, { model: 'nobody-has-this' })).status).toBe(404)
  await collector.until('spans', 1)
  expect(collector.spans[0]).toMatchObject({
    name: 'POST /v1/chat/completions',
    kind: SERVER,
    status: {},
    attributes: { 'http.response.status_code': 404, 'error.type': 'not_found', 'gatelog.outcome': 'denied' },
  })
  expect(collector.spans[0]!.parentSpanId).toBeUndefined()
})

test('a parent that is not sampled is passed on and not exported; a new trace is sampled by its id', async () => {
  start({ samplePercent: 0 })
  await ask({ traceparent: `00-${TRACE}-${PARENT}-00` })
  expect(upstream.received[0]!.headers.get('traceparent')).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
  await ask()
  await ask({ traceparent: TRACEPARENT })
  await collector.until('spans', 2)
  expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]))
  expect(exporter.counts).toMatchObject({ dropped: 0 })
})

test.each([
  '00-00000000000000000000000000000000-00f067aa0ba902b7-01',
  `00-${TRACE}-0000000000000000-01`,
  `ff-${TRACE}-${PARENT}-01`,
  `00-${TRACE}-${PARENT}-01-more`,
  'nonsense',
])('a bad traceparent (%s) begins a trace anew', async (traceparent) => {
  start()
  const answer = await ask({ traceparent, tracestate: 'vendor=1' })
  const traceId = answer.headers.get('x-trace-id')!
  expect(traceId).toMatch(/^[0-9a-f]{32}$/)
  expect(traceId).not.toBe(TRACE)
  await collector.until('spans', 2)
  expect(collector.spans[0]!.parentSpanId).toBeUndefined()
  expect(collector.spans[0]!.traceState).toBeUndefined()
})

test('while they are off, nothing is sent to providers and X-Trace-ID is there all the same', async () => {
  exporter = openTraceExporter({
    ...{ url: collector.url, headers: {}, resource: {}, version: '0', dial: dialer.dial, diagnostics: silent },
  })
  gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
  const answer = await ask({ traceparent: TRACEPARENT })
  expect(answer.headers.get('x-trace-id')).toBe(TRACE)
  expect(upstream.received[0]!.headers.get('traceparent')).toBeNull()
  start({ propagate: false })
  upstream.received.length = 0
  await ask({ traceparent: TRACEPARENT })
  expect(upstream.received[0]!.headers.get('traceparent')).toBeNull()
})
