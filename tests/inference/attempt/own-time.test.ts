// Times include what the gateway itself does meanwhile: several requests share a turn of the event loop.
import { afterEach, expect, test } from 'bun:test'
import { ProviderCall, prepare, send as sendCall } from '../../../src/inference/attempt/call.ts'
import type { ProviderKind } from '../../../src/providers/port.ts'
import { type FaultRequest, type FaultServer, startFaultServer } from '../../faults/matrix/fault-server.ts'
import { ANSWER, send } from '../../faults/matrix/row.ts'
import { entry, type TestGateway, testGateway } from '../gateway.ts'
import { plainKind } from '../plain-kind.ts'

const WORK_MS = 30
const COUNT = 3

let server: FaultServer | undefined
let gateway: TestGateway | undefined
afterEach(() => {
  gateway?.close()
  server?.stop()
})

test('what the gateway itself does with answers is in the times that it records and tells', async () => {
  const held: FaultRequest[] = []
  server = startFaultServer((request) => {
    if (held.push(request) === COUNT) for (const each of held) send(each, ANSWER)
  })
  const slow: ProviderKind = {
    ...plainKind,
    response(body, reading) {
      Bun.sleepSync(WORK_MS)
      return plainKind.response(body, reading)
    },
  }
  const started = testGateway({
    entries: [entry({ baseUrl: `http://127.0.0.1:${server.port}/v1` })],
    kinds: [slow],
  })
  gateway = started
  const answers = await Promise.all(
    Array.from({ length: COUNT }, () =>
      started.chat({ model: 'small', messages: [{ role: 'user', content: 'hi' }] }).then((answer) => answer.json()),
    ),
  )
  const settled = started.spool.settled()
  const times = {
    told: answers.map((answer) => (answer as { gateway: { latency_ms: number } }).gateway.latency_ms),
    recorded: settled.map(({ latency_ms }) => latency_ms),
    ofAttempts: settled.map(({ attempts }) => attempts[0]!.latency_ms!),
  }
  // They come together, and are read one after the other.
  for (const [what, all] of Object.entries(times)) {
    expect([what, all.length]).toEqual([what, COUNT])
    expect(Math.max(...all)).toBeGreaterThanOrEqual(COUNT * WORK_MS - 1)
  }
})

test('the deadline of a call begins when it is sent, not when its request was prepared', () => {
  const plan = { policy: { firstTokenMs: 60_000, connectMs: 1_000 }, maxAttempts: 1 }
  const exchange = { shaping: [], deadlineMs: Number.POSITIVE_INFINITY, waitDeadlineMs: 0, trace: null, mayBill: false }
  const intent = { shaping: [], stream: false }
  const call = {
    exchange: { ...exchange, intent, plan, newSignal: () => ({ aborted: false }) },
    ...{ entry: { timeoutMs: 1_000 }, kind: {} },
    ...{ request: { shaping: [] }, candidatesLeft: 1, callNumber: 1 },
  } as unknown as ProviderCall
  const begunMs = performance.now()
  Bun.sleepSync(WORK_MS)
  void sendCall(call, { dial: () => new Promise(() => {}) })
  expect(call.exchange.waitDeadlineMs).toBeGreaterThanOrEqual(begunMs + WORK_MS - 1 + 1_000)
})

test('what is sent is signed for the time at which it is made, not for that at which the request came', () => {
  const startedMs = performance.now() - WORK_MS
  let atMs = 0
  const kind = {
    request(_chat: unknown, target: { readonly atMs: number }) {
      atMs = target.atMs
      return { shaping: [] }
    },
  }
  const exchange = { identity: { startedMs, atMs: 5_000 }, intent: { stream: false }, budgets: null }
  const deps = { health: {}, kinds: new Map([['plain', kind]]) }
  const place = { candidatesLeft: 1, callNumber: 1 }
  expect(prepare(exchange as never, { kind: 'plain' } as never, place, deps as never)).toBeInstanceOf(ProviderCall)
  expect(atMs).toBeGreaterThanOrEqual(5_000 + WORK_MS - 1)
  expect(Number.isInteger(atMs)).toBe(true)
})
