// The block of an answer: JSON text that is put together by hand.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { wholeText } from '../../src/lib/text/text-pieces.ts'
import { type GatewayFacts, gatewayJson, withGatewayPieces } from '../../src/wire/gateway-block.ts'

const name = fc.oneof(fc.constantFrom('alpha', 'beta', 'a"b\\', 'ü', 'x'.repeat(129)), fc.constant(null))
const facts: fc.Arbitrary<GatewayFacts> = fc.record({
  requestId: fc.constantFrom('req_1', 'label "of" a client'),
  provider: name,
  requestedModel: name,
  routedModel: name,
  fallbackUsed: fc.boolean(),
  cacheHit: fc.boolean(),
  latencyMs: fc.nat(),
  costNanoUsd: fc.option(fc.nat()),
  debug: fc.constant(null),
})

test('the block says the facts of its own request, whatever the last one was', () => {
  fc.assert(
    fc.property(fc.array(facts, { minLength: 1, maxLength: 5 }), (all) => {
      for (const each of all) {
        const { costNanoUsd, latencyMs, requestId, ...who } = each
        const block = JSON.parse(gatewayJson(each, ',"more":1'))
        expect(block).toEqual({
          request_id: requestId,
          provider: who.provider,
          requested_model: who.requestedModel,
          routed_model: who.routedModel,
          fallback_used: who.fallbackUsed,
          cache_hit: who.cacheHit,
          latency_ms: latencyMs,
          estimated_cost_usd: costNanoUsd === null ? null : costNanoUsd / 1e9,
          more: 1,
        })
        const answer = JSON.parse(wholeText(withGatewayPieces('{"id":"a","choices":[]}', each, ',"more":1')))
        expect(answer).toEqual({ id: 'a', choices: [], gateway: block })
      }
    }),
    { numRuns: 500 },
  )
})

test('an upstream’s own block makes way, and an empty answer gets its first member', () => {
  const each: GatewayFacts = { ...NOBODY, requestId: 'req_1' }
  for (const [json, more] of [
    ['{"gateway":{"request_id":"theirs"},"id":"a"}', { id: 'a' }],
    ['{ }', {}],
  ] as const) {
    const answer = JSON.parse(wholeText(withGatewayPieces(json, each, '')))
    expect(answer).toEqual({ ...more, gateway: JSON.parse(gatewayJson(each)) })
  }
})

const NOBODY: Omit<GatewayFacts, 'requestId'> = {
  provider: null,
  requestedModel: null,
  routedModel: null,
  fallbackUsed: false,
  cacheHit: false,
  latencyMs: 0,
  costNanoUsd: null,
  debug: null,
}
