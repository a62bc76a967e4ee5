import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { actualNanoUsd } from '../../src/inference/money/price.ts'
import { capNanoUsdOf, costNanoUsd, sumNanoUsd } from '../../src/lib/money.ts'
import { countOf } from '../../src/providers/shared/read-json.ts'

test('a cost is rounded up, and never larger than what a table can hold', () => {
  expect(costNanoUsd(1, 0.15)).toBe(150)
  expect(costNanoUsd(1, 0.0001)).toBe(1)
  expect(costNanoUsd(Number.MAX_SAFE_INTEGER, 1_000_000)).toBe(Number.MAX_SAFE_INTEGER)
  expect(sumNanoUsd(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)).toBe(Number.MAX_SAFE_INTEGER)
  const priced = {
    inputCostPerMillion: 1_000,
    outputCostPerMillion: 1_000,
    cachedInputCostPerMillion: null,
    maxOutputTokens: null,
    contextWindow: null,
  }
  expect(actualNanoUsd(priced, 2 ** 52, 2 ** 52, 0)).toBe(Number.MAX_SAFE_INTEGER)
})

test('a cap is rounded down and a cost up, however small the fraction: what is above a cap is never let through', () => {
  expect([0.29, 1.1e-8, 7e-9, 0.5, 1_000_000, 0].map(capNanoUsdOf)).toEqual([290_000_000, 11, 7, 500_000_000, 1e15, 0])
  expect([1.9e-9, 0.9e-9, 0.000_000_123_999].map(capNanoUsdOf)).toEqual([1, 0, 123])
  expect([costNanoUsd(1, 1e-7), costNanoUsd(1, 0.150_000_1), costNanoUsd(3, 0.15)]).toEqual([1, 151, 450])
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10 ** 13 }), fc.integer({ min: 1, max: 999 }), (nano, thousandths) => {
      expect(capNanoUsdOf(nano / 1e9)).toBe(nano)
      if (nano < 1e9) expect(capNanoUsdOf((nano + thousandths / 1_000) / 1e9)).toBe(nano)
    }),
  )
})

test('a number of tokens that no answer can have is unknown', () => {
  expect([0, 7, 1e10].map(countOf)).toEqual([0, 7, 1e10])
  expect([1e10 + 1, Number.MAX_SAFE_INTEGER, -1, 0.5, '7', null].map(countOf)).toEqual([
    null,
    null,
    null,
    null,
    null,
    null,
  ])
})
