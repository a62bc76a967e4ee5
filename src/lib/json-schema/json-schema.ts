// JSON Schema 2020-12 and draft-07, interpreted: compiling is one walk over the schema, checking is counted in steps,
// patterns are RE2's. Why not generated code: docs/decisions/0012-structured-answers.md.
import { RE2JS } from 're2js'
import { applicators, type KeywordGroup, LAST, REFERENCE } from './applicators.ts'
import { type Resource, Resources } from './resources.ts'
import { type Assertion, CheckLimitExceeded, Run, type SchemaNode } from './run.ts'
import { isRecord, SchemaError, type SchemaPattern, type Site } from './site.ts'
import { valueKeywords } from './values.ts'

export { draftOf } from './dialect.ts'
export { SchemaError } from './site.ts'
export { requireKnownKeywords } from './strict.ts'

export type Draft = '2020-12' | 'draft-07'

export interface CompiledSchema {
  /**
   * Null when the value conforms; else the first violation, as `/path reason`. A value that cannot be checked within
   * the bounds does not conform.
   */
  firstError(value: unknown): string | null
  /**
   * JSON pointers of the patterns that RE2 cannot compile (look-around, back-references) and that are not checked; at
   * most MOST_UNCHECKED.
   */
  readonly unchecked: readonly string[]
  /** What the patterns take of the memory, about. */
  readonly patternBytes: number
}

export interface CompileOptions {
  /** `format` is checked, also where the schema does not name the vocabulary for it. Default: false. */
  readonly assertsFormats?: boolean
}

/** Schemas in a schema, those of references counted once. */
const MOST_NODES = 10_000
const MOST_PATTERNS = 100
const MOST_PATTERN_CHARS = 1_024
/** RE2 instructions of all patterns together. */
const MOST_PATTERN_SIZE = 20_000
/** Steps of one check: at most tens of milliseconds. */
const MOST_STEPS = 1_000_000
const MAX_ERROR_CHARS = 300
/** Bounds of `unchecked`. */
const MOST_UNCHECKED = 16
const MAX_POINTER_CHARS = 200

/** What a pattern, an instruction of it, and a class of Unicode characters in it take of the memory, as measured. */
const PATTERN_BYTES = 8_192
const INSTRUCTION_BYTES = 1_280
const CLASS_BYTES = 10_240
const CLASS = /\\[pP]/g

/** The vocabulary by which a schema asks for checks of `format`. */
const FORMAT_ASSERTION = 'https://json-schema.org/draft/2020-12/vocab/format-assertion'
const namesFormatAssertion = (schema: unknown): boolean =>
  isRecord(schema) && isRecord(schema.$vocabulary) && Object.hasOwn(schema.$vocabulary, FORMAT_ASSERTION)

const GROUPS: Readonly<Record<Draft, readonly KeywordGroup[]>> = {
  '2020-12': groupsOf(false),
  'draft-07': groupsOf(true),
}

function groupsOf(isDraft7: boolean): readonly KeywordGroup[] {
  const values = [...valueKeywords({ isDraft7 })].map(([name, compile]) => ({ names: [name], compile }))
  return [...values, ...applicators({ isDraft7 })]
}

/**
 * Compiles a schema; the caller bounds the length of its text. Throws SchemaError for one that is invalid, refers
 * outside itself, refers to itself endlessly, or is too large.
 */
export const compileSchema = (schema: unknown, draft: Draft, options: CompileOptions = {}): CompiledSchema => {
  const compiler = new Compiler(schema, draft, options.assertsFormats === true || namesFormatAssertion(schema))
  const root = compiler.root()
  return {
    unchecked: compiler.unchecked,
    patternBytes: compiler.patternBytes,
    firstError(value) {
      const run = new Run(MOST_STEPS)
      try {
        return run.holds(root, value, null) ? null : (run.failure ?? '/ does not match').slice(0, MAX_ERROR_CHARS)
      } catch (error) {
        if (error instanceof CheckLimitExceeded) return error.message
        if (error instanceof RangeError) return 'it is nested too deeply to be checked'
        throw error
      }
    },
  }
}

class Compiler {
  readonly #resources: Resources
  readonly #nodes = new Map<object, SchemaNode>()
  readonly #patterns = new Map<string, SchemaPattern>()
  readonly #groups: readonly KeywordGroup[]
  #patternSize = 0
  readonly unchecked: string[] = []
  patternBytes = 0

  constructor(
    private readonly schema: unknown,
    private readonly draft: Draft,
    readonly assertsFormats: boolean,
  ) {
    this.#resources = new Resources(schema, draft === 'draft-07')
    this.#groups = GROUPS[draft]
  }

  root(): SchemaNode {
    const root = this.#node(this.schema, '#', this.#resources.root)
    refuseCycles([...this.#nodes.values()])
    return root
  }

  #node(schema: unknown, at: string, resource: Resource): SchemaNode {
    if (typeof schema === 'boolean') return { assertions: schema ? [] : [NEVER], last: [], inPlace: [], resource }
    if (!isRecord(schema)) throw new SchemaError(`${at} must be a schema: an object, true or false`, at)
    const known = this.#nodes.get(schema)
    if (known !== undefined) return known
    if (this.#nodes.size >= MOST_NODES) throw new SchemaError(`it holds more than ${MOST_NODES} schemas`)
    const node: SchemaNode = { assertions: [], last: [], inPlace: [], resource: this.#resources.of(schema) }
    this.#nodes.set(schema, node)
    const site = new KeywordSite(this, schema, at, node)
    // Draft-07 ignores all keywords beside a reference.
    const isBareReference = this.draft === 'draft-07' && schema.$ref !== undefined
    node.assertions = compiled(isBareReference ? [REFERENCE] : this.#groups, schema, site)
    if (this.draft === '2020-12') node.last = compiled(LAST, schema, site)
    return node
  }

  /** For `Place`. */
  nodeOf(schema: unknown, at: string, resource: object): SchemaNode {
    return this.#node(schema, at, resource as Resource)
  }

  find(reference: string, from: object): ReturnType<Resources['find']> {
    return this.#resources.find(reference, from as Resource)
  }

  get isDraft7(): boolean {
    return this.draft === 'draft-07'
  }

  /** `pointer`: where the pattern stands. */
  pattern(source: string, pointer: string): SchemaPattern {
    const pattern = this.#patterns.get(source) ?? this.#compiledPattern(source)
    if (pattern.test === null && this.unchecked.length < MOST_UNCHECKED)
      this.unchecked.push(pointer.slice(0, MAX_POINTER_CHARS))
    return pattern
  }

  #compiledPattern(source: string): SchemaPattern {
    if (source.length > MOST_PATTERN_CHARS) throw new SchemaError(`has more than ${MOST_PATTERN_CHARS} characters`)
    if (this.#patterns.size >= MOST_PATTERNS) throw new SchemaError(`is one of more than ${MOST_PATTERNS} patterns`)
    const compiledPattern = re2Of(source)
    const size = compiledPattern?.programSize() ?? 0
    this.#patternSize += size
    if (this.#patternSize > MOST_PATTERN_SIZE) throw new SchemaError('makes the patterns too large together')
    this.patternBytes += PATTERN_BYTES + size * INSTRUCTION_BYTES + (source.match(CLASS)?.length ?? 0) * CLASS_BYTES
    const test = compiledPattern === null ? null : (text: string) => compiledPattern.matcher(text).find()
    const pattern = { size, test }
    this.#patterns.set(source, pattern)
    return pattern
  }
}

/** Null for a pattern of JavaScript that RE2 does not have. Throws SchemaError for one that is none. */
const re2Of = (source: string): RE2JS | null => {
  try {
    return RE2JS.compile(RE2JS.translateRegExp(withShortNames(source)))
  } catch (error) {
    if (isPattern(source)) return null
    throw new SchemaError(`cannot be used: ${(error as Error).message.slice(0, 200)}`)
  }
}

/** Whether the runtime reads it as a pattern, with Unicode semantics or without. It is never matched. */
const isPattern = (source: string): boolean =>
  ['u', ''].some((flags) => {
    try {
      return new RegExp(source, flags) !== null
    } catch {
      return false
    }
  })

/** Long names of character classes that JavaScript supports and RE2 does not. */
const SHORT_NAMES: Readonly<Record<string, string>> = {
  Letter: 'L',
  Lowercase_Letter: 'Ll',
  Uppercase_Letter: 'Lu',
  Mark: 'M',
  Number: 'N',
  Decimal_Number: 'Nd',
  digit: 'Nd',
  Punctuation: 'P',
  Symbol: 'S',
  Separator: 'Z',
}

const withShortNames = (source: string): string =>
  source.replace(
    /(\\[pP])\{(?:General_Category=|gc=|Script=|sc=)?(\w+)\}/g,
    (_, start: string, name: string) => `${start}{${SHORT_NAMES[name] ?? name}}`,
  )

const NEVER: Assertion = (_, run) => run.fail('must not be there')

const compiled = (
  groups: readonly KeywordGroup[],
  schema: Readonly<Record<string, unknown>>,
  site: Site,
): readonly Assertion[] => {
  const assertions: Assertion[] = []
  for (const { names, compile } of groups) {
    const name = names.find((candidate) => Object.hasOwn(schema, candidate))
    if (name === undefined) continue
    const assertion = compile(schema[name], site)
    if (assertion !== null) assertions.push(assertion)
  }
  return assertions
}

/** One schema object, as its keywords see it. */
class KeywordSite implements Site {
  constructor(
    private readonly compiler: Compiler,
    readonly schema: Readonly<Record<string, unknown>>,
    private readonly at: string,
    private readonly node: SchemaNode,
  ) {}

  get isDraft7(): boolean {
    return this.compiler.isDraft7
  }

  inPlace(schema: unknown, path: string): SchemaNode {
    return this.#applyInPlace(this.member(schema, path))
  }

  member(schema: unknown, path: string): SchemaNode {
    return this.compiler.nodeOf(schema, `${this.at}/${path}`, this.node.resource)
  }

  referred(reference: string, keyword: string): SchemaNode {
    const { schema, resource } = this.#find(reference, keyword)
    return this.#applyInPlace(this.compiler.nodeOf(schema, reference, resource))
  }

  referredDynamically(reference: string): Assertion {
    const { schema, resource, anchor } = this.#find(reference, '$dynamicRef')
    const usual = this.compiler.nodeOf(schema, reference, resource)
    if (anchor === null || resource.dynamicAnchors.get(anchor) !== schema) {
      this.#applyInPlace(usual)
      return (value, run, evaluated) => run.holds(usual, value, evaluated)
    }
    return (value, run, evaluated) => {
      const outermost = run.scopes.find((scope) => (scope as Resource).dynamicAnchors.has(anchor)) as Resource
      const target = outermost?.dynamicAnchors.get(anchor) ?? schema
      return run.holds(this.compiler.nodeOf(target, reference, outermost ?? resource), value, evaluated)
    }
  }

  get assertsFormats(): boolean {
    return this.compiler.assertsFormats
  }

  pattern(source: string, keyword: string, name: string | null): SchemaPattern {
    const pointer = name === null ? keyword : `${keyword}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    return this.#withPath(keyword, () => this.compiler.pattern(source, `${this.at}/${pointer}`))
  }

  error(path: string, what: string): SchemaError {
    return new SchemaError(`${this.at}/${path} ${what}`, `${this.at}/${path}`)
  }

  #find(reference: string, keyword: string): ReturnType<Resources['find']> {
    return this.#withPath(keyword, () => this.compiler.find(reference, this.node.resource))
  }

  #applyInPlace(node: SchemaNode): SchemaNode {
    this.node.inPlace.push(node)
    return node
  }

  #withPath<Result>(path: string, act: () => Result): Result {
    try {
      return act()
    } catch (error) {
      if (error instanceof SchemaError) throw this.error(path, error.message)
      throw error
    }
  }
}

/** A schema that applies itself to the same value would never end. */
const refuseCycles = (nodes: readonly SchemaNode[]): void => {
  const done = new Set<SchemaNode>()
  for (const start of nodes) {
    const way: { node: SchemaNode; next: number }[] = [{ node: start, next: 0 }]
    const open = new Set([start])
    while (way.length > 0) {
      const here = way[way.length - 1]!
      const to = done.has(here.node) ? undefined : here.node.inPlace[here.next++]
      if (to === undefined) {
        done.add(here.node)
        open.delete(here.node)
        way.pop()
      } else if (open.has(to)) throw new SchemaError('it refers to itself without an end')
      else if (!done.has(to)) {
        open.add(to)
        way.push({ node: to, next: 0 })
      }
    }
  }
}
