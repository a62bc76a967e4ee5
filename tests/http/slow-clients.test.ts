// Clients that hold connections: deadlines close those that send nothing, send slowly, or never read; those that only
// wait stay.
import { afterAll, describe, expect, test } from 'bun:test'
import { entry, KEY, testGateway } from '../inference/gateway.ts'
import { EACH_LISTENER, serveApp } from '../services/serve-app.ts'
import { startUpstream } from '../services/upstream.ts'

/** The least that the runtime keeps: it looks at connections every four seconds. */
const IDLE_S = 4
const BODY_MS = 100

describe.each(EACH_LISTENER)('behind the %s listener', (listener) => {
  const upstream = startUpstream()
  const gateway = testGateway({
    entries: [entry({ baseUrl: upstream.baseUrl })],
    inference: { idleS: IDLE_S, bodyMs: BODY_MS },
  })
  const server = serveApp(gateway.app, listener)
  afterAll(async () => {
    gateway.close()
    server.stop()
    await upstream.stop()
  })

  interface Client {
    /** Everything that it has been sent; resolves when the server has closed the connection. */
    readonly closed: Promise<string>
    write(text: string): void
    end(): void
  }

  const connect = async (drip?: string): Promise<Client> => {
    let received = ''
    const closed = Promise.withResolvers<string>()
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: server.port,
      socket: {
        data(_, bytes) {
          received += bytes.toString('latin1')
        },
        close: () => closed.resolve(received),
        error: () => closed.resolve(received),
      },
    })
    const timer = drip === undefined ? undefined : setInterval(() => socket.write(drip), 500)
    void closed.promise.then(() => clearInterval(timer))
    return { closed: closed.promise, write: (text) => void socket.write(text), end: () => socket.end() }
  }

  const headOf = (length: number) =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\n` +
    `Authorization: Bearer ${KEY}\r\nContent-Length: ${length}\r\n\r\n`
  const ask = (stream: boolean) =>
    JSON.stringify({ model: 'small', stream, messages: [{ role: 'user', content: 'hi' }] })
  const whole = (body: string) => headOf(body.length) + body

  /** Sends these bytes, then `drip` every half second. Returns what came until the server closed the connection. */
  const until = async (first: string, drip?: string): Promise<string> => {
    const client = await connect(drip)
    client.write(first)
    const received = await client.closed
    client.end()
    return received
  }
  /** Begun now, for the runtime takes its twelve seconds. */
  const headless = [until(''), until('GET /health HTTP/1.1\r\nHost: gw\r\nX-A: ', 'a'), until('GE', 'T')]
  const statusOf = (received: string) => /^HTTP\/1\.1 (\d{3})/.exec(received)?.[1] ?? null

  // docs/behaviour.md: "Overload"
  test('a body that does not come, or too slowly, is 408, and its connection ends', async () => {
    const [silent, slow, admitted] = await Promise.all([
      until(headOf(100)),
      until(headOf(100), ' '),
      gateway.spool.untilSettled(2),
    ])
    for (const received of [silent, slow]) {
      expect(statusOf(received)).toBe('408')
      expect(received.toLowerCase()).toContain('connection: close')
    }
    expect(admitted.map(({ outcome, status }) => [outcome, status])).toEqual([
      ['denied', 408],
      ['denied', 408],
    ])
    expect(upstream.received).toHaveLength(0)
  }, 30_000)

  test('who is answered and asks nothing more is let go, also when a next head begins and never ends', async () => {
    const answered = await Promise.all([
      until(whole(ask(false))),
      until(whole(ask(true))),
      until('GET /health HTTP/1.1\r\nHost: gw\r\n\r\n'),
      until('GET /nope HTTP/1.1\r\nHost: gw\r\n\r\n'),
      until(
        'POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nX-Gateway-Min-Revision: x\r\nContent-Length: 2\r\n\r\n{}',
      ),
      until('GET /health HTTP/1.1\r\nHost: gw\r\n\r\nGET /health HTTP/1.1\r\nX-A: ', 'a'),
    ])
    expect(answered.map(statusOf)).toEqual(['200', '200', '200', '404', '401', '200'])
  }, 30_000)

  test('who waits for an answer is not let go, and the next request on its connection is waited for too', async () => {
    const client = await connect()
    upstream.next({ delayMs: IDLE_S * 1_000 + 1_000, text: 'after a while' })
    client.write(whole(ask(false)))
    const received = await client.closed
    expect(statusOf(received)).toBe('200')
    expect(received).toContain('after a while')
    client.end()
  }, 60_000)

  test('who waits for the next piece of a stream is not let go', async () => {
    upstream.next({ chunks: 2, chunkDelayMs: IDLE_S * 1_000 + 4_000, text: 'in two parts' })
    const received = await until(whole(ask(true)))
    expect(received).toContain('[DONE]')
  }, 120_000)

  test('who says nothing, or a head that never ends, is let go', async () => {
    expect(await Promise.all(headless)).toEqual(['', '', ''])
  }, 30_000)
})
