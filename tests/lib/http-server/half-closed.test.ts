// Clients that end their side after the request and read on (RFC 9112, 9.6), and those that end both.
import { afterAll, describe, expect, test } from 'bun:test'
import { connect as connectNode } from 'node:net'
import type { AnswerSink } from '../../../src/lib/http-server/answer.ts'
import { answerOf, answersIn, chunked, get, inChunks, post, serving, stopServing } from './serving.ts'

afterAll(stopServing)

/** Sends these bytes and ends its side; what came until the server ended the other. */
const halfClosed = (port: number, bytes: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let received = ''
    const socket = connectNode({ port, host: '127.0.0.1', allowHalfOpen: true }, () => socket.end(bytes, 'latin1'))
    socket.setEncoding('latin1')
    socket.on('data', (text) => {
      received += text
    })
    socket.on('end', () => {
      resolve(received)
      socket.destroy()
    })
    socket.on('error', reject)
  })

/** Answers after `turns` turns of the event loop with the body that it received. */
const echo = (waitMs: number) => {
  const wait = () => new Promise((resolve) => setTimeout(resolve, waitMs))
  return serving({
    fetch: async (request) => {
      const text = await request.text()
      await wait()
      return new Response(`fetched ${text.length}`)
    },
    hot: async (request) => {
      const { length } = await request.bytes()
      await wait()
      return answerOf(200, `hot ${length}`)
    },
  })
}

describe('a client that ends its side after the request', () => {
  const BODY = 'x'.repeat(300_000)
  const REQUESTS: Readonly<Record<string, readonly [string, readonly string[]]>> = {
    'without a body': [get(), ['fetched 0']],
    'with a body': [post('/hot', 'abc'), ['hot 3']],
    'with a large body': [post('/hot', BODY), [`hot ${BODY.length}`]],
    'with a body in chunks': [chunked('/a', inChunks(BODY, 7_000)), [`fetched ${BODY.length}`]],
    'of several requests': [post('/hot', 'a') + get() + post('/hot', 'bcd'), ['hot 1', 'fetched 0', 'hot 3']],
    'of more requests than have a turn': [post('/hot', 'a').repeat(100), new Array<string>(100).fill('hot 1')],
    'of HTTP/1.0': ['GET / HTTP/1.0\r\n\r\n', ['fetched 0']],
    'that asks for the end': [get('/', 'Connection: close\r\n'), ['fetched 0']],
  }
  for (const [name, [bytes, bodies]] of Object.entries(REQUESTS))
    for (const waitMs of [0, 20])
      test(`S45: gets its answers: ${name}, after ${waitMs} ms`, async () => {
        const server = echo(waitMs)
        const received = await halfClosed(server.port, bytes)
        expect(answersIn(received).map(({ body }) => body)).toEqual([...bodies])
        expect(server.pendingRequests).toBe(0)
      })

  test('gets an answer for which it waits long, behind interim ones', async () => {
    const answers = answersIn(await halfClosed(echo(1_500).port, post('/hot', 'abc')))
    expect(answers.map(({ body }) => body)).toEqual(['hot 3'])
  })

  test('gets a live body to its end, however slow it is', async () => {
    const run = async (sink: AnswerSink) => {
      for (const text of ['a\n\n', 'b\n\n']) {
        sink.write(text)
        await sink.flush()
        await Bun.sleep(1_200)
      }
      sink.close()
    }
    const server = serving({ hot: () => answerOf(200, { run, disconnected: () => {}, idleText: ':\n\n' }) })
    const [answer] = answersIn(await halfClosed(server.port, post('/hot', '')))
    expect(answer!.body.replaceAll(':\n\n', '')).toBe('a\n\nb\n\n')
  })

  test('in the middle of a request is gone', async () => {
    const server = echo(0)
    for (const bytes of [post('/hot', 'abc').slice(0, -1), get().slice(0, -2), '', 'GE'])
      expect(await halfClosed(server.port, bytes)).toBe('')
    expect(await halfClosed(server.port, get() + get().slice(0, -2))).toMatch(/fetched 0$/)
    expect(server.pendingRequests).toBe(0)
  })

  test('with bytes that are no request gets their answer', async () => {
    expect(await halfClosed(echo(0).port, 'no request\r\n\r\n')).toStartWith('HTTP/1.1 400 ')
  })
})

test('a live body whose client has ended both sides is ended between its texts', async () => {
  const disconnected = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const run = async (sink: AnswerSink) => {
    sink.write('a\n\n')
    await sink.flush()
    begun.resolve()
    await disconnected.promise
    sink.close()
  }
  const { port } = serving({
    hot: () => answerOf(200, { run, disconnected: () => disconnected.resolve(), idleText: ':\n\n' }),
  })
  const socket = connectNode({ port, host: '127.0.0.1' }, () => socket.write(post('/hot', '')))
  await begun.promise
  socket.destroy()
  await disconnected.promise
})
