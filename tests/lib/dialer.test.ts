import { afterEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { createDialer, type DialerDeps } from '../../src/lib/dialer.ts'
import { DialFailure, type DialLimits, type DialRequest } from '../../src/lib/upstream.ts'
import { type RawConnection, type RawServer, startRawServer } from '../services/raw-server.ts'

const fixture = (name: string) => readFileSync(`${import.meta.dir}/../fixtures/tls/${name}`, 'utf8')
const ca = fixture('ca.pem')
const pair = (name: string) => ({ cert: fixture(`${name}.pem`), key: fixture(`${name}.key`) })

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

const serve = (
  answer: (connection: RawConnection, text: string) => void,
  tls?: { cert: string; key: string },
): RawServer => {
  const server = startRawServer(answer, tls)
  closing.push(() => server.stop())
  return server
}
const dialer = (deps: Partial<DialerDeps> = {}) => {
  const made = createDialer({ allowPrivate: true, ...deps })
  closing.push(() => made.close())
  return made
}
const post = (url: string, body = '{"a":1}'): DialRequest => ({
  method: 'POST',
  url,
  headers: { 'content-type': 'application/json' },
  body,
})
const limits = (more: Partial<DialLimits> = {}): DialLimits => ({
  signal: new AbortController().signal,
  connectMs: 5_000,
  headersMs: 5_000,
  ...more,
})
/** The kind of DialFailure that the work ends with. */
const kindOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => 'no failure',
    (thrown) => thrown,
  )
  return error instanceof DialFailure ? error.kind : String(error)
}
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

for (const client of ['pooled', 'fetch'] as const)
  describe(`a dialled request (${client})`, () => {
    const dial = (url: string, more: Partial<DialLimits> = {}, deps: Partial<DialerDeps> = {}) =>
      dialer({ client, ...deps }).dial(post(url), limits(more))

    test('carries method, path, headers, host and body, and gives status, headers and text', async () => {
      const server = serve((connection) =>
        connection.write('HTTP/1.1 418 Teapot\r\nX-A: b\r\nContent-Length: 6\r\n\r\nhéllo'),
      )
      const response = await dial(`${server.origin}/v1/x?y=1`)
      expect([response.status, response.headers.get('x-a'), await response.text(100)]).toEqual([418, 'b', 'héllo'])
      const [head, body] = server.connections[0]!.received.split('\r\n\r\n')
      expect(head).toStartWith('POST /v1/x?y=1 HTTP/1.1\r\n')
      expect(head!.toLowerCase()).toContain(`\r\nhost: 127.0.0.1:${server.port}`)
      expect(head!.toLowerCase()).toContain('\r\naccept-encoding: identity')
      expect(head!.toLowerCase()).toContain('\r\ncontent-length: 7')
      expect(body).toBe('{"a":1}')
    })

    test('never follows a redirect', async () => {
      const server = serve((connection) =>
        connection.write('HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n'),
      )
      expect((await dial(server.origin)).status).toBe(307)
      expect(server.connections.map(({ received }) => received.includes('elsewhere'))).toEqual([false])
    })

    test('faults of the connection have their kinds', async () => {
      const unused = serve(() => {})
      const { origin } = unused
      unused.stop()
      expect(await kindOf(dial(origin))).toBe('connect')
      const faults: [string, (connection: RawConnection) => void][] = [
        ['closed before headers', (connection) => connection.end()],
        ['reset before headers', (connection) => connection.reset()],
        ['no HTTP', (connection) => connection.write('SSH-2.0-OpenSSH_9\r\n\r\n\r\n')],
        [
          'half a head',
          (connection) => {
            connection.write('HTTP/1.1 200 OK\r\nContent-')
            connection.end()
          },
        ],
      ]
      for (const [name, fault] of faults) {
        const server = serve((connection) => fault(connection))
        expect([name, await kindOf(dial(server.origin))]).toEqual([name, 'reset'])
      }
    })

    test('a body that ends early is a failure, as text and as a stream', async () => {
      const heads = [
        'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf',
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
      ]
      for (const head of heads)
        for (const how of ['end', 'reset'] as const) {
          const server = serve((connection) => {
            connection.write(head)
            setTimeout(() => connection[how](), 20) // so that the head arrives before the end does
          })
          expect(await kindOf(dial(server.origin).then((response) => response.text(100)))).toBe('reset')
          const streamed = dial(server.origin).then(async (response) => {
            for await (const chunk of response.body!) expect(Buffer.from(chunk).toString()).toBe('half')
          })
          expect(await kindOf(streamed)).toBe('reset')
        }
    })

    test('a body without a length ends with the connection, if that ends politely', async () => {
      const failures = async (how: 'end' | 'reset') => {
        const server = serve((connection) => {
          connection.write('HTTP/1.1 200 OK\r\n\r\nhalf')
          setTimeout(() => connection[how](), 20)
        })
        return kindOf(dial(server.origin).then((response) => response.text(100)))
      }
      expect(await failures('end')).toBe('no failure')
      // Bun's fetch takes a reset for an end here: readers of streams look for their own ending.
      expect(await failures('reset')).toBe(client === 'pooled' ? 'reset' : 'no failure')
    })

    test('a server that says nothing is a timeout, and is let go', async () => {
      const server = serve(() => {})
      expect(await kindOf(dial(server.origin, { headersMs: 30 }))).toBe('timeout_headers')
      await server.closed(0)
    })

    test('aborting ends it before, while waiting and while reading, and closes the connection', async () => {
      expect(await kindOf(dial('http://127.0.0.1:1/', { signal: AbortSignal.abort() }))).toBe('canceled')
      for (const head of ['', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf']) {
        const abort = new AbortController()
        const server = serve((connection) => {
          connection.write(head)
          setTimeout(() => abort.abort(), 20)
        })
        expect(await kindOf(dial(server.origin, { signal: abort.signal }).then((response) => response.text(100)))).toBe(
          'canceled',
        )
        await server.closed(0)
      }
    })

    test('canceling the body closes the connection', async () => {
      const server = serve((connection) => connection.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'))
      const response = await dial(server.origin)
      await response.body!.cancel()
      await server.closed(0)
    })

    test('a body beyond the limit is refused and its connection closed', async () => {
      const server = serve((connection) =>
        connection.write(`HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n${'x'.repeat(50_000)}`),
      )
      expect(await kindOf(dial(server.origin).then((response) => response.text(10_000)))).toBe('too_large')
      await server.closed(0)
    })

    test('a compressed bomb is cut at the limit; a small one is read', async () => {
      const answer = (size: number) => {
        const body = gzipSync('x'.repeat(size))
        return serve((connection) => {
          connection.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`)
          connection.write(body)
        })
      }
      const [bomb, small] = [answer(32 * 1024 * 1024), answer(10)]
      expect(await kindOf(dial(bomb.origin).then((response) => response.text(100_000)))).toBe('too_large')
      expect(await (await dial(small.origin)).text(100_000)).toBe('xxxxxxxxxx')
    })

    test('TLS: the right name is served, every wrong certificate refused', async () => {
      const secure = serve((connection) => connection.write(OK), pair('upstream'))
      const expired = serve((connection) => connection.write(OK), pair('expired'))
      const plain = serve((connection) => connection.write(OK))
      const resolve = async () => ['127.0.0.1']
      const to = (host: string, { port }: RawServer, deps: Partial<DialerDeps> = {}) =>
        dial(`https://${host}:${port}/`, {}, { resolve, ca, ...deps })
      expect(await (await to('upstream.test', secure)).text(100)).toBe('ok')
      expect(await (await to('127.0.0.1', secure)).text(100)).toBe('ok')
      expect(await kindOf(to('other.test', secure))).toBe('tls')
      expect(await kindOf(to('upstream.test', expired))).toBe('tls')
      expect(await kindOf(to('upstream.test', secure, { ca: undefined }))).toBe('tls')
      expect(['tls', 'reset']).toContain(await kindOf(to('upstream.test', plain)))
      expect(secure.connections.filter(({ received }) => received !== '').length).toBe(2)
    })
  })

describe('where the dialer connects to', () => {
  test('addresses that the rules refuse, in the URL or behind a name, are never connected to', async () => {
    const server = serve((connection) => connection.write(OK))
    const strict = dialer({
      allowPrivate: false,
      resolve: async (host) => (host === 'mixed.test' ? ['8.8.8.8', '10.0.0.1'] : ['127.0.0.1']),
    })
    for (const host of ['127.0.0.1', '[::1]', 'localhost', 'rebind.test', 'mixed.test', '0x7f.1', '169.254.169.254'])
      expect([host, await kindOf(strict.dial(post(`http://${host}:${server.port}/`), limits()))]).toEqual([
        host,
        'blocked',
      ])
    const loose = dialer({ resolve: async () => ['169.254.169.254'] })
    expect(await kindOf(loose.dial(post('http://meta.test/'), limits()))).toBe('blocked')
    expect(await kindOf(loose.dial(post('http://metadata.google.internal/'), limits()))).toBe('blocked')
    const flawed = ['http://user:pw@127.0.0.1/', 'ftp://127.0.0.1/', 'file:///etc/passwd', 'nonsense']
    for (const url of [...flawed, 'http://127.0.0.1/#x', 'http://127.0.0.1:25/', 'http://127.0.0.1:65536/'])
      expect([url, await kindOf(loose.dial(post(url), limits()))]).toEqual([url, 'invalid_url'])
    expect(server.connections.length).toBe(0)
  })

  test('a resolution is used for its time, then checked again; a name that turns private is refused then', async () => {
    const server = serve((connection) => connection.write(OK))
    let now = 0
    const answers = [['127.0.0.1'], ['169.254.169.254']]
    const { dial } = dialer({ resolve: async () => answers.shift()!, nowMs: () => now, resolutionTtlMs: 1_000 })
    const url = `http://flip.test:${server.port}/`
    expect((await dial(post(url), limits())).status).toBe(200)
    now = 999
    expect((await dial(post(url), limits())).status).toBe(200)
    expect(server.connections[0]!.received).toContain(`Host: flip.test:${server.port}`)
    now = 1_000
    expect(await kindOf(dial(post(url), limits()))).toBe('blocked')
  })

  test('a name keeps its connections to itself: another name at the same address gets none of them', async () => {
    const server = serve((connection) => connection.write(OK))
    const { dial } = dialer({ resolve: async () => ['127.0.0.1'] })
    for (const name of ['a.test', 'b.test', 'a.test'])
      expect(await (await dial(post(`http://${name}:${server.port}/`), limits())).text(10)).toBe('ok')
    const hosts = server.connections.map(({ received }) => received.match(/Host: [^\r]+/g)?.join())
    const [a, b] = ['a.test', 'b.test'].map((name) => `Host: ${name}:${server.port}`)
    expect(hosts).toEqual([`${a},${a}`, b])
  })

  test('a connection that is never made, or never secured, ends at the connect deadline', async () => {
    const silent = serve(() => {})
    const startedMs = performance.now()
    const { dial } = dialer({ resolve: async () => ['127.0.0.1'] })
    const url = `https://silent.test:${silent.port}/`
    expect(await kindOf(dial(post(url), limits({ connectMs: 60 })))).toBe('timeout_connect')
    expect(performance.now() - startedMs).toBeLessThan(1_000)
  })

  test('the next address is tried when one does not answer; lookups at once are one lookup', async () => {
    const server = serve((connection) => connection.write(OK))
    let lookups = 0
    const resolve = async () => {
      lookups++
      return ['127.0.0.2', '127.0.0.1'] // nobody listens on the first
    }
    const { dial } = dialer({ resolve })
    const url = `http://two.test:${server.port}/`
    const all = await Promise.all([1, 2, 3].map(() => dial(post(url), limits())))
    expect([all.map(({ status }) => status), lookups]).toEqual([[200, 200, 200], 1])
  })

  test('a name that cannot be resolved, has no address, or takes too long', async () => {
    const failing = dialer({ resolve: () => Promise.reject(new Error('ENOTFOUND')) })
    expect(await kindOf(failing.dial(post('http://a.test/'), limits()))).toBe('dns')
    expect(await kindOf(dialer({ resolve: async () => [] }).dial(post('http://a.test/'), limits()))).toBe('dns')
    const slow = dialer({ resolve: () => new Promise(() => {}) })
    expect(await kindOf(slow.dial(post('http://a.test/'), limits({ connectMs: 20 })))).toBe('timeout_connect')
    const abort = new AbortController()
    setTimeout(() => abort.abort(), 20)
    expect(await kindOf(slow.dial(post('http://a.test/'), limits({ signal: abort.signal })))).toBe('canceled')
  })
})

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
        drained = true
      })
    })
    const response = await dialer().dial(post(server.origin), limits())
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
    await Bun.sleep(100) // what nobody reads fills the kernel's buffers, and no more
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

  // With the answer, right after it while nobody has looked at the socket yet, and at times after it.
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
    for (let i = 0; i < 5; i++) {
      expect(await ask(dial, server.origin)).toBe('ok')
      server.connections[i]!.end()
      await server.closed(i)
      await Bun.sleep(1) // one turn, so that the end has been seen here too
    }
    expect(server.connections.length).toBe(5)
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

  test('a reader that does not read holds the sender back', async () => {
    const piece = Buffer.alloc(64 * 1024, 120)
    const total = 512 * piece.length
    let sent = 0
    let send = () => {}
    const server = Bun.listen<undefined>({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        data(socket) {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
          send = () => {
            for (let wrote = 1; sent < total && wrote > 0; ) {
              wrote = socket.write(piece.subarray(0, Math.min(piece.length, total - sent)))
              sent += Math.max(0, wrote)
            }
          }
          send()
        },
        drain: () => send(),
      },
    })
    closing.push(() => server.stop(true))
    const response = await dialer().dial(post(`http://127.0.0.1:${server.port}/`), limits())
    // Until nothing moves any more: what the sender got rid of is in the buffers of both kernels and ours.
    for (let before = -1; before !== sent; await Bun.sleep(50)) before = sent
    expect(sent).toBeLessThan(total / 2)
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
      expect(kind).toBe('invalid_url')
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
