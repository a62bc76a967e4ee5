import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { isLongNumber, parseExact } from '../../../src/lib/json/exact-json.ts'

test('long numbers are written again as they stood, all else is what JSON.parse gives', () => {
  const text =
    '{"a":12345678901234567890,"b":[0.10000000000000000001,1e400,-9007199254740993],"c":"12345678901234567890","d":1.5}'
  const value = parseExact(text) as Record<string, unknown>
  expect(JSON.stringify(value)).toBe(text)
  expect([isLongNumber(value.a), isLongNumber(value.c), isLongNumber({}), value.d]).toEqual([true, false, false, 1.5])
  expect(() => parseExact('{"a":12345678901234567890')).toThrow(SyntaxError)
})

test('property: for text without long numbers it is JSON.parse', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      const text = JSON.stringify(value)
      expect(JSON.stringify(parseExact(text))).toBe(JSON.stringify(JSON.parse(text)))
    }),
  )
})
