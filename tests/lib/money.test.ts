import { expect, test } from 'bun:test'
import { actualNanoUsd } from '../../src/inference/estimate.ts'
import { costNanoUsd, sumNanoUsd } from '../../src/lib/money.ts'
import { countOf } from '../../src/providers/read-json.ts'

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
