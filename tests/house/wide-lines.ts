// Finds lines over 120 columns: `bun tests/house/wide-lines.ts` prints each file with such lines, one file a line.
// Text in string, template and regular expression literals does not count, since it often cannot be split.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'oxc-parser'
import { childrenOf, type Node } from './syntax-tree.ts'

const ROOT = join(import.meta.dir, '../..')
export const LINE_COLUMNS = 120

const isText = (node: Node): boolean =>
  node.type === 'TemplateLiteral' ||
  (node.type === 'Literal' && (typeof node.value === 'string' || node.regex !== undefined))

/** The literals of text below a node; a template counts with its expressions. */
const textsIn = (node: Node): Node[] => (isText(node) ? [node] : childrenOf(node).flatMap(textsIn))

/**
 * Numbers, from 1, of the lines that are too wide: a comment reaches beyond the last column, or the code takes more
 * columns without its literals. Throws where the file cannot be parsed.
 */
export const wideLines = (path: string, source: string): number[] => {
  const lines = source.split('\n')
  if (lines.every((line) => line.length <= LINE_COLUMNS)) return []
  const { program, comments, errors } = parseSync(path, source)
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0]!.message}`)
  const texts = textsIn(program as unknown as Node)
  const wide: number[] = []
  let start = 0
  for (const [index, line] of lines.entries()) {
    const end = start + line.length
    if (line.length > LINE_COLUMNS) {
      const isInComment = comments.some((each) => each.start < end && each.end > start + LINE_COLUMNS)
      const inTexts = texts.reduce(
        (sum, each) => sum + Math.max(0, Math.min(each.end, end) - Math.max(each.start, start)),
        0,
      )
      if (isInComment || line.length - inTexts > LINE_COLUMNS) wide.push(index + 1)
    }
    start = end + 1
  }
  return wide
}

/** Path, relative to the repository -> its lines that are too wide, of all files that have any. Sorted by path. */
export const wideFiles = (): ReadonlyMap<string, readonly number[]> =>
  new Map(
    [...new Bun.Glob('{src,projections,infra,tests,examples}/**/*.ts').scanSync({ cwd: ROOT })]
      .filter((path) => !path.includes('node_modules/'))
      .sort()
      .map((path) => [path, wideLines(path, readFileSync(join(ROOT, path), 'utf8'))] as const)
      .filter(([, lines]) => lines.length > 0),
  )

if (import.meta.main) for (const path of wideFiles().keys()) console.log(path)
