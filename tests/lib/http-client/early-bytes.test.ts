// Bytes that arrive before a request on a new connection are never the answer to it.
import { afterAll, describe, expect, test } from 'bun:test'
import { Worker } from 'node:worker_threads'
import { ConnectLimiter } from '../../../src/lib/http-client/connect-limiter.ts'
import { HttpConnection } from '../../../src/lib/http-client/connection.ts'
import { ca, closeAll, limits, pair } from './dialling.ts'
import type { EarlyServer } from './early-server.ts'

const EVIL = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'
const workers: Worker[] = []
afterAll(async () => {
  closeAll()
  await Promise.all(workers.map((worker) => worker.terminate()))
})

const startEarly = async (tls: EarlyServer['tls']) => {
  const sent = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(new URL('./early-server.ts', import.meta.url), { workerData: { answer: EVIL, tls, sent } })
  workers.push(worker)
  const port = await new Promise<number>((resolve) => worker.once('message', resolve))
  return { port, sent }
}

/** The answer that a new connection takes, whose bytes came in the moment between its opening and the request. */
const askedLate = async (port: number, sent: Int32Array, tls: Bun.TLSOptions | null) => {
  const pool = { deadlines: { add: () => {}, delete: () => {} }, release: () => {}, forget: () => {} } as never
  const connection = new HttpConnection('key', tls !== null, pool)
  const attempt = await new ConnectLimiter(() => performance.now()).enter('key', limits())
  await connection.open({ hostname: '127.0.0.1', port, tls }, limits(), attempt)
  // The last message of the handshake goes out.
  if (tls !== null) await new Promise((resolve) => setImmediate(resolve))
  // The event loop stands still meanwhile: the bytes are in the kernel, and nothing has read them.
  Atomics.wait(sent, 0, 0, 5_000)
  await connection.settled()
  const request = Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  const answer = connection.exchange('GET', { bytes: request, start: 0, end: request.length }, limits())
  connection.destroy()
  return answer
}

describe('an answer before the request, on a new connection', () => {
  test('S44: is taken for none', async () => {
    const { port, sent } = await startEarly(null)
    expect(await askedLate(port, sent, null)).toBeNull()
  })

  test('S44: is taken for none over TLS', async () => {
    const { port, sent } = await startEarly(pair('upstream'))
    expect(await askedLate(port, sent, { ca, serverName: 'upstream.test' })).toBeNull()
  })
})
