// `/admin/v1/requests` and `/admin/v1/audit` on a real Postgres, and what they answer while there is none.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { auditQueries } from '../../../projections/audit/query.ts'
import { openDatabase, type Sql } from '../../../projections/database.ts'
import { requestQueries } from '../../../projections/requests/query.ts'
import { usageQueries } from '../../../projections/usage/query.ts'
import { type EventRecord, GENESIS, writeDecision } from '../../../src/domain/decision.ts'
import { closed } from '../../../src/domain/fields.ts'
import { POLICY_DEFAULTS } from '../../../src/domain/policy.ts'
import type { RequestSettled } from '../../../src/domain/request.ts'
import { auditRoutes } from '../../../src/http/admin/audit.ts'
import { errorRoutes } from '../../../src/http/admin/errors.ts'
import { AuditRow, ErrorsAnswer, RequestDetailAnswer, RequestRow } from '../../../src/http/admin/read-answers.ts'
import { requestRoutes } from '../../../src/http/admin/requests.ts'
import { usageRoutes } from '../../../src/http/admin/usage.ts'
import { type TSchema, Value } from '../../../src/lib/schema.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { keyIssued, providerCreated, tenantCreated } from '../../domain/world.ts'
import { applied, MAC_KEY, REQUESTS, sender, settled, startWorker, testLog } from '../../projections/support.ts'
import { sharedPostgres, type TestDatabase } from '../../services/postgres.ts'
import { type Gateway, startGateway } from './gateway.ts'

const HOUR_MS = 3_600_000
const NOW_MS = Date.UTC(2026, 10, 20)

let database: TestDatabase
let sql: Sql
let gateway: Gateway
let ownKey: string
let lastDecision = GENESIS

/** A gateway whose read models are behind this connection. */
const gatewayOn = (connection: Sql): Gateway => {
  const nowMs = () => made.nowMs
  const live = { control: null as never }
  const userDigest = (tenantId: string, user: string) => `${tenantId} ${user}`
  const ofRequests = { requests: requestQueries(connection), live, nowMs, userDigest }
  const routes = [
    ...requestRoutes(ofRequests),
    ...errorRoutes(ofRequests),
    ...usageRoutes({ usage: usageQueries(connection), live, nowMs }),
    ...auditRoutes({ audit: auditQueries(connection), nowMs }),
  ]
  const made: Gateway = startGateway(routes)
  Object.assign(live, { control: made.state })
  made.nowMs = NOW_MS
  return made
}

const ROWS: readonly Partial<RequestSettled>[] = [
  {
    id: 'req_1',
    tenant_id: 'ten_default',
    at_ms: NOW_MS - 1 * HOUR_MS,
    request_id: 'label-1',
    user: 'ten_default ada',
    policy_id: 'pol_careful',
  },
  { id: 'req_2', tenant_id: 'ten_default', at_ms: NOW_MS - 2 * HOUR_MS, request_id: 'label-1', latency_ms: 99 },
  {
    id: 'req_3',
    tenant_id: 'ten_other',
    at_ms: NOW_MS - 3 * HOUR_MS,
    request_id: 'label-1',
    outcome: 'error',
    status: 502,
    error_code: 'upstream_error',
    provider: 'Backup',
    provider_id: 'prov_2',
    routed_model: 'other/model',
    cost_nano_usd: null,
    cost_basis: 'none',
  },
  {
    id: 'req_4',
    tenant_id: 'ten_other',
    at_ms: NOW_MS - 4 * HOUR_MS,
    candidates: [['prov_1', 'mod_1', 'cost_cap']],
    outcome: 'denied',
    status: 429,
    error_code: 'rate_limited',
    provider: null,
    provider_id: null,
    user: '100%_user',
    key_id: 'key_2',
    policy_id: 'pol_gone',
    endpoint: 'support',
  },
  { id: 'req_5', tenant_id: 'ten_default', at_ms: NOW_MS - 30 * HOUR_MS },
]

beforeAll(async () => {
  database = await sharedPostgres()
  sql = openDatabase({ url: database.url, name: 'gatelog-test', maxConnections: 2, statementTimeoutMs: 2_000 })
  gateway = gatewayOn(sql)
  ownKey = gateway.keyWith(['usage:read'])
  const log = testLog()
  const { record } = sender()
  const one = sender('ins_2')
  await log.append(REQUESTS, 0, one.both('req_with_plan', { tenant_id: 'ten_default', at_ms: NOW_MS - 40 * HOUR_MS }))
  await log.append(
    REQUESTS,
    0,
    ROWS.map((row) => record('request.settled', settled(row.id!, { request_id: row.id!, ...row }))),
  )
  const decide = (events: readonly EventRecord[], atMs: number) => {
    const actor = { type: 'key', id: 'key_admin' } as const
    const made = writeDecision(
      { parent: lastDecision, at: new Date(atMs).toISOString(), actor, cause: null, v: 1, events },
      MAC_KEY,
    )
    lastDecision = made.id
    return { key: null, value: made.bytes }
  }
  await log.append(TOPICS.control.name, 0, [
    decide([tenantCreated('ten_default'), tenantCreated('ten_other')], NOW_MS - 90 * HOUR_MS),
    decide([keyIssued('key_a', 'ten_default'), keyIssued('key_b', 'ten_other')], NOW_MS - 2 * HOUR_MS),
    decide([providerCreated('prov_1')], NOW_MS - HOUR_MS),
  ])
  const worker = startWorker({ log, databaseUrl: database.url })
  await applied(sql, 'requests', ROWS.length + 2)
  await applied(sql, 'audit', 3)
  await worker.stop()
}, 60_000)
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await database.remove()
}, 60_000)

const ids = async (query: string, key?: string) => {
  const { status, body } = await gateway.call('GET', `/requests${query}`, key === undefined ? {} : { key })
  expect([query, status, body.error ?? null]).toEqual([query, 200, null])
  return (body.requests as { id: string }[]).map(({ id }) => id.replace('req_', ''))
}

describe('GET /requests', () => {
  test('the last 24 hours, newest first, in the ruled shape', async () => {
    expect(await ids('')).toEqual(['1', '2', '3', '4'])
    const { body } = await gateway.call('GET', '/requests?limit=1&offset=1')
    expect(body).toMatchObject({ total: 4, limit: 1, offset: 1 })
    expect((body.requests as unknown[])[0]).toEqual({
      id: 'req_2',
      request_id: 'label-1',
      at: new Date(NOW_MS - 2 * HOUR_MS).toISOString(),
      tenant_id: 'ten_default',
      key_id: 'key_1',
      requested_model: 'sandbox-echo',
      routed_model: 'sandbox-echo',
      provider: 'sandbox',
      outcome: 'success',
      status: 200,
      error_code: null,
      attempts: 1,
      fallback_used: false,
      stream: false,
      cache_hit: false,
      prompt_tokens: 10,
      completion_tokens: 5,
      cost_usd: 0.0000015,
      cost_basis: 'measured',
      latency_ms: 99,
      ttft_ms: null,
      policy_id: null,
      endpoint: null,
      user: null,
      purpose: null,
    })
  })

  test('each filter, and several together', async () => {
    expect(await ids('?from=48h')).toEqual(['1', '2', '3', '4', '5', 'with_plan'])
    expect(await ids(`?from=48h&to=${new Date(NOW_MS - 4 * HOUR_MS).toISOString()}`)).toEqual(['5', 'with_plan'])
    expect(await ids('?tenant_id=ten_other')).toEqual(['3', '4'])
    expect(await ids('?outcome=error')).toEqual(['3'])
    expect(await ids('?provider=backup')).toEqual(['3'])
    expect(await ids('?provider=prov_2')).toEqual(['3'])
    expect(await ids('?model=OTHER/model')).toEqual(['3'])
    expect(await ids('?error_code=rate_limited')).toEqual(['4'])
    expect(await ids('?status_min=400')).toEqual(['3', '4'])
    expect(await ids('?search=LABEL-1')).toEqual(['1', '2', '3'])
    expect(await ids('?search=100%25_u')).toEqual(['4'])
    expect(await ids('?search=1%25')).toEqual([]) // a percent sign is no wildcard
    expect(await ids('?tenant_id=ten_other&status_min=500&search=backup')).toEqual(['3'])
  })

  test('by key, policy, endpoint scope and end user', async () => {
    const careful = { id: 'pol_careful', tenant_id: null, name: 'Careful', managed_by: 'api', ...POLICY_DEFAULTS }
    gateway.apply([{ type: 'policy.created', data: careful }])
    expect(await ids('?key=key_2')).toEqual(['4'])
    expect(await ids('?policy=pol_gone')).toEqual(['4']) // deleted since
    expect(await ids('?policy=careful')).toEqual(['1'])
    expect(await ids('?endpoint=support')).toEqual(['4'])
    expect(await ids('?user=ada&tenant_id=ten_default')).toEqual(['1'])
    expect(await ids('?user=ada', ownKey)).toEqual(['1'])
    expect(await ids('?user=ten_default%20ada')).toEqual(['1']) // as the row shows it
    expect(await ids('?user=ada')).toEqual([]) // whose? of every tenant another digest
  })

  test('bad parameters are 400 and named', async () => {
    for (const query of ['from=7d', 'status_min=4xx', 'limit=0', 'offset=-1', 'outcome=great', 'to=soon']) {
      const { status, body } = await gateway.call('GET', `/requests?${query}`)
      expect([query, status, (body.error as { param: string }).param]).toEqual([query, 400, query.split('=')[0]!])
    }
  })

  test('a key without * sees its own tenant only; another one does not exist for it', async () => {
    expect(await ids('', ownKey)).toEqual(['1', '2'])
    expect(await ids('?tenant_id=ten_default', ownKey)).toEqual(['1', '2'])
    expect((await gateway.call('GET', '/requests?tenant_id=ten_other', { key: ownKey })).status).toBe(404)
    expect((await gateway.call('GET', '/requests/req_3', { key: ownKey })).status).toBe(404)
    const inference = gateway.keyWith(['inference'])
    expect((await gateway.call('GET', '/requests', { key: inference })).status).toBe(403)
    expect((await gateway.call('GET', '/requests', { key: null })).status).toBe(401)
  })
})

describe('GET /errors', () => {
  const asked = async (query: string, key?: string) => {
    const { status, body } = await gateway.call('GET', `/errors${query}`, key === undefined ? {} : { key })
    expect([query, status]).toEqual([query, 200])
    expect([...Value.Errors(closed(ErrorsAnswer), body)].map(({ path, message }) => `${path} ${message}`)).toEqual([])
    return body
  }

  test('those with a status of 400 and more, counted by code, whatever the page is', async () => {
    const body = await asked('?limit=1')
    expect((body.errors as { id: string }[]).map(({ id }) => id)).toEqual(['req_3'])
    expect(body).toMatchObject({ total: 2, limit: 1, offset: 0, by_code: { rate_limited: 1, upstream_error: 1 } })
    expect((await asked('?status_min=500')).by_code).toEqual({ upstream_error: 1 })
    expect((await asked('?status_min=200&from=48h')).by_code).toEqual({
      unknown: 4,
      rate_limited: 1,
      upstream_error: 1,
    })
    expect((await asked('?error_code=rate_limited')).by_code).toEqual({ rate_limited: 1 })
    expect(await asked('', ownKey)).toMatchObject({ errors: [], by_code: {}, total: 0 })
  })
})

test('rows and details are as the document says', async () => {
  const flaws = (schema: TSchema, value: unknown) =>
    [...Value.Errors(closed(schema), value)].map(({ path, message }) => `${path} ${message}`)
  const { requests } = (await gateway.call('GET', '/requests?from=48h')).body as { requests: { id: string }[] }
  expect(requests).toHaveLength(6)
  for (const row of requests) {
    expect([row.id, flaws(RequestRow, row)]).toEqual([row.id, []])
    const { body } = await gateway.call('GET', `/requests/${row.id}`)
    expect([row.id, flaws(RequestDetailAnswer, body)]).toEqual([row.id, []])
  }
  const { events } = (await gateway.call('GET', '/audit')).body as { events: object[] }
  expect(events).toHaveLength(5)
  for (const event of events) expect(flaws(AuditRow, event)).toEqual([])
})

test('usage adds up to the requests that are listed', async () => {
  const of = async (query: string, key?: string) => {
    const { status, body } = await gateway.call('GET', `/usage/${query}`, key === undefined ? {} : { key })
    expect([query, status]).toEqual([query, 200])
    return body as { totals: Record<string, number>; series: { requests: number }[]; groups: Record<string, unknown>[] }
  }
  expect((await of('summary')).totals).toMatchObject({ requests: 4, errors: 2, denied: 1, cost_usd: 0.0000045 })
  expect((await of('summary', ownKey)).totals).toMatchObject({ requests: 2, errors: 0 })
  const points = (await of('series?from=48h&interval=1d')).series
  expect(points.reduce((sum, { requests }) => sum + requests, 0)).toBe(6)
  const { groups } = await of('summary?group_by=code')
  expect(groups.map(({ code, requests }) => [code, requests])).toEqual([
    ['rate_limited', 1],
    ['upstream_error', 1],
  ])
})

describe('GET /requests/{requestID}', () => {
  test('by id, with the routing decision; by label the latest of the tenant', async () => {
    gateway.apply([providerCreated('prov_1', 'sandbox')])
    const { body } = await gateway.call('GET', '/requests/req_with_plan')
    expect(body).toMatchObject({
      id: 'req_with_plan',
      attempts: 1,
      raw_usage: { prompt_tokens: 10, completion_tokens: 5 },
      routing: {
        strategy: 'balanced',
        seed: 7,
        reserved_usd: 0.000002,
        chosen: { provider: 'sandbox', model_id: 'mod_1' },
        candidates: [
          { provider: 'sandbox', provider_id: 'prov_1', eligible: true, rejected_reason: null },
          { provider: null, provider_id: 'prov_2', eligible: false, rejected_reason: 'breaker_open' },
        ],
        attempts: [{ n: 1, outcome: 'success' }],
      },
    })
    const refused = await gateway.call('GET', '/requests/req_4')
    expect(refused.body).toMatchObject({
      outcome: 'denied',
      routing: {
        candidates: [{ provider: 'sandbox', model_id: 'mod_1', eligible: false, rejected_reason: 'cost_cap' }],
      },
    })
    const latest = async (query: string, key?: string) =>
      (await gateway.call('GET', `/requests/label-1${query}`, key === undefined ? {} : { key })).body.id
    expect(await latest('', ownKey)).toBe('req_1')
    expect(await latest('')).toBe('req_1')
    expect(await latest('?tenant_id=ten_other')).toBe('req_3')
    expect((await gateway.call('GET', '/requests/nobody')).status).toBe(404)
  })
})

describe('GET /audit', () => {
  const said = async (query: string, key?: string) => {
    const { status, body } = await gateway.call('GET', `/audit${query}`, key === undefined ? {} : { key })
    expect([query, status, body.error ?? null]).toEqual([query, 200, null])
    return (body.events as { action: string; subject_id: string }[]).map(({ subject_id }) => subject_id)
  }

  test('everything, newest first, with its filters', async () => {
    expect(await said('')).toEqual(['prov_1', 'key_b', 'key_a', 'ten_other', 'ten_default'])
    expect(await said('?resource=api_key')).toEqual(['key_b', 'key_a'])
    expect(await said('?tenant_id=ten_other')).toEqual(['key_b', 'ten_other'])
    expect(await said('?from=24h&action=create&limit=2')).toEqual(['prov_1', 'key_b'])
    expect(await said('?subject_id=key_a&actor_id=key_admin')).toEqual(['key_a'])
    expect(await said('?to=24h')).toEqual(['ten_other', 'ten_default'])
    const { body } = await gateway.call('GET', '/audit?resource=api_key&limit=1')
    expect(body).toMatchObject({ total: 2, limit: 1, offset: 0 })
    expect((body.events as unknown[])[0]).toMatchObject({
      actor: { type: 'key', id: 'key_admin' },
      at: new Date(NOW_MS - 2 * HOUR_MS).toISOString(),
      before: null,
      after: { id: 'key_b', digest: '[masked]' },
    })
  })

  test('a key without * sees what belongs to its tenant', async () => {
    expect(await said('', ownKey)).toEqual(['key_a', 'ten_default'])
    expect((await gateway.call('GET', '/audit?tenant_id=ten_other', { key: ownKey })).status).toBe(404)
  })

  test('who names a revision waits until the audit shows it', async () => {
    const ahead = gatewayOn(sql)
    Object.assign(ahead.deps.live, { reached: async () => true }) // folded here; the audit log may be behind
    const status = async (revision: string) =>
      (await ahead.call('GET', '/audit', { headers: { 'x-gateway-min-revision': revision } })).status
    expect(await status(lastDecision)).toBe(200)
    expect(await status('f'.repeat(64))).toBe(504)
  }, 10_000)
})

describe('while Postgres is away', () => {
  const expectUnavailable = async (
    connection: Sql,
    paths = ['/requests', '/requests/req_1', '/errors', '/usage/summary', '/usage/series', '/audit'],
  ) => {
    const away = gatewayOn(connection)
    for (const path of paths) {
      const { status, headers, body } = await away.call('GET', path)
      expect([path, status, headers.get('x-gateway-retryable')]).toEqual([path, 502, 'true'])
      expect(body.error).toMatchObject({ code: 'upstream_error', message: expect.stringContaining('read store') })
    }
    await connection.end({ timeout: 0 })
  }
  const databaseAt = (url: string) =>
    openDatabase({ url, name: 'gatelog-test', maxConnections: 2, statementTimeoutMs: 2_000 })

  test('nobody listens: the envelope, retryable', async () => {
    const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    listener.stop(true)
    await expectUnavailable(databaseAt(`postgres://u:p@127.0.0.1:${listener.port}/x`))
  })

  test('somebody listens and never answers: the envelope all the same', async () => {
    const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    await expectUnavailable(databaseAt(`postgres://u:p@127.0.0.1:${listener.port}/x`), ['/requests'])
    listener.stop(true)
  }, 15_000)

  test('nothing was built yet: the envelope says so', async () => {
    const empty = await sharedPostgres()
    const connection = databaseAt(empty.url)
    const { status, body } = await gatewayOn(connection).call('GET', '/requests')
    expect([status, (body.error as { message: string }).message]).toEqual([
      502,
      expect.stringContaining('is being built'),
    ])
    await connection.end()
    await empty.remove()
  })
})
