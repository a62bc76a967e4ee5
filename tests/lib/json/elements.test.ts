import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { editElements } from '../../../src/lib/json/elements.ts'

describe('editElements', () => {
  test('replaces what is changed and leaves every other byte', () => {
    const text = ' [ {"a":12345678901234567890} ,\n"x]\\"," , [1,[2]] ,1.50 ,null]'
    expect(editElements(text, () => null)).toBe(text)
    expect(editElements(text, (json, i) => (i === 1 ? '"y"' : json === 'null' ? '0' : null))).toBe(
      ' [ {"a":12345678901234567890} ,\n"y" , [1,[2]] ,1.50 ,0]',
    )
    expect(editElements('[]', () => '1')).toBe('[]')
    expect(editElements('[ ]', () => '1')).toBe('[ ]')
  })

  test('gives each element of any array its own text', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { maxLength: 6 }), fc.constantFrom(undefined, 2), (values, indent) => {
        const seen: unknown[] = []
        const text = JSON.stringify(values, null, indent)
        const doubled = editElements(text, (json, index) => {
          expect(index).toBe(seen.length)
          seen.push(JSON.parse(json))
          return `[${json},${json}]`
        })
        expect(JSON.stringify(seen)).toBe(JSON.stringify(values))
        expect(JSON.stringify(JSON.parse(doubled))).toBe(JSON.stringify(values.map((value) => [value, value])))
      }),
    )
  })

  test('refuses what is no array', () => {
    for (const text of ['', '{}', '[1', '[1 2]', '[1,', '1']) expect(() => editElements(text, () => null)).toThrow()
  })
})
