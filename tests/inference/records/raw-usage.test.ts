import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { rawUsageJson } from '../../../src/inference/records/raw-usage.ts'

test('numbers and their names are kept, text and what is not plain is not', () => {
  const raw = JSON.parse(
    '{"prompt_tokens":3,"cost":0.25,"cached":null,"ok":true,"note":"the prompt","list":[1],"a b":1,"__proto__":{"x":1},"details":{"deep":{"deeper":{"n":1},"n":2}},"big":1e999}',
  )
  expect(JSON.parse(rawUsageJson(raw))).toEqual({
    prompt_tokens: 3,
    cost: 0.25,
    cached: null,
    ok: true,
    details: { deep: { n: 2 } },
    big: null,
  })
})

test('what is no object or too long is null', () => {
  for (const raw of [undefined, null, 7, 'text', [1]]) expect(rawUsageJson(raw)).toBe('null')
  const long = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`member_number_${i}`, i]))
  expect(rawUsageJson(long)).toBe('null')
})

test('property: it is valid JSON of at most 4 KiB and holds no text of the provider', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (raw) => {
      const json = rawUsageJson(raw)
      expect(json.length).toBeLessThanOrEqual(4_096)
      const walk = (value: unknown): void => {
        expect(typeof value).not.toBe('string')
        if (value !== null && typeof value === 'object') Object.values(value).forEach(walk)
      }
      walk(JSON.parse(json))
    }),
  )
})
