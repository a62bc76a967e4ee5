// `npm run sbom`: the components of this program, as CycloneDX 1.6 JSON, from `bun.lock` and the installed packages.
// The same lock on the same kind of machine gives the same bytes: no clock, no randomness. Licences are those that the
// installed packages name; packages of other platforms are not installed.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '..')

type Names = Readonly<Record<string, string>>
interface Needs {
  readonly dependencies?: Names
  readonly optionalDependencies?: Names
  readonly devDependencies?: Names
  readonly peerDependencies?: Names
}
/** `name@version`, registry, dependencies, integrity. */
type Locked = readonly [id: string, registry: string, needs: Needs, integrity: string]
export interface Lock {
  readonly workspaces: { readonly '': Needs }
  readonly patchedDependencies?: Names
  readonly packages: Readonly<Record<string, Locked>>
}

/** `required`: runs with the gateway. `optional`: may be missing. `excluded`: for building and testing only. */
type Scope = 'required' | 'optional' | 'excluded'

export interface Component {
  readonly type: 'library'
  readonly 'bom-ref': string
  readonly name: string
  readonly version: string
  readonly scope: Scope
  readonly purl: string
  readonly hashes: readonly { readonly alg: string; readonly content: string }[]
  readonly licenses?: readonly ({ readonly expression: string } | { readonly license: { readonly name: string } })[]
  readonly properties?: readonly { readonly name: string; readonly value: string }[]
}

/** The fields read of an installed package; null: it is not installed. */
export type Installed = (path: string) => { readonly license?: unknown } | null

const SPDX = /^[A-Za-z0-9.+-]+$|^\(?[A-Za-z0-9.+() -]+ (OR|AND|WITH) /

const installedIn =
  (root: string): Installed =>
  (path) => {
    const file = join(root, 'node_modules', path, 'package.json')
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null
  }

/** Where a package lies that the lock names `a/b` (b, nested below a): `a/node_modules/b`. */
const folderOf = (key: string): string => {
  const names = key.match(/(?:@[^/]+\/)?[^/]+/g) ?? []
  return names.join('/node_modules/')
}

/** The lock key of a dependency of a package: nested below the package, else further out. */
const resolved = (lock: Lock, from: string, name: string): string | null => {
  const names = from === '' ? [] : (from.match(/(?:@[^/]+\/)?[^/]+/g) ?? [])
  for (let depth = names.length; depth >= 0; depth--) {
    const key = [...names.slice(0, depth), name].join('/')
    if (lock.packages[key] !== undefined) return key
  }
  return null // an optional one that this lock leaves out
}

const needsOf = (lock: Lock, key: string, optional: boolean): string[] => {
  const { dependencies, optionalDependencies, peerDependencies } = lock.packages[key]![2]
  return Object.keys({ ...dependencies, ...(optional ? { ...optionalDependencies, ...peerDependencies } : {}) })
    .map((name) => resolved(lock, key, name))
    .filter((found) => found !== null)
}

/** All packages that are reached from these names. */
const reached = (lock: Lock, names: Names | undefined, optional: boolean): Set<string> => {
  const found = new Set<string>()
  const open = Object.keys(names ?? {}).map((name) => resolved(lock, '', name))
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    if (key === null || found.has(key)) continue
    found.add(key)
    open.push(...needsOf(lock, key, optional))
  }
  return found
}

const purlOf = (name: string, version: string): string =>
  `pkg:npm/${name.replace(/^@/, '%40')}@${encodeURIComponent(version)}`

const componentOf = (lock: Lock, key: string, scope: Scope, installed: Installed): Component => {
  const [id, , , integrity] = lock.packages[key]!
  const at = id.lastIndexOf('@')
  const [name, version] = [id.slice(0, at), id.slice(at + 1)]
  const [algorithm, digest] = integrity.split('-', 2) as [string, string]
  const license = installed(folderOf(key))?.license
  const named =
    typeof license !== 'string' ? [] : [SPDX.test(license) ? { expression: license } : { license: { name: license } }]
  const patch = lock.patchedDependencies?.[id]
  return {
    type: 'library',
    'bom-ref': `${purlOf(name, version)}#${key}`,
    name,
    version,
    scope,
    purl: purlOf(name, version),
    hashes: [{ alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') }],
    ...(named.length === 0 ? {} : { licenses: named }),
    ...(patch === undefined ? {} : { properties: [{ name: 'gatelog:patched-by', value: patch }] }),
  }
}

/** The document, for a lock and its installed packages. */
export const billOfMaterials = (
  lockText: string,
  program: { readonly name: string; readonly version: string; readonly license: string },
  installed: Installed,
) => {
  const lock = Bun.JSONC.parse(lockText) as Lock
  const ours = lock.workspaces['']
  const required = reached(lock, ours.dependencies, false)
  const optional = reached(lock, { ...ours.dependencies, ...ours.optionalDependencies }, true)
  const scopeOf = (key: string): Scope => (required.has(key) ? 'required' : optional.has(key) ? 'optional' : 'excluded')
  const keys = Object.keys(lock.packages).sort()
  const components = keys.map((key) => componentOf(lock, key, scopeOf(key), installed))
  const refs = new Map(keys.map((key, i) => [key, components[i]!['bom-ref']]))
  const self = purlOf(program.name, program.version)
  const direct = Object.keys({ ...ours.dependencies, ...ours.optionalDependencies, ...ours.devDependencies })
  const refsOf = (needed: readonly string[]) => [...new Set(needed)].map((key) => refs.get(key)!).sort()
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuidOf(`${self}\n${lockText}`)}`,
    version: 1,
    metadata: {
      component: {
        type: 'application',
        'bom-ref': self,
        name: program.name,
        version: program.version,
        licenses: [{ expression: program.license }],
      },
    },
    components,
    dependencies: [
      { ref: self, dependsOn: refsOf(direct.map((name) => resolved(lock, '', name)).filter((key) => key !== null)) },
      ...keys.map((key) => ({ ref: refs.get(key)!, dependsOn: refsOf(needsOf(lock, key, true)) })),
    ],
  }
}

/** A UUID (version 8) of a text: equal texts have equal ones. */
const uuidOf = (text: string): string => {
  const hex = createHash('sha256').update(text).digest('hex')
  const variant = ((Number.parseInt(hex[16]!, 16) & 3) | 8).toString(16)
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `${variant}${hex.slice(17, 20)}`]
  return [...parts, hex.slice(20, 32)].join('-')
}

if (import.meta.main) {
  const program = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const lock = readFileSync(join(ROOT, 'bun.lock'), 'utf8')
  process.stdout.write(`${JSON.stringify(billOfMaterials(lock, program, installedIn(ROOT)), null, 2)}\n`)
}
