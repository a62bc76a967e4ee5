// The pooled client: connections that serve one request after another, and those that must not.
import { afterEach, describe, expect, test } from 'bun:test'
import type { RawConnection } from '../../services/raw-server.ts'
import { closeAll, closing, dialer, kindOf, limits, OK, post, serve } from './dialling.ts'

afterEach(closeAll)

/** Requests up to this size share memory. */
const MOST_KEPT_BYTES = 1024 * 1024

describe('the pooled client', () => {
  const ask = async (dial: ReturnType<typeof dialer>['dial'], url: string) =>
    (await dial(post(url), limits())).text(1_000)

  test('a connection serves one request after another', async () => {
    const server = serve((connection) => connection.write(OK))
    const { dial } = dialer()
    for (let i = 0; i < 5; i++) expect(await ask(dial, server.origin)).toBe('ok')
    expect(server.connections.length).toBe(1)
  })

  test('it is not used again when the server closes it, sends more than the answer, or was not sent the whole request', async () => {
    const cases: [string, string, string][] = [
      ['connection: close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok', '{}'],
      ['bytes after the answer', `${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`, '{}'],
      [
        'a promise to keep it too short',
        'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok',
        '{}',
      ],
    ]
    for (const [name, answer, body] of cases) {
      const server = serve((connection) => connection.write(answer))
      const { dial } = dialer()
      for (let i = 0; i < 3; i++) expect(await (await dial(post(server.origin, body), limits())).text(100)).toBe('ok')
      expect([name, server.connections.length]).toEqual([name, 3])
    }
  })

  test('a body that is read slowly comes in pieces, whole, and holds the server back meanwhile', async () => {
    const size = 40 * 1024 * 1024
    const text = Array.from({ length: 1024 }, (_, i) => `${i % 10}`.repeat(1024))
      .join('')
      .repeat(size / 1024 / 1024)
    let drained = false
    const server = serve((connection) => {
      connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n${text}`)
      void connection.drained().then(() => {
        drained ||= connection.number === 0
      })
    })
    const { dial } = dialer()
    const response = await dial(post(server.origin), limits())
    const reader = response.reader!()
    // A reader that is done with its bytes gives them back: that must not touch what has not been read.
    const pieces: Buffer[] = []
    let largest = 0
    const keep = (bytes: Uint8Array) => {
      pieces.push(Buffer.from(bytes))
      largest = Math.max(largest, bytes.buffer.byteLength)
      reader.release!(bytes)
    }
    keep((await reader.read()).value!)
    largest = 0
    // This takes as long as the server needs to send everything: unread bytes fill the kernel's buffers, and no more.
    expect((await (await dial(post(server.origin), limits())).text(size)).length).toBe(size)
    expect(drained).toBe(false)
    for (let next = await reader.read(); !next.done; next = await reader.read()) keep(next.value!)
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(64 * 1024)
    expect(largest).toBeLessThanOrEqual(64 * 1024)
    expect(Buffer.concat(pieces).toString() === text).toBe(true)
  })

  test('bytes that come while it is idle end it: they are never an answer to the next request', async () => {
    let first: RawConnection | undefined
    const server = serve((connection) => {
      first ??= connection
      connection.write(OK)
    })
    const { dial } = dialer()
    expect(await ask(dial, server.origin)).toBe('ok')
    first!.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
    await server.closed(0)
    expect(await ask(dial, server.origin)).toBe('ok')
    expect(server.connections.length).toBe(2)
  })

  // With the answer, right after it before the client has read the socket again, and at times after it.
  for (const afterMs of ['with it', 'at once', 0, 1, 5, 30] as const)
    test(`surplus bytes of an answer are never the next answer (${afterMs})`, async () => {
      const surplus = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'
      let latest: RawConnection | undefined
      const server = serve((connection) => {
        latest = connection
        connection.write(afterMs === 'with it' ? OK + surplus : OK)
      })
      const { dial } = dialer()
      for (let n = 1; n <= 10; n++) {
        expect(await ask(dial, server.origin)).toBe('ok')
        expect(server.connections.length).toBe(n)
        if (typeof afterMs === 'number') await Bun.sleep(afterMs)
        if (afterMs !== 'with it') latest!.write(surplus)
      }
    })

  test('one that the server closed while idle is replaced without a failure', async () => {
    const server = serve((connection) => connection.write(OK))
    const { dial } = dialer()
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    for (let i = 0; i < 6; i++) {
      expect(await ask(dial, server.origin)).toBe('ok')
      server.connections[i]!.end()
      await server.closed(i)
      // Its end stands in the socket, or has been seen here too: sockets are looked at between two turns.
      for (let turns = i % 2 === 0 ? 0 : 2; turns > 0; turns--) await turn()
    }
    expect(server.connections.length).toBe(6)
  })

  test('once bytes were written nothing is sent twice: a reset after that is a failure', async () => {
    let requests = 0
    const server = serve((connection) => {
      if (++requests === 1) connection.write(OK)
      else connection.reset()
    })
    const { dial } = dialer()
    expect(await ask(dial, server.origin)).toBe('ok')
    expect(await kindOf(ask(dial, server.origin))).toBe('reset')
    expect([requests, server.connections.length]).toEqual([2, 1])
  })

  test('a connection does not outlive an answer that was cut, refused or canceled', async () => {
    let n = 0
    const server = serve((connection) =>
      connection.write(++n === 1 ? 'HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\n' : OK),
    )
    const { dial } = dialer()
    expect(await kindOf(ask(dial, server.origin))).toBe('reset')
    expect(await ask(dial, server.origin)).toBe('ok')
    expect(server.connections.length).toBe(2)
  })

  test('an early answer to a large request ends the connection', async () => {
    const body = 'x'.repeat(8 * 1024 * 1024)
    let answered = false
    const server = serve((connection) => {
      if (!answered) connection.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno')
      answered = true
    })
    const { dial } = dialer()
    const response = await dial(post(server.origin, body), limits())
    expect([response.status, await response.text(10)]).toEqual([413, 'no'])
    await server.closed(0)
  })

  test('large requests and answers arrive whole', async () => {
    const body = 'é'.repeat(3 * 1024 * 1024)
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async (request) => new Response(await request.text()),
    })
    closing.push(() => server.stop(true))
    const response = await dialer().dial(post(`http://127.0.0.1:${server.port}/`, body), limits())
    expect((await response.text(20_000_000)) === body).toBe(true)
  })

  test('large requests that are put together in one turn, with and without a connection for them, arrive whole', async () => {
    const sizes = [50_000, 300_000, MOST_KEPT_BYTES - 1_000, MOST_KEPT_BYTES, 1_200_000]
    const bodies = ['a', 'é', '€', 'b'].flatMap((filled) => sizes.map((n) => `${filled.repeat(n)}\ud800`))
    const digestOf = (body: string) => new Bun.CryptoHasher('sha256').update(body).digest('hex')
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async (request) => new Response(digestOf(await request.text())),
    })
    closing.push(() => server.stop(true))
    const { dial } = dialer()
    const digests = (sent: readonly string[]) =>
      Promise.all(
        sent.map(async (body) => (await dial(post(`http://127.0.0.1:${server.port}/`, body), limits())).text(100)),
      )
    // The server runs in this thread: it reads only after all requests of a round are written, up to the limit of the
    // kernel. In the first round, no request has a connection yet when all of them are composed.
    for (const sent of [bodies, bodies.toReversed(), bodies]) expect(await digests(sent)).toEqual(sent.map(digestOf))
  })

  test('a reader that does not read holds the sender back', async () => {
    const piece = Buffer.alloc(64 * 1024, 120)
    const total = 512 * piece.length
    const sent: number[] = []
    const send = (socket: Bun.Socket<number>) => {
      for (let wrote = 1; sent[socket.data]! < total && wrote > 0; ) {
        wrote = socket.write(piece.subarray(0, Math.min(piece.length, total - sent[socket.data]!)))
        sent[socket.data]! += Math.max(0, wrote)
      }
    }
    const server = Bun.listen<number>({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        data(socket) {
          socket.data = sent.push(0) - 1
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
          send(socket)
        },
        drain: send,
      },
    })
    closing.push(() => server.stop(true))
    const { dial } = dialer()
    const url = `http://127.0.0.1:${server.port}/`
    const response = await dial(post(url), limits())
    // This takes as long as the server needs to send everything: the sent part of the first answer is in the buffers of
    // both kernels and of the client.
    expect((await (await dial(post(url), limits())).text(total)).length).toBe(total)
    expect(sent[0]).toBeLessThan(total / 2)
    let received = 0
    for await (const chunk of response.body!) received += chunk.length
    expect(received).toBe(total)
  })

  test('TLS that never finishes is a connect timeout', async () => {
    const server = serve(() => {})
    const url = `https://127.0.0.1:${server.port}/`
    expect(await kindOf(dialer().dial(post(url), limits({ connectMs: 30 })))).toBe('timeout_connect')
    await server.closed(0)
  })

  test('headers that would break the request are refused before anything is sent', async () => {
    const server = serve((connection) => connection.write(OK))
    const all: Record<string, string>[] = [{ 'x-a': 'b\r\nX-Evil: 1' }, { 'x a': 'b' }, { authorization: 'Bearer é' }]
    for (const headers of all) {
      const kind = await kindOf(dialer().dial({ ...post(server.origin), headers }, limits()))
      expect(kind).toBe('invalid_header')
    }
    expect(server.connections.length).toBe(0)
  })

  test('many at once share nothing', async () => {
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async (request) => new Response(`<${await request.text()}>`),
    })
    closing.push(() => server.stop(true))
    const { dial } = dialer()
    for (let round = 0; round < 3; round++) {
      const all = await Promise.all(
        Array.from({ length: 300 }, async (_, i) =>
          (await dial(post(`http://127.0.0.1:${server.port}/`, `${round}-${i}`), limits())).text(100),
        ),
      )
      expect(all).toEqual(all.map((_, i) => `<${round}-${i}>`))
    }
  })
})
