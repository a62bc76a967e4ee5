// Lists as files: what is in them, that they are read page by page, and what becomes of one that cannot be finished.
import { describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import type { RequestFilter, RequestView } from '../../../../projections/requests/query.ts'
import { REQUEST_COLUMNS } from '../../../../src/http/admin/answers/reads.ts'
import { streamOf } from '../../../../src/http/admin/export.ts'
import { auditRoutes } from '../../../../src/http/admin/reads/audit.ts'
import { errorRoutes } from '../../../../src/http/admin/reads/errors.ts'
import { requestRoutes } from '../../../../src/http/admin/reads/requests.ts'
import { adminRoutes } from '../../../../src/http/admin/runner.ts'
import { errorResponse } from '../../../../src/http/envelope.ts'
import { contextOf } from '../../../../src/http/request-context.ts'
import { ADMIN_KEY, startGateway } from '../world/gateway.ts'
import { QUIET_SEARCH } from '../world/quiet-search.ts'

const rowOf = (index: number, more: object = {}): RequestView =>
  ({ ...Object.fromEntries(REQUEST_COLUMNS.map((name) => [name, null])), id: `req_${index}`, ...more }) as RequestView

type Pages = (filter: RequestFilter) => AsyncGenerator<readonly RequestView[], void>

/** The admin surface on a real socket, over these pages of requests. */
const serve = (pages: Pages) => {
  const live = { control: null as never }
  const nowMs = () => Date.UTC(2026, 10, 20)
  const requests = { pages, list: async () => ({ requests: [], total: 0, searchedFromMs: 0 }) } as never
  const never = { frames: null as never, history: null as never, adapterReady: () => true }
  const deps = { requests, ...QUIET_SEARCH, live, nowMs, userDigest: () => '', ...never }
  const routes = [
    ...requestRoutes(deps),
    ...errorRoutes(deps),
    ...auditRoutes({ audit: { pages } as never, live, nowMs }),
  ]
  const gateway = startGateway(routes)
  Object.assign(live, { control: gateway.state })
  const app = new Elysia()
    .onError({ as: 'global' }, ({ error, request }) => errorResponse(error, contextOf(request)) as never)
    .use(adminRoutes(gateway.deps))
  const fetched = (request: Request) => app.handle(request)
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: fetched })
  const get = (path: string, signal?: AbortSignal) =>
    fetch(`http://127.0.0.1:${server.port}/admin/v1${path}`, {
      headers: { authorization: `Bearer ${ADMIN_KEY}` },
      signal,
    })
  return { get, stop: () => server.stop(true) }
}

// docs/behaviour.md: "Admin reads"
describe('a list as a file', () => {
  test('CSV with a header, quoted by RFC 4180, without a text that a spreadsheet would run', async () => {
    const { get, stop } = serve(async function* () {
      yield [rowOf(1, { request_id: '=cmd()', user: 'a,"b"\r\nc', cost_usd: -0.5 })]
      yield [rowOf(2, { request_id: '-1', user: '@x', endpoint: '+1' })]
    })
    const answer = await get('/requests?format=csv')
    expect([answer.status, answer.headers.get('content-type'), answer.headers.get('content-disposition')]).toEqual([
      200,
      'text/csv; charset=utf-8',
      'attachment; filename="requests.csv"',
    ])
    const [header, ...lines] = (await answer.text()).split(/\r\n(?=req|$)/)
    expect(header).toBe(REQUEST_COLUMNS.join(','))
    expect(lines).toHaveLength(3)
    expect(lines[0]).toStartWith("req_1,'=cmd(),")
    expect(lines[0]).toContain(',-0.5,')
    expect(lines[0]).toContain(',"a,""b""\r\nc",')
    expect(lines[1]).toStartWith("req_2,'-1,")
    expect(lines[1]).toContain(",'+1,'@x,")
    await stop()
  })

  test('without a row it is the header alone; NDJSON is one object a line', async () => {
    const { get, stop } = serve(async function* ({ limit }) {
      if (limit === 2) yield [rowOf(1), rowOf(2)]
    })
    expect(await (await get('/errors?format=csv')).text()).toBe(`${REQUEST_COLUMNS.join(',')}\r\n`)
    const lines = await get('/errors?format=ndjson&limit=2')
    expect(lines.headers.get('content-disposition')).toBe('attachment; filename="errors.ndjson"')
    expect(await lines.text()).toBe(`${JSON.stringify(rowOf(1))}\n${JSON.stringify(rowOf(2))}\n`)
    expect(await (await get('/audit?format=csv')).text()).toStartWith('id,decision_id,at,actor,')
    await stop()
  })

  test('all rows unless there is a limit, a million at most', async () => {
    const limits: number[] = []
    const { get, stop } = serve(async function* ({ limit }) {
      limits.push(limit)
      yield []
    })
    for (const query of ['', '&limit=20', '&limit=9999999']) await (await get(`/requests?format=csv${query}`)).text()
    expect(limits).toEqual([1_000_000, 20, 1_000_000])
    const refused = await get('/requests?format=csv&limit=0')
    expect([refused.status, ((await refused.json()) as { error: { param: string } }).error.param]).toEqual([
      400,
      'limit',
    ])
    await stop()
  })

  test('nothing is read ahead of a client that does not take it', async () => {
    let read = 0
    const pieces = async function* () {
      for (; ; read++) yield 'x'.repeat(100_000)
    }
    const reader = (await streamOf(pieces())).getReader()
    for (let taken = 1; taken <= 5; taken++) {
      await reader.read()
      await new Promise(setImmediate)
      expect(read).toBeLessThanOrEqual(taken + 1)
    }
    await reader.cancel()
  })

  test('nothing is read after the client has left', async () => {
    const ended = Promise.withResolvers<void>()
    const { get, stop } = serve(async function* () {
      try {
        for (;;) yield Array.from({ length: 1_000 }, (_, index) => rowOf(index, { user: 'x'.repeat(1_000) }))
      } finally {
        ended.resolve()
      }
    })
    const leaving = new AbortController()
    await (await get('/requests?format=ndjson', leaving.signal)).body!.getReader().read()
    leaving.abort()
    await ended.promise
    await stop()
  })

  test('a failure at its beginning is the envelope; a later one breaks it off', async () => {
    let good = 0
    const { get, stop } = serve(async function* () {
      for (let page = 0; page < good; page++) yield [rowOf(page)]
      throw new Error('Postgres went away')
    })
    const refused = await get('/requests?format=csv')
    expect([refused.status, refused.headers.get('x-gateway-retryable')]).toEqual([502, 'true'])
    expect(await refused.json()).toMatchObject({ error: { code: 'upstream_error' } })
    good = 2
    const whole = async () => (await get('/requests?format=csv')).text()
    expect(await whole().catch(() => 'broken off')).toBe('broken off')
    await stop()
  })
})
