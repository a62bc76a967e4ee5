import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import type { FeedbackGiven } from '../../../src/domain/events/feedback.ts'
import type { FoundRequest, RequestLookup } from '../../../src/inference/surface/request-search.ts'
import { RecentRequests } from '../../../src/state/indexes/recent-requests.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, READ_KEY, type TestGateway, testGateway } from '../gateway.ts'

const OTHER_KEY = 'gw_live_otherotherotherotherotherotherother'
const upstream = startUpstream()
const stored = new Map<string, FoundRequest>()
let isAway = false
let behindMs: number | null = 0
let isKnown = false
let hasOthers = false
/** What happens while the request log is asked for the nth time, from 1. */
let whenAsked: (nth: number) => void = () => {}
let timesAsked = 0
const requestLookup: RequestLookup = {
  get hasOthers() {
    return hasOthers
  },
  async find(id, tenantId) {
    if (isAway) throw new Error('Postgres does not answer')
    whenAsked(++timesAsked)
    const isForeign = [...stored.keys()].some((key) => key.endsWith(`/${id}`))
    return stored.get(`${tenantId}/${id}`) ?? (isForeign ? 'foreign' : null)
  },
  isKnown: async () => isKnown,
  behindMs: async () => behindMs,
}
let gateway: TestGateway
beforeEach(() => {
  gateway?.close()
  stored.clear()
  isAway = false
  behindMs = 0
  isKnown = false
  hasOthers = false
  whenAsked = () => {}
  timesAsked = 0
  gateway = testGateway({
    entries: [entry({ baseUrl: upstream.baseUrl })],
    keys: { [OTHER_KEY]: { id: 'key_other', tenantId: 'ten_2' } },
    requestLookup,
  })
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const give = async (body: unknown, key?: string) => {
  const response = await gateway.send('/v1/feedback', { body, ...(key === undefined ? {} : { key }) })
  const json = (await response.json()) as Record<string, unknown> & { error?: { code: string; param: string | null } }
  return { status: response.status, headers: response.headers, json }
}
const served = async (headers: Record<string, string> = {}) => {
  const response = await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'Hello' }] }, headers)
  await response.text()
  return response.headers.get('x-request-id')!
}
const given = () =>
  gateway.spool.records.filter(({ type }) => type === 'feedback.given').map(({ data }) => data as FeedbackGiven)
/** An id as we make them, that old. */
const idOfAge = (ms: number) => `req_${Bun.randomUUIDv7('hex', Date.now() - ms)}`

// docs/behaviour.md: "Feedback"
describe('feedback', () => {
  test('on what was just served is taken, in the log, and counted', async () => {
    const id = await served()
    const { status, json } = await give({ request_id: id, score: 0.5, comment: 'good', tags: { from: 'test' } })
    expect(status).toBe(201)
    expect(json).toEqual({
      id: expect.stringMatching(/^fb_/),
      request_id: id,
      score: 0.5,
      comment: 'good',
      metric: 'quality',
      created_at: expect.any(String),
    })
    expect(given()).toMatchObject([
      {
        request: id,
        tenant_id: 'ten_1',
        key_id: 'key_1',
        model_id: 'mod_alpha_small',
        provider_id: 'prov_alpha',
        score: 0.5,
      },
    ])
  })

  test('by the label of the client names the latest of that label', async () => {
    await served({ 'X-Request-ID': 'mine' })
    await served({ 'X-Request-ID': 'mine' })
    await give({ request_id: 'mine', score: true })
    expect(given()).toMatchObject([{ request: gateway.spool.settled()[1]!.id, request_id: 'mine', score: 1 }])
  })

  test('is taken while the stream is still being read', async () => {
    upstream.next({ chunks: 3, chunkDelayMs: 50 })
    const response = await gateway.chat({
      model: 'small',
      stream: true,
      messages: [{ role: 'user', content: 'Hello' }],
    })
    expect((await give({ request_id: response.headers.get('x-request-id'), score: false })).status).toBe(201)
    await response.text()
    expect(given()).toMatchObject([{ score: -1 }])
  })

  test('of another tenant, or on nothing, is 404 naming the field', async () => {
    const id = await served()
    for (const [request_id, key] of [
      [id, OTHER_KEY],
      [idOfAge(3_600_000), undefined],
    ] as const) {
      const { status, json } = await give({ request_id, score: 1 }, key)
      expect([status, json.error?.code, json.error?.param]).toEqual([404, 'not_found', 'request_id'])
    }
    expect(given()).toEqual([])
  })

  test('on what another instance served is found in the request log', async () => {
    const id = idOfAge(120_000)
    stored.set(`ten_1/${id}`, { id, requestId: id, providerId: 'prov_9', modelId: 'mod_9' })
    expect((await give({ request_id: id, score: 1 })).status).toBe(201)
    expect(given()).toMatchObject([{ model_id: 'mod_9' }])
  })

  test('on what another instance served another tenant a moment ago is 404 once the request log shows it', async () => {
    const id = idOfAge(1_000)
    stored.set(`ten_1/${id}`, { id, requestId: id, providerId: null, modelId: null })
    expect((await give({ request_id: id, score: 1 }, OTHER_KEY)).status).toBe(404)
    expect((await give({ request_id: id, score: 1 })).status).toBe(201)
  })

  test.each([
    [
      'Postgres is away',
      () => {
        isAway = true
      },
      idOfAge(120_000),
    ],
    [
      'the request log is behind',
      () => {
        behindMs = 60_000
      },
      idOfAge(120_000),
    ],
    [
      'nobody reports how far the request log is',
      () => {
        behindMs = null
      },
      idOfAge(120_000),
    ],
    ['the request may be on its way', () => {}, idOfAge(1_000)],
    [
      'another instance still answers it',
      () => {
        isKnown = true
      },
      idOfAge(120_000),
    ],
  ])('is never a false 404: 502 and retryable when %s', async (_, arrange, id) => {
    arrange()
    const { status, json, headers } = await give({ request_id: id, score: 1 })
    expect([status, json.error?.code, headers.get('x-gateway-retryable')]).toEqual([502, 'upstream_error', 'true'])
  })

  test('on an id of a time to come, or a label that nobody used, is 404', async () => {
    for (const request_id of [idOfAge(-3_600_000), 'nobody'])
      expect((await give({ request_id, score: 1 })).status).toBe(404)
  })

  test('ends with its client', async () => {
    const leaving = new AbortController()
    whenAsked = () => leaving.abort()
    const body = { request_id: idOfAge(1_000), score: 1 }
    const response = await gateway.send('/v1/feedback', { body, signal: leaving.signal })
    expect([response.status, timesAsked]).toEqual([499, 1])
  })

  test('needs the scope, and refuses strangers', async () => {
    expect((await give({ request_id: 'x', score: 1 }, READ_KEY)).status).toBe(403)
    expect((await give({ request_id: 'x', score: 1 }, 'gw_live_nobodynobodynobodynobody')).status).toBe(401)
  })

  test.each([
    ['score', { score: 1.5 }],
    ['score', { score: 'good' }],
    ['score', { score: null }],
    ['request_id', { request_id: '' }],
    ['comment', { comment: 'x'.repeat(4_097) }],
    ['comment', { comment: 'é'.repeat(2_049) }],
    ['metric', { metric: 'a b' }],
    ['tags.a', { tags: { a: 1 } }],
    ['tags.a\nb', { tags: { 'a\nb': 1 } }],
    ['tags.', { tags: { '': 'x' } }],
    [`tags.${'x'.repeat(65)}`, { tags: { ['x'.repeat(65)]: 'x' } }],
    ['more', { more: 1 }],
  ])('with a bad %s is 400 naming it', async (param, fields) => {
    const { status, json } = await give({ request_id: 'x', score: 1, ...fields })
    expect([status, json.error?.param]).toEqual([400, param])
  })
})

describe('feedback by label', () => {
  /** A request with this label that another instance served. */
  const elsewhere = (id: string, label: string) =>
    stored.set(`ten_1/${label}`, { id, requestId: label, providerId: 'prov_9', modelId: 'mod_9' })
  const givenOn = () => given().map(({ request }) => request)
  const servedHere = async (label: string) => {
    await served({ 'X-Request-ID': label })
    return gateway.spool.settled().at(-1)!.id
  }

  test('is about the latest, where another process served that and its row comes a moment later', async () => {
    hasOthers = true
    await servedHere('mine')
    const newer = idOfAge(0)
    whenAsked = (nth) => nth === 3 && elsewhere(newer, 'mine')
    expect((await give({ request_id: 'mine', score: 1 })).status).toBe(201)
    expect(given()).toMatchObject([{ request: newer, request_id: 'mine', model_id: 'mod_9' }])
  })

  test('is about what was served here, where that is the latest', async () => {
    hasOthers = true
    elsewhere(idOfAge(5_000), 'mine')
    const here = await servedHere('mine')
    expect((await give({ request_id: 'mine', score: 1 })).status).toBe(201)
    expect(givenOn()).toEqual([here])
  })

  test.each([
    [
      'away',
      () => {
        isAway = true
      },
    ],
    [
      'behind',
      () => {
        behindMs = 1_500
      },
    ],
    [
      'not followed',
      () => {
        behindMs = null
      },
    ],
  ])('is 502 where others serve and the request log is %s; by id it is taken', async (_, arrange) => {
    hasOthers = true
    const here = await servedHere('mine')
    arrange()
    const { status, headers } = await give({ request_id: 'mine', score: 1 })
    expect([status, headers.get('x-gateway-retryable')]).toEqual([502, 'true'])
    expect((await give({ request_id: here, score: 1 })).status).toBe(201)
    expect(givenOn()).toEqual([here])
  })

  test('needs no request log where nobody else serves', async () => {
    isAway = true
    const here = await servedHere('mine')
    expect((await give({ request_id: 'mine', score: 1 })).status).toBe(201)
    expect(givenOn()).toEqual([here])
  })
})

test('S37: the largest feedback that is taken is a small record, and one that is larger is none', async () => {
  const answer = await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'hi' }] })
  const request_id = answer.headers.get('x-request-id')!
  await answer.text()
  const tags = Object.fromEntries(
    Array.from({ length: 16 }, (_, i) => [`${i}`.padStart(64, '\u0001'), '\u0001'.repeat(256)]),
  )
  const largest = { request_id, score: 1, comment: '\u0001'.repeat(4_096), metric: 'm'.repeat(64), tags }
  expect((await give(largest)).status).toBe(201)
  const records = () => gateway.spool.records.filter(({ type }) => type === 'feedback.given')
  expect(records()).toHaveLength(1)
  expect(JSON.stringify(records()[0]!.data).length).toBeLessThan(65_536)
  for (const more of [{ tags: { ...tags, more: 'x' } }, { comment: 'x'.repeat(4_097) }, { metric: 'm'.repeat(65) }])
    expect((await give({ ...largest, ...more })).status).toBe(400)
  expect(records()).toHaveLength(1)
})

test('S37: the memory of served requests is bounded, and a label forgets only its own', () => {
  const memory = new RecentRequests(2)
  memory.add('req_1', 'label', 'ten_1')
  memory.add('req_2', 'label', 'ten_1')
  memory.add('req_3', 'req_3', 'ten_1')
  expect(memory.find('req_1', 'ten_1')).toBeNull()
  expect(memory.find('label', 'ten_1')).toMatchObject({ id: 'req_2' })
  expect(memory.find('req_3', 'ten_2')).toBe('foreign')
})
