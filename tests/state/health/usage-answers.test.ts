// The memory of providers that refuse the request for usage: it lasts for an hour, is bounded, and does not apply to
// another server.
import { expect, test } from 'bun:test'
import { UsageSupport } from '../../../src/state/health/book.ts'

const provider = (n: number, baseUrl = 'http://a/v1') => ({ providerId: `prov_${n}`, baseUrl, upstreamModel: 'm' })

test('a refusal is heeded for an hour, of that server alone; that it takes the question, until it refuses', () => {
  let nowMs = 0
  const answers = new UsageSupport(() => nowMs)
  expect(answers.takes(provider(1))).toBeNull()
  answers.answered(provider(1), false)
  answers.answered(provider(2), true)
  expect([1, 2].map((n) => answers.takes(provider(n)))).toEqual([false, true])
  expect(answers.takes(provider(1, 'http://b/v1'))).toBeNull()
  nowMs = 3_600_000
  expect([1, 2].map((n) => answers.takes(provider(n)))).toEqual([null, true])
  answers.answered(provider(2), false)
  expect(answers.takes(provider(2))).toBe(false)
})

test('the oldest of very many are forgotten', () => {
  const answers = new UsageSupport(() => 0)
  for (let n = 0; n <= 1_024; n++) answers.answered(provider(n), false)
  expect([0, 1, 1_024].map((n) => answers.takes(provider(n)))).toEqual([null, false, false])
})
