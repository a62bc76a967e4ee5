// Reads a YAML file with the position of every key. Refuses what YAML readers interpret differently, and what expands a
// small file.
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type YAMLMap } from 'yaml'

/** Line and column, from 1. */
export interface Place {
  readonly line: number
  readonly column: number
}

/** A refused text. The message is one line: what is wrong, and how to fix it. It quotes no value of the text. */
export class YamlRefused extends Error {
  override readonly name = 'YamlRefused'
  readonly place: Place

  constructor(message: string, place: Place) {
    super(message)
    this.place = place
  }
}

export interface YamlText {
  /** Mappings as objects; null for an empty text. Values of aliases are shared objects. */
  readonly value: unknown
  /**
   * The place of a dotted path (`bootstrap.keys[1].name`), or of its longest beginning that the text has; null for
   * none.
   */
  placeOf(path: string): Place | null
}

/** Values that all aliases of a text may expand to, nested values included. */
export const MAX_ALIASED_VALUES = 1_000
/** Nesting of mappings and lists. */
export const MAX_DEPTH = 100

const ALIAS_MEND = 'write the value out'

/** YAML 1.2 with its core schema, whatever version the text names: `no` is a text, `<<` a key. */
const OPTIONS = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  // It would compare each key with each other; `Check` uses a map.
  uniqueKeys: false,
  prettyErrors: false,
  logLevel: 'error',
} as const

/** By the parser's code: its own messages quote the text, which may be a secret. */
const FAULTS: Readonly<Record<string, string>> = {
  MULTIPLE_DOCS: 'a second document begins here; keep one and remove the "---"',
  TAG_RESOLVE_FAILED: 'tags (!name) are not supported; remove the tag',
  BAD_DIRECTIVE: 'directives (%NAME) are not supported; remove the line',
  RESOURCE_EXHAUSTION: `mappings and lists may be nested ${MAX_DEPTH} levels deep; nest less`,
}

const SYNTAX: Readonly<Record<string, string>> = {
  ALIAS_PROPS: 'an alias has an anchor or a tag of its own',
  BAD_ALIAS: 'the name of an anchor or alias is missing',
  BAD_DQ_ESCAPE: 'an escape in double quotes is unknown: write the backslash twice',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  BAD_SCALAR_START: 'a value begins with a reserved character: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a value holds a colon and a space: put it in quotes or begin a new line',
  BLOCK_IN_FLOW: 'an indented block stands within brackets',
  KEY_OVER_1024_CHARS: 'a key is longer than 1,024 characters, or a colon is missing',
  MISSING_CHAR: 'a quote, a comma, a colon or a space is missing',
  MULTILINE_IMPLICIT_KEY: 'a key goes over several lines, or a colon is missing',
  MULTIPLE_ANCHORS: 'a value has two anchors',
  MULTIPLE_TAGS: 'a value has two tags',
  TAB_AS_INDENT: 'a tab is used as indentation: use spaces',
}

const faultOf = (code: string): string =>
  FAULTS[code] ??
  `this is not YAML (${SYNTAX[code] ?? 'the text does not fit here: check quotes, colons and indentation'}); correct it`

/**
 * Reads a YAML text. Throws YamlRefused for invalid YAML, and for repeated keys, merge keys, tags, directives, several
 * documents, keys that are no scalars, aliases that expand too far, and too deep nesting.
 */
export const readYaml = (text: string): YamlText => {
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { ...OPTIONS, lineCounter })
  const placeAt = (offset: number): Place => {
    // The parser reports an unclosed bracket behind the last line.
    const { line, col: column } = lineCounter.linePos(Math.min(offset, Math.max(0, text.trimEnd().length - 1)))
    return { line, column }
  }
  const [fault] = [...document.errors, ...document.warnings]
  if (fault !== undefined) throw new YamlRefused(faultOf(fault.code), placeAt(fault.pos[0]))
  const contents: Node | null = document.contents
  if (contents !== null) new Check(placeAt).weigh(contents, '', 0)
  return {
    value: document.toJS({ maxAliasCount: -1 }), // bounded by the check
    placeOf(path) {
      const offset = contents === null ? null : offsetOf(contents, path.replace(/\[(\d+)\]/g, '.$1'))
      return offset === null ? null : placeAt(offset)
    },
  }
}

/** Visits every value once, in the order of the text. */
class Check {
  readonly #placeAt: (offset: number) => Place
  /** Name of an anchor -> number of values below it; null while it is being visited. */
  readonly #anchored = new Map<string, number | null>()
  #aliased = 0

  constructor(placeAt: (offset: number) => Place) {
    this.#placeAt = placeAt
  }

  /** The number of values in a node, itself and the values of aliases included. */
  weigh(node: Node | null, path: string, depth: number): number {
    if (node === null) return 1
    if (isAlias(node)) return this.#weighAlias(node.source, node)
    const anchor = isMap(node) || isSeq(node) || isScalar(node) ? node.anchor : undefined
    if (anchor !== undefined) this.#anchored.set(anchor, null)
    if (depth > MAX_DEPTH) this.#refuse(FAULTS.RESOURCE_EXHAUSTION!, node)
    let values = 1
    if (isMap(node)) values += this.#weighMap(node, path, depth)
    if (isSeq(node))
      for (const [i, item] of node.items.entries())
        values += this.weigh(item as Node | null, `${path}[${i}]`, depth + 1)
    if (anchor !== undefined) this.#anchored.set(anchor, values)
    return values
  }

  #weighAlias(name: string, node: Node): number {
    const values = this.#anchored.get(name)
    if (values === undefined) return this.#refuse(`no anchor of this alias stands before it; ${ALIAS_MEND}`, node)
    if (values === null) return this.#refuse(`an alias stands within what it names; ${ALIAS_MEND}`, node)
    this.#aliased += values
    if (this.#aliased <= MAX_ALIASED_VALUES) return values
    return this.#refuse(
      `the aliases up to here stand for more than ${MAX_ALIASED_VALUES.toLocaleString('en')} values; ${ALIAS_MEND}`,
      node,
    )
  }

  #weighMap(map: YAMLMap, path: string, depth: number): number {
    const firsts = new Map<string, Node>()
    let values = 0
    for (const { key, value } of map.items) {
      if (!isScalar(key)) return this.#refuse('a key must be a single value; write it as a text', (key ?? map) as Node)
      if (key.anchor !== undefined) this.#anchored.set(key.anchor, 1)
      const name = nameOf(key.value)
      const here = path === '' ? name : `${path}.${name}`
      if (name === '<<' && key.type === 'PLAIN')
        this.#refuse('merge keys (<<) are not supported; write the keys out', key)
      const first = firsts.get(name)
      if (first !== undefined) {
        const { line } = this.#placeAt(startOf(first))
        this.#refuse(`${here} stands twice, first in line ${line}; make one of both`, key)
      }
      firsts.set(name, key)
      values += this.weigh(value as Node | null, here, depth + 1)
    }
    return values
  }

  #refuse(message: string, node: Node): never {
    throw new YamlRefused(message, this.#placeAt(startOf(node)))
  }
}

const startOf = (node: Node): number => node.range?.[0] ?? 0

/** As a key of an object. */
const nameOf = (key: unknown): string => (key === null ? '' : String(key))

/**
 * The offset of a dotted path below a node: of its last part that exists; null when none does. Names may contain dots
 * themselves.
 */
const offsetOf = (node: Node, path: string): number | null => {
  const parts = isMap(node)
    ? node.items.map(({ key, value }) => ({ name: nameOf((key as { value?: unknown }).value), at: key, value }))
    : isSeq(node)
      ? node.items.map((item, i) => ({ name: String(i), at: item, value: item }))
      : []
  const part = parts.find(({ name }) => path === name || path.startsWith(`${name}.`))
  if (part === undefined) return null
  const below = part.value === null ? null : offsetOf(part.value as Node, path.slice(part.name.length + 1))
  return below ?? startOf(part.at as Node)
}
