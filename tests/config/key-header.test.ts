// The header of the key is nobody else's: whatever the sources read of a request, but the key, is refused as its name.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync, visitorKeys } from 'oxc-parser'
import { mayCarryKey } from '../../src/config/key-header.ts'

const ROOT = join(import.meta.dir, '../..')
/** What these read are headers of providers' answers. */
const ANSWERS_ONLY = /^src\/(providers|state)\//
/** Names that no source says, and why they need not be on the list. */
const UNSAID: Readonly<Record<string, string>> = {
  'src/http/auth.ts: deps.inference.authHeader': 'the setting',
  'src/entry/authenticate.ts: authHeader': 'the setting',
  'src/inference/intent/headers.ts: header': 'named by those who call these readers',
  "src/inference/plan/route.ts: hashOn.slice('header:'.length)":
    'named by a policy; what it says is digested under a key of the tenant',
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}
interface Source {
  readonly path: string
  readonly text: string
  readonly program: Node
}

const SOURCES: readonly Source[] = [...new Bun.Glob('src/**/*.ts').scanSync({ cwd: ROOT })].sort().map((path) => {
  const text = readFileSync(join(ROOT, path), 'utf8')
  return { path, text, program: parseSync(path, text).program as unknown as Node }
})

const walk = (node: Node, visit: (node: Node) => void): void => {
  visit(node)
  for (const key of visitorKeys[node.type] ?? []) {
    const child = node[key] as Node | Node[] | null | undefined
    for (const each of Array.isArray(child) ? child : [child]) if (each) walk(each, visit)
  }
}

const isText = (node: Node | undefined): boolean => node?.type === 'Literal' && typeof node.value === 'string'

/** `const NAME = 'text'` of all sources: a name that is imported is one of these. */
const CONSTANTS = new Map<string, string>()
for (const { program } of SOURCES)
  walk(program, (node) => {
    const { id, init } = node as { id?: Node; init?: Node }
    if (
      node.type === 'VariableDeclarator' &&
      id?.type === 'Identifier' &&
      isText(init) &&
      /^[A-Z_]+$/.test(id.name as string)
    )
      CONSTANTS.set(id.name as string, init!.value as string)
  })

/** What a call reads of headers: the argument that says which; null for any other call. */
const headerAsked = (text: string, { callee, arguments: given }: { callee: Node; arguments: Node[] }): Node | null => {
  const said = (node: Node): string => text.slice(node.start, node.end)
  if (callee.type === 'MemberExpression') {
    const { object, property } = callee as unknown as { object: Node; property: Node }
    // A constant such as `CLIENT_HEADERS` is a set of names, not the headers of a request.
    if (!/^(get|has)$/.test(said(property)) || !/[hH]eaders\)?$/.test(said(object))) return null
    return given[0] ?? null
  }
  // `isNamed(bytes, name, 'host')`, `name(headers, 'X-Gateway-Policy')`
  if (said(callee) === 'isNamed' && given.length === 3) return said(given[1]!) === 'name' ? given[2]! : null
  return given[0] !== undefined && said(given[0]) === 'headers' && isText(given[1]) ? given[1]! : null
}

/** Names of headers that are read, by the files that read them; and what is no name. */
const read = new Map<string, string>()
const unsaid = new Set<string>()
for (const { path, text, program } of SOURCES) {
  if (ANSWERS_ONLY.test(path)) continue
  walk(program, (node) => {
    if (node.type !== 'CallExpression') return
    const asked = headerAsked(text, node as unknown as { callee: Node; arguments: Node[] })
    if (asked === null) return
    const said = text.slice(asked.start, asked.end)
    const name = isText(asked) ? (asked.value as string) : CONSTANTS.get(said)
    if (name === undefined) unsaid.add(`${path}: ${said}`)
    else if (/^[A-Za-z0-9-]+$/.test(name)) read.set(name.toLowerCase(), path)
  })
}

describe('the header of the key', () => {
  test('is none that the sources read', () => {
    for (const known of [
      'host',
      'x-request-id',
      'x-gateway-endpoint',
      'x-gateway-min-revision',
      'last-event-id',
      'x-forwarded-for',
    ])
      expect([...read.keys()]).toContain(known)
    expect([...read].filter(([name]) => mayCarryKey(name))).toEqual([])
    expect([...unsaid].sort()).toEqual(Object.keys(UNSAID).sort())
  })
})
