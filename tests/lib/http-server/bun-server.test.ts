// What the server of the runtime promises beside what it does as the own one (`differential.test.ts`).
import { afterEach, expect, test } from 'bun:test'
import { serveWithBun } from '../../../src/lib/http-server/bun-server.ts'
import {
  answersIn,
  chunked,
  connect,
  exchanged,
  get,
  inChunks,
  isWhole,
  post,
  serving,
  stopServing,
} from './serving.ts'

afterEach(stopServing)

test('a fault of a handler is reported, and answered', async () => {
  const fault = new Error('a fault')
  const { port, failures } = serving({ fetch: () => Promise.reject(fault) }, {}, serveWithBun)
  const client = await connect(port, get())
  expect(answersIn(await client.until(isWhole()))).toMatchObject([{ status: 500, body: 'failed' }])
  expect(failures).toEqual([fault])
  client.leave()
})

test('hot routes are left to `fetch`', async () => {
  const { port } = serving({ hot: () => Promise.reject(new Error('called')) }, {}, serveWithBun)
  const client = await connect(port, post('/hot', 'x'))
  expect(answersIn(await client.until(isWhole()))).toMatchObject([{ status: 200, body: 'fetched' }])
  client.leave()
})

test('handlers are replaced while it serves, for open connections too', async () => {
  const server = serving({}, {}, serveWithBun)
  const client = await connect(server.port, get())
  await client.until(isWhole())
  server.reload({
    handlers: {
      fetch: () => new Response('replaced'),
      hot: [],
      malformed: () => ({ status: 400, head: '', body: '', closes: true }),
      failed: () => ({ status: 500, head: '', body: '', closes: true }),
    },
    idleMs: 1_000,
  })
  client.write(get())
  expect(answersIn(await client.until(isWhole(2))).at(-1)).toMatchObject({ body: 'replaced' })
  // The new time counts from the next answer on.
  await client.closed
}, 30_000)

test('a request that names two hosts is malformed, and the connection ends', async () => {
  const { port } = serving({}, {}, serveWithBun)
  const [answer] = answersIn(await exchanged(port, 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'))
  expect(answer).toMatchObject({ status: 400, body: 'malformed: send one Host header' })
})

test('a body without bound is not taken', async () => {
  const { port } = serving(
    { fetch: async (request) => new Response(String((await request.bytes().catch(() => [])).length)) },
    {},
    serveWithBun,
  )
  expect(await exchanged(port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108865\r\n\r\n')).toStartWith(
    'HTTP/1.1 413 ',
  )
  const client = await connect(port, chunked('/', inChunks('x'.repeat(67_108_865), 1024 * 1024)))
  expect(await client.until((received) => received.includes('\r\n\r\n'))).toStartWith('HTTP/1.1 413 ')
  client.reset()
}, 30_000)

test('a stop ends what is pending', async () => {
  const asked = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const server = serving(
    {
      fetch(request) {
        request.signal.onabort = () => left.resolve()
        asked.resolve()
        return new Promise<Response>(() => {})
      },
    },
    {},
    serveWithBun,
  )
  const client = await connect(server.port, get())
  await asked.promise
  expect(server.pendingRequests).toBe(1)
  server.stop()
  expect(await client.closed).toBe('')
  await left.promise
})
