// Corrected prices: every usage read equals the sum of its requests at the prices that hold, and nothing that is stored
// changes.
import { beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type PriceCorrection, spansOf } from '../../../projections/usage/corrected.ts'
import { type GroupBy, usageQueries } from '../../../projections/usage/query.ts'
import type { AttemptSummary, Settlement } from '../../../src/domain/events/request-reading.ts'
import { testStore } from '../store.ts'
import { NOON_MS, REQUESTS, sender, settled, testLog } from '../support.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

const correction = (fromMinute: number, toMinute: number, more: Partial<PriceCorrection> = {}): PriceCorrection => ({
  provider: 'a',
  model: 'm-a',
  from: new Date(NOON_MS + fromMinute * MINUTE_MS).toISOString(),
  to: new Date(NOON_MS + toMinute * MINUTE_MS).toISOString(),
  input_cost_per_million: 1,
  output_cost_per_million: 2,
  cached_input_cost_per_million: null,
  ...more,
})

/** The correction that holds for a call at a moment: the last one that is about it. */
const holding = (corrections: readonly PriceCorrection[], provider: string, model: string, atMs: number) =>
  corrections.findLast(
    (each) =>
      each.provider === provider && each.model === model && Date.parse(each.from) <= atMs && atMs < Date.parse(each.to),
  )

describe('spans', () => {
  test('hold the later correction where two overlap, and never two at once', () => {
    const range = fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 1, max: 12 }), fc.constantFrom('a', 'b'))
    fc.assert(
      fc.property(fc.array(range, { maxLength: 12 }), (ranges) => {
        const all = ranges.map(([from, width, provider]) => correction(from, from + width, { provider }))
        const spans = spansOf(all, { fromMs: NOON_MS, toMs: NOON_MS + 25 * MINUTE_MS })
        for (let minute = -2; minute < 34; minute++)
          for (const provider of ['a', 'b']) {
            const atMs = NOON_MS + minute * MINUTE_MS
            const found = spans.filter(
              (span) => span.correction.provider === provider && span.fromMs <= atMs && atMs < span.toMs,
            )
            const wanted = minute < 0 || minute >= 25 ? undefined : holding(all, provider, 'm-a', atMs)
            expect(found.map((span) => span.correction)).toEqual(wanted === undefined ? [] : [wanted])
          }
      }),
    )
  })
})

interface Call {
  readonly provider: string
  readonly prompt: number
  readonly cached: number
  readonly completion: number
  readonly booked: number
}

const billed = ({ prompt, completion, booked }: Pick<Call, 'prompt' | 'completion' | 'booked'>) => ({
  ...{ prompt_tokens: prompt, completion_tokens: completion, cost_nano_usd: booked },
  ...{ cost_basis: 'measured' as const, price_version: null },
})

const attemptOf = ({ provider, prompt, completion, booked }: Call, n: number, isOnly: boolean): AttemptSummary => ({
  ...{ n, provider, model: `m-${provider}`, outcome: isOnly || n === 2 ? 'success' : 'error', error_code: null },
  ...{ upstream_status: 200, latency_ms: 1, ttft_ms: null },
  ...(isOnly ? {} : billed({ prompt, completion, booked })),
})

interface Sample {
  readonly atMs: number
  readonly tenant: string
  readonly calls: readonly Call[]
  readonly known: boolean
}

const outcomeOf = ({ atMs, tenant, calls, known }: Sample): Partial<Settlement> => {
  const last = calls.at(-1)!
  return {
    ...{ at_ms: atMs, tenant_id: tenant, provider: last.provider, routed_model: `m-${last.provider}` },
    attempts: calls.map((call, at) => attemptOf(call, at + 1, calls.length === 1)),
    ...(known || calls.length > 1
      ? {
          prompt_tokens: last.prompt,
          completion_tokens: last.completion,
          cached_prompt_tokens: Math.min(last.cached, last.prompt),
        }
      : { prompt_tokens: null, completion_tokens: null, outcome: 'orphaned' as const }),
    cost_nano_usd: calls.reduce((sum, { booked }) => sum + booked, 0),
  }
}

/**
 * Thousandths of a nano-USD of each call at the price that holds. As booked where no correction applies or the tokens
 * are unknown.
 */
const costsOf = (sample: Sample, corrections: readonly PriceCorrection[]) =>
  sample.calls.map((call, at) => {
    const held = holding(corrections, call.provider, `m-${call.provider}`, sample.atMs)
    const isKnown = sample.known || sample.calls.length > 1
    if (held === undefined || !isKnown) return { ...call, thousandths: BigInt(call.booked) * 1000n }
    const micro = (price: number) => BigInt(Math.round(price * 1e6))
    const input = micro(held.input_cost_per_million)
    const cachedPrice = held.cached_input_cost_per_million === null ? input : micro(held.cached_input_cost_per_million)
    const cached = at === sample.calls.length - 1 ? BigInt(Math.min(call.cached, call.prompt)) : 0n
    const thousandths =
      (BigInt(call.prompt) - cached) * input +
      cached * cachedPrice +
      BigInt(call.completion) * micro(held.output_cost_per_million)
    return { ...call, thousandths }
  })

const ceilOf = (thousandths: bigint): number => Number((thousandths + 999n) / 1000n)

const call = fc.record({
  provider: fc.constantFrom('a', 'b'),
  prompt: fc.integer({ min: 0, max: 200_000 }),
  cached: fc.integer({ min: 0, max: 250_000 }),
  completion: fc.integer({ min: 0, max: 9_000 }),
  booked: fc.integer({ min: 0, max: 2 ** 40 }),
})
const sample: fc.Arbitrary<Sample> = fc.record({
  atMs: fc.integer({ min: -3_000 * MINUTE_MS, max: 3_000 * MINUTE_MS }).map((ms) => NOON_MS + ms),
  tenant: fc.constantFrom('ten_1', 'ten_2'),
  calls: fc.array(call, { minLength: 1, maxLength: 2 }),
  known: fc.boolean(),
})
const price = fc.integer({ min: 0, max: 30_000_000 }).map((micro) => micro / 1e6)
const corrections = fc.array(
  fc
    .record({
      from: fc.integer({ min: -3_500, max: 3_000 }),
      width: fc.integer({ min: 1, max: 3_000 }),
      provider: fc.constantFrom('a', 'b', 'c'),
      input: price,
      output: price,
      cached: fc.option(price),
    })
    .map(({ from, width, provider, input, output, cached }) =>
      correction(from, from + width, {
        ...{ provider, model: `m-${provider}`, input_cost_per_million: input, output_cost_per_million: output },
        cached_input_cost_per_million: cached,
      }),
    ),
  { minLength: 1, maxLength: 6 },
)

// docs/behaviour.md: "Money and prices"
describe('usage as corrected', () => {
  const store = testStore({ kept: true })
  let schema: string
  const samples = fc.sample(sample, { numRuns: 300, seed: 5 })
  beforeAll(async () => {
    const log = testLog()
    const { record } = sender()
    for (const [index, each] of samples.entries())
      await log.append(REQUESTS, 0, [record('request.settled', settled(`r${index}`, outcomeOf(each)))])
    schema = await store.fold(log)
  }, 60_000)

  const costIn = (
    window: { fromMs: number; toMs: number },
    held: readonly PriceCorrection[],
    wanted: (sample: Sample, provider: string) => boolean,
  ): number =>
    ceilOf(
      samples
        .filter(({ atMs }) => window.fromMs <= atMs && atMs < window.toMs)
        .flatMap((each) => costsOf(each, held).filter(({ provider }) => wanted(each, provider)))
        .reduce((sum, { thousandths }) => sum + thousandths, 0n),
    )

  const start = fc.integer({ min: -3_100 * MINUTE_MS, max: 3_100 * MINUTE_MS })
  const asked = fc.record({ corrections, from: start, width: fc.integer({ min: 1, max: 6_000 * MINUTE_MS }) })

  test('is what every request comes to at the prices that hold: in any window, by provider, tenant and interval', async () => {
    const usage = usageQueries(store.sql)
    await fc.assert(
      fc.asyncProperty(asked, fc.constantFrom(null, 'ten_1'), async (given, tenantId) => {
        const fromMs = NOON_MS + given.from
        const window = { fromMs, toMs: fromMs + given.width }
        const filter = { ...window, tenantId, corrections: given.corrections }
        const own = (each: Sample) => tenantId === null || each.tenant === tenantId
        const total = costIn(window, given.corrections, own)
        expect((await usage.totals(filter)).totals.cost_nano_usd).toBe(total)
        const ofA = costIn(window, given.corrections, (each, provider) => own(each) && provider === 'a')
        expect((await usage.totals({ ...filter, provider: 'a' })).totals.cost_nano_usd).toBe(ofA)
        for (const by of ['provider', 'model', 'provider_model', 'tenant'] satisfies GroupBy[]) {
          const { groups } = await usage.groups(filter, by, 1_000)
          const costs = groups.map(({ cost_nano_usd }) => cost_nano_usd)
          expect(costs).toEqual(costs.toSorted((a, b) => b - a))
          for (const group of groups) {
            const isIn = (each: Sample, provider: string) =>
              own(each) &&
              (by === 'tenant'
                ? each.tenant === group.name
                : by === 'model'
                  ? `m-${provider}` === group.model
                  : provider === group.name)
            expect([by, group.cost_nano_usd]).toEqual([by, costIn(window, given.corrections, isIn)])
          }
        }
        for (const interval of [HOUR_MS, DAY_MS]) {
          const { series } = await usage.series(filter, interval)
          for (const { atMs, cost_nano_usd } of series) {
            const part = { fromMs: Math.max(atMs, window.fromMs), toMs: Math.min(atMs + interval, window.toMs) }
            expect(cost_nano_usd).toBe(costIn(part, given.corrections, own))
          }
        }
      }),
      { numRuns: 25, seed: 3 },
    )
  }, 120_000)

  test('leaves what is stored, and what is read as booked, as it was', async () => {
    const usage = usageQueries(store.sql)
    const digest = () => store.usageDigest(schema)
    const filter = { fromMs: NOON_MS - 3 * DAY_MS, toMs: NOON_MS + 3 * DAY_MS, tenantId: null }
    const before = { digest: await digest(), booked: await usage.totals(filter) }
    await usage.totals({ ...filter, corrections: [correction(-9_000, 9_000)] })
    expect({ digest: await digest(), booked: await usage.totals(filter) }).toEqual(before)
    expect(await usage.totals({ ...filter, corrections: [] })).toEqual(before.booked)
  })
})
