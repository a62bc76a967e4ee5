// One request: what it carries, and every way in which a connection can fail it.
import { afterEach, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { DialFailure, type DialLimits } from '../../../src/lib/http-client/dial.ts'
import type { DialerDeps } from '../../../src/lib/http-client/dialer.ts'
import type { RawConnection, RawServer } from '../../services/raw-server.ts'
import { ca, closeAll, dialer, kindOf, limits, OK, pair, post, serve } from './dialling.ts'

afterEach(closeAll)

describe('a dialled request', () => {
  const dial = (url: string, more: Partial<DialLimits> = {}, deps: Partial<DialerDeps> = {}) =>
    dialer(deps).dial(post(url), limits(more))
  /** An answer whose connection ends once its head is here. */
  const endedAfterHead = async ({ origin, connections }: RawServer, how: 'end' | 'reset') => {
    const response = await dial(origin)
    connections.at(-1)![how]()
    return response
  }

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

  test('S3: never follows a redirect, of whatever kind, here or elsewhere', async () => {
    const trap = serve((connection) => connection.write(OK))
    for (const status of [300, 301, 302, 303, 305, 307, 308])
      for (const location of ['/elsewhere', `${trap.origin}/elsewhere`, `//127.0.0.1:${trap.port}/elsewhere`]) {
        const server = serve((connection) =>
          connection.write(`HTTP/1.1 ${status} Moved\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`),
        )
        expect((await dial(server.origin)).status).toBe(status)
        expect(server.connections.map(({ received }) => received.includes('elsewhere'))).toEqual([false])
      }
    expect(trap.connections).toHaveLength(0)
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
        const server = serve((connection) => connection.write(head))
        expect(await kindOf(endedAfterHead(server, how).then((response) => response.text(100)))).toBe('reset')
        const streamed = endedAfterHead(server, how).then(async (response) => {
          for await (const chunk of response.body!) expect(Buffer.from(chunk).toString()).toBe('half')
        })
        expect(await kindOf(streamed)).toBe('reset')
      }
  })

  test('a body without a length ends with the connection, if that ends politely', async () => {
    const failures = async (how: 'end' | 'reset') => {
      const server = serve((connection) => connection.write('HTTP/1.1 200 OK\r\n\r\nhalf'))
      return kindOf(endedAfterHead(server, how).then((response) => response.text(100)))
    }
    expect(await failures('end')).toBe('no failure')

    expect(await failures('reset')).toBe('reset')
  })

  test('a server that says nothing is a timeout, and is let go', async () => {
    const server = serve(() => {})
    expect(await kindOf(dial(server.origin, { headersMs: 30 }))).toBe('timeout_headers')
    await server.closed(0)
  })

  test('aborting ends it before, while waiting and while reading, and closes the connection', async () => {
    expect(await kindOf(dial('http://127.0.0.1:1/', { signal: AbortSignal.abort() }))).toBe('canceled')
    const waiting = new AbortController()
    const silent = serve(() => waiting.abort())
    expect(await kindOf(dial(silent.origin, { signal: waiting.signal }))).toBe('canceled')
    await silent.closed(0)
    const reading = new AbortController()
    const server = serve((connection) => connection.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'))
    const text = (await dial(server.origin, { signal: reading.signal })).text(100)
    reading.abort()
    expect(await kindOf(text)).toBe('canceled')
    await server.closed(0)
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

  test('S27: a compressed bomb is cut at the limit; a small one is read', async () => {
    const answer = (size: number) => {
      const body = gzipSync('x'.repeat(size))
      return serve((connection) => {
        connection.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`)
        connection.write(body)
      })
    }
    const twice = gzipSync(gzipSync('x'.repeat(32 * 1024 * 1024)))
    const nested = serve((connection) => {
      connection.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: ${twice.length}\r\n\r\n`)
      connection.write(twice)
    })
    // Unpacked to the limit or not at all, never beyond it.
    const read = await dial(nested.origin)
      .then((response) => response.text(100_000))
      .catch((error: unknown) => error)
    expect(typeof read === 'string' ? read.length <= 100_000 && !read.includes('xxx') : read).toEqual(
      typeof read === 'string' ? true : expect.any(DialFailure),
    )
    const [bomb, small] = [answer(32 * 1024 * 1024), answer(10)]
    expect(await kindOf(dial(bomb.origin).then((response) => response.text(100_000)))).toBe('too_large')
    expect(await (await dial(small.origin)).text(100_000)).toBe('xxxxxxxxxx')
  })

  test('S2: TLS: the right name is served, every wrong certificate refused', async () => {
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
