import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { canonicalForm, mayChangeNumbers, parseForCanonical } from '../../../src/lib/json/canonical-form.ts'

const formOf = (text: string): string => canonicalForm(parseForCanonical(text))

describe('the canonical form', () => {
  test('is that of RFC 8785: its example of members and strings', () => {
    const text = String.raw`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`
    expect([...formOf(text).matchAll(/:"([^"]+)"/g)].map(([, value]) => value)).toEqual([
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ])
    expect(formOf(' { "b" : [ 1 , true , null ] , "a" : "\\u0041" } ')).toBe('{"a":"A","b":[1,true,null]}')
  })

  test.each([
    ['1', ['1.0', '1e0', '10e-1', '1.00000000000000000000000000']],
    ['0', ['-0', '0.0', '0e5', '-0.0000000000000000000']],
    ['100000000000000000000', ['1e20', '100000000000000000000.0']],
    ['12345678901234567000', ['1.2345678901234567e19']],
    ['0.1', ['1e-1', '0.10']],
  ])('%s has one form, however it is written', (text, others) => {
    for (const other of others) expect(formOf(other)).toBe(formOf(text))
  })

  test.each([
    ['9007199254740992', '9007199254740993'],
    ['0.1', '0.1000000000000000000001'],
    ['1e400', '1e401'],
    ['1e-400', '0'],
    ['12345678.12345678901', '12345678.12345678902'],
    ['123456789012345678', '123456789012345679'],
    ['1e0000400', '1e0000401'],
  ])('%s and %s differ, though a double does not', (left, right) => {
    expect(Number(left)).toBe(Number(right))
    expect(formOf(left)).not.toBe(formOf(right))
    expect(formOf(`{"a":[${left}]}`)).not.toBe(formOf(`{"a":[${right}]}`))
  })

  test('digits inside strings change nothing', () => {
    const text = '{"id":"12345678901234567890","n":1.50}'
    expect(mayChangeNumbers(text)).toBe(true)
    expect(formOf(text)).toBe('{"id":"12345678901234567890","n":1.5}')
  })

  test('leaves out members of the outermost object only', () => {
    expect(canonicalForm({ user: 'a', b: { user: 'c' } }, new Set(['user']))).toBe('{"b":{"user":"c"}}')
  })

  test('a member that is named like a part of every object is a member', () => {
    expect(formOf('{"__proto__":1,"constructor":2}')).toBe('{"__proto__":1,"constructor":2}')
  })

  test('two values have one form exactly when they are equal, whatever the order of members', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
        const [a, b] = [formOf(JSON.stringify(left)), formOf(JSON.stringify(right))]
        expect(a === b).toBe(Bun.deepEquals(JSON.parse(a), JSON.parse(b)))
        expect(formOf(a)).toBe(a)
        expect(formOf(JSON.stringify(left, null, 3))).toBe(a)
      }),
      { numRuns: 2_000 },
    )
  })
})
