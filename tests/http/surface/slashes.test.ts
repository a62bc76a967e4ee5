// Clients whose base URL ends in a slash.
import { afterAll, describe, expect, test } from 'bun:test'
import { ADMIN_KEY, entry, KEY, testGateway } from '../../inference/gateway.ts'
import { EACH_LISTENER, serveApp } from '../../services/serve-app.ts'
import { startUpstream } from '../../services/upstream.ts'

const upstream = startUpstream()
const gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
const servers = EACH_LISTENER.map((listener) => [listener, serveApp(gateway.app, listener)] as const)
afterAll(async () => {
  gateway.close()
  for (const [, server] of servers) server.stop()
  await upstream.stop()
})
const body = (more: object = {}) =>
  JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hi' }], ...more })

// docs/behaviour.md: "Chat requests"
describe.each(servers)('listener %s', (_, server) => {
  const ask = (path: string, init: RequestInit = {}, key: string | null = KEY) =>
    fetch(`http://127.0.0.1:${server.port}${path}`, {
      ...init,
      headers: { 'content-type': 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
    })

  test('one slash of several is meant', async () => {
    for (const path of ['/v1//chat/completions', '//v1/chat/completions', '/v1///chat//completions']) {
      const answer = await ask(path, { method: 'POST', body: body() })
      expect([path, answer.status, ((await answer.json()) as { object: string }).object]).toEqual([
        path,
        200,
        'chat.completion',
      ])
    }
    const stream = await ask('/v1//chat/completions', { method: 'POST', body: body({ stream: true }) })
    expect([stream.status, (await stream.text()).endsWith('data: [DONE]\n\n')]).toEqual([200, true])
    expect((await ask('/v1//models?x=//y')).status).toBe(200)
    expect((await ask('/v1//nothing')).status).toBe(404)
    expect((await ask('/v1//models', { method: 'DELETE' })).status).toBe(405)
  })

  test('after the credential: a caller without a key learns nothing of paths', async () => {
    for (const path of ['/v1//chat/completions', '/v1//models', '/v1//nothing'])
      for (const key of [null, 'gw_live_no_such_key_of_anybody'])
        expect([path, (await ask(path, {}, key)).status]).toEqual([path, 401])
  })

  test('elsewhere a path is what it is', async () => {
    for (const path of ['/admin//v1/providers', '/docs//', '/v2//chat/completions'])
      expect([path, (await ask(path, {}, ADMIN_KEY)).status]).toEqual([path, 404])
  })
})
