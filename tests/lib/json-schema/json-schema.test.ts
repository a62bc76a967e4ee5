import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { canonicalJson } from '../../../src/lib/json/canonical-json.ts'
import { compileSchema, type Draft } from '../../../src/lib/json-schema/json-schema.ts'
import { SchemaError } from '../../../src/lib/json-schema/site.ts'
import { formatCheck } from '../../../src/lib/json-schema/string-formats.ts'

interface Group {
  readonly file: string
  readonly description: string
  readonly schema: unknown
  readonly tests: readonly [description: string, data: unknown, valid: boolean][]
}
const groupsOf = (draft: Draft): Group[] =>
  readFileSync(`${import.meta.dir}/../../fixtures/json-schema/${draft}.ndjson`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Group)

describe('the official suite', () => {
  for (const draft of ['2020-12', 'draft-07'] as const) {
    test(draft, () => {
      const wrong: string[] = []
      let cases = 0
      for (const { file, description, schema, tests } of groupsOf(draft)) {
        const compiled = compileSchema(schema, draft)
        for (const [name, data, valid] of tests) {
          cases++
          const flaw = compiled.firstError(data)
          if ((flaw === null) !== valid) wrong.push(`${file}: ${description}: ${name}: ${flaw}`)
        }
      }
      expect(wrong).toEqual([])
      expect(cases).toBeGreaterThan(draft === '2020-12' ? 1_100 : 790)
    })
  }
})

const FORMAT_ASSERTION = 'https://json-schema.org/draft/2020-12/vocab/format-assertion'

const firstError = (schema: unknown, value: unknown, draft: Draft = '2020-12') =>
  compileSchema(schema, draft).firstError(value)

describe('what is wrong is said, with the place in the value', () => {
  const person = {
    type: 'object',
    required: ['name'],
    properties: {
      name: { type: 'string', minLength: 2, pattern: '^[A-Z]' },
      tags: { type: 'array', maxItems: 2, uniqueItems: true, items: { enum: ['a', 'b', { c: 1 }] } },
      age: { anyOf: [{ type: 'integer', minimum: 0 }, { type: 'null' }] },
      at: { format: 'date-time' },
    },
    $vocabulary: { [FORMAT_ASSERTION]: true },
    additionalProperties: false,
  }
  const cases: [value: unknown, flaw: string | null][] = [
    [{ name: 'Ada', tags: ['a', { c: 1 }], age: null, at: '2026-01-01T00:00:00Z' }, null],
    [[], '/ must be object'],
    [{}, '/ must have the member "name"'],
    [{ name: 'A' }, '/name must have at least 2 characters'],
    [{ name: 'ada' }, '/name must match the pattern "^[A-Z]"'],
    [{ name: 'Ada', tags: ['a', 'x'] }, '/tags/1 must be one of the values of `enum`'],
    [{ name: 'Ada', tags: ['a', 'a'] }, '/tags must not have the same item twice'],
    [{ name: 'Ada', tags: ['a', 'b', 'a'] }, '/tags must have at most 2 items'],
    [{ name: 'Ada', age: -1 }, '/age matches no schema of `anyOf`'],
    [{ name: 'Ada', at: 'now' }, '/at must have the format "date-time"'],
    [{ name: 'Ada', more: 1 }, '/ must not have the member "more"'],
  ]
  test.each(cases)('%j', (value, flaw) => {
    expect(firstError(person, value)).toBe(flaw)
  })
})

describe('a schema that is none is refused, with the place in it', () => {
  const cases: [schema: unknown, where: string][] = [
    [7, '#'],
    [{ type: 'strng' }, '#/type'],
    [{ type: [] }, '#/type'],
    [{ properties: [] }, '#/properties'],
    [{ properties: { a: 7 } }, '#/properties/a'],
    [{ items: [{}] }, '#/items'],
    [{ required: 'a' }, '#/required'],
    [{ minLength: -1 }, '#/minLength'],
    [{ minimum: '1' }, '#/minimum'],
    [{ multipleOf: 0 }, '#/multipleOf'],
    [{ anyOf: [] }, '#/anyOf'],
    [{ enum: 'a' }, '#/enum'],
    [{ uniqueItems: 1 }, '#/uniqueItems'],
    [{ $ref: 7 }, '#/$ref'],
    [{ $ref: '#/$defs/none' }, '#/$ref'],
    [{ $ref: '#none' }, '#/$ref'],
    [{ $ref: 'https://example.com/schema' }, 'leads outside'],
    [{ $ref: 'file:///etc/passwd' }, 'leads outside'],
    [{ $ref: 'http://[' }, '#/$ref'],
    [{ $ref: '#/%zz' }, '#/$ref'],
    [{ pattern: '(' }, '#/pattern'],
    [{ pattern: '(?=a' }, '#/pattern'],
    [{ pattern: 'x'.repeat(1_025) }, '#/pattern'],
    [{ properties: { a: { patternProperties: { '[': true } } } }, '#/properties/a/patternProperties'],
    [{ $ref: '#' }, 'without an end'],
    [{ allOf: [{ anyOf: [{ $ref: '#' }] }] }, 'without an end'],
    [{ $defs: { a: { $ref: '#/$defs/b' }, b: { not: { $ref: '#/$defs/a' } } }, $ref: '#/$defs/a' }, 'without an end'],
  ]
  test.each(cases)('%j', (schema, where) => {
    expect(() => compileSchema(schema, '2020-12')).toThrow(SchemaError)
    expect(() => compileSchema(schema, '2020-12')).toThrow(where)
  })
})

describe('neither schema nor value can hold the thread', () => {
  const within = (ms: number, act: () => void) => {
    const before = performance.now()
    act()
    expect(performance.now() - before).toBeLessThan(ms)
  }
  const many = <Item>(count: number, item: (i: number) => Item): Item[] =>
    Array.from({ length: count }, (_, i) => item(i))
  const members = Object.fromEntries(many(100_000, (i) => [`k${i}`, i]))
  const doubling: Record<string, unknown> = Object.fromEntries(
    many(40, (i) => [`a${i}`, { allOf: [{ $ref: `#/$defs/a${i + 1}` }, { $ref: `#/$defs/a${i + 1}` }] }]),
  )
  let deep: unknown = 1
  for (let i = 0; i < 100_000; i++) deep = [deep]
  let nested: unknown = {}
  for (let i = 0; i < 60; i++) nested = { a: nested }
  const retrying = { properties: { a: { $ref: '#' } }, required: ['never'] }

  const givenUp: [name: string, schema: unknown, value: unknown][] = [
    ['doubling references', { $defs: { ...doubling, a40: true }, $ref: '#/$defs/a0' }, 1],
    [
      'branches that are tried again at each level',
      { anyOf: [retrying, { properties: { a: { anyOf: [{ $ref: '#' }, { $ref: '#' }] } }, required: ['x'] }] },
      nested,
    ],
    ['many branches over many members', { allOf: many(2_000, () => ({ additionalProperties: true })) }, members],
    [
      'what is not evaluated, over many branches',
      { allOf: many(500, () => ({ anyOf: [{ additionalProperties: true }] })), unevaluatedProperties: false },
      members,
    ],
    ['a large pattern over a long text', { pattern: '(a|b|ab)*c[a-d]{1,300}x' }, 'ab'.repeat(100_000)],
    [
      'patterns over many names',
      { patternProperties: Object.fromEntries(many(99, (i) => [`^x${i}+$`, true])) },
      members,
    ],
    ['a value nested without end', { items: { $ref: '#' } }, deep],
    ['a nested value that is compared', { const: [1] }, deep],
    ['large values that are compared often', { allOf: many(1_000, () => ({ not: { const: {} } })) }, members],
  ]
  test.each(givenUp)('S26: %s: given up in bounded time', (_, schema, value) => {
    within(15_000, () =>
      expect(firstError(schema, value)).toMatch(/^it (takes too long|is nested too deeply)|matches no schema/),
    )
  })

  test('S26: patterns without an exponential case, and large lists without a quadratic one', () => {
    within(15_000, () => {
      expect(firstError({ pattern: '^(a+)+$' }, `${'a'.repeat(50_000)}!`)).not.toBeNull()
      expect(
        firstError(
          { uniqueItems: true },
          many(50_000, (i) => ({ i })),
        ),
      ).toBeNull()
      expect(
        firstError(
          { items: { enum: many(5_000, (i) => ({ i })) } },
          many(20_000, (i) => ({ i: i % 5_000 })),
        ),
      ).toBeNull()
    })
  })

  test('S26: a schema of 10,000 schemas compiles, a larger one is refused', () => {
    const wide = (count: number) => ({
      properties: Object.fromEntries(many(count, (i) => [`p${i}`, { type: 'string' }])),
    })
    within(15_000, () => compileSchema(wide(9_999), '2020-12'))
    expect(() => compileSchema(wide(10_000), '2020-12')).toThrow('10000')
  })
})

test('draft-07 ignores what stands beside a reference, has tuples and dependencies', () => {
  const schema = {
    definitions: { name: { type: 'string' } },
    properties: {
      a: { $ref: '#/definitions/name', maxLength: 1 },
      b: { items: [{ type: 'number' }], additionalItems: false },
    },
    dependencies: { a: ['b'] },
  }
  expect(firstError(schema, { a: 'long', b: [1] }, 'draft-07')).toBeNull()
  expect(firstError(schema, { a: 'long', b: [1, 2] }, 'draft-07')).toBe('/b/1 must not be there')
  expect(firstError(schema, { a: 'long' }, 'draft-07')).toBe('/ must have the member "b"')
})

test('whatever a schema and a value are, there is a flaw in one of them or none', () => {
  const KEYWORDS = [
    ...['type', 'enum', 'const', 'minimum', 'exclusiveMaximum', 'multipleOf', 'minLength', 'maxItems', 'minProperties'],
    ...['pattern', 'format', 'uniqueItems', 'required', 'dependentRequired', '$ref', '$dynamicRef', '$id', '$anchor'],
    ...['$dynamicAnchor', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'properties', 'patternProperties'],
    ...['additionalProperties', 'propertyNames', 'contains', 'minContains', 'items', 'prefixItems', 'additionalItems'],
    ...['dependencies', 'dependentSchemas', 'unevaluatedProperties', 'unevaluatedItems', '$defs', '__proto__', 'a'],
  ]
  const words = ['string', 'object', 'array', 'integer', '#', '#/$defs/a', '#a', 'a', '^a+$', '(', 'date', 'x:y', '%']
  const leaf = fc.oneof(fc.constantFrom(...words), fc.integer({ min: -2, max: 3 }), fc.boolean(), fc.constant(null))
  const { schema } = fc.letrec<{ schema: unknown; member: unknown }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 5, depthSize: 'small' },
      fc.dictionary(fc.constantFrom(...KEYWORDS), tie('member'), { maxKeys: 4 }),
      fc.boolean(),
    ),
    member: fc.oneof(
      { maxDepth: 5, depthSize: 'small' },
      leaf,
      tie('schema'),
      fc.array(tie('schema'), { maxLength: 3 }),
      fc.array(leaf, { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), tie('schema'), { maxKeys: 2 }),
    ),
  }))
  const flaws = new Set<string>()
  fc.assert(
    fc.property(schema, fc.jsonValue(), fc.constantFrom<Draft>('2020-12', 'draft-07'), (any, value, draft) => {
      let compiled: ReturnType<typeof compileSchema>
      try {
        compiled = compileSchema(JSON.parse(JSON.stringify(any)), draft)
      } catch (error) {
        expect(error).toBeInstanceOf(SchemaError)
        return
      }
      for (const one of [value, { a: value, b: [value, 1] }, [value, 'a', 2], 'aaa', 3])
        flaws.add(typeof compiled.firstError(one))
    }),
    { numRuns: 3_000 },
  )
  expect([...flaws].sort()).toEqual(['object', 'string'])
})

describe('formats', () => {
  const cases: [format: string, good: string[], bad: string[]][] = [
    ['date', ['2024-02-29', '2026-12-31'], ['2026-02-29', '2026-13-01', '2026-1-1', '2026-00-10']],
    ['time', ['23:59:60Z', '01:02:03.5+02:00', '01:02:03', '01:02:03.123456'], ['24:00:00Z', '01:02', '01:02:03+2']],
    [
      'date-time',
      ['2026-01-01T00:00:00Z', '2026-01-01t00:00:00.1-05:30', '2026-01-01T00:00:00'],
      ['2026-01-01', '2026-01-01T00:00', '2026-01-01T00:00:00+0100'],
    ],
    ['duration', ['P1Y2M3DT4H5M6S', 'P4W', 'PT0S'], ['P', 'PT', 'P1', '1D']],
    ['uuid', ['2EB8AA08-aa98-11ea-b4aa-73b441d16380'], ['2eb8aa08aa9811eab4aa73b441d16380', '']],
    ['email', ['a.b+c@example.org'], ['@x', 'a@', 'a..b@x', 'a b@x', 'ab']],
    ['hostname', ['a.example-1.org', 'x'], ['-a', 'a..b', `${'a'.repeat(64)}.org`, '']],
    ['ipv4', ['127.0.0.1'], ['256.0.0.1', '1.2.3', '01.2.3.4']],
    [
      'ipv6',
      ['::', '::1', '1:2:3:4:5:6:7:8', 'fe80::1', '::ffff:1.2.3.4'],
      ['1:2:3', ':::', '1::2::3', '12345::', ':1:2:3:4:5:6:7'],
    ],
    ['uri', ['https://a.b/c?d#e', 'urn:x:y'], ['/relative', 'https://a b', 'a:%zz']],
  ]
  test.each(cases)('%s', (format, good, bad) => {
    const check = formatCheck(format)!
    expect(good.filter((text) => !check(text))).toEqual([])
    expect(bad.filter((text) => check(text))).toEqual([])
    expect(check('1'.repeat(1e6))).toBe(false)
  })

  test('are annotations, unless the schema names the vocabulary that asserts them or its caller wants them checked', () => {
    const schema = { properties: { at: { format: 'date-time' } } }
    expect(firstError(schema, { at: 'now' })).toBeNull()
    expect(firstError(schema, { at: 'now' }, 'draft-07')).toBeNull()
    const other = { 'https://json-schema.org/draft/2020-12/vocab/format-annotation': true }
    expect(firstError({ ...schema, $vocabulary: other }, { at: 'now' })).toBeNull()
    const flaw = '/at must have the format "date-time"'
    for (const isRequired of [true, false])
      expect(firstError({ ...schema, $vocabulary: { [FORMAT_ASSERTION]: isRequired } }, { at: 'now' })).toBe(flaw)
    const { firstError: strict } = compileSchema(schema, 'draft-07', { assertsFormats: true })
    expect(strict({ at: 'now' })).toBe(flaw)
  })

  test('that nobody here knows say nothing', () => {
    const { firstError: first } = compileSchema({ format: 'hieroglyph' }, '2020-12', { assertsFormats: true })
    expect(first('x')).toBeNull()
  })
})

test('canonical text is equal exactly when the values are', () => {
  const shuffled = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(shuffled)
    if (value === null || typeof value !== 'object') return value
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([key, member]) => [key, shuffled(member)]),
    )
  }
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      expect(canonicalJson(shuffled(a))).toBe(canonicalJson(a))
      expect(canonicalJson(a) === canonicalJson(b)).toBe(
        Bun.deepEquals(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b))),
      )
    }),
  )
})
