// Proves that a commit only moves code: `bun tests/house/same-code.ts <before> [<after>]` compares the code of two
// commits, wherever it stands.
// It compares the multiset of top-level statements of `src`, `projections`, `tests` and `infra` without imports,
// comments, white space and trailing commas, so every function body counts. Literals of text count as they are.
// Prints the statements that only one of the two has, and exits with 1 if there are any. Without `<after>`, the working
// tree is read.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'oxc-parser'
import { type Node, walk } from './syntax-tree.ts'

const ROOT = join(import.meta.dir, '../..')
const FOLDERS = ['src', 'projections', 'tests', 'infra']
const IMPORTS = new Set(['ImportDeclaration', 'ExportAllDeclaration'])

interface Statement {
  readonly path: string
  readonly text: string
}

const git = (...parameters: string[]): string => {
  const { exitCode, stdout, stderr } = Bun.spawnSync(['git', ...parameters], { cwd: ROOT })
  if (exitCode !== 0) throw new Error(`git ${parameters.join(' ')}: ${stderr}`)
  return stdout.toString()
}

/** Paths of modules and data files move with their files, so their texts do not count. */
const withoutPaths = (text: string): string =>
  text
    .replace(/\b(ownModule|ownModuleUrl|ownFile|import)\((['"])[^'"]*\2\)/g, '$1()')
    .replace(/\b(import\.meta\.dir,)(['"])[^'"]*\2/g, '$1')

const isText = ({ type, value, regex }: Node): boolean =>
  type === 'TemplateElement' || (type === 'Literal' && (typeof value === 'string' || (regex ?? null) !== null))

/** Code without what the formatter sets: one blank stays between two words. */
const squeezed = (code: string): string =>
  code
    .replace(/\s+/g, ' ')
    .replace(/,(?= ?[\])}])/g, '')
    .replace(/ (?!\w)|(?<!\w) /g, '')

/** The statements of one file. Throws where the file cannot be parsed. */
const statementsOf = (path: string, source: string): Statement[] => {
  const { program, comments, errors } = parseSync(path, source)
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0]!.message}`)
  // Blanks of the same length keep every offset.
  const bare = comments.reduce(
    (text, { start, end }) => text.slice(0, start) + ' '.repeat(end - start) + text.slice(end),
    source,
  )
  return program.body
    .filter((node) => !IMPORTS.has(node.type) && !(node.type === 'ExportNamedDeclaration' && node.source !== null))
    .map((statement) => {
      const pieces: string[] = []
      let at = statement.start
      walk(statement as unknown as Node, (node) => {
        if (!isText(node)) return
        pieces.push(squeezed(bare.slice(at, node.start)), bare.slice(node.start, node.end))
        at = node.end
      })
      pieces.push(squeezed(bare.slice(at, statement.end)))
      return { path, text: withoutPaths(pieces.join('')) }
    })
}

const isCode = (path: string): boolean =>
  /\.m?[tj]s$/.test(path) && FOLDERS.some((folder) => path.startsWith(`${folder}/`))

/** Path -> source of all code of a commit, or of the working tree. */
const codeAt = (commit: string | undefined): Map<string, string> => {
  const listed = commit === undefined ? git('ls-files') : git('ls-tree', '-r', '--name-only', commit)
  const read = (path: string) =>
    commit === undefined ? readFileSync(join(ROOT, path), 'utf8') : git('show', `${commit}:${path}`)
  return new Map(
    listed
      .split('\n')
      .filter(isCode)
      .map((path) => [path, read(path)]),
  )
}

/** What `from` has more often than `other`. */
const surplus = (from: readonly Statement[], other: readonly Statement[]): Statement[] => {
  const counts = new Map<string, number>()
  for (const { text } of other) counts.set(text, (counts.get(text) ?? 0) + 1)
  return from.filter(({ text }) => {
    const left = counts.get(text) ?? 0
    if (left > 0) counts.set(text, left - 1)
    return left === 0
  })
}

/** The statements that only one of two versions has. Each maps path to source. */
export const difference = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>) => {
  const [left, right] = [before, after].map((files) => [...files].flatMap(([path, text]) => statementsOf(path, text)))
  return { gone: surplus(left!, right!), added: surplus(right!, left!), before: left!.length, after: right!.length }
}

const run = (before: string | undefined, after: string | undefined): number => {
  if (before === undefined) {
    console.error('usage: bun tests/house/same-code.ts <commit before> [<commit after>]')
    return 2
  }
  const found = difference(codeAt(before), codeAt(after))
  const { gone, added } = found
  for (const { path, text } of gone) console.log(`- ${path}: ${text.slice(0, 140)}`)
  for (const { path, text } of added) console.log(`+ ${path}: ${text.slice(0, 140)}`)
  console.log(`${found.before} statements before, ${found.after} after, ${gone.length} gone, ${added.length} added`)
  return gone.length + added.length === 0 ? 0 : 1
}

if (import.meta.main) process.exit(run(process.argv[2], process.argv[3]))
