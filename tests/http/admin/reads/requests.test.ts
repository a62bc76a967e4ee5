// `/admin/v1/requests`, `/errors` and the usage that they add up to, on a real Postgres.
import { describe, expect, test } from 'bun:test'
import { POLICY_DEFAULTS } from '../../../../src/domain/steering/policy.ts'
import { ErrorsAnswer, RequestDetailAnswer, RequestRow } from '../../../../src/http/admin/answers/reads.ts'
import { newId } from '../../../../src/lib/crypto/ids.ts'
import { flawsOf, HOUR_MS, NOW_MS, readWorld } from '../world/read-world.ts'

const reads = readWorld()

const ids = async (query: string, key?: string) => {
  const { status, body } = await reads.gateway.call('GET', `/requests${query}`, key === undefined ? {} : { key })
  expect([query, status, body.error ?? null]).toEqual([query, 200, null])
  return (body.requests as { id: string }[]).map(({ id }) => id.replace('req_', ''))
}

describe('GET /requests', () => {
  test('the last 24 hours, newest first, with all of its fields', async () => {
    expect(await ids('')).toEqual(['1', '2', '3', '4'])
    const { body } = await reads.gateway.call('GET', '/requests?limit=1&offset=1')
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
    reads.gateway.apply([{ type: 'policy.created', data: careful }])
    expect(await ids('?key=key_2')).toEqual(['4'])
    expect(await ids('?policy=pol_gone')).toEqual(['4']) // deleted since
    expect(await ids('?policy=careful')).toEqual(['1'])
    expect(await ids('?key_id=key_2')).toEqual(['4']) // as the rows call it
    expect(await ids('?policy_id=pol_gone')).toEqual(['4'])
    expect(await ids('?endpoint=support')).toEqual(['4'])
    expect(await ids('?user=ada&tenant_id=ten_default')).toEqual(['1'])
    expect(await ids('?user=ada', reads.ownKey)).toEqual(['1'])
    expect(await ids('?user=ten_default%20ada')).toEqual(['1']) // as the row shows it
    expect(await ids('?user=ada')).toEqual([]) // whose? of every tenant another digest
  })

  test('bad parameters are 400 and named', async () => {
    for (const query of ['from=7d', 'status_min=4xx', 'limit=0', 'offset=-1', 'outcome=great', 'to=soon']) {
      const { status, body } = await reads.gateway.call('GET', `/requests?${query}`)
      expect([query, status, (body.error as { param: string }).param]).toEqual([query, 400, query.split('=')[0]!])
    }
  })

  test('a key without * sees its own tenant only; another one does not exist for it', async () => {
    expect(await ids('', reads.ownKey)).toEqual(['1', '2'])
    expect(await ids('?tenant_id=ten_default', reads.ownKey)).toEqual(['1', '2'])
    expect((await reads.gateway.call('GET', '/requests?tenant_id=ten_other', { key: reads.ownKey })).status).toBe(404)
    expect((await reads.gateway.call('GET', '/requests/req_3', { key: reads.ownKey })).status).toBe(404)
    const inference = reads.gateway.keyWith(['inference'])
    expect((await reads.gateway.call('GET', '/requests', { key: inference })).status).toBe(403)
    expect((await reads.gateway.call('GET', '/requests', { key: null })).status).toBe(401)
  })
})

describe('GET /errors', () => {
  const asked = async (query: string, key?: string) => {
    const { status, body } = await reads.gateway.call('GET', `/errors${query}`, key === undefined ? {} : { key })
    expect([query, status]).toEqual([query, 200])
    expect(flawsOf(ErrorsAnswer, body)).toEqual([])
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
    expect(await asked('', reads.ownKey)).toMatchObject({ errors: [], by_code: {}, total: 0 })
  })
})

test('rows and details are as the document says', async () => {
  const { requests } = (await reads.gateway.call('GET', '/requests?from=48h')).body as { requests: { id: string }[] }
  expect(requests).toHaveLength(6)
  for (const row of requests) {
    expect([row.id, flawsOf(RequestRow, row)]).toEqual([row.id, []])
    const { body } = await reads.gateway.call('GET', `/requests/${row.id}`)
    expect([row.id, flawsOf(RequestDetailAnswer, body)]).toEqual([row.id, []])
  }
})

test('usage adds up to the requests that are listed', async () => {
  const of = async (query: string, key?: string) => {
    const { status, body } = await reads.gateway.call('GET', `/usage/${query}`, key === undefined ? {} : { key })
    expect([query, status]).toEqual([query, 200])
    return body as { totals: Record<string, number>; series: { requests: number }[]; groups: Record<string, unknown>[] }
  }
  expect((await of('summary')).totals).toMatchObject({ requests: 4, errors: 2, denied: 1, cost_usd: 0.0000045 })
  expect((await of('summary', reads.ownKey)).totals).toMatchObject({ requests: 2, errors: 0 })
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
    const { body } = await reads.gateway.call('GET', '/requests/req_with_plan')
    expect(body).toMatchObject({
      id: 'req_with_plan',
      attempts: 1,
      raw_usage: { prompt_tokens: 10, completion_tokens: 5 },
      routing: {
        // While the history is away the request is shown all the same, without what has to be computed.
        computed: false,
        not_computed: expect.stringContaining('it is away'),
        matches: null,
        revision: 'a'.repeat(16),
        strategy: null,
        seed: 7,
        prompt_tokens_estimate: 14,
        reserved_usd: 0.000002,
        chosen: { provider: 'sandbox', model_id: 'mod_1' },
        rejected: { breaker_open: 1 },
        candidates: [],
        attempts: [{ n: 1, outcome: 'success' }],
      },
    })
    const refused = await reads.gateway.call('GET', '/requests/req_4')
    expect(refused.body).toMatchObject({
      outcome: 'denied',
      routing: { rejected: { cost_cap: 1 }, candidates: [] },
    })
    const latest = async (query: string, key?: string) =>
      (await reads.gateway.call('GET', `/requests/label-1${query}`, key === undefined ? {} : { key })).body.id
    expect(await latest('', reads.ownKey)).toBe('req_1')
    expect(await latest('')).toBe('req_1')
    expect(await latest('?tenant_id=ten_other')).toBe('req_3')
    expect((await reads.gateway.call('GET', '/requests/nobody')).status).toBe(404)
  })

  test('an id that may be on its way is not 404 but retryable, for the view and for the explanation', async () => {
    const young = newId('req', NOW_MS - 1_000)
    for (const [id, expected] of [
      [young, [502, 'true']],
      [newId('req', NOW_MS - HOUR_MS), [404, 'false']],
    ] as const) {
      for (const path of [`/requests/${id}`, `/requests/${id}/explain`]) {
        const { status, headers } = await reads.gateway.call('GET', path)
        expect([path, status, headers.get('x-gateway-retryable')]).toEqual([path, ...expected])
      }
    }
  }, 20_000)
})
