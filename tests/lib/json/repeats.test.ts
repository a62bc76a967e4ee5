import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { withoutRepeats } from '../../../src/lib/json/repeats.ts'

describe('withoutRepeats', () => {
  test.each([
    ['{"a":1,"a":2}', '{"a":2}'],
    ['{ "sort" : "throughput", "only":["x"] ,"sort":"price" }', '{ "only":["x"] ,"sort":"price" }'],
    ['{"a":{"b":1,"b":[2]},"c":12345678901234567890}', '{"a":{"b":[2]},"c":12345678901234567890}'],
    ['[1,{"a":1,"\\u0061":2}, "x"]', '[1,{"\\u0061":2}, "x"]'],
    ['{"a":{"b":1,"b":2},"a":3}', '{"a":3}'],
    ['{"a":3,"a":{"b":1,"b":2}}', '{"a":{"b":2}}'],
  ])('%s', (text, once) => {
    expect(withoutRepeats(text)).toBe(once)
  })

  test('text without any is left byte by byte', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(undefined, 1), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        expect(withoutRepeats(text)).toBe(text)
      }),
    )
  })

  test('what is left says what was parsed, and has each key once', () => {
    const key = fc.constantFrom('a', 'b', 'A')
    const text: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom('1', '"x"', 'null', '{}', '[]'),
        fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map((all) => `{${all.map(([k, v]) => `"${k}":${v}`)}}`),
        fc.array(tie('value'), { maxLength: 3 }).map((all) => `[${all}]`),
      ),
    })).value
    fc.assert(
      fc.property(text, (written) => {
        const once = withoutRepeats(written)
        expect(JSON.parse(once)).toEqual(JSON.parse(written))
        expect(once.length).toBe(JSON.stringify(JSON.parse(written)).length)
      }),
    )
  })
})
