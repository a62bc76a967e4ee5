// A client disconnects, in each phase of its request: the upstream connection is released within 100 ms, and one
// outcome has the status `canceled`. Many at once, on a real gateway: `tests/faults/clients/leaving.ts`.
import { afterEach, describe, expect, mock, spyOn, test } from 'bun:test'
import { processLimits } from '../../../src/inference/limits/local.ts'
import type { Limits } from '../../../src/inference/limits/port.ts'
import { Exchange } from '../../../src/inference/request/exchange.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import { type FaultAnswer, type FaultServer, startFaultServer } from '../../faults/matrix/fault-server.ts'
import { open, ROLE, send, WORD } from '../../faults/matrix/row.ts'
import { eventually } from '../../services/eventually.ts'
import { entry, KEY, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const WITHIN_MS = 100
/** For a busy machine; what a client waits for without it is half a minute. */
const SLACK_MS = 4_000

let server: FaultServer
let gateway: TestGateway
afterEach(() => {
  mock.restore()
  gateway.close()
  server.stop()
})

const start = (answer: FaultAnswer, more: { limits?: Limits } = {}) => {
  server = startFaultServer(answer)
  const kind = 'openai_compatible'
  gateway = testGateway({
    entries: [entry({ kind, baseUrl: `http://127.0.0.1:${server.port}/v1` })],
    kinds: [kindOf(kind)!],
    policies: [
      policyRow({
        retry: { attempts: 3, backoff_initial_ms: 20_000, backoff_max_ms: 20_000 },
        rate_limits: { max_parallel: 1 },
      }),
    ],
    ...more,
  })
}
/** Resolves when a request next watches its client, or sleeps. */
const whenNext = (step: 'watchClient' | 'sleep'): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const taken = Exchange.prototype[step] as (this: Exchange, ms: number) => Promise<void>
  spyOn(Exchange.prototype, step).mockImplementation(function (this: Exchange, ms: number) {
    resolve()
    return taken.call(this, ms)
  })
  return promise
}
const ask = (stream: boolean) => ({ model: 'small', stream, messages: [{ role: 'user', content: 'hi' }] })

/** Leaves, and waits for the outcome; fails when that takes too long. */
const leave = async (client: AbortController) => {
  const leftMs = performance.now()
  client.abort()
  const [settled] = await gateway.spool.untilSettled()
  expect(performance.now() - leftMs).toBeLessThan(WITHIN_MS + SLACK_MS)
  expect(settled).toMatchObject({ outcome: 'canceled', status: 499, error_code: 'request_canceled' })
  return settled!
}
/** Limits that resolve `taking` when they are called, and answer once the test resolves `taken`. */
const heldLimits = () => {
  const taking = Promise.withResolvers<void>()
  const taken = Promise.withResolvers<void>()
  const counts = processLimits(() => performance.now())
  const limits: Limits = {
    async take(ask) {
      taking.resolve()
      await taken.promise
      return counts.take(ask)
    },
    status: () => counts.status(),
  }
  return { taking, taken, counts, limits }
}
const untilOpen = (count: number) => eventually(`${count} connections are open`, () => server.open() === count)

// docs/behaviour.md: "Outcomes"
describe('a client that leaves', () => {
  test('while its body is read: nobody was called, nothing is charged', async () => {
    start(() => {})
    const client = new AbortController()
    const raw = new ReadableStream({
      start: (controller) => {
        controller.enqueue(new TextEncoder().encode('{"model": "sm'))
        client.signal.addEventListener('abort', () => controller.error(new Error('gone')))
      },
    })
    const listened = whenNext('watchClient')
    const answer = gateway.send('/v1/chat/completions', { raw, method: 'POST', key: KEY, signal: client.signal })
    await listened
    const settled = await leave(client)
    expect((await answer).status).toBe(499)
    expect(settled).toMatchObject({ cost_basis: 'none', attempts: [] })
    expect(server.requests).toHaveLength(0)
  })

  test('while its limits are taken: nobody is called, nothing is charged, nothing is held', async () => {
    const { taking, taken, counts, limits } = heldLimits()
    start(() => {}, { limits })
    const client = new AbortController()
    const listened = whenNext('watchClient')
    const answer = gateway.chat(ask(false), {}, client.signal)
    await Promise.all([taking.promise, listened])
    client.abort()
    taken.resolve()
    expect((await answer).status).toBe(499)
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'canceled', cost_nano_usd: 0 }])
    expect(server.requests).toHaveLength(0)
    expect(counts.status().held).toBe(0)
  })

  test('before a sweep has asked for it: nobody is called', async () => {
    const { taking, taken, limits } = heldLimits()
    start(() => {}, { limits })
    const client = new AbortController()
    const answer = gateway.chat(ask(false), {}, client.signal)
    await taking.promise
    client.abort()
    taken.resolve()
    expect((await answer).status).toBe(499)
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'canceled', cost_nano_usd: 0 }])
    expect(server.requests).toHaveLength(0)
  })

  for (const stream of [false, true]) {
    test(`while headers are waited for (${stream ? 'stream' : 'JSON'})`, async () => {
      const called = Promise.withResolvers<void>()
      start(() => called.resolve())
      const client = new AbortController()
      const answer = gateway.chat(ask(stream), {}, client.signal)
      await called.promise
      const settled = await leave(client)
      expect((await answer).status).toBe(499)
      await untilOpen(0)
      expect(settled).toMatchObject({ cost_basis: 'estimated', attempts: [{ outcome: 'canceled' }] })
    })
  }

  test('in the pause before a repeat: it is not repeated', async () => {
    start((request) => send(request, '{}', '500 X'))
    const client = new AbortController()
    const paused = whenNext('sleep')
    const answer = gateway.chat(ask(false), {}, client.signal)
    await paused
    await leave(client)
    expect((await answer).status).toBe(499)
    expect(server.requests).toHaveLength(1)
  })

  test('mid-stream: the tokens that it got stand in the outcome', async () => {
    start((request) => open(request, ROLE, WORD, WORD, WORD))
    const client = new AbortController()
    const response = await gateway.chat(ask(true), {}, client.signal)
    const reader = response.body!.getReader()
    for (let text = ''; text.split('content').length < 5; )
      text += new TextDecoder().decode((await reader.read()).value)
    const settled = await leave(client)
    await untilOpen(0)
    expect(settled.completion_tokens).toBeGreaterThan(3)
    expect(settled).toMatchObject({ cost_basis: 'estimated', attempts: [{ outcome: 'canceled' }] })
  })

  test('at once: the upstream is let go at the next sweep', async () => {
    start((request) => open(request, ROLE))
    const client = new AbortController()
    const answer = gateway.chat(ask(true), {}, client.signal)
    await leave(client)
    expect((await answer).status).toBe(499)
    await untilOpen(0)
  })
})
