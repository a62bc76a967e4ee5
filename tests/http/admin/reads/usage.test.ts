// `/usage/summary`, `/usage/series`, `/overview`: the queries to the read model, and how its figures are shown.
import { describe, expect, test } from 'bun:test'
import type { UsageFilter } from '../../../../projections/usage/query.ts'
import { closed } from '../../../../src/domain/kernel/fields.ts'
import { providerHealth } from '../../../../src/http/admin/answers/health-view.ts'
import { overviewRoutes } from '../../../../src/http/admin/reads/overview.ts'
import { usageRoutes } from '../../../../src/http/admin/reads/usage.ts'
import { Value } from '../../../../src/lib/schema/schema.ts'
import { openHealth } from '../../../../src/state/health/book.ts'
import { modelCreated, providerCreated } from '../../../domain/world.ts'
import { startGateway } from '../world/gateway.ts'
import { figures, inOneMoment } from '../world/usage-figures.ts'

const NOW_MS = Date.UTC(2026, 10, 20, 12, 0, 30)
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

type Asked = UsageFilter & { readonly of: string; readonly more?: unknown }

const world = () => {
  const asked: Asked[] = []
  /** As at ends with too many requests. */
  const rounded = ({ fromMs, toMs }: UsageFilter) => ({
    fromMs: Math.floor(fromMs / MINUTE_MS) * MINUTE_MS,
    toMs: Math.ceil(toMs / MINUTE_MS) * MINUTE_MS,
  })
  const some = figures({ requests: 3, errors: 1, failed: 1, cost_nano_usd: 1_234_567_891, p50_ms: 7 })
  const usage = inOneMoment({
    async totals(filter) {
      asked.push({ of: 'totals', ...filter })
      return { window: rounded(filter), totals: some }
    },
    async groups(filter, by, limit) {
      asked.push({ of: by, more: limit, ...filter })
      const named = by === 'key' ? 'key_1' : 'vendor'
      return {
        window: rounded(filter),
        groups: [
          { name: named, model: 'small', ...some },
          { name: null, model: null, ...figures() },
        ],
      }
    },
    async series(filter, widthMs) {
      asked.push({ of: 'series', more: widthMs, ...filter })
      return { window: rounded(filter), series: [{ atMs: NOW_MS - 30_000, ...some, ttft_p50_ms: 4 }] }
    },
  })
  const live = { control: null as never }
  const catalogue = { all: () => [], resolve: () => [] }
  const book = openHealth({ catalogue, nowMs: () => NOW_MS, monotonicMs: () => 0, emit: () => {} })
  const deps = { usage, live, nowMs: () => NOW_MS }
  const routes = [
    ...usageRoutes(deps),
    ...overviewRoutes({ ...deps, healthOf: (id) => providerHealth(book, id, []), adapterReady: () => true }),
  ]
  const gateway = startGateway(routes)
  Object.assign(live, { control: gateway.state })
  gateway.apply([providerCreated('prov_1', 'Vendor'), modelCreated('mod_1', 'prov_1', { name: 'Small' })])
  const answered = async (path: string) => {
    const { status, body } = await gateway.call('GET', path)
    expect([path, status, body.error ?? null]).toEqual([path, 200, null])
    const { answer } = routes.find((route) => route.path === path.split('?')[0])!
    expect([...Value.Errors(closed(answer!), body)].map((flaw) => `${flaw.path} ${flaw.message}`)).toEqual([])
    return body as { interval?: string; groups: object[]; series: object[] }
  }
  const refusal = async (path: string) => {
    const { status, body } = await gateway.call('GET', path)
    return [status, (body.error as { param: string }).param, (body.error as { message: string }).message] as const
  }
  return { gateway, asked, answered, refusal }
}

describe('GET /usage/summary', () => {
  test('the last 24 hours, as far as they were summed, with the breakdowns of all that was spent', async () => {
    const { answered, asked } = world()
    const body = await answered('/usage/summary')
    expect(body).toMatchObject({
      from: '2026-11-19T12:00:00.000Z',
      to: '2026-11-20T12:01:00.000Z',
      cost: 'booked',
      totals: { requests: 3, errors: 1, cost_usd: 1.234567891, p50_ms: 7, p95_ms: null },
      by_provider: [{ provider: 'vendor', requests: 3 }, { provider: null }],
      by_model: [{ model: 'small', requests: 3 }, { model: null }],
      group_by: 'provider_model',
      groups: [
        { provider: 'vendor', model: 'small' },
        { provider: null, model: null },
      ],
    })
    expect(asked.map(({ of }) => of)).toEqual(['totals', 'provider', 'model', 'provider_model'])
    expect(asked.every(({ tenantId, fromMs }) => tenantId === null && fromMs === NOW_MS + 1 - 24 * HOUR_MS)).toBe(true)
  })

  test('any other breakdown by its name; how many groups', async () => {
    const { answered, asked } = world()
    const { groups } = await answered('/usage/summary?group_by=key&limit=7')
    expect(Object.keys(groups[0]!).slice(0, 2)).toEqual(['key', 'requests'])
    expect(asked.at(-1)).toMatchObject({ of: 'key', more: 7 })
  })

  test('what narrows the request log only is refused: it would answer everybody’s figures', async () => {
    const { asked, refusal } = world()
    for (const path of ['/usage/summary', '/usage/series', '/overview'])
      for (const param of ['key', 'key_id', 'policy', 'endpoint', 'user', 'outcome', 'status_min', 'error_code']) {
        const [status, named, message] = await refusal(`${path}?${param}=1`)
        expect([path, status, named, message]).toEqual([path, 400, param, expect.stringContaining('"group_by"')])
      }
    expect(asked).toEqual([])
  })

  test('a provider and a model by id, by name in any case, or as they were once called', async () => {
    const { answered, asked } = world()
    for (const [query, wanted] of [
      ['provider=prov_1&model=mod_1', ['Vendor', 'Small']],
      ['provider=VENDOR&model=small', ['Vendor', 'Small']],
      ['provider=Gone', ['Gone', null]],
    ] as const) {
      await answered(`/usage/summary?${query}`)
      const { provider, model } = asked.at(-1)!
      expect([query, provider, model]).toEqual([query, wanted[0], wanted[1]] as never)
    }
  })

  test('costs as corrected by the decisions that stand now, the last one last', async () => {
    const { gateway, answered, asked } = world()
    const body = { provider: 'Vendor', model: 'Small', from: '2026-11-19', to: '2026-11-20T12:30:00+01:00' }
    for (const input_cost_per_million of [1, 0.5]) {
      const prices = { input_cost_per_million, output_cost_per_million: 2 }
      expect((await gateway.call('POST', '/prices/corrections', { body: { ...body, ...prices } })).status).toBe(201)
    }
    for (const path of ['/usage/summary', '/usage/series', '/overview']) {
      asked.length = 0
      expect(await answered(`${path}?cost=corrected`)).toMatchObject({ cost: 'corrected' })
      expect(asked.length).toBeGreaterThan(0)
      for (const { corrections } of asked)
        expect(corrections).toMatchObject([
          { ...{ provider: 'Vendor', model: 'Small', to: '2026-11-20T11:30:00.000Z' }, input_cost_per_million: 1 },
          { input_cost_per_million: 0.5 },
        ])
      expect(await answered(`${path}?cost=booked`)).toMatchObject({ cost: 'booked' })
      expect(asked.at(-1)!.corrections).toBeNull()
    }
    const { body: listed } = await gateway.call('GET', '/prices/corrections?limit=1')
    expect(listed).toMatchObject({ corrections: [{ input_cost_per_million: 0.5, reason: null }], total: 2 })
  })

  test('what cannot be answered is 400 and named', async () => {
    const { refusal } = world()
    expect(await refusal('/usage/summary?from=7d')).toMatchObject([400, 'from', expect.stringContaining('no day unit')])
    expect((await refusal('/usage/summary?from=2026-11-21'))[1]).toBe('from') // later than now
    expect((await refusal('/usage/summary?group_by=user')).slice(0, 2)).toEqual([400, 'group_by'])
    expect((await refusal('/usage/summary?group_by=key&provider=Vendor')).slice(0, 2)).toEqual([400, 'group_by'])
    expect((await refusal('/usage/summary?cost=guessed')).slice(0, 2)).toEqual([400, 'cost'])
    expect((await refusal('/usage/summary?cost=corrected&group_by=key')).slice(0, 2)).toEqual([400, 'group_by'])
    expect((await refusal('/usage/summary?limit=0')).slice(0, 2)).toEqual([400, 'limit'])
  })
})

// docs/behaviour.md: "Time and windows"
describe('GET /usage/series', () => {
  test('the smallest interval with at most 300 points, or the one that is asked for', async () => {
    const { answered, asked } = world()
    for (const [query, interval, widthMs] of [
      ['from=5h', '5m', 5 * MINUTE_MS], // 301 minutes are touched
      ['from=2026-11-20T05:00:30Z&to=2026-11-20T10:00:30Z', '5m', 5 * MINUTE_MS],
      ['from=2026-11-20T05:00:00Z&to=2026-11-20T10:00:00Z', '1m', MINUTE_MS],
      ['from=4h', '1m', MINUTE_MS],
      ['', '5m', 5 * MINUTE_MS],
      ['from=168h', '1h', HOUR_MS],
      ['from=2026-01-01', '1w', 168 * HOUR_MS],
      ['from=7000h', '1d', 24 * HOUR_MS],
      ['from=1971-01-01&to=2001-01-01', '1w', 168 * HOUR_MS],
      ['from=5h&interval=1w', '1w', 168 * HOUR_MS],
    ] as const) {
      const body = await answered(`/usage/series?${query}`)
      expect([query, body.interval, asked.at(-1)!.more]).toEqual([query, interval, widthMs])
    }
  })

  test('a point has all of its fields', async () => {
    const { answered } = world()
    const { series } = await answered('/usage/series')
    expect(series[0]).toMatchObject({
      ts: '2026-11-20T12:00:00.000Z',
      requests: 3,
      errors: 1,
      prompt_tokens: 0,
      completion_tokens: 0,
      cost_usd: 1.234567891,
      cache_hits: 0,
      p50_ms: 7,
      p95_ms: null,
      ttft_p50_ms: 4,
    })
  })

  test('times are RFC 3339 at the ends of its years too', async () => {
    const { answered } = world()
    expect(await answered('/usage/series?from=9999-12-31&to=9999-12-31T23:59:59Z&interval=1h')).toMatchObject({
      ...{ from: '9999-12-31T00:00:00.000Z', to: '9999-12-31T23:59:59.999Z' },
    })
    expect(await answered('/usage/summary?from=9999-12-31&to=9999-12-31T23:00:00-08:00')).toMatchObject({
      to: '9999-12-31T23:59:59.999Z',
    })
    expect(await answered('/overview?from=0001-01-01&to=0003-01-01&interval=1w')).toMatchObject({
      previous: { from: '0000-01-01T00:00:00.000Z', to: '0001-01-01T00:00:00.000Z' },
    })
  })

  test('too many points are refused, naming what to change', async () => {
    const { refusal, asked } = world()
    expect((await refusal('/usage/series?from=720h&interval=1m')).slice(0, 2)).toEqual([400, 'interval'])
    expect((await refusal('/usage/series?interval=2h')).slice(0, 2)).toEqual([400, 'interval'])
    expect((await refusal('/usage/series?from=1900-01-01')).slice(0, 2)).toEqual([400, 'from'])
    expect(asked).toEqual([])
  })
})

describe('GET /overview', () => {
  test('the window, the one of equal width before, and the providers', async () => {
    const { answered, asked } = world()
    const body = await answered('/overview?from=2026-11-20T10:00:00Z&to=2026-11-20T12:00:00Z&tenant_id=ten_other')
    expect(body).toMatchObject({
      window: { from: '2026-11-20T10:00:00.000Z', to: '2026-11-20T12:00:00.000Z', interval: '1m' },
      summary: { requests: 3 },
      previous: { from: '2026-11-20T08:00:00.000Z', to: '2026-11-20T10:00:00.000Z' },
      series: [{ requests: 3 }],
      by_provider: [{ provider: 'vendor' }, { provider: null }],
      by_model: [{ model: 'small' }, { model: null }],
      providers: [
        {
          provider_id: 'prov_1',
          provider: 'Vendor',
          enabled: true,
          adapter_ready: true,
          status: 'unknown',
          in_flight: 0,
        },
      ],
    })
    expect(asked.map(({ of, tenantId }) => [of, tenantId])).toEqual(
      ['totals', 'totals', 'series', 'provider', 'model'].map((of) => [of, 'ten_other']),
    )
  })
})
