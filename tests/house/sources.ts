// Reads the sources for tests/architecture.test.ts: imports, functions with their sizes, and variables of modules.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'oxc-parser'
import { type ModuleVariable, variablesOf } from './module-state.ts'
import { type Node, walk } from './syntax-tree.ts'

const ROOT = join(import.meta.dir, '../..')

/** A source file, parsed. */
export interface Source {
  readonly path: string
  readonly text: string
  readonly imports: readonly string[]
  /** Those that remain when the types are gone. */
  readonly runtimeImports: readonly string[]
  readonly functions: readonly SourceFunction[]
  /** Those of the module itself that can change. */
  readonly variables: readonly ModuleVariable[]
}

/** A function or method; a method is named `Class.method`. An anonymous one has no name. */
export interface SourceFunction {
  readonly name: string
  readonly line: number
  readonly lines: number
  readonly parameters: number
}

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length

const nameOf = (node: unknown): string => (node as { readonly name?: string } | null | undefined)?.name ?? ''

const readSource = (path: string): Source => {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const { program, module, errors } = parseSync(path, text)
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0]!.message}`)
  const imports = [
    ...module.staticImports.map((each) => each.moduleRequest.value),
    ...module.staticExports.flatMap((each) => each.entries.flatMap((entry) => entry.moduleRequest?.value ?? [])),
  ]
  const runtimeImports = module.staticImports
    .filter(({ entries }) => entries.length === 0 || entries.some((entry) => !entry.isType))
    .map((each) => each.moduleRequest.value)
  const functions: SourceFunction[] = []
  let className = ''
  walk(program as unknown as Node, (node, parent) => {
    if (node.type === 'ClassDeclaration') className = nameOf(node.id)
    if (node.type === 'ImportExpression') {
      const source = node.source as Node
      if (typeof source.value === 'string') imports.push(source.value)
    }
    if (node.type === 'TSImportType') {
      const source = (node.source ?? node.argument) as Node & { literal?: Node }
      const value = source.value ?? source.literal?.value
      if (typeof value === 'string') imports.push(value)
    }
    if (!FUNCTIONS.has(node.type)) return
    const line = lineAt(text, node.start)
    const own = nameOf(node.id) || nameOf(parent?.id) || nameOf(parent?.key)
    const name = parent?.type === 'MethodDefinition' ? `${className}.${own}` : own
    const parameters = (node.params as unknown[]).length
    functions.push({ name, line, lines: lineAt(text, node.end) - line + 1, parameters })
  })
  const variables = variablesOf(program as unknown as Node, text)
  return { path, text, imports, runtimeImports, functions, variables }
}

/** All files of `src` and `projections`, in order of their paths. */
export const SOURCES = [...new Bun.Glob('{src,projections}/**/*.ts').scanSync({ cwd: ROOT })].sort().map(readSource)

/** The part of the house that a file belongs to. */
export const partOf = (path: string): string => {
  if (/^projections\/[^/]+\/query\.ts$/.test(path)) return 'query'
  if (path.startsWith('projections/')) return 'projections'
  const [, first] = /^src\/([^/]+?)(\.ts|\/.*)$/.exec(path) ?? []
  return first === 'main' || first === 'commands' ? 'root' : first!
}

/** The complaints of `find` about each file: `path: complaint`. */
export const complaints = (find: (source: Source) => readonly string[]): string[] =>
  SOURCES.flatMap((source) => find(source).map((complaint) => `${source.path}: ${complaint}`))
