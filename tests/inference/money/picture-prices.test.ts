// Pictures that a model makes cost more than its words: they are charged at their own price, and reserved so.
import { afterEach, expect, test } from 'bun:test'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import { reservedNanoUsd } from '../../../src/inference/money/estimate.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, testGateway } from '../gateway.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const ask = { model: 'small', max_tokens: 2_000, messages: [{ role: 'user', content: 'a cat' }] }
const FLASH = {
  kind: 'gemini',
  upstreamModel: 'gemini-2.5-flash-image',
  inputCostPerMillion: 0.3,
  outputCostPerMillion: 2.5,
}
const answered = {
  candidates: [
    {
      content: { role: 'model', parts: [{ text: 'Here.' }, { inlineData: { mimeType: 'image/png', data: 'AAAA' } }] },
      finishReason: 'STOP',
    },
  ],
  usageMetadata: {
    ...{ promptTokenCount: 10, candidatesTokenCount: 1_300, totalTokenCount: 1_310 },
    candidatesTokensDetails: [
      { modality: 'IMAGE', tokenCount: 1_290 },
      { modality: 'TEXT', tokenCount: 10 },
    ],
  },
}

const WORDS = 10 * 300 + 10 * 2_500
const ROWS: readonly (readonly [string, object, number])[] = [
  ['at the price of pictures', FLASH, WORDS + 1_290 * 30_000],
  ['at the price of the row where that is higher', { ...FLASH, outputCostPerMillion: 40 }, 3_000 + 1_300 * 40_000],
  ['for nothing where the row is free', { ...FLASH, inputCostPerMillion: 0, outputCostPerMillion: 0 }, 0],
  ['as words by a model whose price is not known', { ...FLASH, upstreamModel: 'gemini-x' }, 3_000 + 1_300 * 2_500],
]

test.each(ROWS)('charged %s', async (_, row, nanoUsd) => {
  const upstream = startUpstream()
  upstream.behave({ body: JSON.stringify(answered) })
  const gateway = testGateway({
    entries: [entry({ secret: 's', baseUrl: upstream.origin, ...row })],
    kinds: [kindOf('gemini')!],
  })
  closing.push(
    () => gateway.close(),
    () => upstream.stop(),
  )
  const response = await gateway.chat(ask)
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  await gateway.spool.untilSettled()
  expect(gateway.spool.settled()[0]!.cost_nano_usd).toBe(nanoUsd)
})

test('reserved as if all of the answer were pictures, at the kind whose price is known', () => {
  const raw = JSON.stringify(ask)
  const intent = readIntent(raw, ask, new Headers())
  const reserved = (row: object) => reservedNanoUsd(intent, entry({ ...FLASH, inputCostPerMillion: 0, ...row }))
  expect(reserved({})).toBe(2_000 * 30_000 + 1)
  expect(reserved({ upstreamModel: 'gemini-3-pro-image-preview', outputCostPerMillion: 12 })).toBe(2_000 * 120_000 + 1)
  expect(reserved({ upstreamModel: 'gemini-3.1-flash-image-preview', outputCostPerMillion: 3 })).toBe(
    2_000 * 60_000 + 1,
  )
  expect(reserved({ upstreamModel: 'gemini-3.1-flash-lite-image', outputCostPerMillion: 1.5 })).toBe(2_000 * 30_000 + 1)
  for (const row of [{ upstreamModel: 'gemini-2.5-flash' }, { kind: 'openai_compatible' }])
    expect(reserved(row)).toBe(2_000 * 2_500)
})
