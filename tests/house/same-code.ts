// Proves that a commit only moves code: `bun tests/house/same-code.ts <before> [<after>]` compares the code of two
// commits, wherever it stands.
// It compares the multiset of top-level statements of `src` and `projections` without imports, comments and white
// space, so every function body counts.
// Prints the statements that only one of the two has, and exits with 1 if there are any. Without `<after>`, the working
// tree is read.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'oxc-parser'

const ROOT = join(import.meta.dir, '../..')
const FOLDERS = ['src', 'projections']
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
  text.replace(/\b(ownModule|ownModuleUrl|ownFile|import)\((['"])[^'"]*\2\)/g, '$1()')

/** The statements of one file, comments and white space left out. Throws where the file cannot be parsed. */
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
    .map(({ start, end }) => ({ path, text: withoutPaths(bare.slice(start, end)).replace(/\s+|,(?=\s*[\])}])/g, '') }))
}

const isCode = (path: string): boolean =>
  path.endsWith('.ts') && FOLDERS.some((folder) => path.startsWith(`${folder}/`))

const codeAt = (commit: string | undefined): Statement[] => {
  const listed = commit === undefined ? git('ls-files') : git('ls-tree', '-r', '--name-only', commit)
  return listed
    .split('\n')
    .filter(isCode)
    .flatMap((path) =>
      statementsOf(
        path,
        commit === undefined ? readFileSync(join(ROOT, path), 'utf8') : git('show', `${commit}:${path}`),
      ),
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

const [before, after] = process.argv.slice(2)
if (before === undefined) {
  console.error('usage: bun tests/house/same-code.ts <commit before> [<commit after>]')
  process.exit(2)
}
const [left, right] = [codeAt(before), codeAt(after)]
const gone = surplus(left, right)
const added = surplus(right, left)
for (const { path, text } of gone) console.log(`- ${path}: ${text.slice(0, 140)}`)
for (const { path, text } of added) console.log(`+ ${path}: ${text.slice(0, 140)}`)
console.log(`${left.length} statements before, ${right.length} after, ${gone.length} gone, ${added.length} added`)
process.exit(gone.length + added.length === 0 ? 0 : 1)
