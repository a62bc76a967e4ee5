// One connection among others: the share of the process that it may use, and answers that arrive whole although the
// connection closes after them.
import { afterAll, expect, test } from 'bun:test'
import { ServerRequest } from '../../../src/lib/http-server/request.ts'
import { headEnd, RequestHead } from '../../../src/lib/http-server/request-head.ts'
import { eventually } from '../../services/eventually.ts'
import { answersIn, connect, get, isWhole, serving, stopServing } from './serving.ts'

afterAll(stopServing)

const PACK = get('/many').repeat(20_000)
const PACKS = 60
const SOME = 5_000

test('what is sent ahead waits in the kernel, however many answers go out meanwhile', async () => {
  let answered = 0
  const enough = Promise.withResolvers<void>()
  const { port } = serving({
    async fetch() {
      await new Promise((resolve) => setImmediate(resolve))
      if (++answered === 2_000) enough.resolve()
      return new Response('x')
    },
  })
  const client = await connect(port)
  for (let i = 0; i < PACKS; i++) client.write(PACK)
  const written = client.written().then(() => 'all of it')
  await enough.promise
  // Two reads of the kernel's at most, and what its buffers hold.
  expect(await Promise.race([written, Promise.resolve('not all')])).toBe('not all')
  client.reset()
})

test('who sends many requests at once does not keep others waiting', async () => {
  let many = 0
  let before = Number.POSITIVE_INFINITY
  const { port } = serving({
    fetch(request) {
      if (request.url.endsWith('/many')) many++
      else before = many
      return new Response('x')
    },
  })
  const [client, other] = [await connect(port), await connect(port)]
  client.write(get('/many').repeat(SOME))
  other.write(get('/other', 'Connection: close\r\n'))
  expect(answersIn(await other.closed)[0]!.status).toBe(200)
  expect(before).toBeLessThan(SOME / 2)
  await client.until(isWhole(SOME))
  client.reset()
})

test('an answer that is with the kernel comes whole to who reads it late, though the connection ends with it', async () => {
  const { port } = serving({ fetch: () => new Response('x'.repeat(300_000)) })
  for (const request of [get('/', 'Connection: close\r\n'), 'GET / HTTP/1.0\r\n\r\n']) {
    const client = await connect(port)
    client.pause()
    client.write(request)
    // Longer than the server waits for who goes on sending.
    await Bun.sleep(3_000)
    client.resume()
    expect(answersIn(await client.closed)[0]!.body.length).toBe(300_000)
  }
}, 20_000)

test('a late body does not give time to who reads nothing', async () => {
  const server = serving({ fetch: () => new Response('x'.repeat(20_000_000)) }, { idleMs: 500 })
  const client = await connect(server.port)
  client.pause()
  client.write('GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n')
  await eventually('the answer is under way', () => server.pendingRequests > 0)
  client.write('abc')
  await eventually('the client is let go', () => server.pendingRequests === 0)
  client.resume()
  expect((await client.closed).length).toBeLessThan(20_000_000)
})

test('a body that fails while its client does not read is told of once, and its connection ends', async () => {
  const blocked = Promise.withResolvers<void>()
  const broken = Promise.withResolvers<void>()
  let pulls = 0
  const server = serving({
    fetch: () =>
      new Response(
        new ReadableStream<Uint8Array>({
          async pull(controller) {
            if (pulls++ === 0) return controller.enqueue(new Uint8Array(20_000_000))
            blocked.resolve()
            await broken.promise
            controller.error(new Error('gone'))
          },
        }),
      ),
  })
  const client = await connect(server.port)
  client.pause()
  client.write(get())
  await blocked.promise
  broken.resolve()
  await Bun.sleep(50)
  client.resume()
  expect(await client.closed).not.toEndWith('0\r\n\r\n')
  expect(server.failures.map(String)).toEqual(['Error: gone'])
})

test('little data among much that announces it keeps little', async () => {
  const bytes = Buffer.from('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  const uplink = { readBody() {}, pauseBody() {}, resumeDeadlines() {} }
  const request = new ServerRequest(new RequestHead(bytes, headEnd(bytes, 0)), uplink)
  const chunk = `1;${'a'.repeat(250)}\r\nx\r\n`
  request.receive(Buffer.from(`${chunk.repeat(1_000)}0\r\n\r\n`), 0)
  const body = await request.bytes()
  expect(body.length).toBe(1_000)
  expect(body.buffer.byteLength).toBeLessThan(chunk.length * 500)
})
