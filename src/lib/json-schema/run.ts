// One check of a value against a compiled schema, bounded in steps and depth: schemas and values come from clients and
// must not block the thread.

/**
 * Checks one keyword: true, or false after `Run.fail`. `evaluated` collects which members were evaluated; null when no
 * keyword needs it.
 */
export type Assertion = (value: unknown, run: Run, evaluated: Evaluated | null) => boolean

/** A compiled schema. Filled after it was made, since schemas refer to themselves. */
export interface SchemaNode {
  assertions: readonly Assertion[]
  /** Assertions of `unevaluated*`, which read what the others have evaluated. */
  last: readonly Assertion[]
  /** Nodes that are applied to the same value. */
  readonly inPlace: SchemaNode[]
  /** The document, or the part of one with an `$id`, that it belongs to. */
  readonly resource: object
}

/** The check exceeds its steps, or the value is nested too deeply. */
export class CheckLimitExceeded extends Error {
  override readonly name = 'CheckLimitExceeded'
}

/** Nested evaluations. Only a hostile value is nested more deeply. */
const MOST_DEPTH = 1_000

/** Members and items that a keyword has evaluated successfully. */
export class Evaluated {
  #names: Set<string> | null = null
  #allNames = false
  #items = 0
  #indexes: Set<number> | null = null

  name(name: string): void {
    this.#names ??= new Set()
    this.#names.add(name)
  }

  allNames(): void {
    this.#allNames = true
  }

  /** It is not known what was evaluated: nothing counts as left out. */
  all(): void {
    this.#allNames = true
    this.#items = Number.POSITIVE_INFINITY
  }

  /** Marks all items before this index. */
  itemsBefore(index: number): void {
    if (index > this.#items) this.#items = index
  }

  item(index: number): void {
    this.#indexes ??= new Set()
    this.#indexes.add(index)
  }

  hasName(name: string): boolean {
    return this.#allNames || this.#names?.has(name) === true
  }

  hasItem(index: number): boolean {
    return index < this.#items || this.#indexes?.has(index) === true
  }

  /** Adds what a successful branch has evaluated. */
  add(other: Evaluated, run: Run): void {
    if (other.#names !== null) {
      run.spend(other.#names.size)
      for (const name of other.#names) this.name(name)
    }
    if (other.#allNames) this.#allNames = true
    this.itemsBefore(other.#items)
    if (other.#indexes === null) return
    run.spend(other.#indexes.size)
    for (const index of other.#indexes) this.item(index)
  }
}

export class Run {
  /** Path to the current value, from the root. */
  readonly path: (string | number)[] = []
  /** Resources entered, outermost first. */
  readonly scopes: object[] = []
  /** Above 0 while a branch is tried that may fail: its failures are not recorded. */
  muted = 0
  /** The first failure, as `/path reason`. */
  failure: string | null = null
  /** How often a value was taken to match a pattern that cannot be checked. */
  assumptions = 0
  #depth = 0

  /** `steps`: one is about a visit of a node, one member or eight characters. */
  constructor(private steps: number) {}

  spend(steps: number): void {
    this.steps -= steps
    if (this.steps < 0) throw new CheckLimitExceeded('it takes too long to check')
  }

  fail(what: string): false {
    if (this.muted === 0 && this.failure === null) this.failure = `/${this.path.join('/')} ${what}`
    return false
  }

  /**
   * The value is taken to match a pattern that cannot be checked. So a failure is certain, and a success is not: what
   * would make a failure of it looks at `assumed`.
   */
  assume(): true {
    this.assumptions++
    return true
  }

  /** Whether anything was taken to match since `assumptions` had this value. */
  assumed(before: number): boolean {
    return this.assumptions > before
  }

  /** Whether the value conforms to the node. */
  holds(node: SchemaNode, value: unknown, evaluated: Evaluated | null): boolean {
    this.spend(1)
    if (++this.#depth > MOST_DEPTH) throw new CheckLimitExceeded('it is nested too deeply to be checked')
    const { scopes } = this
    const enters = scopes[scopes.length - 1] !== node.resource
    if (enters) scopes.push(node.resource)
    const own = node.last.length === 0 ? evaluated : new Evaluated()
    const held = this.#all(node.assertions, value, own) && this.#all(node.last, value, own)
    if (held && own !== evaluated && evaluated !== null) evaluated.add(own!, this)
    if (enters) scopes.pop()
    this.#depth--
    return held
  }

  /** As `holds`, for a member of the value. */
  memberHolds(node: SchemaNode, value: unknown, key: string | number): boolean {
    this.path.push(key)
    const held = this.holds(node, value, null)
    this.path.pop()
    return held
  }

  /** Tries a branch: its failures are not recorded, and what it evaluates counts only when it succeeds. */
  tries(node: SchemaNode, value: unknown, evaluated: Evaluated | null): boolean {
    const branch = evaluated === null ? null : new Evaluated()
    const before = this.assumptions
    this.muted++
    const held = this.holds(node, value, branch)
    this.muted--
    // What fails is certain to fail.
    if (!held) this.assumptions = before
    if (held && branch !== null) evaluated!.add(branch, this)
    return held
  }

  #all(assertions: readonly Assertion[], value: unknown, evaluated: Evaluated | null): boolean {
    for (const assertion of assertions) if (!assertion(value, this, evaluated)) return false
    return true
  }
}
