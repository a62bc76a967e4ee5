// The export to the collector: batches, a bounded queue, and traces when the collector hangs, refuses or is
// unavailable.
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { headersOf, openTracing, tracesUrl } from '../../../src/composition/telemetry.ts'
import { loadConfig } from '../../../src/config/schema.ts'
import type { FinishedTrace } from '../../../src/inference/request/trace.ts'
import { createDialer } from '../../../src/lib/http-client/dialer.ts'
import {
  openTraceExporter,
  type TraceExporter,
  type TraceExporterDeps,
} from '../../../src/upkeep/watch/trace-exporter.ts'
import { type Collector, startCollector } from '../../services/collector.ts'

const dialer = createDialer({ allowPrivate: true })
let collector: Collector
let exporter: TraceExporter
let said: string[]

const open = (tuning: TraceExporterDeps['tuning'] = {}, url = `${collector.url}/v1/traces`) => {
  said = []
  const say = (event: string) => void said.push(event)
  exporter = openTraceExporter({
    ...{ url, headers: {}, resource: {}, version: '0', dial: dialer.dial },
    diagnostics: { debug: say, info: say, warn: say, error: say },
    tuning: { waitMs: 1, backoffMs: 1, closeMs: 50, ...tuning },
  })
}
beforeEach(() => {
  collector = startCollector()
})
afterEach(async () => {
  await exporter.close()
  await collector.stop()
})
afterAll(() => dialer.close())

const trace = (n: number): FinishedTrace => ({
  identity: { id: `req_${n}`, requestId: `req_${n}`, traceId: String(n).padStart(32, '1'), atMs: 1_000, startedMs: 0 },
  spanId: String(n).padStart(16, '1'),
  ...{ parentSpanId: null, traceState: null, calls: [], attempts: [], endedMs: 5, attributes: {} },
  ...{ asked: {}, answered: {} },
  failed: false,
})
const take = (count: number) => {
  for (let n = 0; n < count; n++) exporter.take(trace(n))
}

test('what comes together is sent together', async () => {
  open({ batch: 10 })
  take(25)
  await collector.until('spans', 25)
  expect(collector.bodies.length).toBeLessThanOrEqual(3)
  await exporter.close()
  expect(exporter.counts).toEqual({ queued: 0, exported: 25, dropped: 0 })
})

test('while the collector hangs the queue fills, the rest is dropped and counted, and nobody waits', async () => {
  collector.answer('hang')
  open({ queue: 20, batch: 10 })
  take(10)
  await collector.until('calls', 1)
  take(100)
  expect(exporter.counts).toEqual({ queued: 20, exported: 0, dropped: 80 })
  await exporter.close()
  expect(exporter.counts).toEqual({ queued: 0, exported: 0, dropped: 110 })
})

test('a collector that says later is asked again, and what it then takes is not lost', async () => {
  collector.answer(503)
  open({ tries: 100 })
  take(3)
  await collector.until('calls', 2)
  collector.answer(200)
  await collector.until('spans', 3)
  await exporter.close()
  expect(exporter.counts).toEqual({ queued: 0, exported: 3, dropped: 0 })
  expect(said).toEqual(['traces_not_exported', 'traces_exported_again'])
})

test('what it refuses for good is dropped at once; one line says so, not one for each batch', async () => {
  collector.answer(400)
  open({ batch: 1 })
  take(1)
  await collector.until('calls', 1)
  take(1)
  await collector.until('calls', 2)
  await exporter.close()
  expect(exporter.counts).toEqual({ queued: 0, exported: 0, dropped: 2 })
  expect(said).toEqual(['traces_not_exported'])
})

test('a collector that is not there costs traces and nothing else', async () => {
  open({ tries: 2 }, 'http://127.0.0.1:9/v1/traces')
  take(5)
  await exporter.close()
  expect(exporter.counts).toEqual({ queued: 0, exported: 0, dropped: 5 })
})

describe('where it is', () => {
  const urlFor = (telemetry: object, env: Record<string, string>) =>
    tracesUrl(loadConfig({ file: { name: 'f', text: JSON.stringify({ telemetry }) }, env: {} }).config, env)

  test('the setting wins, then the variable for traces, then the one for all; without any of them traces are off', () => {
    const both = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:4318', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b/t' }
    expect(urlFor({}, {})).toBeNull()
    expect(urlFor({}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:4318/' })).toBe('http://a:4318/v1/traces')
    expect(urlFor({}, both)).toBe('http://b/t')
    expect(urlFor({}, { ...both, OTEL_SDK_DISABLED: 'true' })).toBeNull()
    expect(urlFor({ otlp_endpoint: 'https://c' }, both)).toBe('https://c/v1/traces')
    expect(() => urlFor({ otlp_endpoint: 'collector:4318' }, {})).toThrow('telemetry.otlp_endpoint')
  })

  test('a variable of everybody that is no URL turns traces off, says so, and stops no start', () => {
    const { config } = loadConfig({ file: null, env: {} })
    for (const endpoint of ['garbage', 'collector:4317', 'http://h:99999']) {
      const said: string[] = []
      const say = (event: string) => void said.push(event)
      const diagnostics = { debug: say, info: say, warn: say, error: say }
      const env = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }
      expect(openTracing({ config, env, diagnostics, version: '1' })).toBeNull()
      expect(said).toEqual(['traces_off'])
    }
  })

  test('headers are read as OpenTelemetry writes them', () => {
    expect(headersOf('api-key=a%20b, X-Scope = team=1,nonsense,')).toEqual({ 'api-key': 'a b', 'x-scope': 'team=1' })
  })
})
