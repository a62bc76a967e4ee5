// Records that are written over others of their kind say what the runtime would have written of the same request.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { BudgetCharge } from '../../../src/domain/budgets/budget-events.ts'
import { RequestSettled } from '../../../src/domain/events/request.ts'
import type { Measured } from '../../../src/inference/money/charge.ts'
import { type SettledExchange, settledJson } from '../../../src/inference/records/outcome-text.ts'
import { rawUsageJson } from '../../../src/inference/records/raw-usage.ts'
import { requestFactsText } from '../../../src/inference/records/record-text.ts'
import { type Ending, SUCCESS } from '../../../src/inference/request/ending.ts'
import { TypeCompiler } from '../../../src/lib/schema/schema.ts'
import { wholeText } from '../../../src/lib/text/text-pieces.ts'
import { FilledText } from '../../../src/lib/text/text-template.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { appended } from '../../log/appended.ts'

const isSettled = TypeCompiler.Compile(RequestSettled)
const orNull = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: null })
const count = fc.oneof(fc.nat({ max: 20 }), fc.nat(), fc.maxSafeNat())

const entryOf = (provider: string, name: string): CatalogueEntry =>
  ({ provider, providerId: 'prov_1', name, modelId: 'mod_1', revision: 'r1' }) as unknown as CatalogueEntry
const ENTRIES = [
  entryOf('alpha', 'small'),
  entryOf('beta', 'large'),
  entryOf('naïve "quoted"', '\u2028'),
  entryOf('8000000000000003', 'looks like a gap'),
]

const COMMON = {
  tenant_id: 'ten_1',
  key_id: 'key_1',
  requested_model: 'small',
  endpoint: null,
  policy_id: null,
  strategy: 'balanced',
  stream: false,
  task: 'chat',
  revision: 'r1',
} as const

const usage = fc.oneof(
  fc.record({ prompt_tokens: count, completion_tokens: count, total_tokens: count }),
  fc.record({
    prompt_tokens: count,
    completion_tokens: count,
    prompt_tokens_details: fc.record({ cached_tokens: orNull(count), audio_tokens: count }),
  }),
  fc.record({ prompt_tokens: fc.double(), note: fc.string(), is_billed: fc.boolean(), 'bad name': count }),
  fc.constant({}),
  fc.constant(null),
)

const charge = fc.record(
  {
    account: fc.constantFrom('bud_1/0-1', 'bud_2/0-1', 'bud_ü/0-1'),
    holder: fc.constantFrom('ins_1.e1', 'ins_2.e1'),
    leased: fc.boolean(),
    nano_usd: count,
    tokens: count,
    overrun_nano_usd: count,
    total: fc.record(
      {
        spent: fc.record({ nano_usd: count, tokens: count }),
        counted: fc.record({ nano_usd: count, tokens: count }),
        overrun_nano_usd: count,
        overrun_tokens: count,
      },
      { requiredKeys: ['spent', 'counted', 'overrun_nano_usd'] },
    ),
  },
  { requiredKeys: ['account', 'holder', 'leased', 'nano_usd', 'tokens'] },
) as fc.Arbitrary<BudgetCharge>

const FAILED: Ending = { outcome: 'error', status: 502, error: new GatewayError('upstream_error', 'it failed') }

/** So that many are of one kind. */
const mostly = <T, U>(usual: fc.Arbitrary<T>, other: fc.Arbitrary<U>) =>
  fc.oneof<{ weight: number; arbitrary: fc.Arbitrary<T | U> }[]>(
    { weight: 12, arbitrary: usual },
    { weight: 1, arbitrary: other },
  )

const outcome = fc.record({
  entry: mostly(fc.constant(ENTRIES[0]!), fc.constantFrom(...ENTRIES, null)),
  ending: mostly(fc.constant(SUCCESS), fc.constant(FAILED)),
  raw: mostly(fc.record({ prompt_tokens: count, completion_tokens: count, total_tokens: count }), usage),
  label: mostly(fc.constant(null), fc.stringMatching(/^[A-Za-z0-9._-]{1,128}$/)),
  finishReason: mostly(fc.constant('stop'), fc.constantFrom(null, 'length', 'of "its" own')),
  basis: mostly(fc.constant('measured' as const), fc.constant('estimated' as const)),
  attempts: mostly(fc.constant(1), fc.nat({ max: 3 })),
  isCharged: mostly(fc.constant(false), fc.constant(true)),
  admission: mostly(
    fc.tuple(fc.constantFrom('ins_1.e1', 'ins_1.e1', 'ins_1.e10'), fc.nat()).map(([of, n]) => `${of}.${n}`),
    fc.constant(null),
  ),
  shaping: mostly(fc.constant<string[]>([]), fc.constant(['`n` dropped'])),
  plannedMs: mostly(count, fc.constant(null)),
  admittedMs: mostly(count, fc.constant(null)),
  fallback: mostly(fc.constant(false), fc.constant(true)),
  numbers: fc.array(orNull(count), { minLength: 7, maxLength: 7 }),
  latencyMs: count,
  budget: fc.option(fc.array(charge, { maxLength: 3 }), { nil: undefined }),
})
type Drawn = typeof outcome extends fc.Arbitrary<infer T> ? T : never

const told = (drawn: Drawn, n: number) => {
  const { entry, ending, raw, numbers, basis, finishReason, admission, shaping, plannedMs, admittedMs } = drawn
  const id = `req_01a21b00-f915-7087-ac13-${String(n).padStart(12, '0')}`
  const numbered = { at_ms: 1_795_749_378_325 + n, seed: n, frame: n }
  const own = { id, request_id: drawn.label ?? id, trace_id: 'a'.repeat(32), ...numbered, user: null }
  const attempts: SettledExchange['attempts'] = Array.from({ length: drawn.attempts }, (_, i) => ({
    n: i + 1,
    provider: entry?.provider ?? 'alpha',
    model: entry?.name ?? 'small',
    outcome: 'success',
    error_code: null,
    upstream_status: null,
    latency_ms: numbers[0]!,
    ttft_ms: numbers[1]!,
    ...(drawn.isCharged ? { cost_basis: basis, cost_nano_usd: 1 } : {}),
  }))
  const [, , promptTokens, completionTokens, costNanoUsd, cached, reasoning] = numbers as (number | null)[]
  const measured = { promptTokens, completionTokens, costNanoUsd, basis, priceVersion: 'r1' } as Measured
  const exchange = {
    factsText: requestFactsText(own, COMMON),
    fallbackUsed: () => drawn.fallback,
    usage: raw === null ? null : { raw, cachedPromptTokens: cached, reasoningTokens: reasoning },
    firstTokenMs: numbers[1],
    plan: null,
    ...{ attempts, entry, finishReason, shaping, plannedMs, admittedMs },
    admission: admission === null ? null : appended(admission),
  } as unknown as SettledExchange
  const pieces = settledJson(exchange, ending, measured, drawn.latencyMs, drawn.budget)
  const timings = admittedMs === null ? { planned_ms: plannedMs } : { planned_ms: plannedMs, admitted_ms: admittedMs }
  const expected = {
    ...own,
    ...COMMON,
    raw_usage: raw === null ? null : JSON.parse(rawUsageJson(raw)),
    admission,
    outcome: ending.outcome,
    status: ending.status,
    error_code: ending.error?.code ?? null,
    provider: entry?.provider ?? null,
    provider_id: entry?.providerId ?? null,
    routed_model: entry?.name ?? null,
    model_id: entry?.modelId ?? null,
    fallback_used: drawn.fallback,
    cache_hit: false,
    attempts,
    finish_reason: finishReason,
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    cached_prompt_tokens: raw === null ? null : cached,
    reasoning_tokens: raw === null ? null : reasoning,
    cost_nano_usd: costNanoUsd,
    cost_basis: basis,
    price_version: 'r1',
    latency_ms: drawn.latencyMs,
    ttft_ms: numbers[1],
    ...(shaping.length > 0 ? { shaping } : {}),
    ...(plannedMs !== null ? { timings } : {}),
    ...(drawn.budget === undefined ? {} : { budget: drawn.budget }),
  }
  return { pieces, expected: JSON.parse(JSON.stringify(expected)) }
}

test('outcomes one after the other, each as if it were the first', () => {
  let filled = 0
  fc.assert(
    fc.property(fc.array(outcome, { minLength: 1, maxLength: 12 }), fc.nat({ max: 4_000_000_000 }), (all, from) => {
      for (const [i, drawn] of all.entries()) {
        const { pieces, expected } = told(drawn, from + i)
        const read: unknown = JSON.parse(wholeText(pieces))
        expect(read).toEqual(expected)
        expect(isSettled.Check(read)).toBe(true)
        if (typeof pieces !== 'string' && pieces[1] instanceof FilledText) filled++
      }
    }),
    { numRuns: 2_000 },
  )
  expect(filled).toBeGreaterThan(20)
})

/** One that goes out over a template once another of its kind has. */
const plainOf = (name: string): Drawn => ({
  ...{ entry: entryOf('gamma', name), ending: SUCCESS, label: null, finishReason: 'stop', basis: 'measured' },
  ...{ attempts: 1, isCharged: false, admission: 'ins_1.e1.7', shaping: [], plannedMs: 0, admittedMs: 1 },
  ...{ fallback: false, latencyMs: 2, numbers: [1, null, 20, 90, 200_000, 0, null], budget: undefined },
  raw: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
})

test('the third outcome of its kind is written over the second, of whatever numbers it is', () => {
  const plain: Drawn = {
    ...plainOf('plain'),
    budget: [
      {
        ...{ account: 'bud_9/0-1', holder: 'ins_1.e1', leased: true, nano_usd: 1, tokens: 2 },
        total: { spent: { nano_usd: 3, tokens: 4 }, counted: { nano_usd: 5, tokens: 6 }, overrun_nano_usd: 0 },
      },
    ],
  }
  const filled = (pieces: unknown) => (pieces as unknown[]).filter((piece) => piece instanceof FilledText)
  told(plain, 1)
  expect((told(plain, 2).pieces as unknown[])[1]).not.toBeInstanceOf(FilledText)
  const { pieces, expected } = told({ ...plain, latencyMs: 99_999, numbers: [3, 4, 21, 100_000, null, 5, 6] }, 2)
  expect(filled(pieces)).toHaveLength(3)
  expect(JSON.parse(wholeText(pieces))).toEqual(expected)
})

test('names that look like braces, and numbers that are none, are said as they are', () => {
  const plain = plainOf('odd')
  const raws: unknown[] = [
    { prompt_tokens: 1, d: { x: 1 } },
    { prompt_tokens: 2, d: { x: 2 } },
    { prompt_tokens: 3, d: { x: 3 } },
    { prompt_tokens: 9, d: 7, '{': null, x: null, '}': null },
    { prompt_tokens: 9, d: { x: 1, '}': null } },
    { prompt_tokens: 9 },
  ]
  for (const [i, raw] of raws.entries()) {
    const { pieces, expected } = told({ ...plain, raw } as Drawn, i)
    expect(JSON.parse(wholeText(pieces))).toEqual(expected)
    expect((pieces as unknown[])[1] instanceof FilledText).toBe(i === 2)
  }
})
