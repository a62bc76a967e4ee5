// Usage: every figure equals what the outcomes themselves add up to, however they were batched, and whichever of two settlements came first.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type UsageFigures, usageQueries } from '../../projections/usage/query.ts'
import type { RequestSettled } from '../../src/domain/request.ts'
import { testStore } from './store.ts'
import { NOON_MS, REQUESTS, sender, settled, testLog } from './support.ts'

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
    expect(window).toEqual({ fromMs: NOON_MS, toMs: NOON_MS + MINUTE_MS })
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

  test('any window and interval adds up to the outcomes in it, in batches of any size', async () => {
    const outcome = fc.record({
      minute: fc.integer({ min: -3_000, max: 3_000 }),
      tenant: fc.constantFrom('ten_1', 'ten_2'),
      provider: fc.constantFrom('a', 'b'),
      latency: fc.integer({ min: 0, max: 100_000 }),
      cost: fc.integer({ min: 0, max: 2 ** 40 }),
    })
    const all = fc.sample(outcome, { numRuns: 250, seed: 11 })
    const outcomes = all.map(({ minute, tenant, provider, latency, cost }, index) =>
      settled(`r${index}`, {
        ...{
          at_ms: NOON_MS + minute * MINUTE_MS + index,
          tenant_id: tenant,
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
    const windows = fc.tuple(
      fc.integer({ min: -4_000, max: 4_000 }),
      fc.integer({ min: 0, max: 8_000 }),
      fc.constantFrom(null, 'ten_1'),
    )
    for (const [start, length, tenantId] of fc.sample(windows, { numRuns: 25, seed: 12 })) {
      const filter = { tenantId, fromMs: NOON_MS + start * MINUTE_MS, toMs: NOON_MS + (start + length) * MINUTE_MS }
      const within = outcomes.filter(
        (each) =>
          each.at_ms >= filter.fromMs && each.at_ms < filter.toMs && (tenantId === null || each.tenant_id === tenantId),
      )
      const expected = { requests: within.length, cost: within.reduce((sum, each) => sum + each.cost_nano_usd!, 0) }
      const sumOf = (figures: readonly UsageFigures[]) => ({
        requests: figures.reduce((sum, { requests }) => sum + requests, 0),
        cost: figures.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0),
      })
      const { totals } = await usage.totals(filter)
      expect(sumOf([totals])).toEqual(expected)
      expect(sumOf((await usage.groups(filter, 'provider_model', 100)).groups)).toEqual(expected)
      for (const interval of [5 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS])
        expect(sumOf((await usage.series(filter, interval)).series)).toEqual(expected)
      const times = within.map(({ latency_ms }) => latency_ms).sort((a, b) => a - b)
      const median = times[Math.ceil(times.length / 2) - 1]
      if (median === undefined) expect(totals.p50_ms).toBeNull()
      else expect(Math.abs(totals.p50_ms! - median)).toBeLessThanOrEqual(median * 0.1)
    }
  }, 60_000)
})
