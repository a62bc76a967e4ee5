// Clients that send bytes that are no request, or that two parsers would read in two ways: the answer closes the
// connection, and no later bytes are handled.
import { afterAll, describe, expect, test } from 'bun:test'
import { HEAD_BYTES } from '../../../src/lib/http-server/request-head.ts'
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
  serving,
  stopServing,
} from './serving.ts'

afterAll(stopServing)

/** Notes what is handled; reads all of each body. */
const noting = (options: Parameters<typeof serving>[1] = {}) => {
  const handled: string[] = []
  const server = serving(
    {
      fetch: async (request) => {
        const path = `${request.method} ${new URL(request.url).pathname}`
        handled.push(path)
        try {
          return new Response(`${path} ${(await request.bytes()).length}`)
        } catch (error) {
          return new Response(String(error), { status: 400 })
        }
      },
      hot: async (request) => {
        handled.push('hot')
        try {
          return answerOf(200, `hot ${(await request.bytes()).length}`)
        } catch (error) {
          return answerOf(400, String(error))
        }
      },
    },
    options,
  )
  return { ...server, port: server.port, handled, server }
}

const EVIL = get('/evil')
const MALFORMED: Record<string, [string, number]> = {
  'a second request in the body of one with two lengths': [
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: ${EVIL.length}\r\n\r\n`,
    400,
  ],
  'a length and chunks': [
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  'chunks in HTTP/1.0': ['POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
  'another coding': ['POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n', 501],
  'a folded header': ['GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n', 400],
  'a space before the colon': ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n', 400],
  'a bare LF': ['GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n', 400],
  'no host': ['GET / HTTP/1.1\r\n\r\n', 400],
  'two hosts': ['GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', 400],
  'a host that is none': ['GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', 400],
  'a port that is none': ['GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n', 400],
  'another host in the first line': ['GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  'somebody in the first line': ['GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  'a target without a slash': ['GET evil HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  'a target of another kind': ['GET file:///etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  CONNECT: ['CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n', 400],
  'a method in lower case': ['get / HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  'HTTP/0.9': ['GET /\r\n\r\n', 400],
  'HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505],
  'an answer': ['HTTP/1.1 200 OK\r\n\r\n', 400],
  'too many headers': [`GET / HTTP/1.1\r\nHost: a\r\n${'a:b\r\n'.repeat(200)}\r\n`, 431],
  'too much of a head': [`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(HEAD_BYTES)}\r\n\r\n`, 431],
  'a head without an end': [`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(HEAD_BYTES)}`, 431],
  'another expectation': ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: a miracle\r\n\r\n', 417],
}

describe('no request', () => {
  for (const [name, [bytes, status]] of Object.entries(MALFORMED))
    test(`${name}: ${status}, and nothing follows`, async () => {
      const { port, handled } = noting()
      const received = await exchanged(port, get('/before') + bytes + EVIL)
      const [before, refusal, ...others] = answersIn(received)
      expect(before!.body).toBe('GET /before 0')
      expect([refusal?.status, others]).toEqual([status, []])
      expect(refusal!.headers).toContainEqual(['connection', 'close'])
      expect(refusal!.body).toStartWith('malformed: ')
      expect(handled).toEqual(['GET /before'])
    })

  test('what comes in a later packet is not handled either', async () => {
    const { port, handled } = noting()
    const client = await connect(port, 'GET / HTTP/1.1\r\n\r\n')
    await client.until(isWhole())
    client.write(EVIL)
    expect(answersIn(await client.closed)).toHaveLength(1)
    expect(handled).toEqual([])
  })

  test('nothing is handled while a refusal waits for its client to read', async () => {
    const handled: string[] = []
    const { port } = serving({
      fetch: (request) => {
        handled.push(request.url)
        return new Response('evil')
      },
      malformed: () => answerOf(400, 'x'.repeat(20_000_000), true),
    })
    const client = await connect(port)
    client.pause()
    client.write('GET / HTTP/1.1\r\n\r\n')
    // A request later than this one was sent is answered, so that one was read.
    const other = await connect(port)
    const turn = async () => {
      other.write(get('/other', ''))
      await other.until(isWhole(handled.filter((url) => url.endsWith('/other')).length + 1))
    }
    await turn()
    client.write(EVIL)
    await client.written()
    await turn()
    await turn()
    expect(handled.filter((url) => url.endsWith('/evil'))).toEqual([])
    client.reset()
    other.leave()
  })
})

for (const method of ['TRACE', 'BREW'])
  test(`${method}, which the runtime makes no request of, is not taken for another method`, async () => {
    const { port, handled } = noting()
    const asked = `${method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
    const [answer] = answersIn(await exchanged(port, asked))
    expect(handled.filter((line) => !line.startsWith(method))).toEqual([])
    if (handled.length === 0) expect(answer!.status).toBe(501)
  })

test('a TLS hello is answered, or its connection ended, before its time is over', async () => {
  const { port } = noting({ headMs: 3_600_000 })
  const client = await connect(port, `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03${'\x00'.repeat(506)}`)
  await client.closed
})

test('lines that end in LF alone are answered before their time is over', async () => {
  const { port } = noting({ headMs: 3_600_000 })
  const client = await connect(port, 'GET / HTTP/1.1\nHost: a\n\n')
  await client.closed
})

test('the largest head is the same one, however it is cut', async () => {
  const { port } = noting()
  for (const over of [-2, -1, 0, 1]) {
    const line = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: '
    const head = `${line}${'x'.repeat(HEAD_BYTES + over - line.length)}\r\n\r\n`
    const whole = answersIn(await exchanged(port, head))[0]!.status
    for (const behind of [1, 2, 3]) {
      const client = await connect(port)
      client.write(head.slice(0, -behind))
      // The second piece comes on its own.
      await Bun.sleep(20)
      client.write(head.slice(-behind))
      expect([over, behind, answersIn(await client.closed)[0]!.status]).toEqual([over, behind, whole])
    }
  }
})

describe('a body that is none', () => {
  const BROKEN = ['5\r\nhello!\r\n', 'x\r\n', '5\r\nhello\n', '0\r\nX\r\n\r\n', `5;${'x'.repeat(300)}\r\n`]
  for (const path of ['/hot', '/other'])
    for (const body of BROKEN)
      test(`${JSON.stringify(body.slice(0, 20))} to ${path} is told to who reads it, and ends the connection`, async () => {
        const { port, handled } = noting()
        // At once, and as a packet of its own.
        const client = await connect(port, chunked(path, ''))
        client.write(body + EVIL)
        for (const received of [await exchanged(port, chunked(path, body + EVIL)), await client.closed]) {
          const answers = answersIn(received)
          expect(answers.map(({ status }) => status)).toEqual([400])
          expect(answers[0]!.headers).toContainEqual(['connection', 'close'])
          expect(answers[0]!.body).toContain('MalformedRequest')
        }
        expect(handled.filter((name) => name.includes('evil'))).toEqual([])
      })
})

describe('a body that is not read', () => {
  const unread = () => {
    const handled: string[] = []
    const { port } = serving({
      fetch: (request) => {
        handled.push(new URL(request.url).pathname)
        return new Response('early', { status: 413 })
      },
      hot: () => {
        handled.push('hot')
        return answerOf(413, 'early'.repeat(20_000))
      },
    })
    return { port, handled }
  }
  for (const path of ['/hot', '/other'])
    for (const size of [1_000, 3_000_000])
      test(`of ${size} bytes to ${path}: the answer is whole, the connection ends, nothing of it is a request`, async () => {
        const { port, handled } = unread()
        const body = EVIL.repeat(size / EVIL.length)
        for (const request of [post(path, body), chunked(path, inChunks(body, 5_000))]) {
          handled.length = 0
          const head = request.indexOf('\r\n\r\n') + 4
          const client = await connect(port, request.slice(0, head))
          await client.until((received) => received.includes('early'))
          client.write(request.slice(head) + EVIL)
          const answers = answersIn(await client.closed)
          expect(answers.map(({ status, body: said }) => [status, said.slice(0, 5)])).toEqual([[413, 'early']])
          expect(answers[0]!.headers).toContainEqual(['connection', 'close'])
          expect(handled).toEqual([path === '/hot' ? 'hot' : path])
        }
      })

  test('but has come already: the connection goes on behind it', async () => {
    const { port, handled } = unread()
    const client = await connect(port, post('/other', EVIL) + chunked('/other', inChunks(EVIL, 7)) + get('/next'))
    await client.until(isWhole(3))
    expect(handled).toEqual(['/other', '/other', '/next'])
    client.leave()
  })
})

describe('100 Continue', () => {
  const EXPECT = 'Expect: 100-continue\r\n'
  const headOf = (request: string) => request.slice(0, request.indexOf('\r\n\r\n') + 4)
  test('is sent when the body is wanted', async () => {
    const { port } = noting()
    for (const path of ['/hot', '/other'])
      for (const request of [post(path, 'hello', EXPECT), chunked(path, inChunks('hello', 2), EXPECT)]) {
        const client = await connect(port, headOf(request))
        expect(await client.until((all) => all.includes('\r\n\r\n'))).toBe('HTTP/1.1 100 Continue\r\n\r\n')
        client.write(request.slice(headOf(request).length) + get('/next'))
        const received = await client.until(isWhole(2))
        expect(answersIn(received).map(({ body }) => body.slice(-1))).toEqual(['5', '0'])
        expect(received.match(/100 Continue/g)).toHaveLength(1)
        client.leave()
      }
  })
  test('is not sent when nobody wants it, or it has come', async () => {
    const { port } = serving({ fetch: () => new Response('no', { status: 401 }) })
    expect(await exchanged(port, headOf(post('/', 'hello', EXPECT)))).not.toContain('100 Continue')
    const other = noting()
    for (const path of ['/hot', '/other']) {
      const client = await connect(other.port, post(path, 'hello', EXPECT))
      expect(await client.until(isWhole())).not.toContain('100 Continue')
      client.leave()
    }
  })
  test('is not sent in the middle of an answer', async () => {
    const asked = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const { port } = serving({
      fetch: (request) => {
        const body = request.body!.getReader()
        let pulls = 0
        const answer = new ReadableStream<Uint8Array>({
          async pull(sink) {
            pulls++
            if (pulls === 1) sink.enqueue(Buffer.from('first'))
            else {
              await begun.promise
              const reading = body.read()
              setImmediate(asked.resolve)
              const { done, value } = await reading
              if (done) sink.close()
              else sink.enqueue(value)
            }
          },
        })
        return new Response(answer)
      },
    })
    const client = await connect(port, headOf(post('/', 'hello', EXPECT)))
    await client.until((received) => received.includes('first'))
    begun.resolve()
    await asked.promise
    client.write('hello')
    expect(answersIn(await client.closed).map(({ body }) => body)).toEqual(['firsthello'])
  })
})

test('an answer that ends the connection is whole, also for who sends more before it has read it', async () => {
  const { port } = serving({ hot: () => answerOf(200, 'x'.repeat(1_500_000), true) })
  const client = await connect(port)
  client.pause()
  client.write(post('/hot', ''))
  // The answer is with the kernel, and the server has ended.
  await Bun.sleep(50)
  client.resume()
  client.write(get('/later'))
  expect((await client.closed).length).toBeGreaterThan(1_500_000)
})
