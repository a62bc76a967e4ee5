import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { inexactNumber } from '../../../src/lib/json/inexact-number.ts'

test.each([
  ['{"a":9007199254740993}', 'a'],
  ['{"a":{"b c":[1,{"d":-90071992547409931}]},"e":1}', 'a.b c.d'],
  ['{"a":[1,12345678901234567890]}', 'a'],
  ['{"a":1e999}', 'a'],
  ['{"a":{"x":1},"b" : -1E+400}', 'b'],
  ['{"a":[{"b":1},[2,9007199254740993]]}', 'a'],
])('%s is not kept at %p', (text, path) => {
  expect(inexactNumber(text)).toBe(path)
})

test.each([
  '{"a":9007199254740992,"b":-9007199254740994,"c":1e300,"d":0.12345678901234567890}',
  '{"a":"9007199254740993","9007199254740993":1,"b":"\\"9007199254740993"}',
  '{"a":18014398509481984,"b":[100000000000000000000]}',
])('%s is', (text) => {
  expect(inexactNumber(text)).toBeNull()
})

test('what JSON.stringify says of any value is kept: what a GET answered can be sent', () => {
  const large = fc.record({
    large: fc.double({ noNaN: true, noDefaultInfinity: true }),
    whole: fc.bigInt().map(Number),
  })
  const value = fc.oneof(fc.jsonValue(), large)
  fc.assert(fc.property(value, (value) => expect(inexactNumber(JSON.stringify({ value }))).toBeNull()))
})
