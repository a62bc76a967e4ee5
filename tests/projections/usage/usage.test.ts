// Usage: every figure equals the sum of the outcomes, however they were batched, and whichever of two settlements came
// first.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type UsageFigures, usageQueries } from '../../../projections/usage/query.ts'
import type { RequestSettled } from '../../../src/domain/events/request.ts'
import { testStore } from '../store.ts'
import { NOON_MS, REQUESTS, sender, settled, testLog } from '../support.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const store = testStore()

const attempt = (n: number, provider: string, outcome: 'success' | 'error', cost?: number) => ({
  ...{
    n,
    provider,
    model: `m-${provider}`,
    outcome,
    error_code: null,
    upstream_status: 200,
    latency_ms: 1,
    ttft_ms: null,
  },
  ...(cost === undefined ? {} : { cost_nano_usd: cost, cost_basis: 'measured' as const }),
})

/** The schema of settlements applied in the order given. */
const fold = async (outcomes: readonly RequestSettled[], maxRecords = 500) => {
  const log = testLog()
  const { record } = sender()
  for (const outcome of outcomes) await log.append(REQUESTS, 0, [record('request.settled', outcome)])
  const limits = { maxRecords, maxBytes: 1_048_576, waitMs: 2 }
  return store.fold(log, { tuning: { limits } })
}

describe('usage', () => {
  test('counts by outcome, and books what a failed attempt cost to the provider that failed', async () => {
    const attempts = [attempt(1, 'a', 'error', 300), attempt(2, 'b', 'success', 700)]
    await fold([
      settled('r1', { cost_nano_usd: 1_000, provider: 'b', routed_model: 'm-b', attempts, fallback_used: true }),
      settled('r2', { cost_nano_usd: 50, provider: 'b', routed_model: 'm-b', attempts: [attempt(1, 'b', 'success')] }),
      settled('r3', { outcome: 'canceled', cost_nano_usd: null, provider: 'a', routed_model: 'm-a' }),
      settled('r4', {
        outcome: 'denied',
        status: 403,
        provider: null,
        routed_model: null,
        attempts: [],
        cost_nano_usd: 0,
      }),
    ])
    const usage = usageQueries(store.sql)
    const filter = { tenantId: 'ten_1', fromMs: NOON_MS, toMs: NOON_MS + 1 }
    const { window, totals } = await usage.totals(filter)
    expect(window).toEqual({ fromMs: NOON_MS, toMs: NOON_MS + 1 })
    expect(totals).toMatchObject({ requests: 4, errors: 1, denied: 1, canceled: 1, fallbacks: 1, cost_nano_usd: 1_050 })
    const { groups } = await usage.groups(filter, 'provider', 10)
    expect(
      groups.map(({ name, requests, cost_nano_usd, failed_attempts }) => ({
        name,
        requests,
        cost_nano_usd,
        failed_attempts,
      })),
    ).toEqual([
      { name: 'b', requests: 2, cost_nano_usd: 750, failed_attempts: 0 },
      { name: 'a', requests: 1, cost_nano_usd: 300, failed_attempts: 1 },
      { name: null, requests: 1, cost_nano_usd: 0, failed_attempts: 0 },
    ])
    expect((await usage.totals({ ...filter, tenantId: 'ten_2' })).totals.requests).toBe(0)
    expect((await usage.groups({ ...filter, tenantId: null }, 'tenant', 10)).groups.map(({ name }) => name)).toEqual([
      'ten_1',
    ])
  })

  test('an earlier settlement from another partition takes the place of a later one in every figure', async () => {
    const early = settled('r1', { outcome: 'success', cost_nano_usd: 10, latency_ms: 5 })
    const late = settled('r1', { outcome: 'orphaned', cost_nano_usd: 999, provider: 'other', tenant_id: 'ten_1' })
    const digests: string[] = []
    for (const first of [0, 1]) {
      await store.empty()
      const log = testLog(2)
      await log.append(REQUESTS, first, [sender('ins_1').record('request.settled', early)])
      await log.append(REQUESTS, 1 - first, [sender('ins_2').record('request.settled', late)])
      digests.push(await store.usageDigest(await store.fold(log)))
    }
    await store.empty()
    digests.push(await store.usageDigest(await fold([early])))
    expect(new Set(digests).size).toBe(1)
  })

  test('two windows that meet inside a minute count nothing twice and nothing beyond, percentiles too', async () => {
    const at = (second: number) => NOON_MS + second * 1_000
    await fold(
      [5, 29, 30, 59, 61, 95].map((second) => settled(`r${second}`, { at_ms: at(second), latency_ms: second })),
    )
    const usage = usageQueries(store.sql)
    const of = (from: number, to: number) => usage.totals({ tenantId: null, fromMs: at(from), toMs: at(to) })
    expect(await of(0, 30)).toMatchObject({ totals: { requests: 2, p50_ms: 5, p95_ms: 28 } })
    expect(await of(30, 95)).toMatchObject({
      window: { fromMs: at(30), toMs: at(95) },
      totals: { requests: 3, p50_ms: expect.closeTo(59, -1), p95_ms: expect.closeTo(61, -1) },
    })
    expect((await of(95, 3_600)).totals.requests).toBe(1)
    expect((await of(31, 59)).totals).toMatchObject({ requests: 0, p50_ms: null })
    expect(await of(30, 30)).toMatchObject({ window: { fromMs: at(30), toMs: at(30) }, totals: { requests: 0 } })
  })

  test('an end with more rows than may be read is widened to its minute, or hour, and says so; one with nothing beyond it need not be', async () => {
    const at = (second: number) => NOON_MS + second * 1_000
    await fold([5, 30, 40, 50, 65, 3_605].map((second) => settled(`r${second}`, { at_ms: at(second) })))
    const usage = usageQueries(store.sql, 3)
    const of = (from: number, to: number) => usage.totals({ tenantId: null, fromMs: at(from), toMs: at(to) })
    expect(await of(20, 70)).toMatchObject({ window: { fromMs: at(0), toMs: at(70) }, totals: { requests: 5 } })
    expect(await of(5, 70)).toMatchObject({ window: { fromMs: at(5), toMs: at(70) }, totals: { requests: 5 } })
    expect(await of(61, 66)).toMatchObject({ window: { fromMs: at(61), toMs: at(66) }, totals: { requests: 1 } })
    expect(await usage.groups({ tenantId: null, fromMs: at(20), toMs: at(3_606) }, 'key', 9)).toMatchObject({
      window: { fromMs: at(0), toMs: at(3_606) },
      groups: [{ name: 'key_1', requests: 6 }],
    })
  })

  test('any window and interval adds up to the outcomes in it, in batches of any size', async () => {
    const outcome = fc.record({
      ms: fc.oneof(
        fc.integer({ min: -3_000 * MINUTE_MS, max: 3_000 * MINUTE_MS }),
        fc.integer({ min: -2 * MINUTE_MS, max: 2 * MINUTE_MS }),
      ),
      tenant: fc.constantFrom('ten_1', 'ten_2'),
      key: fc.constantFrom('key_1', 'key_2'),
      provider: fc.constantFrom('a', 'b'),
      latency: fc.integer({ min: 0, max: 100_000 }),
      cost: fc.integer({ min: 0, max: 2 ** 40 }),
    })
    const all = fc.sample(outcome, { numRuns: 250, seed: 11 })
    const outcomes = all.map(({ ms, tenant, key, provider, latency, cost }, index) =>
      settled(`r${index}`, {
        ...{
          at_ms: NOON_MS + ms,
          tenant_id: tenant,
          key_id: key,
          provider,
          latency_ms: latency,
          cost_nano_usd: cost,
        },
        attempts: [attempt(1, provider, 'success')],
        routed_model: `m-${provider}`,
      }),
    )
    const digests = new Set<string>()
    for (const size of [7, 500]) {
      await store.empty()
      digests.add(await store.usageDigest(await fold(outcomes, size)))
    }
    expect(digests.size).toBe(1)
    const usage = usageQueries(store.sql)
    const minutes = fc.tuple(fc.integer({ min: -4_000, max: 4_000 }), fc.integer({ min: 0, max: 8_000 }))
    const bounds = fc.oneof(
      minutes.map(([start, length]) => [start * MINUTE_MS, length * MINUTE_MS] as const),
      fc.tuple(
        fc.integer({ min: -4_000 * MINUTE_MS, max: 4_000 * MINUTE_MS }),
        fc.integer({ min: 0, max: 240 * HOUR_MS }),
      ),
      fc.tuple(fc.integer({ min: -3 * MINUTE_MS, max: 2 * MINUTE_MS }), fc.integer({ min: 0, max: 3 * MINUTE_MS })),
    )
    const windows = fc.tuple(bounds, fc.constantFrom(null, 'ten_1'))
    for (const [[start, length], tenantId] of fc.sample(windows, { numRuns: 60, seed: 12 })) {
      const filter = { tenantId, fromMs: NOON_MS + start, toMs: NOON_MS + start + length }
      const within = outcomes.filter(
        (each) =>
          each.at_ms >= filter.fromMs && each.at_ms < filter.toMs && (tenantId === null || each.tenant_id === tenantId),
      )
      const expected = { requests: within.length, cost: within.reduce((sum, each) => sum + each.cost_nano_usd!, 0) }
      const sumOf = (figures: readonly UsageFigures[]) => ({
        requests: figures.reduce((sum, { requests }) => sum + requests, 0),
        cost: figures.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0),
      })
      const { window, totals } = await usage.totals(filter)
      expect(window).toEqual({ fromMs: filter.fromMs, toMs: filter.toMs })
      expect(sumOf([totals])).toEqual(expected)
      for (const by of ['provider_model', 'tenant', 'key'] as const) {
        const groups = await usage.groups(filter, by, 100)
        expect(groups.window).toEqual(window)
        expect(sumOf(groups.groups)).toEqual(expected)
      }
      for (const interval of [5 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS])
        expect(sumOf((await usage.series(filter, interval)).series)).toEqual(expected)
      const times = within.map(({ latency_ms }) => latency_ms).sort((a, b) => a - b)
      const median = times[Math.ceil(times.length / 2) - 1]
      if (median === undefined) expect(totals.p50_ms).toBeNull()
      else expect(Math.abs(totals.p50_ms! - median)).toBeLessThanOrEqual(median * 0.1)
    }
  }, 60_000)
})
