import { afterEach, describe, expect, test } from 'bun:test'
import type { ProbeQueries } from '../../../projections/probes/query.ts'
import type { HealthEvent, ProbeRecorded } from '../../../src/domain/events/health.ts'
import type { ProviderRow } from '../../../src/domain/registry/provider.ts'
import { ProbeAnswer, ProviderHealthRow, ScoresAnswer } from '../../../src/http/admin/answers/health.ts'
import { healthRoutes } from '../../../src/http/admin/reads/health.ts'
import { openHealth } from '../../../src/state/health/book.ts'
import { type Probes, startProbes } from '../../../src/upkeep/models/probes.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { KINDS, startGateway } from '../../http/admin/world/gateway.ts'
import { flawsOf } from '../../http/admin/world/read-world.ts'
import { catalogueOf, entry } from '../../inference/gateway.ts'
import { quiet } from '../../state/support.ts'

const kindTable = { resolve: (text: string) => KINDS.find(({ kind }) => kind === text) ?? null, names: [] }
let probes: Probes | null = null
afterEach(async () => {
  await probes?.close()
  probes = null
})

const provider = (name: string, kind = 'openai_compatible', more: Partial<ProviderRow> = {}) => {
  const fields = {
    kind,
    base_url: 'http://127.0.0.1:9/v1',
    api_key_env: null,
    region: null,
    timeout_ms: null,
    max_concurrency: null,
  }
  const data = {
    id: `prov_${name}`,
    name,
    status: 'active',
    managed_by: 'api',
    ...fields,
    weight: null,
    usage_on_stream: false,
    options: {},
  }
  return { type: 'provider.created', data: { ...data, ...more } }
}

const open = (
  list: () => Promise<[]>,
  everyMs: number | null = null,
  recent: ProbeQueries['recent'] = async () => [],
) => {
  const gateway = startGateway()
  gateway.apply([provider('alpha'), provider('beta'), provider('mute', 'silent')])
  const events: HealthEvent[] = []
  const rows = ['alpha', 'beta', 'mute'].map((name) => entry({ provider: name }))
  const catalogue = catalogueOf(rows)
  const clock = { nowMs: () => gateway.nowMs, monotonicMs: () => performance.now() }
  const book = openHealth({ catalogue, ...clock, emit: (event) => events.push(event) })
  const asked: string[] = []
  probes = startProbes({
    live: gateway.deps.live,
    kindTable,
    modelCatalogue: {
      list(row) {
        asked.push(row.name)
        return list()
      },
    },
    dial: () => Promise.reject(new Error('refused')),
    book,
    diagnostics: quiet,
    adapterReady: () => true,
    nowMs: clock.nowMs,
    random: () => 0.5,
    everyMs,
  })
  const probeQueries = { recent }
  const routed = { ...gateway.deps, catalogue, book, probes, probeQueries, adapterReady: () => true }
  const admin = startGateway(healthRoutes(routed))
  return { gateway, book, events, asked, admin, rows }
}

describe('probes', () => {
  test('go to every provider that can list, at most four at once, and again', async () => {
    let under = 0
    let most = 0
    const twice = Promise.withResolvers<void>()
    const { gateway, asked } = open(async () => {
      most = Math.max(most, ++under)
      await new Promise(setImmediate) // until the others that may have begun
      under -= 1
      if (asked.length >= 14) twice.resolve()
      return []
    }, 5)
    gateway.apply(['a', 'b', 'c', 'd', 'e'].map((name) => provider(name)))
    gateway.apply([provider('off', 'openai_compatible', { status: 'disabled' })])
    await twice.promise
    expect(new Set(asked)).toEqual(new Set(['alpha', 'beta', 'a', 'b', 'c', 'd', 'e']))
    expect(most).toBe(4)
  })

  test('that fail take from the health of its models, are shown, recorded, and forgotten by one that does not', async () => {
    let failure: GatewayError | null = new GatewayError('upstream_error', 'the provider failed', {
      upstreamStatus: 503,
    })
    const { book, events, admin, rows } = open(async () => {
      if (failure !== null) throw failure
      return []
    })
    const call = book.begin(rows[0]!)
    if (typeof call === 'object') call.end('abandoned')
    const probe = () => admin.call('POST', '/providers/prov_alpha/probe')
    const { status, body, headers } = await probe()
    expect(status).toBe(200)
    expect(headers.get('x-gateway-revision')).not.toBeNull()
    expect(body).toMatchObject({
      provider_id: 'prov_alpha',
      status: 'unhealthy',
      ok: false,
      error_code: 'upstream_error',
      upstream_status: 503,
      trigger: 'manual',
    })
    await probe()
    expect(book.signals(rows[0]!.modelId).health).toBe(0.5)
    expect(flawsOf(ProbeAnswer, body)).toEqual([])
    const shown = await admin.call('GET', '/providers/health?provider_id=prov_alpha')
    const all = await admin.call('GET', '/providers/health')
    const listed = [shown, all].flatMap(({ body: { providers } }) => providers as unknown[])
    for (const row of listed) expect(flawsOf(ProviderHealthRow, row)).toEqual([])
    const scored = await admin.call('GET', '/scores')
    expect(scored.body.models).toHaveLength(rows.length)
    expect(flawsOf(ScoresAnswer, scored.body)).toEqual([])
    expect(shown.body).toMatchObject({
      total: 1,
      providers: [{ status: 'unhealthy', probes: [{ ok: false }, { ok: false }] }],
    })
    expect(events.filter(({ type }) => type === 'probe.recorded')).toHaveLength(2)
    failure = null
    expect((await probe()).body).toMatchObject({ ok: true, models: 0, message: null })
    expect(book.signals(rows[0]!.modelId).health).toBe(1)
  })

  test('of other instances, and of before the start, are in the history beside those of this one, each once', async () => {
    const earlier = { trigger: 'scheduled', ok: false, latency_ms: 4, error_code: 'upstream_error' } as const
    const stored = [{ at_ms: 1_000, ...earlier, upstream_status: 503, models: null }]
    const { events, admin } = open(
      async () => [],
      null,
      async (id) => (id === 'prov_alpha' ? stored : []),
    )
    type Shown = { status: string; checked_at: string; probes: { checked_at: string; ok: boolean }[] }
    const shown = async () => {
      const { body } = await admin.call('GET', '/providers/health?provider_id=prov_alpha')
      const [row] = body.providers as (Shown & { probes_complete: boolean })[]
      expect(flawsOf(ProviderHealthRow, row)).toEqual([])
      expect(row!.probes_complete).toBe(true)
      return row!
    }
    const old = new Date(1_000).toISOString()
    expect(await shown()).toMatchObject({
      status: 'degraded',
      checked_at: old,
      probes: [{ checked_at: old, ok: false }],
    })
    await admin.call('POST', '/providers/prov_alpha/probe')
    expect((await shown()).probes.map(({ ok }) => ok)).toEqual([true, false])
    const {
      provider_id: _,
      provider: __,
      ...own
    } = events.findLast(({ type }) => type === 'probe.recorded')!.data as ProbeRecorded
    stored.unshift(own as never) // read from the log meanwhile
    expect(await shown()).toMatchObject({ status: 'healthy', probes: [{ ok: true }, { ok: false }] })
    expect((await shown()).probes).toHaveLength(2)
  })

  test('are those of this instance while the read store is away, and the answer says so', async () => {
    const { admin } = open(
      async () => [],
      null,
      () => Promise.reject(new Error('Postgres does not answer')),
    )
    await admin.call('POST', '/providers/prov_alpha/probe')
    const { status, body } = await admin.call('GET', '/providers/health?provider_id=prov_alpha')
    expect([status, body.providers]).toMatchObject([
      200,
      [{ status: 'healthy', probes: [{ ok: true }], probes_complete: false }],
    ])
    const all = await admin.call('GET', '/providers/health')
    expect(JSON.stringify(all.body)).not.toContain('probes')
  })

  test('with an Idempotency-Key are decisions: a repeat asks nobody and answers what the first found', async () => {
    let fails = true
    const { gateway, admin, asked } = open(async () => {
      if (fails) throw new GatewayError('upstream_error', 'the provider failed', { upstreamStatus: 503 })
      return []
    })
    const probe = (headers: Record<string, string>) => admin.call('POST', '/providers/prov_alpha/probe', { headers })
    const first = await probe({ 'idempotency-key': 'once' })
    expect(flawsOf(ProbeAnswer, first.body)).toEqual([])
    expect(first.body).toMatchObject({
      ok: false,
      trigger: 'manual',
      upstream_status: 503,
      message: expect.any(String),
    })
    fails = false
    const again = await probe({ 'idempotency-key': 'once' })
    expect([again.status, again.body]).toEqual([200, first.body])
    expect(again.headers.get('x-gateway-revision')).toBe(first.headers.get('x-gateway-revision'))
    expect(asked).toEqual(['alpha'])
    expect((await probe({ 'idempotency-key': 'twice' })).body).toMatchObject({ ok: true, models: 0, message: null })
    expect(asked).toHaveLength(2)
    expect(gateway.events.filter(({ type }) => type === 'provider.tested')).toHaveLength(2)
    const shown = async (query: string) => (await gateway.call('GET', `/providers/prov_alpha${query}`)).body
    expect(await shown('/tests?kind=probe')).toMatchObject({ total: 2, tests: [{ kind: 'probe' }, { kind: 'probe' }] })
    expect(await shown('/tests')).toMatchObject({ total: 0 })
    expect((await shown('')).last_test).toBeNull()
  })

  test('and scores of a provider that is not there are 404 and name the parameter', async () => {
    const { admin } = open(async () => [])
    for (const [path, param] of [
      ['/providers/health?provider_id=nope', 'provider_id'],
      ['/scores?provider=nope', 'provider'],
    ] as const) {
      const { status, body } = await admin.call('GET', path)
      expect([path, status, body.error]).toMatchObject([path, 404, { param }])
    }
    expect((await admin.call('GET', '/scores?provider=ALPHA')).body).toMatchObject({
      providers: [{ provider: 'alpha' }],
    })
  })

  test('with a stale If-Match ask nobody', async () => {
    const { admin, asked } = open(async () => [])
    const probe = (match: string) =>
      admin.call('POST', '/providers/prov_alpha/probe', { headers: { 'if-match': match } })
    expect((await probe('stale')).status).toBe(409)
    expect(asked).toEqual([])
    expect((await probe('*')).status).toBe(200)
    expect(asked).toEqual(['alpha'])
  })

  test('of a kind that cannot list look whether anything answers', async () => {
    const { admin } = open(async () => [])
    const { body } = await admin.call('POST', '/providers/prov_mute/probe')
    expect(body).toMatchObject({ ok: false, error_code: 'upstream_error', models: null })
  })

  test('asked for twice at once are one', async () => {
    const { admin, asked } = open(async () => [])
    await Promise.all([
      admin.call('POST', '/providers/prov_alpha/probe'),
      admin.call('POST', '/providers/prov_alpha/probe'),
    ])
    expect(asked).toEqual(['alpha'])
  })

  test('of nobody are 404, and need the scope', async () => {
    const { admin } = open(async () => [])
    expect((await admin.call('POST', '/providers/prov_none/probe')).status).toBe(404)
    const key = admin.keyWith(['usage:read'])
    expect((await admin.call('POST', '/providers/prov_alpha/probe', { key })).status).toBe(403)
    expect((await admin.call('GET', '/providers/health', { key })).status).toBe(200)
  })
})

test('scores show components and ranks of models and providers, best first', async () => {
  const { admin, book, rows } = open(async () => [])
  for (let i = 0; i < 5; i++) {
    const call = book.begin(rows[0]!)
    if (typeof call === 'object') call.end('failure')
  }
  const { body } = await admin.call('GET', '/scores')
  const { providers, models } = body as Record<
    string,
    { provider: string; rank: number; components: Record<string, number> }[]
  >
  expect(models!.map(({ provider }) => provider).at(-1)).toBe('alpha')
  expect(models!.at(-1)!.components.health).toBe(0)
  expect(providers).toHaveLength(3)
  for (const { rank } of [...models!, ...providers!]) expect(rank >= 0 && rank <= 1).toBe(true)
})
