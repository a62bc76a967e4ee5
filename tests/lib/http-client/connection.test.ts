// What a connection of the client writes when its socket takes little at a time.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Cancellation } from '../../../src/lib/event-loop/cancellation.ts'
import { HttpConnection } from '../../../src/lib/http-client/connection.ts'

const limits = { signal: new Cancellation(), connectMs: 1_000, headersMs: 1_000 }
const pool = { deadlines: { add: () => {}, delete: () => {} }, release: () => {}, forget: () => {} } as never

/** Takes so many bytes of each write, again and again. */
const slowSocket = (takes: readonly number[]) => {
  const taken: Buffer[] = []
  let writes = 0
  const write = (bytes: Uint8Array, from = 0, length = bytes.length - from): number => {
    const count = Math.min(length, takes[writes++ % takes.length]!)
    taken.push(Buffer.from(bytes.subarray(from, from + count)))
    return count
  }
  const socket = { readyState: 1, write, ref: () => {}, unref: () => {}, terminate: () => {} }
  return { socket, taken: () => Buffer.concat(taken) }
}

test('the bytes of a request are those of when it was sent, whatever is written over them while its socket takes no more', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 300 }),
      fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 5 }),
      fc.nat({ max: 20 }),
      (sent, takes, start) => {
        const { socket, taken } = slowSocket(takes)
        const connection = new HttpConnection('key', false, pool)
        connection.onOpen(socket as never)
        const shared = Buffer.alloc(400, 0xee)
        shared.set(sent, start)
        connection.exchange('POST', { bytes: shared, start, end: start + sent.length }, limits)?.catch(() => {})
        shared.fill(0xff)
        for (let drained = 0; drained <= sent.length; drained++) connection.onDrain()
        expect(taken().equals(sent)).toBe(true)
      },
    ),
  )
})
