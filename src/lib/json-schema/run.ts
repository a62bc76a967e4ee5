// One check of a value against a compiled schema: bounded in steps and depth, so that neither a schema nor a value from a stranger can hold the thread.

/** What a schema node says of a value: true, or false after `Run.fail`. `seen` collects what was evaluated of it, where somebody asks. */
export type Assertion = (value: unknown, run: Run, seen: Seen | null) => boolean

/** A compiled schema. Filled after it was made, since schemas refer to themselves. */
export interface SchemaNode {
  assertions: readonly Assertion[]
  /** Of its `unevaluated*`, which look at what the others have seen. */
  last: readonly Assertion[]
  /** Nodes that see the same value. */
  readonly inPlace: SchemaNode[]
  /** The document, or part of one, whose `$id` it is under. */
  readonly resource: object
}

/** More steps were needed than a check may take, or the value is nested too deeply. */
export class CheckGivenUp extends Error {
  override readonly name = 'CheckGivenUp'
}

/** Nested evaluations. Values are nested less, unless somebody wants to see what happens. */
const MOST_DEPTH = 1_000

/** Properties and items that some keyword has evaluated successfully. */
export class Seen {
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

  /** All items before this index. */
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

  /** Takes over what a branch has seen that held. */
  add(other: Seen, run: Run): void {
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
  /** Where in the value, from the top. */
  readonly path: (string | number)[] = []
  /** Resources entered, the outermost first. */
  readonly scopes: object[] = []
  /** Failures are not noted while a branch is tried that may fail. */
  muted = 0
  /** The first failure, as `/path what is wrong`. */
  failure: string | null = null
  #depth = 0

  /** `steps` is about what one visit of a node, one member or eight characters cost. */
  constructor(private steps: number) {}

  spend(steps: number): void {
    this.steps -= steps
    if (this.steps < 0) throw new CheckGivenUp('it takes too long to check')
  }

  fail(what: string): false {
    if (this.muted === 0 && this.failure === null) this.failure = `/${this.path.join('/')} ${what}`
    return false
  }

  /** Whether the value meets the node. */
  holds(node: SchemaNode, value: unknown, seen: Seen | null): boolean {
    this.spend(1)
    if (++this.#depth > MOST_DEPTH) throw new CheckGivenUp('it is nested too deeply to be checked')
    const { scopes } = this
    const enters = scopes[scopes.length - 1] !== node.resource
    if (enters) scopes.push(node.resource)
    const own = node.last.length === 0 ? seen : new Seen()
    const held = this.#all(node.assertions, value, own) && this.#all(node.last, value, own)
    if (held && own !== seen && seen !== null) seen.add(own!, this)
    if (enters) scopes.pop()
    this.#depth--
    return held
  }

  /** As `holds`, of a member of the value. */
  memberHolds(node: SchemaNode, value: unknown, key: string | number): boolean {
    this.path.push(key)
    const held = this.holds(node, value, null)
    this.path.pop()
    return held
  }

  /** Tries a branch: what fails in it is not noted, what it saw counts only when it holds. */
  tries(node: SchemaNode, value: unknown, seen: Seen | null): boolean {
    const branch = seen === null ? null : new Seen()
    this.muted++
    const held = this.holds(node, value, branch)
    this.muted--
    if (held && branch !== null) seen!.add(branch, this)
    return held
  }

  #all(assertions: readonly Assertion[], value: unknown, seen: Seen | null): boolean {
    for (const assertion of assertions) if (!assertion(value, this, seen)) return false
    return true
  }
}
