// Patterns that RE2 does not have: whatever else a schema demands is checked, and only what is certain is a violation.
import { describe, expect, test } from 'bun:test'
import { compileSchema } from '../../../src/lib/json-schema/json-schema.ts'

const UNKNOWN = '^(?!x)'
const compiled = (schema: unknown) => compileSchema(schema, '2020-12')
const conforms = (schema: unknown, value: unknown) => compiled(schema).firstError(value) === null

/** An object with a member `then` cannot be written as such: promises have one. */
const conditional = (condition: unknown, met: unknown, other: unknown) =>
  Object.fromEntries([
    ['if', condition],
    ['then', met],
    ['else', other],
  ])

describe('a pattern that cannot be checked', () => {
  const unknown = { pattern: UNKNOWN }
  const cases: [name: string, schema: unknown, good: unknown[], bad: unknown[]][] = [
    ['alone', { type: 'string', ...unknown, maxLength: 2 }, ['', 'xx'], ['abc', 1]],
    ['in `not`: what is no text has no pattern to match', { not: unknown }, ['a'], [1]],
    ['in `not` beside what fails for certain', { not: { ...unknown, type: 'integer' } }, ['a'], [1]],
    ['in `not` of `not`', { not: { not: unknown } }, ['a', 1], []],
    ['in `allOf`', { allOf: [unknown, { minLength: 2 }] }, ['ab'], ['a']],
    ['in `anyOf`', { anyOf: [unknown, { type: 'integer' }] }, ['a', 1], []],
    ['in `oneOf` beside one that holds', { oneOf: [unknown, { type: 'string' }] }, ['a'], []],
    ['in `oneOf` that fails for certain', { oneOf: [{ ...unknown, maxLength: 1 }, { minLength: 9 }] }, ['a'], ['abc']],
    ['in `if`', conditional(unknown, { minLength: 5 }, { maxLength: 1 }), ['abc'], []],
    ['in `if` that fails for certain', { if: { ...unknown, type: 'integer' }, else: false }, [1], ['a']],
    ['in `contains`', { contains: unknown, maxContains: 1 }, [['a', 'b']], [[]]],
    ['in `propertyNames`', { propertyNames: { ...unknown, maxLength: 2 } }, [{ ab: 1 }], [{ abc: 1 }]],
    [
      'in `patternProperties`: a member may be one of those',
      { patternProperties: { [UNKNOWN]: { type: 'integer' } }, additionalProperties: false },
      [{ a: 1 }, { a: 'b' }],
      [],
    ],
    [
      'in `patternProperties` beside a member that is named',
      { patternProperties: { [UNKNOWN]: true }, properties: { a: { type: 'integer' } } },
      [{ a: 1, b: 2 }],
      [{ a: 'b' }],
    ],
    [
      'in `if`, before `unevaluatedProperties`',
      {
        ...conditional({ properties: { a: unknown } }, { properties: { b: true } }, true),
        unevaluatedProperties: false,
      },
      [{ a: 'y', b: 1 }],
      [],
    ],
  ]
  test.each(cases)('%s', (_, schema, good, bad) => {
    for (const value of good) expect([value, conforms(schema, value)]).toEqual([value, true])
    for (const value of bad) expect([value, conforms(schema, value)]).toEqual([value, false])
    expect(compiled(schema).unchecked).toHaveLength(1)
  })

  test('is named by its place, up to 16 of them', () => {
    const properties = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`p${i}`, { pattern: `(?=${i})` }]))
    const { unchecked } = compiled({ properties })
    expect(unchecked).toEqual(Array.from({ length: 16 }, (_, i) => `#/properties/p${i}/pattern`))
    expect(compiled({ patternProperties: { '^(?=a/b~)': true } }).unchecked).toEqual([
      '#/patternProperties/^(?=a~1b~0)',
    ])
    expect(compiled({ pattern: '(a)\\1' }).unchecked).toEqual(['#/pattern'])
    expect(compiled({ pattern: 'a{1,2000}' }).unchecked).toEqual(['#/pattern'])
    expect(compiled({ pattern: 'a' }).unchecked).toEqual([])
    expect(compiled({ properties: { ['n'.repeat(500)]: { pattern: '(?=a)' } } }).unchecked[0]).toHaveLength(200)
  })
})
