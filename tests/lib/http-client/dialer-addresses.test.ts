// Where the dialer connects to, and where it never does.
import { afterEach, describe, expect, test } from 'bun:test'
import { closeAll, dialer, kindOf, limits, OK, post, serve } from './dialling.ts'

afterEach(closeAll)

describe('where the dialer connects to', () => {
  test('S1: addresses that the rules refuse, in the URL or behind a name, are never connected to', async () => {
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

  test('S2: a resolution is used for its time, then checked again; a name that turns private is refused then', async () => {
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

  test('S2: a name keeps its connections to itself: another name at the same address gets none of them', async () => {
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
    expect(performance.now() - startedMs).toBeLessThan(4_000)
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

  test('dead addresses share the connect limit: it is that of all of them', async () => {
    const silent = serve(() => {})
    const { dial } = dialer({ resolve: async () => ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4'] })
    const taken = Promise.withResolvers<number>()
    const startedMs = performance.now()
    kindOf(dial(post(`https://silent.test:${silent.port}/`), limits({ connectMs: 1_000 }))).then((kind) => {
      expect(['timeout_connect', 'connect']).toContain(kind)
      taken.resolve(performance.now() - startedMs)
    })
    expect(await taken.promise).toBeLessThan(3_500)
  })

  test('the lookup is part of the connect limit, also when there is one address only', async () => {
    const silent = serve(() => {})
    let nowMs = 0
    const resolve = async () => {
      nowMs += 60_000
      return ['127.0.0.1']
    }
    // Nothing is left: it does not wait for another minute.
    const { dial } = dialer({ resolve, nowMs: () => nowMs })
    const url = `https://silent.test:${silent.port}/`
    expect(await kindOf(dial(post(url), limits({ connectMs: 60_000 })))).toBe('timeout_connect')
  })

  test('a name that cannot be resolved, has no address, or takes too long', async () => {
    const failing = dialer({ resolve: () => Promise.reject(new Error('ENOTFOUND')) })
    expect(await kindOf(failing.dial(post('http://a.test/'), limits()))).toBe('dns')
    expect(await kindOf(dialer({ resolve: async () => [] }).dial(post('http://a.test/'), limits()))).toBe('dns')
    const slow = dialer({ resolve: () => new Promise(() => {}) })
    expect(await kindOf(slow.dial(post('http://a.test/'), limits({ connectMs: 20 })))).toBe('timeout_connect')
    const asked = Promise.withResolvers<void>()
    const resolve = () => {
      asked.resolve()
      return new Promise<never>(() => {})
    }
    const abort = new AbortController()
    const left = kindOf(dialer({ resolve }).dial(post('http://a.test/'), limits({ signal: abort.signal })))
    await asked.promise
    abort.abort()
    expect(await left).toBe('canceled')
  })
})
