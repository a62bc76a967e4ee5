// Web pages that call the inference surface: those of `server.cors_origins`, and no other.
import { afterAll, describe, expect, test } from 'bun:test'
import { entry, KEY, testGateway } from '../../inference/gateway.ts'
import { EACH_LISTENER, serveApp } from '../../services/serve-app.ts'
import { startUpstream } from '../../services/upstream.ts'

const APP = 'https://app.example.com'
const upstream = startUpstream()
const closing: (() => unknown)[] = []
afterAll(async () => {
  for (const close of closing) close()
  await upstream.stop()
})

const served = (corsOrigins: readonly string[], listener: (typeof EACH_LISTENER)[number]) => {
  const gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })], corsOrigins })
  const server = serveApp(gateway.app, listener)
  closing.push(
    () => gateway.close(),
    () => server.stop(),
  )
  const body = JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hi' }] })
  const json = { 'content-type': 'application/json' }
  return {
    chat: (origin: string, key: string = KEY, more: object = {}) =>
      fetch(`http://127.0.0.1:${server.port}/v1/chat/completions`, {
        method: 'POST',
        headers: { ...json, origin, authorization: `Bearer ${key}` },
        body: JSON.stringify({ ...JSON.parse(body), ...more }),
      }),
    ask: (method: string, path: string, headers: Record<string, string>) =>
      fetch(`http://127.0.0.1:${server.port}${path}`, { method, headers }),
  }
}
const preflight = (origin: string) => ({
  origin,
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization,content-type,x-stainless-lang',
})
const opened = ({ headers }: Response) => headers.get('access-control-allow-origin')
const corsNames = ({ headers }: Response) => [...headers.keys()].filter((name) => name.startsWith('access-control-'))

// docs/behaviour.md: "Browsers"
describe.each(EACH_LISTENER)('listener %s', (listener) => {
  test('a preflight of an allowed page is answered, and no other', async () => {
    const { ask } = served([APP, 'http://localhost:3000'], listener)
    for (const path of ['/v1/chat/completions', '/v1/models', '/v1/anything']) {
      const answer = await ask('OPTIONS', path, preflight(APP))
      expect([path, answer.status, opened(answer)]).toEqual([path, 204, APP])
      expect(answer.headers.get('access-control-allow-headers')).toBe('authorization,content-type,x-stainless-lang')
      expect(answer.headers.get('access-control-allow-methods')).toContain('POST')
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
      expect(answer.headers.get('vary')).toContain('Origin')
    }
    for (const origin of ['https://evil.example', `${APP}.evil.example`, 'http://app.example.com', 'null']) {
      const answer = await ask('OPTIONS', '/v1/chat/completions', preflight(origin))
      expect([origin, answer.status, corsNames(answer)]).toEqual([origin, 405, []])
    }
    const bad = { ...preflight(APP), 'access-control-request-headers': 'a b; c' }
    expect((await ask('OPTIONS', '/v1/models', bad)).headers.get('access-control-allow-headers')).toBeNull()
  })

  test('answers, streams and errors can be read by the page, with their headers', async () => {
    const { chat, ask } = served([APP], listener)
    upstream.behave({})
    for (const [answer, status] of [
      [await chat(APP), 200],
      [await chat(APP, KEY, { stream: true }), 200],
      [await chat(APP, 'gw_live_no_such_key_of_anybody'), 401],
      [await chat(APP, KEY, { model: 'nothing' }), 404],
      [await ask('GET', '/v1/models', { origin: APP, authorization: `Bearer ${KEY}` }), 200],
      [await ask('GET', '/v1/nothing', { origin: APP }), 404],
    ] as const) {
      await answer.text()
      expect([answer.status, opened(answer)]).toEqual([status, APP])
      expect(answer.headers.get('access-control-expose-headers')).toContain('x-request-id')
      expect(answer.headers.get('vary')).toBe('Origin')
    }
    const other = await chat('https://evil.example')
    expect([other.status, corsNames(other), other.headers.get('vary')]).toEqual([200, [], 'Origin'])
  })

  test('outside /v1 there are none, and without the setting nowhere', async () => {
    const { ask } = served([APP], listener)
    for (const path of ['/health', '/version', '/admin/v1/providers', '/'])
      for (const method of ['GET', 'OPTIONS'])
        expect([path, corsNames(await ask(method, path, preflight(APP)))]).toEqual([path, []])
    const closed = served([], listener)
    expect((await closed.ask('OPTIONS', '/v1/chat/completions', preflight(APP))).status).toBe(405)
    expect(corsNames(await closed.chat(APP))).toEqual([])
  })

  test('`*` opens it to every page, without credentials', async () => {
    const { chat, ask } = served(['*'], listener)
    for (const answer of [await chat('https://any.example'), await ask('OPTIONS', '/v1/models', preflight('null'))]) {
      expect(opened(answer)).toBe('*')
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })
})
