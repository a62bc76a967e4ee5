// `/requests/stream`: what it sends, where it goes on, whose rows it shows, and what ends it.
import { afterEach, describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import type { LogPlace, RequestFilter, TailRow } from '../../../../projections/requests/query.ts'
import { MAX_STREAMS, MOST_OF_A_TENANT, tailRoutes } from '../../../../src/http/admin/reads/tail.ts'
import { adminRoutes } from '../../../../src/http/admin/runner.ts'
import { errorResponse } from '../../../../src/http/envelope.ts'
import { contextOf } from '../../../../src/http/request-context.ts'
import { createSseParser } from '../../../../src/lib/text/sse.ts'
import { eventually } from '../../../services/eventually.ts'
import { ADMIN_KEY, BASE, startGateway } from '../world/gateway.ts'

const rowOf = (id: string, partition: number, offset: number): TailRow =>
  ({ request: { id, tenant_id: 'ten_default' }, partition, offset }) as unknown as TailRow

const opened: AbortController[] = []
afterEach(() => {
  for (const each of opened.splice(0)) each.abort()
})

const world = (timing: object = { pollMs: 1 }) => {
  const log: TailRow[] = []
  const asked: { place: LogPlace; filter: RequestFilter }[] = []
  let isAway = false
  const placeNow = (): LogPlace =>
    new Map([0, 1].map((partition) => [partition, log.filter((row) => row.partition === partition).length]))
  const requests = {
    place: async () => {
      if (isAway) throw new Error('away')
      return placeNow()
    },
    since: async (place: LogPlace, filter: RequestFilter) => {
      asked.push({ place, filter })
      if (isAway) throw new Error('away')
      const rows = log.filter(({ partition, offset }) => offset >= (place.get(partition) ?? 0))
      return { rows, reached: placeNow(), isBehind: false }
    },
  }
  const live = { control: null as never }
  const deps = { requests: requests as never, live, nowMs: () => gateway.nowMs, userDigest: () => 'digest', timing }
  const gateway = startGateway(tailRoutes(deps))
  Object.assign(live, { control: gateway.state })
  const app = new Elysia()
    .onError({ as: 'global' }, ({ error, request }) => errorResponse(error, contextOf(request)) as never)
    .use(adminRoutes(gateway.deps))
  const settle = (id: string, partition = 0) => {
    log.push(rowOf(id, partition, log.filter((row) => row.partition === partition).length))
  }
  /** Opens a stream; `until` reads on until its text satisfies the condition. */
  const open = async (query = '', headers: Record<string, string> = {}, key = ADMIN_KEY) => {
    const request = new Request(`${BASE}/requests/stream${query}`, {
      headers: { authorization: `Bearer ${key}`, ...headers },
    })
    const response = await app.handle(request)
    const reader = response.body!.getReader()
    const leaving = new AbortController()
    opened.push(leaving)
    leaving.signal.addEventListener('abort', () => void reader.cancel())
    let text = ''
    const decoder = new TextDecoder()
    const until = async (done: (text: string) => boolean): Promise<string> => {
      while (!done(text)) {
        const { done: ended, value } = await reader.read()
        if (ended) return `${text}[ended]`
        text += decoder.decode(value)
      }
      return text
    }
    return { response, until, leave: () => reader.cancel() }
  }
  const away = (is: boolean) => {
    isAway = is
  }
  return { app, gateway, asked, settle, open, away }
}

const idsIn = (text: string) =>
  createSseParser()
    .push(new TextEncoder().encode(text))
    .map(({ data }) => (JSON.parse(data) as { id: string }).id)
const idsOfEvents = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id)

// docs/behaviour.md: "Admin reads"
describe('GET /requests/stream', () => {
  test('what is settled after it began, each with the place after it', async () => {
    const { settle, open } = world()
    settle('before')
    const { response, until } = await open()
    expect([response.status, response.headers.get('content-type'), response.headers.get('cache-control')]).toEqual([
      200,
      'text/event-stream',
      'no-cache',
    ])
    await until((text) => text.includes('retry:'))
    settle('a', 0)
    settle('b', 1)
    settle('c', 0)
    const text = await until((all) => all.includes('"c"'))
    expect(idsIn(text)).toEqual(['a', 'b', 'c'])
    expect(idsOfEvents(text)).toEqual(['0.2-1.0', '0.2-1.1', '0.3-1.1'])
  })

  test('who comes back with the id of the last event misses nothing and sees nothing twice', async () => {
    const { settle, open } = world()
    for (const id of ['a', 'b', 'c', 'd']) settle(id)
    const { until } = await open('', { 'Last-Event-ID': '0.2-1.0' })
    expect(idsIn(await until((text) => text.includes('"d"')))).toEqual(['c', 'd'])
  })

  test('an id that no event has is 400 and named', async () => {
    const { gateway } = world()
    for (const id of ['x', '0', '0.1-', '0.-1', '1.2.3']) {
      const { status, body } = await gateway.call('GET', '/requests/stream', { headers: { 'Last-Event-ID': id } })
      expect([id, status, (body.error as { param: string }).param]).toEqual([id, 400, 'Last-Event-ID'])
    }
    expect((await gateway.call('GET', '/requests/stream?outcome=great')).body.error).toMatchObject({ param: 'outcome' })
  })

  test('filters and the tenant of the key are asked of the read model', async () => {
    const { asked, open, gateway } = world()
    const own = gateway.keyWith(['usage:read'])
    const { until } = await open('?outcome=error&provider=vendor&model=small', {}, own)
    await until(() => asked.length > 0)
    expect(asked[0]!.filter).toMatchObject({
      tenantId: 'ten_default',
      outcome: 'error',
      provider: 'vendor',
      model: 'small',
    })
    expect((await gateway.call('GET', '/requests/stream?tenant_id=ten_other', { key: own })).status).toBe(404)
  })

  test('ends when the key is revoked', async () => {
    const { gateway, open, settle } = world()
    const made = await gateway.call('POST', '/keys', {
      body: { tenant_id: 'ten_default', name: 'reader', scopes: ['usage:read'] },
    })
    const { until } = await open('', {}, made.body.plaintext as string)
    await until((text) => text.includes('retry:'))
    await gateway.call('DELETE', `/keys/${made.body.id}`)
    settle('secret')
    const text = await until(() => false)
    expect(text).toEndWith('data: {"reason":"who asks may no longer"}\nevent: end\n\n[ended]')
    expect(text).not.toContain('secret')
  })

  test('shows a key whose scopes are narrowed no more than a new one would, and ends where that is nothing', async () => {
    const { gateway, open, asked } = world()
    const body = { tenant_id: 'ten_other', name: 'auditor', scopes: ['*'] }
    const made = await gateway.call('POST', '/keys', { body })
    const tenants = () => asked.map(({ filter }) => filter.tenantId)
    const all = await open('', {}, made.body.plaintext as string)
    const one = await open('?tenant_id=ten_default', {}, made.body.plaintext as string)
    await Promise.all([all, one].map(({ until }) => until((text) => text.includes('retry:'))))
    await eventually('both have looked', async () => tenants().includes(null) && tenants().includes('ten_default'))
    await gateway.call('PATCH', `/keys/${made.body.id}`, { body: { scopes: ['usage:read'] } })
    asked.length = 0
    expect(await one.until(() => false)).toEndWith('{"reason":"who asks may no longer"}\nevent: end\n\n[ended]')
    await eventually('the other has looked again', async () => asked.length > 0)
    expect(new Set(tenants())).toEqual(new Set(['ten_other']))
  })

  test('says so while Postgres is away, and goes on where it stood; begun then, it is the envelope', async () => {
    const { gateway, open, settle, away } = world()
    const { until } = await open()
    await until((text) => text.includes('retry:'))
    away(true)
    await until((text) => text.includes(': the read store cannot be read now'))
    const refused = await gateway.call('GET', '/requests/stream')
    expect([refused.status, refused.headers.get('x-gateway-retryable')]).toEqual([502, 'true'])
    settle('meanwhile')
    away(false)
    expect(idsIn(await until((text) => text.includes('meanwhile')))).toEqual(['meanwhile'])
  })

  test('a heartbeat when there is nothing to tell, and an end after its lifetime', async () => {
    const quiet = world({ pollMs: 1, heartbeatMs: 0 })
    await (await quiet.open()).until((text) => text.includes(': nothing new'))
    const brief = world({ pollMs: 1, lifetimeMs: 1 })
    expect(await (await brief.open()).until(() => false)).toEndWith('[ended]')
  })

  test('so many clients of one instance; who leaves makes room', async () => {
    const { gateway, open } = world()
    const streams = await Promise.all(Array.from({ length: MAX_STREAMS }, () => open()))
    const refused = await gateway.call('GET', '/requests/stream')
    expect([refused.status, refused.headers.get('retry-after'), refused.body.error]).toMatchObject([
      429,
      '10',
      { code: 'rate_limited' },
    ])
    await streams[0]!.leave()
    const { response } = await open()
    expect(response.status).toBe(200)
  })

  test('keys of one tenant leave room for others', async () => {
    const { gateway, open } = world()
    const own = gateway.keyWith(['usage:read'])
    await Promise.all(Array.from({ length: MOST_OF_A_TENANT }, () => open('', {}, own)))
    const refused = await gateway.call('GET', '/requests/stream', { key: own })
    expect([refused.status, refused.body.error]).toMatchObject([
      429,
      { message: expect.stringContaining('clients of this tenant') },
    ])
    expect((await open()).response.status).toBe(200)
  })

  test('who closes the connection makes room too', async () => {
    const { app } = world()
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: (request) => app.handle(request),
    })
    const leaving = new AbortController()
    const ask = () =>
      fetch(`http://127.0.0.1:${server.port}/admin/v1/requests/stream`, {
        headers: { authorization: `Bearer ${ADMIN_KEY}` },
        signal: leaving.signal,
      })
    const answers = await Promise.all(Array.from({ length: MAX_STREAMS }, ask))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    leaving.abort()
    const again = new AbortController()
    const other = () =>
      fetch(answers[0]!.url, { headers: { authorization: `Bearer ${ADMIN_KEY}` }, signal: again.signal })
    await eventually('the server notices that they left', async () => (await other()).status === 200)
    again.abort()
    await server.stop(true)
  })
})
