// What a client sees of admission by load: a cheap refusal with the time of the next try, before anything of its
// request is read.
import { expect, test } from 'bun:test'
import { LoadGate } from '../../src/lib/event-loop/load-gate.ts'
import { gatewaysOnUpstream } from './gateways.ts'

const { upstream, gatewayWith } = gatewaysOnUpstream()
const ASK = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }

/** A gateway whose event loop has been late for some seconds. */
const overloaded = () => {
  const clock = { ms: 0 }
  const gate = new LoadGate({ everyMs: 50, maxDelayMs: 100, maxMemoryBytes: null, nowMs: () => clock.ms })
  const look = (afterMs: number) => {
    clock.ms += afterMs
    gate.measure(0)
  }
  for (let i = 0; i < 100; i++) {
    gate.room--
    look(500)
  }
  return { gate, look, gateway: gatewayWith({ gate }) }
}

// docs/behaviour.md: "Overload"
test('beyond its room a request is 429 with Retry-After, for a stranger too: nothing is read, called or recorded', async () => {
  const { gate, gateway } = overloaded()
  const room = gate.room
  expect(room).toBeGreaterThan(0)
  for (let i = 0; i < room; i++) expect((await gateway.chat(ASK)).status).toBe(200)
  const served = upstream.received.length
  const records = gateway.spool.records.length
  const waits = new Set<string | null>()
  for (const key of [undefined, null, 'gw_live_nobodynobodynobodynobodynobody', undefined, undefined]) {
    const answer = await gateway.send('/v1/chat/completions', { raw: '{broken', ...(key === undefined ? {} : { key }) })
    expect(answer.status).toBe(429)
    expect(answer.headers.get('x-gateway-retryable')).toBe('true')
    waits.add(answer.headers.get('retry-after'))
    const { error, gateway: block } = (await answer.json()) as { error: object; gateway: { request_id: string } }
    expect(error).toMatchObject({ code: 'rate_limited', type: 'rate_limit_error' })
    expect(block.request_id).toBe(answer.headers.get('x-request-id')!)
  }
  expect([...waits].sort()).toEqual(['1', '2', '3']) // they do not come again all at once
  expect([upstream.received.length, gateway.spool.records.length]).toEqual([served, records])
})

test('each refusal keeps its own id and trace, however late it is read', async () => {
  const { gate, gateway } = overloaded()
  gate.room = 0
  const traces = Array.from({ length: 7 }, (_, i) => `${i}`.repeat(32).replace(/^0+$/, 'a'.repeat(32)))
  const answers = await Promise.all(
    traces.map((trace, i) =>
      gateway.chat(ASK, { 'X-Request-ID': `mine-"${i}`, traceparent: `00-${trace}-00f067aa0ba902b7-01` }),
    ),
  )
  for (const [i, answer] of answers.entries()) {
    expect(answer.headers.get('x-request-id')).toBe(`mine-${i}`)
    expect(answer.headers.get('x-trace-id')).toBe(traces[i]!)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(((await answer.json()) as { gateway: object }).gateway).toMatchObject({ request_id: `mine-${i}` })
  }
})

test('reads and operations are answered, and the metrics say what is refused', async () => {
  const { gate, gateway } = overloaded()
  gate.room = 0
  expect((await gateway.chat(ASK)).status).toBe(429)
  for (const path of ['/health', '/v1/models']) expect([path, (await gateway.send(path)).status]).toEqual([path, 200])
  const metrics = await (await gateway.send('/metrics')).text()
  expect(metrics).toContain('gateway_overload_refused_total 1\n')
  expect(metrics).toContain('gateway_overload_admitted_per_second 50\n')
})

test('with the next look there is room again', async () => {
  const { gate, look, gateway } = overloaded()
  gate.room = 0
  expect((await gateway.chat(ASK)).status).toBe(429)
  look(50)
  expect((await gateway.chat(ASK)).status).toBe(200)
})
