import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { repeatedYamlKey } from '../../../src/lib/settings/yaml-repeats.ts'

const found = (text: string) => {
  const repeated = repeatedYamlKey(text)
  return repeated === null ? null : [repeated.path, repeated.firstLine, repeated.line]
}

test.each([
  ['a section', 'server:\n  port: 1\nlog:\n  a: 1\nserver:\n  host: x\n', ['server', 1, 5]],
  ['a key of a section', 'server:\n  port: 1\n  # port: 2\n  port: 3\n', ['server.port', 2, 4]],
  ['with and without quotes', 'a: 1\n"a": 2\n', ['a', 1, 2]],
  ['in other quotes, with blanks before the colon', `'a b' : 1\n"a\\u0020b": 2\n`, ['a b', 1, 2]],
  ['a name of several words', 'a b: 1\nc: 2\na b : 3\n', ['a b', 1, 3]],
  ['in braces', 'a: {b: 1, c: 2, b: 3}\n', ['a.b', 1, 1]],
  ['in braces over lines', 'a: {\n  b: 1,\n  "b":2\n}\n', ['a.b', 2, 3]],
  ['JSON', '{"a":{"b":1,\n"b":{"c":1}}}', ['a.b', 1, 2]],
  ['in an element of a list', 'a:\n  - b: 1\n  - b: 1\n    c: 2\n    b: 3\n', ['a[1].b', 3, 5]],
  ['a number', '1: a\n2: b\n1: c\n', ['1', 1, 3]],
  ['__proto__', '__proto__: 1\n__proto__: 2\n', ['__proto__', 1, 2]],
  ['lines that end as on Windows', 'a: 1\r\nb: 2\r\na: 3\r\n', ['a', 1, 3]],
  ['without a last line break', 'a: 1\na:', ['a', 1, 2]],
  ['after a text that no mark may enter', `t: 'it'': x'\nu: "x\\": y"\na: 1\na: 2\n`, ['a', 3, 4]],
  ['beside texts that begin with a colon', `0: 1\na: ":memory:"\nb: ':c'\n0: 2\n`, ['0', 1, 4]],
  ['beside an alias', 'a: &x {b: 1}\nc: *x\nd: 1\nd: 2\n', ['d', 3, 4]],
])('%s twice', (_, text, expected) => expect(found(text)).toEqual(expected as [string, number, number]))

test.each([
  ['the same key in two sections', 'a:\n  port: 1\nb:\n  port: 2\n'],
  ['in two elements of a list', 'a:\n  - name: 1\n  - name: 2\nb:\n- name: 3\n- name: 4\n'],
  ['in two mappings in braces', 'a: [{b: 1}, {b: 2}]\nc: {b: {b: 1}}\n'],
  ['in a comment', 'a: 1 # a: 2\n# a: 3\n'],
  ['in a text of several lines', 'a: |\n  b: 1\n  b: 2\nb: >-\n  c: 1\n  c: 2\n'],
  ['in quotes over lines', 'a: "x\n  b: 1\n  b: 2"\n'],
  ['in a text in quotes', `a: '{"b": 1, "b": 2}'\nb: "c: 1, c: 2"\n`],
  ['in a value with colons', 'a: http://a:1\nb: x:y:x\nc: 12:30:12\n'],
  ['keys that differ in their case', 'a: 1\nA: 2\n'],
  ['in a text and as a key', 'a: "a:"\nb: \'a\'\n'],
  ['what an alias brings', 'a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  b: 2\n'],
  ['a colon in a name', 'a:b: 1\na:c: 2\n'],
  ['nothing', ''],
  ['a single text', 'a'],
])('%s is not twice', (_, text) => expect(found(text)).toBeNull())

test('the example of the settings has none', () =>
  expect(found(readFileSync(join(import.meta.dir, '../../../gateway.example.yaml'), 'utf8'))).toBeNull())

test('a number that stands twice is found beside a name that looks like the end of another', () =>
  expect(repeatedYamlKey('{"0":"","!: ":"","0":1}')?.path).toBe('0'))

/** Each of many lines, and behind them a key that stands twice. */
const longText = (line: (i: number) => string): string =>
  `m:\n${Array.from({ length: 2_000 }, (_, i) => line(i)).join('')}- {n: 1, n: 2}\n`

test('behind many texts with escaped quotes a key is found in a moment', () =>
  expect(repeatedYamlKey(longText((i) => `- {n: m${i}, says: "a \\": b"}\n`))?.path).toBe('m[2000].n'))

test('where no mark may stand in thousands of places, the search comes to an end', () => {
  repeatedYamlKey(longText((i) => `- {&a${i} n: 1, *a${i} : x}\n`))
})

test('no JSON that was written from a value has one', () => {
  const odd = fc.string({
    unit: fc.constantFrom('a', ':', ' ', '"', "'", '\\', '#', '{', '}', ',', '-', '\n', '*', '&'),
    maxLength: 8,
  })
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 3 }, odd, fc.integer(), fc.dictionary(odd, tie('value')), fc.array(tie('value'))),
  }))
  fc.assert(
    fc.property(value, fc.constantFrom(0, 2), (given, indent) => {
      expect(found(JSON.stringify(given, null, indent))).toBeNull()
    }),
    { numRuns: 200 },
  )
})

test('one that is written again at the end of a JSON object is found', () => {
  const name = fc.string().filter((text) => !text.startsWith(':') && !text.includes('<<'))
  fc.assert(
    fc.property(fc.dictionary(name, fc.oneof(fc.string(), fc.constant({ a: 1 })), { minKeys: 1 }), (given) => {
      const text = JSON.stringify(given)
      const [key] = Object.keys(given)
      expect(repeatedYamlKey(`${text.slice(0, -1)},${JSON.stringify(key)}:1}`)?.path).toBe(key!)
    }),
  )
})
