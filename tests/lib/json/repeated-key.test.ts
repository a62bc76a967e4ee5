import { expect, test } from 'bun:test'
import { repeatedKey } from '../../../src/lib/json/repeated-key.ts'

test.each([
  ['{}', null],
  ['{"a":1,"b":[{"a":1},{"a":2}],"c":{"a":"a","b":"a"}}', null],
  ['{"a":"{\\"x\\":1,\\"x\\":2}","b":["a","a"]}', null],
  ['{"a":1,"a":1}', 'a'],
  ['{"a":1,"\\u0061":2}', 'a'],
  ['{"__proto__":1,"__proto__":2}', '__proto__'],
  ['{"a":{"b":[1,{"c":{"d":1,"e":[],"d":2}}]}}', 'a.b.c.d'],
  ['[{"a":1},{"b":1,"b":1}]', 'b'],
  [' { "a" : { "b" : 1 } , "a" : 2 } ', 'a'],
])('%s: %p', (text, path) => {
  expect(repeatedKey(text)).toBe(path)
})

test('bodies as they are written have none', () => {
  const nested = (depth: number): unknown =>
    depth === 0 ? [1, 'a', null] : { a: nested(depth - 1), b: [nested(depth - 1)] }
  expect(repeatedKey(JSON.stringify(nested(8), null, 2))).toBeNull()
})
