// What the documents name exists: the files of the architecture page, the glossary and the READMEs of packages, the
// targets of links, and the files that `bench -- tricks` prints.
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dir, '../..')
const MOST_ARCHITECTURE_BYTES = 30_000
const MAPS = ['docs/architecture.md', 'docs/glossary.md']
const LINKED = ['README.md', 'CONTRIBUTING.md', 'docs/*.md', 'docs/decisions/*.md'].flatMap((pattern) =>
  [...new Bun.Glob(pattern).scanSync({ cwd: ROOT })].sort(),
)

const READMES = [...new Bun.Glob('src/**/README.md').scanSync({ cwd: ROOT })].sort()
const TRICKS = [...new Bun.Glob('tests/bench/tricks/*.ts').scanSync({ cwd: ROOT })].sort()

/** Parts whose paths a page names. */
const NAMED = /`((?:src|projections|tests|infra|docs)\/[^`\s]*)`/g
/** Pictures name files by their path below one of these. */
const PICTURE_ROOTS = ['', 'src', 'src/inference']
const PICTURE_FILE = /(?<![\w./-])[\w-]+\/[\w./*-]+\.ts\b/g
const CODE_FILE = /`([\w./<>*-]+\.ts)`/g
const LINK = /\[[^\]]*\]\(([^)\s]+)\)/g
const IN_CODE = /^```[\s\S]*?^```|`[^`\n]*`/gm

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** Whether there is such a file or folder. `*` and `<name>` stand for any name. */
const exists = (path: string): boolean => {
  const pattern = path.replace(/<[^>]*>/g, '*').replace(/\/$/, '')
  if (!pattern.includes('*')) return existsSync(join(ROOT, pattern))
  for (const _ of new Bun.Glob(pattern).scanSync({ cwd: ROOT, onlyFiles: false })) return true
  return false
}

/** Whether a README's name of a file is one: from its folder, a folder above it, or a test by its name alone. */
const existsFor = (readme: string, name: string): boolean =>
  [dirname(readme), dirname(dirname(readme)), 'src', '', 'tests/**'].some(
    (folder) => (folder !== 'tests/**' || name.endsWith('.test.ts')) && exists(join(folder, name)),
  )

/** The first group of every match, or the match itself. */
const all = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map((found) => found[1] ?? found[0])

const fences = (text: string): string => (text.match(/^```[\s\S]*?^```/gm) ?? []).join('\n')

/** The relative targets of a page's links, from the root. Links that stand in code are examples. */
const targets = (path: string): string[] =>
  all(read(path).replace(IN_CODE, ''), LINK)
    .filter((target) => !/^(?:[a-z]+:|#)/i.test(target))
    .map((target) => join(dirname(path), decodeURIComponent(target.replace(/#.*$/, ''))))

describe('documents', () => {
  test.each(MAPS)('%s names files and folders that exist', (page) => {
    const named = all(read(page), NAMED)
    expect(named.length).toBeGreaterThan(4)
    expect(named.filter((path) => !exists(path))).toEqual([])
  })

  test('the pictures of the architecture name files that exist', () => {
    const named = all(fences(read('docs/architecture.md')), PICTURE_FILE)
    expect(named.length).toBeGreaterThan(20)
    expect(named.filter((path) => !PICTURE_ROOTS.some((root) => exists(join(root, path))))).toEqual([])
  })

  test.each(READMES)('%s names files that exist', (readme) => {
    const named = all(read(readme), CODE_FILE)
    expect(named).not.toEqual([])
    expect(named.filter((name) => !existsFor(readme, name))).toEqual([])
  })

  test('tricks of the benchmark name files that exist', () => {
    const named = TRICKS.flatMap((path) => all(read(path), /\bat: '([^']+)'/g).flatMap((paths) => paths.split(', ')))
    expect(named.length).toBeGreaterThan(10)
    expect(named.filter((path) => !exists(join('src', path)))).toEqual([])
  })

  test.each(LINKED)('the links of %s lead somewhere', (page) => {
    expect(targets(page).filter((target) => !existsSync(join(ROOT, target)))).toEqual([])
  })

  test('the architecture stays short', () => {
    expect(Buffer.byteLength(read('docs/architecture.md'))).toBeLessThanOrEqual(MOST_ARCHITECTURE_BYTES)
  })

  test('the glossary has one line a term, in alphabetical order, and uses no word that it refuses', () => {
    const [terms = '', refused = ''] = read('docs/glossary.md').split('\n## Words that are not used\n')
    const first = (table: string) => all(table, /^\| ([^|]+) \|/gm).slice(1)
    const words = first(terms)
    expect(words).toEqual([...new Set(words)].sort((a, b) => (a < b ? -1 : 1)))
    const not = new Set(first(refused).flatMap((row) => row.split(/, (?![^(]*\))/)))
    expect(words.filter((word) => not.has(word))).toEqual([])
  })
})
