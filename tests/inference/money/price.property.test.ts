// Money: rounding, tiers, and that a reservation is never below what the same request is charged.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { reservedNanoUsd } from '../../../src/inference/money/estimate.ts'
import { actualNanoUsd, priceOf } from '../../../src/inference/money/price.ts'
import { costNanoUsd } from '../../../src/lib/money.ts'
import type { CatalogueEntry, PriceTier } from '../../../src/state/port.ts'
import { entry } from '../gateway.ts'

/** USD per million tokens with up to six decimals, as micro-USD. */
const micros = fc.oneof(fc.integer({ min: 0, max: 100_000_000 }), fc.integer({ min: 0, max: 2_000 }))
const tokens = fc.oneof(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 0, max: 20_000_000 }))
const usd = micros.map((each) => each / 1e6)

// docs/behaviour.md: "Money and prices"
test('a fraction of a nano-USD is rounded up, and nothing else is', () => {
  fc.assert(
    fc.property(tokens, micros, (count, price) => {
      const exact = BigInt(count) * BigInt(price) // thousandths of a nano-USD
      expect(costNanoUsd(count, price / 1e6)).toBe(Number((exact + 999n) / 1_000n))
    }),
    { numRuns: 2_000 },
  )
})

const anyPriced: fc.Arbitrary<CatalogueEntry> = fc
  .record({
    input: usd,
    output: usd,
    cached: fc.option(usd, { nil: null }),
    tiers: fc.uniqueArray(
      fc.record({
        above: fc.integer({ min: 1, max: 5_000 }),
        input: usd,
        output: usd,
        cached: fc.option(usd, { nil: null }),
      }),
      { maxLength: 4, selector: ({ above }) => above },
    ),
  })
  .map(({ input, output, cached, tiers }) =>
    entry({
      inputCostPerMillion: input,
      outputCostPerMillion: output,
      cachedInputCostPerMillion: cached,
      priceTiers: tiers
        .toSorted((a, b) => a.above - b.above)
        .map(
          (tier): PriceTier => ({
            abovePromptTokens: tier.above,
            inputCostPerMillion: tier.input,
            outputCostPerMillion: tier.output,
            cachedInputCostPerMillion: tier.cached,
          }),
        ),
    }),
  )

describe('tiers', () => {
  test('a reservation covers whatever the request turns out to be', () => {
    const part = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(
        anyPriced,
        fc.nat(10_000),
        fc.nat(5_000),
        fc.tuple(part, part, part),
        (priced, bytes, ceiling, [prompt, cached, output]) => {
          const asked = {
            promptBytes: bytes,
            unseenTokens: 0,
            outside: null,
            raw: '{}',
            maxTokens: ceiling,
            choices: 1,
            vendorFields: null,
          }
          const promptTokens = Math.floor(bytes * prompt)
          const actual = actualNanoUsd(
            priced,
            promptTokens,
            Math.floor(ceiling * output),
            Math.floor(promptTokens * cached),
          )
          expect(reservedNanoUsd(asked, priced)!).toBeGreaterThanOrEqual(actual!)
        },
      ),
      { numRuns: 2_000 },
    )
  })

  test('the whole request is charged at the tier of its prompt', () => {
    const long = entry({
      inputCostPerMillion: 1,
      outputCostPerMillion: 2,
      cachedInputCostPerMillion: 0.5,
      priceTiers: [
        { abovePromptTokens: 100, inputCostPerMillion: 10, outputCostPerMillion: 20, cachedInputCostPerMillion: null },
        { abovePromptTokens: 200, inputCostPerMillion: 5, outputCostPerMillion: 6, cachedInputCostPerMillion: 1 },
      ],
    })
    expect(actualNanoUsd(long, 100, 10, 40)).toBe(60_000 + 20_000 + 20_000)
    expect(actualNanoUsd(long, 101, 10, 40)).toBe(1_010_000 + 200_000)
    expect(actualNanoUsd(long, 201, 10, 40)).toBe(161 * 5_000 + 40_000 + 60_000)
    expect([100, 101, 201].map((prompt) => priceOf(long, prompt, 0))).toEqual([100_000, 1_010_000, 1_005_000])
    const asked = { unseenTokens: 0, outside: null, raw: '{}', maxTokens: 10, choices: 1, vendorFields: null }
    // A prompt of up to 201 tokens may be one of 200, which is dearer.
    expect(reservedNanoUsd({ ...asked, promptBytes: 201 }, long)).toBe(2_010_000 + 200_000)
    expect(reservedNanoUsd({ ...asked, promptBytes: 100 }, long)).toBe(100_000 + 20_000 + 1)
  })
})
