import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { MAX_ALIASED_VALUES, MAX_DEPTH, readYaml, YamlRefused } from '../../../src/lib/settings/yaml.ts'

/** `line:column message` of the refusal; null when the text is read. */
const refusalOf = (text: string): string | null => {
  try {
    readYaml(text)
    return null
  } catch (error) {
    expect(error).toBeInstanceOf(YamlRefused)
    const { message, place } = error as YamlRefused
    expect(message).not.toContain('\n')
    return `${place.line}:${place.column} ${message}`
  }
}

const placed = (text: string, path: string): string | null => {
  const place = readYaml(text).placeOf(path)
  return place === null ? null : `${place.line}:${place.column}`
}

describe('a repeated key', () => {
  test.each([
    ['a section', 'server:\n  port: 1\nlog:\n  a: 1\nserver:\n  host: x\n', '5:1 server', 1],
    ['a key of a section', 'server:\n  port: 1\n  # port: 2\n  port: 3\n', '4:3 server.port', 2],
    ['with and without quotes', 'a: 1\n"a": 2\n', '2:1 a', 1],
    ['in other quotes, with blanks before the colon', `'a b' : 1\n"a\\u0020b": 2\n`, '2:1 a b', 1],
    ['in braces over lines', 'a: {\n  b: 1,\n  "b":2\n}\n', '3:3 a.b', 2],
    ['JSON', '{"a":{"b":1,\n"b":{"c":1}}}', '2:1 a.b', 1],
    ['in an element of a list', 'a:\n  - b: 1\n  - b: 1\n    c: 2\n    b: 3\n', '5:5 a[1].b', 3],
    ['a number and the same as a text', '1: a\n2: b\n"1": c\n', '3:1 1', 1],
    ['__proto__', '__proto__: 1\n__proto__: 2\n', '2:1 __proto__', 1],
    ['lines that end as on Windows', 'a: 1\r\nb: 2\r\na: 3\r\n', '3:1 a', 1],
    ['without a last line break', 'a: 1\na:', '2:1 a', 1],
    ['after a question mark', '? a\n: 1\na: 2\n', '3:1 a', 1],
    ['beside an alias', 'a: &x {b: 1}\nc: *x\nd: 1\nd: 2\n', '4:1 d', 3],
  ])('%s', (_, text, start, first) =>
    expect(refusalOf(text)).toBe(`${start} stands twice, first in line ${first}; make one of both`),
  )

  test.each([
    ['the same key in two sections', 'a:\n  port: 1\nb:\n  port: 2\n'],
    ['in two elements of a list', 'a:\n  - name: 1\n  - name: 2\nb:\n- name: 3\n- name: 4\n'],
    ['in a comment', 'a: 1 # a: 2\n# a: 3\n'],
    ['in a text of several lines', 'a: |\n  b: 1\n  b: 2\nb: >-\n  c: 1\n  c: 2\n'],
    ['in a text in quotes', `a: '{"b": 1, "b": 2}'\nb: "c: 1, c: 2"\n`],
    ['keys that differ in their case', 'a: 1\nA: 2\n'],
    ['a colon in a name', 'a:b: 1\na:c: 2\n'],
    ['<< in quotes', 'a: {"<<": 1}\n'],
    ['nothing', ''],
    ['a single text', 'a'],
  ])('is not %s', (_, text) => expect(refusalOf(text)).toBeNull())

  test('one that is written again at the end of a JSON object is found', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.constantFrom('text', { a: 1 }), { minKeys: 1 }), (given) => {
        const text = JSON.stringify(given)
        const [key] = Object.keys(given)
        expect(refusalOf(`${text.slice(0, -1)},${JSON.stringify(key)}:1}`)).toContain(`${key} stands twice`.trim())
      }),
    )
  })
})

describe('what is refused', () => {
  test.each([
    ['a merge key', 'a: &x {b: 1}\nc:\n  <<: *x\n', '3:3 merge keys (<<) are not supported; write the keys out'],
    ['a merge of several', 'a: {<<: [{b: 1}]}\n', '1:5 merge keys (<<) are not supported; write the keys out'],
    ['a second document', 'a: 1\n---\nb: 2\n', '2:1 a second document begins here; keep one and remove the "---"'],
    ['an empty second one', 'a: 1\n---\n', '2:1 a second document begins here; keep one and remove the "---"'],
    ['a tag', 'a: !env NAME\n', '1:4 tags (!name) are not supported; remove the tag'],
    ['a tag of older versions', 'a: !!binary aGk=\n', '1:4 tags (!name) are not supported; remove the tag'],
    ['a directive', '%FOO bar\n---\na: 1\n', '1:1 directives (%NAME) are not supported; remove the line'],
    ['a key that is a list', 'a: 1\n? [b, c]\n: 1\n', '2:3 a key must be a single value; write it as a text'],
    ['a key that is an alias', 'a: &x k\n*x : 1\n', '2:1 a key must be a single value; write it as a text'],
    ['an alias of nothing', 'a: *x\n', '1:4 no anchor of this alias stands before it; write the value out'],
    ['an alias in itself', 'a: &x [1, *x]\n', '1:11 an alias stands within what it names; write the value out'],
  ])('%s', (_, text, refusal) => expect(refusalOf(text)).toBe(refusal))

  test('version 1.1 of YAML merges nothing either', () => {
    expect(refusalOf('%YAML 1.1\n---\na: {<<: {b: 1}}\n')).toContain('merge keys')
    expect(readYaml('%YAML 1.1\n---\na: yes\n').value).toEqual({ a: 'yes' })
  })

  test.each([
    ['a bracket that is not closed', 'a:\n  b: 1\nc: [a,\n', '3:6'],
    ['a tab as indentation', 'a:\n\tb: 1\n', '2:1'],
    ['a quote that is not closed', 'a: 1\nb: "x\n', '2:5'],
    ['a colon in a value', 'a: 1\nb: c: d\n', '2:4'],
    ['a key without a colon', 'a: 1\nb\nc: 2\n', '2:1'],
    ['a wrong indentation', 'a:\n  - b\n c: 1\n', '3:1'],
  ])('what is not YAML: %s', (_, text, start) =>
    expect(refusalOf(text)).toMatch(new RegExp(`^${start} this is not YAML \\([^()]+\\); correct it$`)),
  )
})

describe('what makes a small file large', () => {
  /** Each of `levels` lists holds nine times the one before. */
  const laughs = (levels: number): string =>
    Array.from({ length: levels }, (_, i) =>
      i === 0 ? `a0: &a0 [${'lol,'.repeat(9)}]\n` : `a${i}: &a${i} [${`*a${i - 1},`.repeat(9)}]\n`,
    ).join('')

  test('a billion laughs are refused before they are expanded', () => {
    expect(refusalOf(laughs(2))).toBeNull()
    for (const levels of [5, 10, 1_000])
      expect(refusalOf(laughs(levels))).toBe(
        '4:10 the aliases up to here stand for more than 1,000 values; write the value out',
      )
  })

  test('as many aliases of single values are read, one more is not', () => {
    const text = (aliases: number) => `a: &x 1\nb: [${Array(aliases).fill('*x').join(',')}]\n`
    expect(refusalOf(text(MAX_ALIASED_VALUES))).toBeNull()
    expect(refusalOf(text(MAX_ALIASED_VALUES + 1))).toContain('stand for more than')
    expect(readYaml(text(2)).value).toEqual({ a: 1, b: [1, 1] })
  })

  test('nesting has a bound, however deep it goes', () => {
    const text = (depth: number) => `a: ${'['.repeat(depth)}${']'.repeat(depth)}\n`
    expect(refusalOf(text(MAX_DEPTH))).toBeNull()
    for (const depth of [MAX_DEPTH + 1, 10_000]) expect(refusalOf(text(depth))).toContain('nested 100 levels deep')
    expect(refusalOf(`a: ${'['.repeat(10_000)}`)).not.toBeNull()
  })
})

describe('places', () => {
  const text = 'bootstrap:\n  providers:\n    - name: a\n      models: [{name: gpt-4.1}, {name: b}]\n  x.y: {z: 1}\n'

  test.each([
    ['bootstrap', '1:1'],
    ['bootstrap.providers', '2:3'],
    ['bootstrap.providers[0].name', '3:7'],
    ['bootstrap.providers.0.name', '3:7'],
    ['bootstrap.providers[0].models[1].name', '4:34'],
    ['bootstrap.x.y.z', '5:9'],
    // Not there: the longest beginning that is.
    ['bootstrap.providers[0].models[1].price', '4:33'],
    ['bootstrap.providers[7]', '2:3'],
    ['bootstrap.name', '1:1'],
    ['server.port', null],
  ])('of %s', (path, place) => expect(placed(text, path)).toBe(place))
})

test('the example of the settings is read, as JSON is', () => {
  const example = readFileSync(join(import.meta.dir, '../../../gateway.example.yaml'), 'utf8')
  expect(readYaml(example).value).toMatchObject({ server: { port: 8080 }, bootstrap: { tenants: [{ slug: 'acme' }] } })
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(0, 2, '\t'), (value, indent) => {
      expect(JSON.stringify(readYaml(JSON.stringify(value, null, indent)).value)).toBe(JSON.stringify(value))
    }),
  )
})

test('what `gateway export` writes with is read as it was meant', () => {
  const odd = fc.string({
    unit: fc.constantFrom('a', ':', ' ', '"', "'", '#', '-', '\n', '*', '&', '0', '.', '~', '\t', '<'),
  })
  const words = fc.constantFrom(
    'yes',
    'no',
    'null',
    '~',
    '0x1F',
    '012',
    '1e3',
    '.inf',
    '<<',
    '2026-01-01',
    '1_000',
    '=',
  )
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      odd,
      words,
      fc.integer(),
      fc.dictionary(odd, tie('value')),
      fc.array(tie('value')),
    ),
  }))
  fc.assert(
    fc.property(value, (given) => {
      const written = { bootstrap: given }
      expect(readYaml(Bun.YAML.stringify(written, null, 2)).value).toEqual(written)
    }),
    { numRuns: 500 },
  )
})
