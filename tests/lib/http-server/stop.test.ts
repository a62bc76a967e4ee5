// What clients see when the server stops.
import { afterAll, expect, test } from 'bun:test'
import { connect as netConnect } from 'node:net'
import type { AnswerSink } from '../../../src/lib/http-server/answer.ts'
import { answerOf, get, post, serving, stopServing } from './serving.ts'

afterAll(stopServing)

const HEAD = /\r\n\r\n/

/**
 * Sends these bytes, and calls `stop` once the head of an answer has arrived. Returns `end` or `reset`: how the server
 * closes the connection.
 */
const endingOf = async (port: number, text: string, stop: () => void): Promise<string> => {
  const socket = netConnect({ host: '127.0.0.1', port })
  const begun = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<string>()
  let received = ''
  socket.on('data', (bytes: Buffer) => {
    received += bytes.toString('latin1')
    if (HEAD.test(received)) begun.resolve()
  })
  socket.on('end', () => ended.resolve('end'))
  socket.on('error', () => ended.resolve('reset'))
  socket.write(text)
  await begun.promise
  stop()
  const ending = await ended.promise
  socket.destroy()
  return ending
}

/** Answers that go on without end: a `Response`, and a live body. */
const endless = () =>
  serving({
    fetch: () => new Response(new ReadableStream({ start: (controller) => controller.enqueue('some') })),
    hot: () =>
      answerOf(200, {
        async run(sink: AnswerSink) {
          sink.write('some')
          await sink.flush()
          await new Promise(() => {})
        },
        disconnected() {},
      }),
  })

for (const [name, request] of [
  ['a stream', get()],
  ['a live body', post('/hot', '')],
] as const) {
  test(`${name} that is cut by the stop is not taken for whole by a client whose answers end with their connection`, async () => {
    const server = endless()
    const one = request.replace('HTTP/1.1', 'HTTP/1.0')
    expect(await endingOf(server.port, one, () => server.stop())).toBe('reset')
  })

  test(`${name} that is cut by the stop lacks its end: its connection is closed, so that what was sent before still comes`, async () => {
    const server = endless()
    expect(await endingOf(server.port, request, () => server.stop())).toBe('end')
  })
}
