// Clients that read slowly, not at all, or leave; and how long each of them is waited for.

import { afterAll, describe, expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import type { AnswerSink, LiveBody } from '../../../src/lib/http-server/answer.ts'
import { eventually, standsStill } from '../../services/eventually.ts'
import {
  answerOf,
  answersIn,
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

const PIECE = 64 * 1024
const stream = (pull: (sink: ReadableStreamDefaultController<Uint8Array>) => unknown, cancel?: () => void) =>
  new ReadableStream<Uint8Array>(
    { pull: pull as never, ...(cancel === undefined ? {} : { cancel }) },
    { highWaterMark: 0 },
  )
/** Whether it settles before so long. */
const within = (promise: Promise<unknown>, ms: number): Promise<boolean> =>
  Promise.race([promise.then(() => true), Bun.sleep(ms).then(() => false)])

describe('a stream', () => {
  test('goes out as it is made', async () => {
    let send: (text: string) => void = () => {}
    let end = (): void => {}
    const { port } = serving({
      fetch: () =>
        new Response(
          new ReadableStream({
            start(sink) {
              send = (text) => sink.enqueue(Buffer.from(text))
              end = () => sink.close()
            },
          }),
          { headers: { 'content-type': 'text/event-stream' } },
        ),
    })
    const client = await connect(port, get())
    await client.until((received) => received.endsWith('\r\n\r\n'))
    for (const event of ['data: 1\n\n', 'data: 2\n\n', 'data: 3\n\n']) {
      send(event)
      await client.until((received) => received.includes(event))
    }
    end()
    const [answer] = answersIn(await client.until(isWhole()))
    expect(answer!.body).toBe('data: 1\n\ndata: 2\n\ndata: 3\n\n')
    client.leave()
  })

  test('that is empty, or has pieces that are, is whole', async () => {
    const empty = stream((sink) => sink.close())
    const sparse = ['', 'a', '', 'b', '']
    const { port } = serving({
      fetch: (request) =>
        new Response(
          request.url.endsWith('/empty')
            ? empty
            : stream(async (sink) => {
                await Bun.sleep(2)
                const next = sparse.shift()
                if (next === undefined) sink.close()
                else sink.enqueue(Buffer.from(next))
              }),
        ),
    })
    const client = await connect(port, get('/empty') + get('/sparse'))
    expect(answersIn(await client.until(isWhole(2))).map(({ body }) => body)).toEqual(['', 'ab'])
    client.leave()
  })

  test('that fails in the middle lacks its end, and its connection ends', async () => {
    const { port } = serving({
      fetch: () => {
        let pulls = 0
        return new Response(
          stream(async (sink) => {
            await Bun.sleep(5)
            if (pulls++ === 3) throw new Error('no more')
            sink.enqueue(Buffer.from('some'))
          }),
        )
      },
    })
    const received = await exchanged(port, get() + get('/next'))
    expect(received).toContain('4\r\nsome\r\n')
    expect(received).not.toContain('0\r\n\r\n')
    expect(received.match(/HTTP\/1\.1/g)).toHaveLength(1)
  })

  test('is not made faster than its client reads it', async () => {
    let pulls = 0
    const all = 3_000
    const { port } = serving({
      fetch: () =>
        new Response(
          stream((sink) => {
            if (pulls++ === all) sink.close()
            else sink.enqueue(Buffer.alloc(PIECE, 97))
          }),
        ),
    })
    const client = await connect(port)
    client.pause()
    const before = process.memoryUsage.rss()
    client.write(get())
    await standsStill(() => pulls)
    // What the kernel keeps for both ends, and a little.
    expect(pulls * PIECE).toBeLessThan(24_000_000)
    expect(process.memoryUsage.rss() - before).toBeLessThan(100_000_000)
    client.reset()
  })

  test('is cancelled, and its request aborted, when the client leaves', async () => {
    for (const way of ['leave', 'reset'] as const) {
      const cancelled = Promise.withResolvers<void>()
      const aborted = Promise.withResolvers<void>()
      const server = serving({
        fetch: (request) => {
          request.signal.onabort = () => aborted.resolve()
          const body = stream(
            async (sink) => {
              await Bun.sleep(5)
              sink.enqueue(Buffer.from('more'))
            },
            () => cancelled.resolve(),
          )
          return new Response(body)
        },
      })
      const client = await connect(server.port, get())
      await client.until((received) => received.includes('more'))
      client[way]()
      await Promise.all([cancelled.promise, aborted.promise])
      expect(server.pendingRequests).toBe(0)
    }
  })
})

const AHEAD: Record<string, string> = {
  nothing: get(),
  'a body that nobody reads': post('/', 'x'.repeat(300_000)),
  'requests behind it': get() + get('/next').repeat(5_000),
}
const WAYS = ['leave', 'reset'] as const
for (const [name, way, bytes] of Object.entries(AHEAD).flatMap(([of, sent]) =>
  WAYS.map((by) => [of, by, sent] as const),
))
  test(`a client that leaves before it is answered aborts its request, also with ${name} on its way (${way})`, async () => {
    const begun = Promise.withResolvers<void>()
    const aborted = Promise.withResolvers<void>()
    const { port } = serving({
      fetch: (request) => {
        request.signal.onabort = () => aborted.resolve()
        begun.resolve()
        return new Promise(() => {})
      },
    })
    const client = await connect(port, bytes.slice(0, 100))
    client.write(bytes.slice(100))
    await begun.promise
    await client.written()
    client[way]()
    expect(await within(aborted.promise, 1_500)).toBe(true)
  })

test('a large answer comes whole to a client that reads slowly', async () => {
  const body = Array.from({ length: 120_000 }, (_, i) => `line ${i} é€😀\n`).join('')
  const expected = Buffer.from(body).toString('latin1')
  const { port } = serving({ fetch: () => new Response(body), hot: () => answerOf(200, body) })
  for (const request of [get(), post('/hot', '')]) {
    const client = await connect(port)
    client.pause()
    client.write(request + get('/second'))
    for (let i = 0; i < 10; i++) {
      await Bun.sleep(5)
      client.resume()
      await Bun.sleep(1)
      client.pause()
    }
    client.resume()
    const length = Buffer.byteLength(body)
    const answers = answersIn(await client.until((received) => received.length > 2 * length && isWhole(2)(received)))
    for (const answer of answers) expect(answer.body === expected).toBe(true)
    client.leave()
  }
})

describe('a live body', () => {
  const live = (run: (sink: AnswerSink) => Promise<void>) => {
    const left = Promise.withResolvers<void>()
    let times = 0
    const body: LiveBody = {
      run,
      disconnected() {
        times++
        left.resolve()
      },
    }
    return { body, left: left.promise, times: () => times }
  }

  test('goes out in chunks when it is flushed, and the connection goes on', async () => {
    let next = Promise.withResolvers<void>()
    const { body, times } = live(async (sink) => {
      for (const text of ['a', 'é', '😀']) {
        sink.write(text)
        sink.write('.')
        expect(await sink.flush()).toBe(0)
        await next.promise
        next = Promise.withResolvers()
      }
      sink.write('x'.repeat(300_000))
      sink.write('end')
      sink.close()
      sink.close()
      sink.write('never')
    })
    const { port } = serving({ hot: (request) => answerOf(200, request.headers.has('x-text') ? 'next' : body) })
    const client = await connect(port, post('/hot', ''))
    for (const chunk of ['2\r\na.\r\n', '3\r\n\xc3\xa9.\r\n', '5\r\n\xf0\x9f\x98\x80.\r\n']) {
      await client.until((received) => received.endsWith(chunk))
      next.resolve()
    }
    client.write(post('/hot', '', 'X-Text: a\r\n'))
    const answers = answersIn(await client.until(isWhole(2)))
    expect(answers.map(({ body: said }) => said.slice(-4))).toEqual(['xend', 'next'])
    expect(Buffer.from(answers[0]!.body, 'latin1').toString()).toStartWith('a.é.😀.xxx')
    client.leave()
    await client.closed
    expect(times()).toBe(0)
  })

  test('waits while its client does not read, and goes on when it does', async () => {
    let written = 0
    const { body } = live(async (sink) => {
      for (; written < 400; written++) {
        sink.write('x'.repeat(PIECE))
        await sink.flush()
      }
      sink.close()
    })
    const { port } = serving({ hot: () => answerOf(200, body) })
    const client = await connect(port)
    client.pause()
    client.write(post('/hot', ''))
    await standsStill(() => written)
    expect(written).toBeLessThan(300)
    client.resume()
    const received = await client.until((all) => all.endsWith('0\r\n\r\n'))
    expect(answersIn(received)[0]!.body.length).toBe(400 * PIECE)
    client.leave()
  })

  test('is told once that the client left, and its flush does not wait for it', async () => {
    const blocked = Promise.withResolvers<void>()
    const done = Promise.withResolvers<void>()
    const { body, left, times } = live(async (sink) => {
      for (let i = 0; i < 400; i++) {
        sink.write('x'.repeat(PIECE))
        const flushed = sink.flush()
        if (flushed instanceof Promise) blocked.resolve()
        await flushed
      }
      sink.close()
      done.resolve()
    })
    const server = serving({ hot: () => answerOf(200, body) })
    const client = await connect(server.port)
    client.pause()
    client.write(post('/hot', ''))
    await blocked.promise
    client.reset()
    await left
    await done.promise
    expect([times(), server.pendingRequests, server.failures]).toEqual([1, 0, []])
  })

  test('is told when the server stops, and when the client left before there was one', async () => {
    const stopped = live(() => new Promise(() => {}))
    const server = serving({ hot: () => answerOf(200, stopped.body) })
    const client = await connect(server.port, post('/hot', '') + get())
    await eventually('a request is under way', () => server.pendingRequests > 0)
    server.stop()
    await Promise.all([stopped.left, client.closed])
    expect(stopped.times()).toBe(1)

    const late = live(async () => expect.unreachable())
    const aborted = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const slow = serving({
      async hot(request) {
        request.signal.onabort = () => aborted.resolve()
        begun.resolve()
        await aborted.promise
        return answerOf(200, late.body)
      },
    })
    const leaver = await connect(slow.port, post('/hot', ''))
    await begun.promise
    leaver.leave()
    await late.left
    expect(late.times()).toBe(1)
  })

  test('that fails ends its connection, and is told of', async () => {
    const { body } = live(async (sink) => {
      sink.write('some')
      await sink.flush()
      throw new Error('broken')
    })
    const server = serving({ hot: () => answerOf(200, body) })
    expect(await exchanged(server.port, post('/hot', ''))).not.toContain('0\r\n\r\n')
    expect(server.failures.map(String)).toEqual(['Error: broken'])
  })
})

test('a body in chunks of one byte does not hold much more than it is', async () => {
  const size = 400_000
  const { port } = serving({ hot: async (request) => answerOf(200, String((await request.bytes()).length)) })
  const client = await connect(port, `POST /hot HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
  client.write(inChunks('x'.repeat(size), 1))
  expect(answersIn(await client.until(isWhole()))[0]!.body).toBe(String(size))
  client.leave()
})
