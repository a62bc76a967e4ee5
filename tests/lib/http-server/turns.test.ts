// Connections whose requests wait for their turn: nobody is forgotten, and nobody has more than a turn.
import { afterEach, expect, test } from 'bun:test'
import { answerOf, connect, HOT, serving, stopServing } from './serving.ts'

afterEach(stopServing)

const ONE = `${HOT} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n`
const answersIn = (received: string) => received.split('HTTP/1.1 200').length - 1

test('more connections than may wait, each with more requests than have a turn: all are answered', async () => {
  const { port } = serving()
  const clients = await Promise.all(Array.from({ length: 600 }, () => connect(port)))
  // What is sent within one turn of this process is read within one of the server.
  for (const each of clients) each.write(ONE.repeat(40))
  for (const each of clients) expect(answersIn(await each.until((got) => answersIn(got) >= 40))).toBe(40)
})

test('one that sends thousands ahead has 32 of them begun before another has its turn', async () => {
  const order: string[] = []
  const { port } = serving({
    hot(request) {
      order.push(request.headers.get('x-who') ?? '')
      return answerOf(200, 'hot')
    },
  })
  const asked = (who: string) => `${HOT} HTTP/1.1\r\nhost: a\r\nx-who: ${who}\r\ncontent-length: 0\r\n\r\n`
  const [many, one] = await Promise.all([connect(port), connect(port)])
  many.write(asked('many').repeat(400))
  one.write(asked('one'))
  await one.until((got) => answersIn(got) === 1)
  await many.until((got) => answersIn(got) === 400)
  // Two turns at most: one may have begun before the other's bytes were read.
  expect(order.indexOf('one')).toBeLessThanOrEqual(64)
})

test('clients that have said all they will say are answered, however many come in a turn', async () => {
  const { port } = serving({
    hot: async () => {
      await null
      return answerOf(200, 'hot')
    },
  })
  const clients = await Promise.all(
    Array.from({ length: 100 }, () =>
      Bun.connect<{ got: string; done(got: string): void; closed: Promise<string> }>({
        hostname: '127.0.0.1',
        port,
        allowHalfOpen: true,
        data: (() => {
          const { promise, resolve } = Promise.withResolvers<string>()
          return { got: '', done: resolve, closed: promise }
        })(),
        socket: {
          data(socket, bytes) {
            socket.data.got += bytes.toString()
          },
          end: (socket) => void socket.end(),
          close: (socket) => socket.data.done(socket.data.got),
        },
      }),
    ),
  )
  for (const socket of clients) {
    socket.write(ONE)
    socket.shutdown()
  }
  for (const socket of clients) expect(answersIn(await socket.data.closed)).toBe(1)
})
