// What has come in a turn of the event loop, whoever is told of it and when.
import { expect, test } from 'bun:test'
import { Cancellation } from '../../../src/lib/event-loop/cancellation.ts'
import { HttpExchange } from '../../../src/lib/http-client/exchange.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n'
const LIVE = 'HTTP/1.1 200 OK\r\n\r\n'

const exchange = () => {
  const said: string[] = []
  const connection = {
    pause: () => void said.push('pause'),
    resume: () => void said.push('resume'),
    finished: (reusable: boolean) => void said.push(`finished ${reusable}`),
    destroy: () => void said.push('destroy'),
  }
  const limits = { signal: new Cancellation(), connectMs: 1_000, headersMs: 1_000 }
  const http = new HttpExchange('POST', connection, limits, { add: () => {}, delete: () => {} } as never)
  return { http, said, send: (text: string) => http.receive(Buffer.from(text)) }
}

test('several pieces of a turn are told once, in their order', async () => {
  const { http, send } = exchange()
  send(`${LIVE}a`)
  expect((await http.answered).status).toBe(200)
  expect(http.textNow(100)).toBe('a')
  let told = 0
  http.listen({ arrived: () => void told++ })
  for (const piece of ['b', 'c', 'd']) send(piece)
  expect([told, http.readNow()]).toEqual([0, null])
  http.deliver()
  expect([told, Buffer.from(http.readNow()!).toString()]).toEqual([1, 'bcd'])
})

test('an answer whose head came before its time was over is in time, whenever that is looked at', async () => {
  const { http, send, said } = exchange()
  send(`${HEAD}0123`)
  http.overdue()
  expect((await http.answered).status).toBe(200)
  send('456789')
  expect(await http.text(100)).toBe('0123456789')
  expect(said).toEqual(['finished true'])
})

test('half a head is none', async () => {
  const { http, send, said } = exchange()
  send('HTTP/1.1 200 OK\r\nConte')
  http.overdue()
  await expect(http.answered).rejects.toThrow('no response headers within 1000 ms')
  expect(said).toEqual(['destroy'])
})

test('an answer that has come whole outlives what comes after it in the same turn', async () => {
  for (const after of ['reset', 'end', 'cancel'] as const) {
    const { http, send, said } = exchange()
    send(`${HEAD}0123456789`)
    if (after === 'cancel') void http.cancel()
    else http.closed(after === 'reset')
    expect((await http.answered).status).toBe(200)
    expect(await http.text(100)).toBe('0123456789')
    expect(said).toEqual(['finished true'])
  }
})

test('a connection that breaks after the head of an answer breaks its body', async () => {
  const { http, send, said } = exchange()
  send(`${HEAD}0123`)
  http.closed(true)
  expect((await http.answered).status).toBe(200)
  await expect(http.text(100)).rejects.toThrow('reset')
  expect(said).toEqual(['destroy'])
})

test('a coding that was not asked for is a failure, not an answer', async () => {
  const { http, send } = exchange()
  send('HTTP/1.1 200 OK\r\nContent-Encoding: rot13\r\n\r\n')
  await expect(http.answered).rejects.toThrow('content-encoding')
})

test('S44: bytes behind the end of an answer, in the same turn, end its connection', async () => {
  const { http, send, said } = exchange()
  send(`${HEAD}0123456789`)
  send('HTTP/1.1 200 OK\r\n')
  expect(await (await http.answered).text(100)).toBe('0123456789')
  expect(said).toEqual(['finished false'])
})

test('S44: a large read behind the end of an answer, in the same turn, closes its connection', async () => {
  const { http, send, said } = exchange()
  send(`${HEAD}0123456789`)
  send('x'.repeat(80 * 1024))
  expect(await (await http.answered).text(100)).toBe('0123456789')
  expect(said).toEqual(['finished true', 'destroy'])
})

test('much is not joined, and held back at once while nobody reads it', async () => {
  const { http, send, said } = exchange()
  send(LIVE)
  send('x'.repeat(80 * 1024))
  expect(said).toEqual(['pause'])
  expect((await http.answered).status).toBe(200)
  let read = 0
  for (let piece = http.readNow(); piece !== null; piece = http.readNow()) read += piece.length
  expect(read).toBe(80 * 1024)
})

test('what came before a connection broke, in the same turn, is read before that is told', async () => {
  for (const end of ['reset', 'cut', 'malformed'] as const) {
    const { http, send, said } = exchange()
    send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    http.deliver()
    const told: (string | null)[] = []
    http.listen({
      arrived() {
        told.push(http.textNow(100), null)
        expect(() => http.readNow()).toThrow(end === 'malformed' ? 'malformed' : 'before the answer was complete')
      },
    })
    send('4\r\nlast\r\n')
    if (end === 'malformed') send('zz\r\n')
    else http.closed(end === 'reset')
    http.deliver()
    expect([end, told, said]).toEqual([end, ['last', null], ['destroy']])
  }
})

test('what was canceled is read no more', async () => {
  const { http, send } = exchange()
  send(`${LIVE}a`)
  http.deliver()
  await http.cancel()
  expect(() => http.textNow(100)).toThrow('canceled')
})

test('a fault of who is told breaks this answer only', async () => {
  const { http, send, said } = exchange()
  send(LIVE)
  http.deliver()
  http.listen({
    arrived() {
      throw new Error('a fault')
    },
  })
  send('a')
  http.deliver()
  expect(said).toEqual(['destroy'])
  expect(http.textNow(100)).toBe('a')
  expect(() => http.readNow()).toThrow('could not be taken')
})
