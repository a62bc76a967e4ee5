// What records say as text written by hand is what the runtime would have written of the same objects.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { AttemptSummary } from '../../src/domain/request.ts'
import { RequestFacts } from '../../src/domain/request.ts'
import {
  attemptsJson,
  chargesJson,
  countJson,
  entryTexts,
  partsJson,
  requestFactsJson,
} from '../../src/inference/record-text.ts'
import { jsonText } from '../../src/lib/json-text.ts'
import { TypeCompiler } from '../../src/lib/schema.ts'
import type { CatalogueEntry } from '../../src/state/port.ts'

/** Names as people choose them, and as nobody should. */
const name = fc.oneof(
  fc.stringMatching(/^[a-z0-9._-]{1,20}$/),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom('"', '\\', '\n', '\u2028', '\ud800', 'a"b', '', 'naïve', '名', '\u0000'),
)
const orNull = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: null })
const count = fc.oneof(fc.nat(), fc.maxSafeNat())
const id = fc.uuid().map((uuid) => `req_${uuid}`)
const isFacts = TypeCompiler.Compile(RequestFacts)

const common = fc.record(
  {
    tenant_id: orNull(fc.constantFrom('ten_1', 'ten_2')),
    key_id: orNull(fc.constantFrom('key_1', 'key_2')),
    requested_model: orNull(name),
    endpoint: orNull(name),
    policy_id: orNull(fc.constantFrom('pol_1', 'pol_2')),
    strategy: orNull(fc.constantFrom('priority', 'cost')),
    stream: fc.boolean(),
    user: orNull(fc.constantFrom('a', 'b')),
    task: fc.constantFrom('chat', 'tools'),
    revision: fc.constantFrom('r1', 'r2'),
    frame: fc.nat({ max: 2 }),
    purpose: fc.constantFrom('test', 'detection'),
  },
  {
    requiredKeys: [
      ...(['tenant_id', 'key_id', 'requested_model', 'endpoint', 'policy_id', 'strategy', 'stream', 'user'] as const),
      ...(['task', 'revision', 'frame'] as const),
    ],
  },
)

test('strings are those of the runtime', () => {
  fc.assert(fc.property(orNull(name), (value) => expect(jsonText(value)).toBe(JSON.stringify(value))))
})

test('the facts of a request, whatever the last request of its key was', () => {
  fc.assert(
    fc.property(
      id,
      fc.boolean(),
      name,
      count,
      fc.array(common, { minLength: 1, maxLength: 4 }),
      (own, isOwn, label, n, all) => {
        for (const each of all) {
          const identity = { id: own, requestId: isOwn ? own : label, traceId: 'a'.repeat(32), atMs: n }
          const facts: unknown = JSON.parse(`${requestFactsJson(identity, n, each)}}`)
          const { id: _, ...rest } = {
            id: own,
            request_id: identity.requestId,
            trace_id: identity.traceId,
            at_ms: n,
            seed: n,
            ...each,
          }
          expect(facts).toEqual({ id: own, ...JSON.parse(JSON.stringify(rest)) })
          expect(isFacts.Check(facts)).toBe(true)
        }
      },
    ),
    { numRuns: 500 },
  )
})

const entry = fc
  .record({ provider: name, providerId: name, name, modelId: name })
  .map((named) => named as unknown as CatalogueEntry)
const attempt: fc.Arbitrary<AttemptSummary> = fc
  .tuple(
    fc.record({
      n: fc.constant(1),
      provider: name,
      model: name,
      outcome: fc.constantFrom<AttemptSummary['outcome'][]>('success', 'error', 'skipped'),
      error_code: orNull(fc.constantFrom('upstream_error', 'timeout')),
      upstream_status: orNull(fc.nat({ max: 599 })),
      latency_ms: orNull(count),
      ttft_ms: orNull(count),
    }),
    // All together, or none of them.
    orNull(
      fc.record({
        prompt_tokens: orNull(count),
        completion_tokens: orNull(count),
        cost_nano_usd: orNull(count),
        cost_basis: fc.constantFrom<NonNullable<AttemptSummary['cost_basis']>[]>('measured', 'estimated'),
        price_version: orNull(name),
      }),
    ),
  )
  .map(([one, billed]) => ({ ...one, ...billed }))

describe('attempts', () => {
  test('of whoever was called last, and of others', () => {
    fc.assert(
      fc.property(fc.array(attempt, { maxLength: 3 }), orNull(entry), fc.boolean(), (attempts, called, isIts) => {
        if (isIts && called !== null && attempts[0] !== undefined)
          attempts[0] = { ...attempts[0], provider: called.provider, model: called.name }
        expect(JSON.parse(attemptsJson(attempts, called))).toEqual(JSON.parse(JSON.stringify(attempts)))
      }),
      { numRuns: 500 },
    )
  })

  test('a catalogue entry', () => {
    fc.assert(
      fc.property(entry, (called) => {
        const { provider, providerId: provider_id, name: model, modelId: model_id } = called
        const { candidate, first, routed } = entryTexts(called)
        expect(JSON.parse(`${candidate}""]`)).toEqual(JSON.parse(JSON.stringify([provider_id, model_id, ''])))
        expect(JSON.parse(`{"x":0${first}1}`)).toMatchObject(
          JSON.parse(JSON.stringify({ provider, provider_id, model, model_id })),
        )
        expect(JSON.parse(`{${routed}}`)).toEqual(
          JSON.parse(JSON.stringify({ provider, provider_id, routed_model: model, model_id })),
        )
      }),
    )
  })
})

const amount = fc.record({ nano_usd: count, tokens: count })
const part = fc.record({
  account: fc.constantFrom('bud_1/0-', 'bud_2/1795444092162-1796083200000'),
  holder: fc.constant('ins_1.488ee963090b6333'),
  leased: fc.boolean(),
  nano_usd: count,
  tokens: count,
})
const total = fc.record(
  { spent: amount, counted: amount, overrun_nano_usd: count, overrun_tokens: count },
  { requiredKeys: ['spent', 'counted', 'overrun_nano_usd'] },
)
const more = fc.record({ total, overrun_nano_usd: count }, { requiredKeys: [] })
const charge = fc.tuple(part, more).map(([first, rest]) => ({ ...first, ...rest }))

test('what a request takes of budgets', () => {
  fc.assert(
    fc.property(fc.array(part, { maxLength: 3 }), fc.array(charge, { maxLength: 3 }), (parts, charges) => {
      expect(JSON.parse(partsJson(parts))).toEqual(parts)
      expect(JSON.parse(chargesJson(charges))).toEqual(JSON.parse(JSON.stringify(charges)))
    }),
    { numRuns: 500 },
  )
})

test('counts that JSON does not have are none', () => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, null]) expect(countJson(value)).toBeNull()
  for (const value of [0, 1, 2 ** 53, 1e21, 0.5]) expect(JSON.parse(`${countJson(value)}`)).toBe(value)
})
