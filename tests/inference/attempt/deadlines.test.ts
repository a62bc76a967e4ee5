// Each deadline alone, with the others far away: what it ends, with which code, and when.
import { afterEach, describe, expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'
import { type FaultAnswer, type FaultServer, startFaultServer } from '../../faults/matrix/fault-server.ts'
import { ANSWER, FINISH, JSON_TYPE, open, ROLE, WORD } from '../../faults/matrix/row.ts'
import { eventually } from '../../services/eventually.ts'
import { entry, framesOf, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const LIMIT_MS = 500
/** The sweep comes every 50 ms; the rest is for a busy machine. The other deadlines are far behind it. */
const SLACK_MS = 10_000
/**
 * An idle limit that pieces at intervals of `APART_MS` meet, also on a busy machine. All pieces together take longer
 * than this limit.
 */
const KEPT_MS = 1_000
const APART_MS = 200
const FAR = { connect_ms: 30_000, first_token_ms: 30_000, stream_idle_ms: 30_000, total_ms: 60_000 }

let server: FaultServer
let gateway: TestGateway
afterEach(() => {
  gateway.close()
  server.stop()
})

const start = (
  timeouts: Partial<typeof FAR>,
  answer: FaultAnswer,
  more: { timeoutMs?: number; scheme?: string; others?: readonly string[] } = {},
) => {
  server = startFaultServer(answer)
  const kind = 'openai_compatible'
  const baseUrl = `${more.scheme ?? 'http'}://127.0.0.1:${server.port}/v1`
  gateway = testGateway({
    entries: ['alpha', ...(more.others ?? [])].map((provider) =>
      entry({ provider, kind, baseUrl, timeoutMs: more.timeoutMs ?? null }),
    ),
    kinds: [kindOf(kind)!],
    policies: [policyRow({ retry: { attempts: 0 }, timeouts: { ...FAR, ...timeouts } })],
  })
}
const ask = async (stream: boolean) => {
  const startedMs = performance.now()
  const response = await gateway.chat({ model: 'small', stream, messages: [{ role: 'user', content: 'hi' }] })
  const frames = response.ok && stream ? await framesOf(response) : [await response.json()]
  return { status: response.status, frames, tookMs: performance.now() - startedMs }
}
/** The upstream's connection is closed. */
const resumeDeadlines = () => eventually('the upstream is let go', () => server.open() === 0)
const inTime = (tookMs: number, limitMs = LIMIT_MS) => {
  expect(tookMs).toBeGreaterThanOrEqual(limitMs - 5)
  expect(tookMs).toBeLessThan(limitMs + SLACK_MS)
}

// docs/behaviour.md: "Time limits"
describe('a deadline', () => {
  for (const stream of [false, true]) {
    const wire = stream ? 'stream' : 'JSON'

    test(`connect: TLS that is never agreed on is 504 (${wire})`, async () => {
      start({ connect_ms: LIMIT_MS }, () => {}, { scheme: 'https' })
      const { status, frames, tookMs } = await ask(stream)
      expect([status, frames[0]]).toMatchObject([504, { error: { code: 'timeout' } }])
      inTime(tookMs)
      expect(gateway.spool.settled()[0]).toMatchObject({ cost_basis: 'none', error_code: 'timeout' })
    })

    test(`headers: the provider's own timeout is 504 (${wire})`, async () => {
      start({}, () => {}, { timeoutMs: LIMIT_MS })
      const { status, tookMs } = await ask(stream)
      expect(status).toBe(504)
      inTime(tookMs)
      await resumeDeadlines()
    })

    test(`total: nothing was answered, 504 (${wire})`, async () => {
      start({ total_ms: LIMIT_MS }, () => {})
      const { status, frames, tookMs } = await ask(stream)
      expect([status, frames[0]]).toMatchObject([504, { error: { code: 'timeout' } }])
      inTime(tookMs)
    })
  }

  test('total: half a JSON answer is 504', async () => {
    start({ total_ms: LIMIT_MS }, ({ connection }) =>
      connection.write(`HTTP/1.1 200 OK\r\n${JSON_TYPE}Content-Length: ${ANSWER.length}\r\n\r\n${ANSWER.slice(0, 50)}`),
    )
    const { status, tookMs } = await ask(false)
    expect(status).toBe(504)
    inTime(tookMs)
  })

  test('total: half a stream ends as a truncated answer', async () => {
    start({ total_ms: LIMIT_MS }, (request) => open(request, ROLE, WORD))
    const { status, frames, tookMs } = await ask(true)
    expect(status).toBe(200)
    expect(frames.at(-2)).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      gateway: { completion: { truncated: true, reason: 'timeout' } },
    })
    expect(frames.at(-1)).toBe('[DONE]')
    inTime(tookMs)
    expect(gateway.spool.settled()[0]).toMatchObject({ outcome: 'interrupted', error_code: 'timeout' })
  })

  test('first token: headers and a role are no token', async () => {
    start({ first_token_ms: LIMIT_MS }, (request) => open(request, ROLE))
    const { status, tookMs } = await ask(true)
    expect(status).toBe(504)
    inTime(tookMs)
    await resumeDeadlines()
  })

  test('first token: a head alone does not take the time of the next candidate', async () => {
    start(
      { total_ms: 4_000 },
      (request) => {
        if (server.requests.length === 1) return open(request)
        open(request, WORD, FINISH, 'data: [DONE]\n\n')
        request.last()
      },
      { others: ['beta'] },
    )
    const { status, frames, tookMs } = await ask(true)
    expect([status, frames.at(-1), server.requests.length]).toEqual([200, '[DONE]', 2])
    expect(tookMs).toBeLessThan(4_000)
  })

  const atWork: [name: string, pieces: readonly string[]][] = [
    ['comments', Array<string>(8).fill(': still thinking\n\n')],
    ['its role, again and again', Array<string>(8).fill(ROLE)],
    ['pieces of its first frame', ROLE.match(/.{1,20}\n*/g) ?? []],
  ]
  test.each(atWork)('first token: %s begin the wait anew', async (_, pieces) => {
    start({ first_token_ms: KEPT_MS }, async (request) => {
      open(request)
      for (const piece of pieces) {
        await Bun.sleep(APART_MS)
        request.chunk(piece)
      }
      request.chunk(WORD)
      request.chunk(FINISH)
      request.chunk('data: [DONE]\n\n')
      request.last()
    })
    const { status, frames } = await ask(true)
    expect([status, frames.at(-1)]).toEqual([200, '[DONE]'])
  })

  test('first token: comments do not outlast the total, nor the provider’s own timeout', async () => {
    for (const [timeouts, timeoutMs] of [
      [{ total_ms: LIMIT_MS }, undefined],
      [{}, LIMIT_MS],
    ] as const) {
      let isOpen = true
      start(
        timeouts,
        async (request) => {
          open(request)
          while (isOpen) {
            await Bun.sleep(20)
            request.chunk(': still thinking\n\n')
          }
        },
        { timeoutMs },
      )
      const { status, tookMs } = await ask(true)
      isOpen = false
      expect(status).toBe(504)
      inTime(tookMs)
      await resumeDeadlines()
      gateway.close()
      server.stop()
    }
  })

  test('idle: a stream that stops ends with an error frame, and the upstream is let go', async () => {
    start({ stream_idle_ms: LIMIT_MS }, (request) => open(request, ROLE, WORD))
    const { status, frames, tookMs } = await ask(true)
    expect(status).toBe(200)
    expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { code: 'timeout' } } })
    inTime(tookMs)
    await resumeDeadlines()
  })

  const keepingAlive: [name: string, pieces: readonly string[]][] = [
    ['comments', Array<string>(8).fill(': still here\n\n')],
    ['pieces of one long frame', WORD.match(/.{1,25}\n*/g) ?? []],
  ]
  test.each(keepingAlive)('idle: a stream that is kept alive by %s is not ended by it', async (_, pieces) => {
    start({ stream_idle_ms: KEPT_MS }, async (request) => {
      open(request, ROLE, WORD)
      for (const piece of pieces) {
        await Bun.sleep(APART_MS)
        request.chunk(piece)
      }
      request.chunk(FINISH)
      request.chunk('data: [DONE]\n\n')
      request.last()
    })
    const { frames } = await ask(true)
    expect(frames.at(-1)).toBe('[DONE]')
    expect(gateway.spool.settled()[0]).toMatchObject({ outcome: 'success' })
  })

  test('idle: what flows slowly is not ended by it', async () => {
    start({ stream_idle_ms: KEPT_MS }, async (request) => {
      open(request, ROLE)
      for (let word = 0; word < 8; word++) {
        request.chunk(WORD)
        await Bun.sleep(APART_MS)
      }
      request.chunk('data: [DONE]\n\n')
      request.last()
    })
    const { frames } = await ask(true)
    expect(frames.at(-1)).toBe('[DONE]')
    expect(gateway.spool.settled()[0]).toMatchObject({ outcome: 'success' })
  })
})
