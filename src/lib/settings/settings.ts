// Settings from a schema: every leaf has a default and a description, may stand in a YAML file and in an environment
// variable. This module names no setting; `config/schema.ts` holds the schema.

import { Kind, type TSchema, Value } from '../schema/schema.ts'
import { nearest } from '../text/nearest.ts'
import { type Place, readYaml, YamlRefused, type YamlText } from './yaml.ts'

/** A setting that cannot be used. The message is one line: the key, what is wrong, how to fix it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** One key. `path` is dotted; `secret` values are never shown. */
export interface Leaf {
  readonly path: string
  readonly variable: string
  readonly schema: TSchema
  readonly description: string
  readonly secret: boolean
  /** Its scheme, host and path may be shown although it is secret. */
  readonly holdsUrl: boolean
}

export interface SettingsSource {
  /** Name (for messages) and text of the file; null when there is none. */
  readonly file: { readonly name: string; readonly text: string } | null
  readonly env: Readonly<Record<string, string | undefined>>
  /** `GATEWAY_` */
  readonly prefix: string
  /** Variables with the prefix that are no settings but permitted, by the values of the file. */
  readonly knownVariables: (values: Record<string, unknown>) => readonly string[]
}

export interface Settings {
  /** Nested, as in the schema. */
  readonly values: Record<string, unknown>
  /** Path -> origin of the value: `default`, the name of the file, or of the variable. */
  readonly origins: ReadonlyMap<string, string>
  readonly warnings: readonly string[]
  /**
   * Where a path stands in the file: `gateway.yaml, line 3, column 5`; null when it is absent. Retains the whole file.
   */
  readonly placeOf: (path: string) => string | null
}

/** The file as it was read. */
interface Read extends YamlText {
  readonly name: string
}

type Tree = Record<string, unknown>
const isTree = (value: unknown): value is Tree => value !== null && typeof value === 'object' && !Array.isArray(value)

/** A schema is a section when its properties are settings of their own. */
const isSection = (schema: TSchema): boolean => schema[Kind] === 'Object' && schema.additionalProperties === false

/** Every key of the schema, in its order. */
export const leavesOf = (schema: TSchema, prefix: string, path = ''): Leaf[] =>
  Object.entries(schema.properties as Record<string, TSchema>).flatMap(([key, child]) => {
    const at = path === '' ? key : `${path}.${key}`
    if (isSection(child)) return leavesOf(child, prefix, at)
    const variable = prefix + at.replaceAll('.', '_').toUpperCase()
    const { description = '', secret = false, holdsUrl = false } = child
    return [{ path: at, variable, schema: child, description, secret, holdsUrl }]
  })

export const getPath = (tree: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((at, key) => (isTree(at) ? at[key] : undefined), tree)

const setPath = (tree: Tree, path: string, value: unknown): void => {
  const keys = path.split('.')
  let at = tree
  for (const key of keys.slice(0, -1)) {
    at[key] ??= {}
    at = at[key] as Tree
  }
  at[keys.at(-1)!] = value
}

/** Defaults, then the file, then the environment. Throws ConfigError at the first value that cannot be used. */
export const readSettings = (schema: TSchema, { file, env, prefix, knownVariables }: SettingsSource): Settings => {
  const leaves = leavesOf(schema, prefix)
  const values: Tree = {}
  const origins = new Map<string, string>()
  const read = file === null ? null : parseFile(file.name, file.text)
  const tree = read === null ? {} : treeOf(read)
  if (read !== null) refuseUnknown(schema, tree, '', leaves, read)
  for (const { path, schema: leaf } of leaves) {
    const given = getPath(tree, path)
    if (given !== undefined && given !== null) {
      check(leaf, given, () => at(read!, path))
      origins.set(path, file!.name)
    } else origins.set(path, 'default')
    setPath(values, path, given ?? structuredClone(leaf.default))
  }
  const known = knownVariables(values)
  const warnings = readEnvironment(leaves, { env, prefix, known }, (path, value, variable) => {
    setPath(values, path, value)
    origins.set(path, variable)
  })
  const placeOf = (path: string) => (read === null || read.placeOf(path) === null ? null : placed(read, path))
  return { values, origins, warnings, placeOf }
}

const readEnvironment = (
  leaves: readonly Leaf[],
  { env, prefix, known }: Pick<SettingsSource, 'env' | 'prefix'> & { readonly known: readonly string[] },
  take: (path: string, value: unknown, variable: string) => void,
): string[] => {
  const byVariable = new Map(leaves.map((leaf) => [leaf.variable, leaf]))
  const warnings: string[] = []
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith(prefix) || text === undefined || text === '' || isContainerLink(variable, text)) continue
    const leaf = byVariable.get(variable)
    if (leaf !== undefined) {
      const value = fromText(leaf.schema, text)
      check(leaf.schema, value, () => variable)
      take(leaf.path, value, variable)
    } else if (!known.includes(variable)) {
      const guess = nearest(variable, [...byVariable.keys(), ...known])
      warnings.push(`${variable} is not a setting and is ignored${guess === null ? '' : `; did you mean ${guess}?`}`)
    }
  }
  return warnings
}

/** Variables that Docker links and Kubernetes set in a container beside a service called `gateway...`. */
const isContainerLink = (variable: string, text: string): boolean =>
  /^(tcp|udp|sctp):\/\//.test(text) || /_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$/.test(variable)

const parseFile = (name: string, text: string): Read => {
  try {
    return { name, ...readYaml(text) }
  } catch (error) {
    if (!(error instanceof YamlRefused)) throw error
    throw new ConfigError(`${name}, ${shownPlace(error.place)}: ${error.message}`)
  }
}

const treeOf = ({ name, value }: Read): Tree => {
  if (value === null || value === undefined) return {}
  if (isTree(value)) return value
  throw new ConfigError(`${name}: the file must hold sections such as "server:", not a list or a single value`)
}

const refuseUnknown = (schema: TSchema, tree: Tree, path: string, leaves: readonly Leaf[], file: Read): void => {
  const known = schema.properties as Record<string, TSchema>
  for (const [key, value] of Object.entries(tree)) {
    const here = path === '' ? key : `${path}.${key}`
    const child = Object.hasOwn(known, key) ? known[key] : undefined
    if (child === undefined)
      throw new ConfigError(`${at(file, here)} is not a setting${suggestion(key, Object.keys(known), path, leaves)}`)
    if (!isSection(child) || value === null) continue
    if (!isTree(value))
      throw new ConfigError(`${at(file, here)} is a section: it holds ${Object.keys(child.properties).join(', ')}`)
    refuseUnknown(child, value, here, leaves, file)
  }
}

const suggestion = (key: string, siblings: readonly string[], path: string, leaves: readonly Leaf[]): string => {
  const near = nearest(key, siblings)
  if (near !== null) return `; did you mean ${path === '' ? near : `${path}.${near}`}?`
  const elsewhere = leaves.find((leaf) => leaf.path.endsWith(`.${key}`))
  return elsewhere === undefined ? `; known here: ${siblings.join(', ')}` : `; did you mean ${elsewhere.path}?`
}

const shownPlace = ({ line, column }: Place): string => `line ${line}, column ${column}`

/** `gateway.yaml, line 3, column 5`: of the path, or of its longest beginning that the file has. */
const placed = (file: Read, path: string): string => {
  const place = file.placeOf(path)
  return place === null ? file.name : `${file.name}, ${shownPlace(place)}`
}

/** `gateway.yaml, line 3, column 5: server.port` */
const at = (file: Read, path: string): string => `${placed(file, path)}: ${path}`

const check = (schema: TSchema, value: unknown, where: () => string): void => {
  if (Value.Check(schema, value)) return
  const shown = schema.secret === true ? 'the value' : JSON.stringify(value)
  throw new ConfigError(`${where()} must be ${expectation(schema)}; ${shown} is not`)
}

const variants = (schema: TSchema): TSchema[] =>
  (schema[Kind] === 'Union' ? (schema.anyOf as TSchema[]) : [schema]).filter((each) => each[Kind] !== 'Null')

/** What a value must be, as text. */
export const expectation = (schema: TSchema): string => {
  if (typeof schema.expects === 'string') return schema.expects
  const [first, ...more] = variants(schema)
  if (more.length > 0) return `one of ${[first!, ...more].map((each) => each.const).join(', ')}`
  if (first![Kind] === 'Boolean') return 'true or false'
  if (first![Kind] === 'Integer') return `a whole number from ${first!.minimum} to ${first!.maximum}`
  if (first![Kind] === 'Array') return 'a list of texts'
  return first![Kind] === 'Object' ? 'a section' : 'a text'
}

const fromText = (schema: TSchema, text: string): unknown => {
  const kind = variants(schema)[0]![Kind]
  if (kind === 'Integer') return /^-?\d+$/.test(text) ? Number(text) : text
  if (kind === 'Boolean') return text === 'true' ? true : text === 'false' ? false : text
  if (kind !== 'Array') return text
  return text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
}
