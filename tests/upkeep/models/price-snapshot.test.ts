// The vendored prices say what the package says that they were taken from, and every refresh shows what has changed.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { calcPrice } from '@pydantic/genai-prices'
import { snapshotOf, snapshotText } from '../../../infra/prices.ts'
import { actualNanoUsd } from '../../../src/inference/money/price.ts'
import { cataloguePrice } from '../../../src/upkeep/models/model-facts.ts'
import {
  type PriceSnapshot,
  type Prices,
  priceSnapshot,
  snapshotPrices,
} from '../../../src/upkeep/models/price-snapshot.ts'

const FILE = join(import.meta.dir, '../../../src/upkeep/models/prices/snapshot.json')
const snapshot: PriceSnapshot = await priceSnapshot()
const takenMs = Date.parse(`${snapshot.taken}T12:00:00Z`)

/** Within the script's reach, what a price of ours charges, in USD. */
const charged = (prices: Prices, input: number, output: number, cached: number): number => {
  const { tiers = [] } = prices
  const at = tiers.findLast(({ above }) => input > above) ?? prices
  return ((input - cached) * at.input! + cached * (at.cached ?? at.input!) + output * at.output!) / 1e6
}

describe('the price snapshot', () => {
  test('is what the script makes of the installed package', () => {
    expect(readFileSync(FILE, 'utf8')).toBe(snapshotText(snapshotOf(snapshot.taken)))
    expect(readFileSync(join(FILE, '../LICENSE'), 'utf8')).toStartWith('The MIT License')
  })

  test('charges every model what the package charges, short prompts and long', () => {
    let compared = 0
    for (const provider of snapshot.providers) {
      for (const { id } of provider.models) {
        const ours = snapshotPrices(snapshot, { providerId: provider.id }, id, takenMs)
        if (ours === null || ours.input === null || ours.output === null) continue
        const options = { providerId: provider.id, timestamp: new Date(takenMs) }
        for (const tokens of [1_000, 128_001, 200_000, 200_001, 300_000]) {
          const usage = { input_tokens: tokens, output_tokens: 500 }
          const theirs = calcPrice(usage, id, options)
          if (theirs === null || hourly(theirs.model.prices)) continue
          const extra = Object.keys(theirs.model_price).some(
            (key) => !/^(input|output|cache_read|cache_write|cache)_/.test(key),
          )
          if (extra) continue // a price for each request: of searching models, which are not priced by tokens alone
          expect([provider.id, id, tokens, charged(ours, tokens, 500, 0)]).toEqual([
            provider.id,
            id,
            tokens,
            expect.closeTo(theirs.total_price, 9),
          ])
          compared += 1
        }
      }
    }
    expect(compared).toBeGreaterThan(3_000)
  })

  test('tiers and cached tokens are charged as the package charges them', async () => {
    const price = await cataloguePrice({ kind: 'anthropic', base_url: null }, 'claude-sonnet-4-5-20250929', takenMs)
    expect(price.tiers).toEqual([
      {
        above_prompt_tokens: 200_000,
        input_cost_per_million: 6,
        output_cost_per_million: 22.5,
        cached_input_cost_per_million: 0.6,
      },
    ])
    const entry = {
      inputCostPerMillion: price.input,
      outputCostPerMillion: price.output,
      cachedInputCostPerMillion: price.cachedInput,
      maxOutputTokens: null,
      contextWindow: null,
      priceTiers: price.tiers!.map((tier) => ({
        abovePromptTokens: tier.above_prompt_tokens,
        inputCostPerMillion: tier.input_cost_per_million,
        outputCostPerMillion: tier.output_cost_per_million,
        cachedInputCostPerMillion: tier.cached_input_cost_per_million,
      })),
    }
    for (const input of [200_000, 200_001]) {
      const usage = { input_tokens: input, cache_read_tokens: 50_000, output_tokens: 1_000 }
      const theirs = calcPrice(usage, 'claude-sonnet-4-5', { providerId: 'anthropic', timestamp: new Date(takenMs) })!
      expect(actualNanoUsd(entry, input, 1_000, 50_000)! / 1e9).toBeCloseTo(theirs.total_price, 9)
    }
  })

  test('a price that begins later is used from its day on', () => {
    const inFebruary = Date.UTC(2027, 1, 1)
    const of = (nowMs: number) => snapshotPrices(snapshot, { providerId: 'google' }, 'gemini-3.6-flash', nowMs)
    expect([of(takenMs)?.input, of(inFebruary)?.input]).toEqual([0.75, 1.5])
  })
})

const hourly = (prices: unknown): boolean =>
  Array.isArray(prices) && prices.some((each) => each.constraint?.type === 'time_of_date')
