// The proof that a commit only moves code sees every change of it.
import { expect, test } from 'bun:test'
import { difference } from './same-code.ts'

const PATH = 'src/lib/a.ts'
const CODE = `import { b } from './b.ts'

// A comment.
export const words = (list: string[]): string => {
  const pattern = /a b,  ]/
  return \`\${list.join('foo bar, ')} of \${pattern}\` + "a, ]"
}

export const text = ownFile('./text.sql')
`

const changes = (code: string, path = PATH) => {
  const { gone, added } = difference(new Map([[PATH, CODE]]), new Map([[path, code]]))
  return [gone.length, added.length]
}

/** The code after one replacement, which has to hit. */
const replaced = (from: string, to: string): string => {
  expect(CODE).toContain(from)
  return CODE.replace(from, to)
}

test('a move is no change: another path, import, format and comment', () => {
  const moved = replaced("'./b.ts'", "'../lib/b.ts'")
    .replace('// A comment.\n', '')
    .replace('(list: string[])', '(\n  list: string[],\n)')
    .replace('./text.sql', '../lib/text.sql')
  expect(changes(moved, 'src/other/a.ts')).toEqual([0, 0])
})

test.each([
  ['blanks of a string', 'foo bar', 'foobar'],
  ['a comma of a string', '"a, ]"', '"a ]"'],
  ['blanks of a template', '} of ${', '}of ${'],
  ['blanks of a pattern', 'a b,  ]', 'a b, ]'],
  ['a comma of a pattern', 'a b,  ]', 'a b  ]'],
  ['a statement', 'const pattern', 'let pattern'],
  ['a name', 'words', 'word'],
  ['a modifier', 'export const text', 'const text'],
])('a change is seen: %s', (_, from, to) => {
  expect(changes(replaced(from, to))).toEqual([1, 1])
})

test('a statement that is gone, and one that stands twice, are seen', () => {
  expect(changes(replaced("export const text = ownFile('./text.sql')\n", ''))).toEqual([1, 0])
  expect(changes(`${CODE}${CODE.slice(CODE.indexOf('export const words')).replaceAll('export ', '')}`)).toEqual([0, 2])
})
