// `/requests/{requestID}/explain` over a real chain and its history thread: the past plan, the alternative plan, and
// the answer when neither can be computed. tests/e2e/explain.test.ts proves that plans come out as they were made.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { FrameQueries } from '../../../../projections/frames/query.ts'
import { ReadStoreUnavailable } from '../../../../projections/reader.ts'
import type { RequestDetail } from '../../../../projections/requests/query.ts'
import type { FrameTaken } from '../../../../src/domain/events/health.ts'
import type { PlanRecord } from '../../../../src/domain/events/request.ts'
import { decisionName } from '../../../../src/domain/events/request-reading.ts'
import { ExplainAnswer } from '../../../../src/http/admin/answers/explain.ts'
import { explainRoutes } from '../../../../src/http/admin/reads/explain.ts'
import { requestRoutes } from '../../../../src/http/admin/reads/requests.ts'
import { planDigest } from '../../../../src/inference/plan/digest.ts'
import type { RejectedReason } from '../../../../src/inference/plan/rejections.ts'
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'
import { Value } from '../../../../src/lib/schema/schema.ts'
import { type History, HistoryUnavailable } from '../../../../src/state/history/history-port.ts'
import { entry } from '../../../inference/gateway.ts'
import type { Answer } from '../world/gateway.ts'
import { QUIET_SEARCH } from '../world/quiet-search.ts'
import { type RealGateway, startRealGateway } from '../world/real-history.ts'

const OWN_KEY = 'gw_live_reader_of_the_default_tenant'
const OTHER_KEY = 'gw_live_reader_of_another_tenant_here'

let gateway: RealGateway
/** By their names. */
const ids: Record<string, string> = {}
/** When the request was planned; that provider alpha is disabled; that there is a policy that ignores it. */
const revisions: Record<'planned' | 'disabled' | 'late', string> = { planned: '', disabled: '', late: '' }
const requests = new Map<string, RequestDetail>()
/** The records of the one frame that is kept. */
let frames: readonly FrameTaken[] = []
let problem: Error | null = null
let historyProblem: Error | null = null

const kept: FrameQueries = {
  at: async (instance, epoch, number) => (`${instance}.${epoch}.${number}` === 'ins_1.e1.1' ? frames : null),
}

const made = async (method: string, path: string, body: object): Promise<Answer> => {
  const answer = await gateway.call(method, path, { body })
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
  return answer
}
const idOf = async (path: string, body: object): Promise<string> => String((await made('POST', path, body)).body.id)

const CANDIDATES = ['alpha', 'beta'] as const
/** The digest of a plan with both candidates in this order, with these reasons. */
const digestOf = (...reasons: (RejectedReason | null)[]): number => {
  const candidates = CANDIDATES.map((name) => entry({ provider: name, modelId: ids[`${name}Small`]! }))
  return planDigest({ candidates, reasons, order: [0, 1], strategy: 'priority' })
}
const planOf = (more: Partial<PlanRecord> = {}): PlanRecord => ({
  ...{ revision: decisionName(revisions.planned), seed: 1, digest: digestOf(null, null) },
  ...{ text_bytes: 5, messages: 1, prompt_bytes: 5 },
  ...more,
})

/** A request that alpha answered, unless `more` differs. */
const recorded = (id: string, more: Partial<RequestDetail> = {}): void => {
  const request = {
    id,
    request_id: id,
    at: '2026-11-22T10:00:00.000Z',
    at_ms: Date.parse('2026-11-22T10:00:00Z'),
    tenant_id: 'ten_default',
    key_id: 'key_own',
    requested_model: 'small',
    stream: false,
    endpoint: null,
    policy_id: ids.usual,
    purpose: null,
    outcome: 'success',
    error_code: null,
    cache_hit: false,
    task: 'chat',
    shaping: [],
    attempt_list: [],
    chosen: { provider: 'alpha', provider_id: ids.alpha, model: 'small', model_id: ids.alphaSmall },
    plan: planOf(),
    wasAdmitted: true,
    first: { model_id: ids.alphaSmall, reserved_nano_usd: 1_000 },
    process: 'ins_1.e1',
    ...more,
  }
  requests.set(id, request as unknown as RequestDetail)
}
/** It was refused: after its plan, or before one. */
const REFUSED = { outcome: 'denied', chosen: null, wasAdmitted: false, first: null } as const

const explained = async (id: string, query = '', key?: string) => {
  const answer = await gateway.call('GET', `/requests/${id}/explain${query}`, key === undefined ? {} : { key })
  if (answer.status === 200) expect([...Value.Errors(ExplainAnswer, answer.body)]).toEqual([])
  return answer
}
const reasonsOf = ({ body }: Answer) =>
  (body.candidates as { provider: string; rejected_reason: string | null }[]).map(
    ({ provider, rejected_reason }) => `${provider} ${rejected_reason}`,
  )

beforeAll(async () => {
  gateway = await startRealGateway(({ live, history }) => {
    const deps = {
      ...QUIET_SEARCH,
      live,
      nowMs: Date.now,
      frames: kept,
      adapterReady: () => true,
      requests: {
        async one(id: string, tenantId: string | null) {
          if (problem !== null) throw problem
          const request = requests.get(id)
          return request !== undefined && (tenantId === null || tenantId === request.tenant_id) ? request : null
        },
      },
      history: {
        query: (name, ask) => (historyProblem === null ? history.query(name, ask) : Promise.reject(historyProblem)),
      } satisfies History,
    }
    return [
      ...explainRoutes(deps),
      ...requestRoutes({ ...deps, requests: deps.requests as never, userDigest: () => '' }),
    ]
  })
  await idOf('/tenants', { slug: 'other', name: 'Other' }).then((id) => {
    ids.other = id
  })
  const key = (id: string, tenant_id: string, secret: string) =>
    gateway.decide([
      {
        type: 'api_key.issued',
        data: {
          ...{ id, tenant_id, name: id, scopes: ['usage:read'], digest: sha256Hex(secret), expires_at: null },
          ...{ routing_policy_id: null, rate_limits: null, managed_by: 'api' },
        },
      },
    ])
  await key('key_own', 'ten_default', OWN_KEY)
  await key('key_other', ids.other!, OTHER_KEY)
  for (const [name, priority] of Object.entries({ alpha: 10, beta: 20 })) {
    const provider = { name, kind: 'openai_compatible', base_url: `https://${name}.example/v1` }
    ids[name] = await idOf('/providers', provider)
    const price = { input_cost_per_million: 0, output_cost_per_million: 0 }
    ids[`${name}Small`] = await idOf('/models', { name: 'small', provider_id: ids[name], priority, ...price })
  }
  ids.usual = await idOf('/policies', { tenant_id: 'ten_default', name: 'default', strategy: 'priority' })
  const fallback = { enabled: false }
  ids.foreign = await idOf('/policies', { tenant_id: ids.other, name: 'foreign', strategy: 'priority', fallback })
  revisions.planned = gateway.instance.live.status().tip
  await made('PATCH', `/providers/${ids.alpha}`, { status: 'disabled' })
  revisions.disabled = gateway.instance.live.status().tip
  ids.late = await idOf('/policies', { name: 'late', strategy: 'priority', providers: { ignore: ['alpha'] } })
  revisions.late = gateway.instance.live.status().tip
  recorded('req_plain')
}, 60_000)
afterAll(() => gateway.close(), 60_000)

// docs/behaviour.md: "Explain"
describe('what was', () => {
  test('is planned again, from the configuration of then', async () => {
    const { status, body } = await explained('req_plain')
    expect(status).toBe(200)
    expect(body).toMatchObject({
      computed: true,
      not_computed: null,
      matches: true,
      differences: [],
      revision: revisions.planned,
      policy: { id: ids.usual, name: 'default', source: 'tenant', verdict: 'allowed' },
      candidates: [
        { provider: 'alpha', provider_id: ids.alpha, eligible: true, rejected_reason: null, projected_cost_usd: 0 },
        { provider: 'beta', model_id: ids.betaSmall, eligible: true },
      ],
      order: [0, 1],
      chosen: { provider: 'alpha', model: 'small' },
      budget: { reserved_usd: 0.000001 },
      route_reason: expect.stringContaining('alpha/small comes first by priority'),
    })
    expect(body).not.toHaveProperty('recorded')
  })

  test('the request itself lists the candidates from the same computation, and is shown without it', async () => {
    const shown = async () => (await gateway.call('GET', '/requests/req_plain')).body
    expect(await shown()).toMatchObject({
      id: 'req_plain',
      routing: {
        ...{ computed: true, matches: true, revision: revisions.planned, strategy: 'priority', rejected: {} },
        candidates: [
          { provider: 'alpha', model: 'small', eligible: true, rejected_reason: null },
          { provider: 'beta', model_id: ids.betaSmall, eligible: true },
        ],
      },
    })
    historyProblem = new HistoryUnavailable('it is busy')
    const busy = await shown()
    historyProblem = null
    expect(busy.routing).toMatchObject({ computed: false, matches: null, candidates: [], strategy: null })
  })

  test('a recorded plan that differs is reported', async () => {
    const first = { model_id: 'mod_gone', reserved_nano_usd: null }
    recorded('req_forged', { plan: planOf({ digest: 7, rejected: { killed: 1 } }), first })
    expect((await explained('req_forged')).body).toMatchObject({
      computed: true,
      matches: false,
      differences: ['rejected', 'digest', 'chosen'],
    })
  })

  test('what a budget or a rate limit refused behind its plan matches it, and says the refusal', async () => {
    recorded('req_over_budget', { ...REFUSED, error_code: 'quota_exceeded' })
    expect((await explained('req_over_budget')).body).toMatchObject({
      computed: true,
      matches: true,
      differences: [],
      policy: { verdict: 'allowed' },
      chosen: null,
      refused: { code: 'quota_exceeded', message: null },
    })
  })

  test('goes by the frame that was in force', async () => {
    const row = [ids.alphaSmall!, 1, false, false, 1, null, null, null, 0, null, null] as const
    frames = [{ number: 1, at_ms: 1, whole: true, part: 1, parts: 1, candidates: [row as never] }]
    const plan = planOf({ frame: 1, digest: digestOf('breaker_open', null), rejected: { breaker_open: 1 } })
    recorded('req_framed', { plan, first: { model_id: ids.betaSmall!, reserved_nano_usd: null } })
    const answer = await explained('req_framed')
    expect(answer.body).toMatchObject({ computed: true, matches: true, frame: 1 })
    expect(reasonsOf(answer)).toEqual(['alpha breaker_open', 'beta null'])
  })

  test('without its frame, its decision or a plan, what was recorded is shown with the reason', async () => {
    const rejected = { killed: 2 }
    recorded('req_lost', { plan: planOf({ frame: 2, rejected }) })
    recorded('req_elsewhere', { plan: planOf({ revision: 'f'.repeat(16), rejected }) })
    recorded('req_unread', { plan: null, first: null })
    recorded('req_refused', { ...REFUSED, plan: null, error_code: 'permission_error' })
    recorded('req_test', { purpose: 'test' })
    for (const [id, why, counts] of [
      ['req_lost', 'frame 2 is not kept', rejected],
      ['req_elsewhere', 'not in this log', rejected],
      ['req_unread', 'admission has not been read', {}],
      ['req_refused', 'refused before anything was planned', {}],
      ['req_test', 'nothing was planned', {}],
    ] as const) {
      const answer = await explained(id)
      expect(answer.body).toMatchObject({ computed: false, not_computed: expect.stringContaining(why) })
      expect(answer.body).toMatchObject({ rejected: counts, candidates: [], order: [] })
      expect(answer.body).not.toHaveProperty('matches')
    }
  })
})

// docs/behaviour.md: "Explain"
describe('what would have been', () => {
  test('under another policy, as it is now', async () => {
    const answer = await explained('req_plain', `?policy_id=${ids.late}`)
    expect(reasonsOf(answer)).toEqual(['alpha ignored', 'beta null'])
    expect(answer.body).toMatchObject({
      computed: true,
      revision: revisions.planned,
      policy: { id: ids.late, name: 'late', source: 'tenant' },
      chosen: { provider: 'beta' },
      attempts: [],
      missing: [],
      recorded: { policy: { id: ids.usual }, chosen: { provider: 'alpha' }, outcome: 'success' },
    })
    expect(answer.body).not.toHaveProperty('matches')
  })

  test('under the configuration of another time, by decision or time, and under both', async () => {
    for (const asOf of [revisions.disabled, new Date().toISOString()]) {
      const answer = await explained('req_plain', `?as_of=${asOf}`)
      expect(reasonsOf(answer)).toEqual(['alpha disabled', 'beta null'])
      expect(answer.body).toMatchObject({ computed: true, recorded: { revision: decisionName(revisions.planned) } })
    }
    const both = await explained('req_plain', `?as_of=${revisions.late}&policy_id=${ids.late}`)
    expect(reasonsOf(both)).toEqual(['alpha disabled', 'beta null'])
    expect(both.body).toMatchObject({ revision: revisions.late, policy: { name: 'late' } })
  })

  test('an input of the plan that was not recorded is named', async () => {
    const turns = await idOf('/policies', { name: 'turns', strategy: 'round_robin' })
    expect((await explained('req_plain', `?policy_id=${turns}`)).body.missing).toEqual(['turn'])
    const hashes = await idOf('/policies', { name: 'hashes', strategy: 'sticky' })
    expect((await explained('req_plain', `?policy_id=${hashes}`)).body.missing).toEqual(['sticky'])
  })

  test('a configuration that refuses the request says so', async () => {
    const first = await gateway.decide([])
    await made('POST', '/overrides', { kind: 'block', target: 'key:key_own', reason: 'a test' })
    const { tip } = gateway.instance.live.status()
    expect(tip).not.toBe(first)
    expect((await explained('req_plain', `?as_of=${tip}`)).body).toMatchObject({
      computed: true,
      refused: { code: 'permission_error', message: expect.stringContaining('blocked this API key') },
      candidates: [],
      chosen: null,
    })
  })

  test('a policy or a moment that is not there is 404, one that is none 400, and each is named', async () => {
    for (const [query, status, param] of [
      ['policy_id=pol_none', 404, 'policy_id'],
      [`policy_id=${ids.foreign}`, 404, 'policy_id'],
      [`policy_id=${ids.late}&as_of=${revisions.disabled}`, 404, 'policy_id'],
      [`as_of=${'e'.repeat(64)}`, 404, 'as_of'],
      ['as_of=2001-01-01T00:00:00Z', 404, 'as_of'],
      ['as_of=yesterday', 400, 'as_of'],
    ] as const) {
      const answer = await explained('req_plain', `?${query}`)
      expect([query, answer.status, answer.body.error]).toMatchObject([query, status, { param }])
    }
  })
})

test('another tenant’s request is 404, as is an unknown one', async () => {
  expect((await explained('req_plain', '', OWN_KEY)).status).toBe(200)
  expect((await explained('req_plain', '', OTHER_KEY)).status).toBe(404)
  expect((await explained('req_plain', '?tenant_id=ten_default', OTHER_KEY)).status).toBe(404)
  expect((await explained('req_none')).status).toBe(404)
})

test('while Postgres or the history is away it says so, retryable', async () => {
  problem = new ReadStoreUnavailable('Postgres does not answer')
  const away = await explained('req_plain')
  problem = null
  expect([away.status, away.headers.get('x-gateway-retryable')]).toEqual([502, 'true'])
  historyProblem = new HistoryUnavailable('it is busy')
  const busy = await explained('req_plain')
  historyProblem = null
  expect([busy.status, busy.headers.get('x-gateway-retryable')]).toEqual([504, 'true'])
})
