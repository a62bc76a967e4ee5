// What a client gets from the server, and what its handlers see: requests one after the other, answers of every form.

import { afterAll, describe, expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import type { Inbound } from '../../../src/lib/http-server/inbound.ts'
import {
  answerOf,
  answersIn,
  chunked,
  connect,
  exchanged,
  get,
  inChunks,
  isWhole,
  post,
  type RawAnswer,
  serving,
  stopServing,
} from './serving.ts'

afterAll(stopServing)

const latin1 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
const text = (body: string): string => Buffer.from(body, 'latin1').toString('utf8')

/** Says what it was asked, by both ways in. */
const echoing = () =>
  serving({
    fetch: async (request) => {
      const body = latin1(await request.bytes())
      return Response.json([request.method, request.url, request.headers.get('x-a'), body])
    },
    hot: async (request) =>
      answerOf(200, JSON.stringify(['hot', request.headers.get('X-A'), latin1(await request.bytes())])),
  })

test('a request that is cut anywhere is answered the same', async () => {
  const { port } = echoing()
  const requests = [
    get('/p?q', 'X-A: b\r\n'),
    post('/other', 'hello', 'X-A: b\r\n'),
    post('/hot', 'hello', 'X-A: b\r\n'),
    chunked('/other', inChunks('hello, you', 4), 'X-A: b\r\n'),
    chunked('/hot', inChunks('hello, you', 4), 'X-A: b\r\n'),
  ]
  const client = await connect(port)
  let count = 0
  for (const request of requests) {
    let first: RawAnswer | undefined
    for (let cut = 0; cut < request.length; cut++) {
      client.write(request.slice(0, cut))
      // The first piece is on its way alone: the kernel gives both at once otherwise.
      await new Promise((resolve) => setImmediate(resolve))
      client.write(request.slice(cut))
      count++
      const all = answersIn(await client.until(isWhole(count)))
      first ??= all.at(-1)
      expect([cut, all.at(-1)!]).toEqual([cut, first!])
    }
  }
  client.leave()
})

test('a request that comes byte by byte is answered', async () => {
  const { port } = echoing()
  const client = await connect(port)
  for (const byte of chunked('/other', inChunks('hello, you', 4))) {
    client.write(byte)
    await new Promise((resolve) => setImmediate(resolve))
  }
  const [answer] = answersIn(await client.until(isWhole()))
  expect(answer!.body).toBe('["POST","http://a/other",null,"hello, you"]')
  client.leave()
})

test('requests in one packet are answered in order, each one begun when the one before is answered', async () => {
  const begun: string[] = []
  const release = new Map<string, () => void>()
  const seen = Promise.withResolvers<void>()
  const held = (name: string) => {
    begun.push(name)
    if (begun.length === 1) seen.resolve()
    return new Promise<void>((resolve) => release.set(name, resolve))
  }
  const { port } = serving({
    fetch: async (request) => {
      const name = new URL(request.url).pathname
      if (name !== '/now') await held(name)
      return new Response(name)
    },
    hot: async () => {
      await held('hot')
      return answerOf(200, 'hot')
    },
  })
  const client = await connect(port, get('/one') + post('/hot', 'x') + get('/now') + get('/three') + get('/now'))
  await seen.promise
  expect(begun).toEqual(['/one'])
  release.get('/one')!()
  await client.until(isWhole(1))
  expect(begun).toEqual(['/one', 'hot'])
  release.get('hot')!()
  await client.until(isWhole(3))
  expect(begun).toEqual(['/one', 'hot', '/three'])
  release.get('/three')!()
  const answers = answersIn(await client.until(isWhole(5)))
  expect(answers.map(({ body }) => body)).toEqual(['/one', 'hot', '/now', '/three', '/now'])
  client.leave()
})

test('thousands of requests at once are all answered', async () => {
  const { port } = serving({ hot: () => answerOf(200, 'a') })
  const client = await connect(port, post('/hot', 'x').repeat(3_000))
  const received = await client.until((all) => all.endsWith('a') && all.split('content-length').length === 3_001)
  expect(answersIn(received)).toHaveLength(3_000)
  client.leave()
})

describe('a connection', () => {
  const closesAt = async (request: string, port: number) => {
    const received = await exchanged(port, request + get('/never'))
    expect(answersIn(received)).toHaveLength(1)
    return answersIn(received)[0]!
  }
  test('ends when the client asks for it', async () => {
    const seen: string[] = []
    const { port } = serving({
      fetch: (request) => {
        seen.push(new URL(request.url).pathname)
        return new Response('x')
      },
    })
    const { headers } = await closesAt(get('/a', 'Connection: close\r\n'), port)
    expect(headers).toContainEqual(['connection', 'close'])
    await closesAt(post('/hot', 'x', 'Connection: close\r\n'), port)
    await closesAt('GET /b HTTP/1.0\r\n\r\n', port)
    expect(seen).toEqual(['/a', '/b'])
  })
  test('ends when the handler asks for it', async () => {
    const { port } = serving({
      fetch: () => new Response('x', { headers: { connection: 'close' } }),
      hot: () => answerOf(200, 'x', true),
    })
    for (const request of [get(), post('/hot', 'x')]) {
      const { headers } = await closesAt(request, port)
      expect(headers.filter(([name]) => name === 'connection')).toEqual([['connection', 'close']])
    }
  })
  test('of HTTP/1.0 gets no chunks: its end is that of the body', async () => {
    const came = Promise.withResolvers<void>()
    const stream = async function* () {
      yield Buffer.from('one, ')
      await came.promise
      yield Buffer.from('two')
    }
    const { port } = serving({
      fetch: () => new Response(stream() as unknown as ReadableStream),
      hot: () =>
        answerOf(200, {
          async run(sink) {
            sink.write('one, ')
            await sink.flush()
            sink.write('two')
            sink.close()
          },
          disconnected() {},
        }),
    })
    for (const request of ['GET / HTTP/1.0\r\n\r\n', 'POST /hot HTTP/1.0\r\nContent-Length: 0\r\n\r\n']) {
      const client = await connect(port, request)
      await client.until((received) => received.includes('one, '))
      came.resolve()
      const [answer] = answersIn(await client.closed)
      expect(answer!.body).toBe('one, two')
      expect(answer!.headers.map(([name]) => name)).not.toContain('transfer-encoding')
    }
  })
})

test('a HEAD, 204 and 304 have no body, and the next answer begins where they end', async () => {
  const statuses: Record<string, () => Response> = {
    '/204': () => new Response(null, { status: 204 }),
    '/304': () => new Response(null, { status: 304, headers: { etag: '"a"' } }),
    '/empty': () => new Response(null),
    '/text': () => new Response('some text'),
    '/stream': () => new Response(new ReadableStream({ pull: (sink) => sink.enqueue(Buffer.from('x')) })),
  }
  const { port } = serving({ fetch: (request) => statuses[new URL(request.url).pathname]!() })
  const heads = ['/text', '/stream', '/empty', '/204'].map((path) => get(path).replace('GET', 'HEAD'))
  const client = await connect(
    port,
    heads.join('') + ['/204', '/304', '/empty', '/text'].map((path) => get(path)).join(''),
  )
  const methods = ['HEAD', 'HEAD', 'HEAD', 'HEAD']
  const answers = answersIn(await client.until(isWhole(8, methods)), methods)
  expect(answers.map(({ status, body }) => [status, body])).toEqual([
    [200, ''],
    [200, ''],
    [200, ''],
    [204, ''],
    [204, ''],
    [304, ''],
    [200, ''],
    [200, 'some text'],
  ])
  for (const answer of [answers[3]!, answers[4]!])
    expect(answer.headers.map(([name]) => name)).not.toContain('content-length')
  client.leave()
})

for (const status of [204, 304])
  test(`a ${status} has no body, also where its handler gave it one`, async () => {
    const { port } = serving({
      fetch: (request) => (request.url.endsWith('/text') ? new Response('text') : new Response('x', { status })),
    })
    const client = await connect(port, get() + get('/text'))
    const received = await client.until((all) => all.endsWith('text'))
    expect(answersIn(received).map((answer) => [answer.status, answer.body])).toEqual([
      [status, ''],
      [200, 'text'],
    ])
    client.leave()
  })

test('a HEAD that fails, or cannot be read, has no body either', async () => {
  const { port } = serving({ fetch: () => Promise.reject(new Error('no')) })
  const client = await connect(port, 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD x HTTP/1.1\r\nHost: a\r\n\r\n')
  const received = await client.closed
  expect(answersIn(received, ['HEAD', 'HEAD']).map(({ status }) => status)).toEqual([500, 400])
})

test('a handler that throws, against its word, is told of and answered for', async () => {
  const server = serving({
    fetch: () => {
      throw new Error('thrown')
    },
    hot: () => {
      throw new Error('thrown hot')
    },
  })
  const statuses: (number | undefined)[] = []
  for (const request of [get('/', 'Connection: close\r\n'), post('/hot', '', 'Connection: close\r\n')])
    statuses.push(answersIn(await exchanged(server.port, request))[0]?.status)
  expect(server.failures.map(String)).toEqual(['Error: thrown', 'Error: thrown hot'])
  expect(statuses).toEqual([500, 500])
})

test('headers go out as they are, several of one name too, and those of the server once', async () => {
  const headers = new Headers([
    ['set-cookie', 'a=1; Path=/'],
    ['set-cookie', 'b=2'],
    ['x-latin', 'caf\xe9'],
    ['content-length', '3'],
    ['transfer-encoding', 'chunked'],
    ['connection', 'keep-alive'],
    ['date', 'never'],
    ['content-type', 'text/plain'],
  ])
  const { port } = serving({ fetch: () => new Response('hello', { headers }) })
  const client = await connect(port, get())
  const received = await client.until(isWhole())
  expect(answersIn(received)[0]).toEqual({
    status: 200,
    headers: expect.arrayContaining([
      ['set-cookie', 'a=1; Path=/'],
      ['set-cookie', 'b=2'],
      ['x-latin', 'caf\xe9'],
      ['content-type', 'text/plain'],
      ['content-length', '5'],
    ]) as never,
    body: 'hello',
  })
  expect(received.match(/^date: /gim)).toHaveLength(1)
  expect(Math.abs(Date.parse(/^date: (.*)\r$/m.exec(received)![1]!) - Date.now())).toBeLessThan(3_000)
  client.leave()
})

const TEXTS = ['', 'é', '€uro', '😀 astral 🏳️‍🌈', 'half \ud83d', '\ude00 half', 'a\x00b', 'ÿ'.repeat(100_000)]
TEXTS.push('a'.repeat(300_000), '€'.repeat(82_600), '€'.repeat(90_000), '😀'.repeat(50_000))

test('text is UTF-8, with its length in bytes, on both ways', async () => {
  let body = ''
  const { port } = serving({ fetch: () => new Response(body), hot: () => answerOf(200, body) })
  const client = await connect(port)
  let count = 0
  for (body of TEXTS) {
    const bytes = Buffer.from(body)
    for (const request of [get(), post('/hot', '')]) {
      client.write(request)
      const answer = answersIn(await client.until(isWhole(++count))).at(-1)!
      expect(answer.body === bytes.toString('latin1')).toBe(true)
      expect(text(answer.body)).toBe(bytes.toString())
    }
  }
  client.leave()
})

const BODIES = [0, 1, 2_000, 64 * 1024, 10 * 1024 * 1024]
const READERS: Record<string, (request: Request) => Promise<Uint8Array>> = {
  bytes: (request) => request.bytes(),
  arrayBuffer: async (request) => new Uint8Array(await request.arrayBuffer()),
  stream: async (request) => {
    const pieces: Uint8Array[] = []
    if (request.body !== null) for await (const piece of request.body) pieces.push(piece)
    return Buffer.concat(pieces)
  },
  json: async (request) => (request.body === null ? Buffer.alloc(0) : Buffer.from(String(await request.json()))),
}

describe('bodies', () => {
  const server = serving({
    fetch: async (request) => {
      const bytes = await READERS[new URL(request.url).pathname.slice(1)]!(request)
      return new Response(`${bytes.length} ${Bun.hash(bytes)}`)
    },
    hot: async (request: Inbound) => {
      const bytes = await request.bytes()
      return answerOf(200, `${bytes.length} ${Bun.hash(bytes)}`)
    },
  })
  for (const size of BODIES)
    test(`of ${size} bytes come whole, by their length and in chunks`, async () => {
      const client = await connect(server.port)
      let count = 0
      for (const name of ['hot', ...Object.keys(READERS)]) {
        const body =
          name === 'json' ? String(10 ** Math.min(size, 15)) : 'abcdefghij'.repeat(size / 10 + 1).slice(0, size)
        const asked = name === 'json' && size === 0 ? '' : body
        for (const request of [post(`/${name}`, asked), chunked(`/${name}`, inChunks(asked, 10_007))]) {
          if (name === 'json' && asked === '') continue
          client.write(request)
          const answer = answersIn(await client.until(isWhole(++count))).at(-1)!
          expect([name, answer.body]).toEqual([name, `${asked.length} ${Bun.hash(asked)}`])
        }
      }
      client.leave()
    })
})

test('the next request is answered though the body of a HEAD is never done with being cancelled', async () => {
  const { port } = serving({ fetch: () => new Response(new ReadableStream({ cancel: () => new Promise(() => {}) })) })
  const client = await connect(port, `${get().replace('GET', 'HEAD')}${get('/').replace('GET', 'HEAD')}`)
  expect(
    await Promise.race([client.until(isWhole(2, ['HEAD', 'HEAD'])), Bun.sleep(1_000).then(() => null)]),
  ).not.toBeNull()
  client.leave()
})
