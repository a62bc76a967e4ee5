// How long a connection may stay silent, and who is not hurried.
import { afterAll, expect, test } from 'bun:test'
import { connect as netConnect } from 'node:net'
import { serveWithBun } from '../../../src/lib/http-server/bun-server.ts'
import { serveHttp } from '../../../src/lib/http-server/server.ts'
import { eventually } from '../../services/eventually.ts'
import {
  answerOf,
  answersIn,
  connect,
  exchanged,
  get,
  isWhole,
  post,
  type RawClient,
  serving,
  stopServing,
} from './serving.ts'

afterAll(stopServing)

const IDLE_MS = 600
const HEAD_MS = 1_200
/** The server looks every half second. */
const SWEEP_MS = 500 + 250

/** How long it took until the server ended the connection; Infinity for longer than two deadlines. */
const lifeMs = async (client: RawClient, most: number): Promise<number> => {
  const begunMs = performance.now()
  await Promise.race([client.closed, Bun.sleep(most)])
  const tookMs = performance.now() - begunMs
  client.reset()
  return tookMs < most ? tookMs : Number.POSITIVE_INFINITY
}
const between = (ms: number, least: number): void => {
  expect(ms).toBeGreaterThanOrEqual(least - 20)
  expect(ms).toBeLessThan(least + SWEEP_MS)
}
const options = { idleMs: IDLE_MS, headMs: HEAD_MS }

test.concurrent('who says nothing has the time of a head', async () => {
  between(await lifeMs(await connect(serving({}, options).port), 4_000), HEAD_MS)
})

test.concurrent('a head has its time from the connection on, however late it begins', async () => {
  const client = await connect(serving({}, options).port)
  setTimeout(() => client.write('GET'), HEAD_MS * 0.8)
  between(await lifeMs(client, 4_000), HEAD_MS)
})

test.concurrent('a head that comes byte by byte has no more time', async () => {
  const client = await connect(serving({}, options).port, 'GET / HTTP/1.1\r\nX: ')
  const timer = setInterval(() => client.write('x'), 100)
  between(await lifeMs(client, 4_000), HEAD_MS)
  clearInterval(timer)
})

test.concurrent('who was answered has the time of the idle, and from a first byte on that of a head', async () => {
  const { port } = serving({}, options)
  const idle = await connect(port, get())
  await idle.until(isWhole())
  const next = await connect(port, get())
  await next.until(isWhole())
  next.write('G')
  const [idleMs, nextMs] = await Promise.all([lifeMs(idle, 4_000), lifeMs(next, 4_000)])
  between(idleMs, IDLE_MS)
  between(nextMs, HEAD_MS)
})

test.concurrent('who reads nothing of what is left is let go', async () => {
  const body = 'x'.repeat(20_000_000)
  for (const [bytes, handlers] of [
    [get(), { fetch: () => new Response(body) }],
    [post('/hot', ''), { hot: () => answerOf(200, body) }],
  ] as const) {
    const server = serving(handlers, options)
    const client = await connect(server.port)
    client.pause()
    client.write(bytes)
    await eventually('a request is under way', () => server.pendingRequests > 0)
    const begunMs = performance.now()
    await eventually('it is let go', () => server.pendingRequests === 0)
    between(performance.now() - begunMs, IDLE_MS)
    client.reset()
  }
})

test.concurrent('who reads slowly, but goes on reading, is not let go', async () => {
  const body = 'x'.repeat(20_000_000)
  const { port } = serving({ fetch: () => new Response(body), hot: () => answerOf(200, body) }, options)
  const read = async (bytes: string) => {
    const client = await connect(port)
    client.pause()
    client.write(bytes)
    for (let i = 0; i < 8; i++) {
      await Bun.sleep(IDLE_MS / 2)
      const { length } = client.received()
      client.resume()
      await Promise.race([client.until((received) => received.length > length), client.closed])
      client.pause()
    }
    client.resume()
    expect(answersIn(await client.closed)[0]!.body.length).toBe(body.length)
  }
  const closes = 'Connection: close\r\n'
  await Promise.all([read(get('/', closes)), read(post('/hot', '', closes))])
})

test.concurrent('who waits for an answer is not hurried', async () => {
  const slow = async () => {
    await Bun.sleep(IDLE_MS + HEAD_MS)
    return answerOf(200, 'late', true)
  }
  const { port } = serving({ fetch: async () => new Response((await slow()).body as string), hot: slow }, options)
  for (const request of [get('/', 'Connection: close\r\n'), post('/hot', '')])
    expect(answersIn(await exchanged(port, request))[0]!.body).toBe('late')
})

test.concurrent('a body that does not come is not waited for without end', async () => {
  const server = serving({ fetch: async (request) => new Response(await request.text()) }, options)
  const client = await connect(server.port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhi')
  expect(await lifeMs(client, IDLE_MS + HEAD_MS + 2_000)).toBeLessThan(Number.POSITIVE_INFINITY)
})

test.concurrent('who sent much ahead and was answered is let go like any other', async () => {
  const release = Promise.withResolvers<void>()
  const { port } = serving(
    {
      fetch: async (request) => {
        if (request.url.endsWith('/first')) await release.promise
        return new Response('x')
      },
    },
    options,
  )
  const next = get('/next', `X: ${'x'.repeat(4_000)}\r\n`)
  const count = 100
  const client = await connect(port, get('/first'))
  // In pieces, of which the last ones are not read before the first request is answered.
  for (let sent = 0; sent < count; sent += 10) {
    client.write(next.repeat(10))
    await Bun.sleep(10)
  }
  release.resolve()
  await client.until(isWhole(1 + count))
  between(await lifeMs(client, 4_000), IDLE_MS)
})

test.concurrent('nor is one that stops after it was read with a pause', async () => {
  const { port } = serving(
    {
      async fetch(request) {
        await Bun.sleep(30)
        return new Response(await request.text().catch(() => 'none'))
      },
    },
    options,
  )
  const client = await connect(port, post('/', 'x'.repeat(3_000_000)).slice(0, -1_000))
  expect(await lifeMs(client, IDLE_MS + HEAD_MS + 2_000)).toBeLessThan(Number.POSITIVE_INFINITY)
})

for (const path of ['/hot', '/other'])
  test.concurrent(`who sent a large body to ${path}, read with a pause, is let go like any other`, async () => {
    const { port } = serving(
      {
        async fetch(request) {
          await Bun.sleep(30)
          return new Response(String((await request.bytes()).length))
        },
        async hot(request) {
          await Bun.sleep(30)
          return answerOf(200, String((await request.bytes()).length))
        },
      },
      options,
    )
    const client = await connect(port, post(path, 'x'.repeat(3_000_000)))
    await client.until(isWhole())
    between(await lifeMs(client, 4_000), IDLE_MS)
  })

test.concurrent('who goes on sending a body that nobody reads has two seconds', async () => {
  const server = serving({ fetch: () => new Response('no', { status: 413 }) }, options)
  // It does not end when it is told that the server says no more.
  const socket = netConnect({ host: '127.0.0.1', port: server.port, allowHalfOpen: true })
  const ended = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  let received = ''
  socket.on('data', (bytes: Buffer) => {
    received += bytes.toString('latin1')
  })
  socket.on('end', () => ended.resolve())
  socket.on('error', () => closed.resolve())
  socket.on('close', () => closed.resolve())
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n')
  await ended.promise
  const begunMs = performance.now()
  const timer = setInterval(() => socket.write('x'.repeat(10_000)), 50)
  await Promise.race([closed.promise, Bun.sleep(5_000)])
  clearInterval(timer)
  socket.destroy()
  expect(answersIn(received).map(({ status }) => status)).toEqual([413])
  between(performance.now() - begunMs, 2_000)
})

test('a request that came in time is answered, also where the process was too busy to read it', async () => {
  const busy = async (client: RawClient) => {
    client.write(get('/', 'Connection: close\r\n'))
    await client.written()
    Bun.sleepSync(HEAD_MS + SWEEP_MS)
    return new Response('busy')
  }
  for (const first of ['', get()]) {
    let client: RawClient
    const { port } = serving(
      { fetch: ({ url }) => (url.endsWith('/busy') ? busy(client) : new Response('x')) },
      options,
    )
    client = await connect(port, first)
    if (first !== '') await client.until(isWhole())
    await connect(port, get('/busy'))
    expect(answersIn(await client.closed).at(-1)?.headers).toContainEqual(['connection', 'close'])
  }
})

test.each([serveHttp, serveWithBun])('a port is had by one server, or by those that share it (%p)', (serve) => {
  const options = { hostname: '127.0.0.1', idleMs: 1_000, headMs: 1_000 }
  const handlers = {
    fetch: () => new Response(),
    hot: [],
    malformed: () => answerOf(400, ''),
    failed: () => answerOf(500, ''),
  }
  for (const reusePort of [false, true]) {
    const first = serve({ ...options, port: 0, reusePort, handlers })
    const second = () => serve({ ...options, port: first.port, reusePort, handlers })
    if (reusePort) second().stop()
    else expect(second).toThrow(expect.objectContaining({ code: 'EADDRINUSE' }) as never)
    first.stop()
  }
})
