// Keywords of JSON Schema that apply further schemas: to the same value, or to its members.
import type { Assertion, SchemaNode } from './run.ts'
import { countOf, isRecord, type Keyword, recordOf, type Site, shownName, stringsOf } from './site.ts'
import { dependentNames } from './values.ts'

const branches = (value: unknown, name: string, site: Site): readonly SchemaNode[] => {
  if (!Array.isArray(value) || value.length === 0) throw site.error(name, 'must be a list of schemas that is not empty')
  return value.map((schema, place) => site.inPlace(schema, `${name}/${place}`))
}

const allOf: Keyword = (value, site) => {
  const nodes = branches(value, 'allOf', site)
  return (actual, run, evaluated) => nodes.every((node) => run.holds(node, actual, evaluated))
}

const anyOf: Keyword = (value, site) => {
  const nodes = branches(value, 'anyOf', site)
  return (actual, run, evaluated) => {
    let holds = false
    for (const node of nodes) {
      if (run.tries(node, actual, evaluated)) holds = true
      if (holds && evaluated === null) return true
    }
    return holds || run.fail('matches no schema of `anyOf`')
  }
}

const oneOf: Keyword = (value, site) => {
  const nodes = branches(value, 'oneOf', site)
  return (actual, run, evaluated) => {
    let matches = 0
    const before = run.assumptions
    for (const node of nodes) {
      if (run.tries(node, actual, evaluated)) matches++
      if (matches > 1 && !run.assumed(before)) return run.fail('matches more than one schema of `oneOf`')
    }
    return matches > 0 || run.fail('matches no schema of `oneOf`')
  }
}

const not: Keyword = (value, site) => {
  const node = site.inPlace(value, 'not')
  return (actual, run) => {
    const before = run.assumptions
    return !run.tries(node, actual, null) || run.assumed(before) || run.fail('matches the schema of `not`')
  }
}

const conditional: Keyword = (value, site) => {
  const condition = site.inPlace(value, 'if')
  const whenTrue = site.schema.then === undefined ? null : site.inPlace(site.schema.then, 'then')
  const whenFalse = site.schema.else === undefined ? null : site.inPlace(site.schema.else, 'else')
  return (actual, run, evaluated) => {
    const before = run.assumptions
    const node = run.tries(condition, actual, evaluated) ? whenTrue : whenFalse
    // It is not known which of the two applies.
    if (run.assumed(before)) {
      evaluated?.all()
      return true
    }
    return node === null || run.holds(node, actual, evaluated)
  }
}

const nodesByName = (value: unknown, name: string, site: Site, inPlace = false): readonly [string, SchemaNode][] =>
  Object.entries(recordOf(value, name, site)).map(([key, schema]) => [
    key,
    inPlace ? site.inPlace(schema, `${name}/${key}`) : site.member(schema, `${name}/${key}`),
  ])

const dependentSchemas: Keyword = (value, site) => whereNamed(nodesByName(value, 'dependentSchemas', site, true))

const whereNamed =
  (nodes: readonly [string, SchemaNode][]): Assertion =>
  (object, run, evaluated) => {
    if (!isRecord(object)) return true
    run.spend(nodes.length >> 2)
    for (const [name, node] of nodes)
      if (Object.hasOwn(object, name) && !run.holds(node, object, evaluated)) return false
    return true
  }

/** Draft-07: each value is a list of names, or a schema. */
const dependencies: Keyword = (value, site) => {
  const names = new Map<string, readonly string[]>()
  const nodes: [string, SchemaNode][] = []
  for (const [key, needs] of Object.entries(recordOf(value, 'dependencies', site))) {
    if (Array.isArray(needs)) names.set(key, stringsOf(needs, 'dependencies', site))
    else nodes.push([key, site.inPlace(needs, `dependencies/${key}`)])
  }
  const [demanded, applied] = [dependentNames(names), whereNamed(nodes)]
  return (object, run, evaluated) => demanded(object, run, evaluated) && applied(object, run, evaluated)
}

/** `properties`, `patternProperties` and `additionalProperties` in one walk over the members. */
const membersOf = (site: Site): Assertion => {
  const { properties, patternProperties, additionalProperties } = site.schema
  const named = new Map(properties === undefined ? [] : nodesByName(properties, 'properties', site))
  const patterned = (
    patternProperties === undefined ? [] : nodesByName(patternProperties, 'patternProperties', site)
  ).map(([source, node]) => ({ pattern: site.pattern(source, 'patternProperties', source), node }))
  const rest = additionalProperties === undefined ? null : site.member(additionalProperties, 'additionalProperties')
  const refusesRest = additionalProperties === false
  return (object, run, evaluated) => {
    if (!isRecord(object)) return true
    const keys = Object.keys(object)
    run.spend(2 * keys.length)
    for (const key of keys) {
      const node = named.get(key)
      let known = node !== undefined
      if (node !== undefined && !run.memberHolds(node, object[key], key)) return false
      for (const { pattern, node: matched } of patterned) {
        run.spend(pattern.size * (1 + (key.length >> 3)))
        if (pattern.test === null) {
          // Whether the member's schema applies is not known, nor whether the member is one of the others.
          known = run.assume()
          continue
        }
        if (!pattern.test(key)) continue
        known = true
        if (!run.memberHolds(matched, object[key], key)) return false
      }
      if (!known && refusesRest) return run.fail(`must not have the member ${shownName(key)}`)
      if (!known && rest !== null && !run.memberHolds(rest, object[key], key)) return false
      if ((known || rest !== null) && evaluated !== null) evaluated.name(key)
    }
    return true
  }
}

const propertyNames: Keyword = (value, site) => {
  const node = site.member(value, 'propertyNames')
  return (object, run) => {
    if (!isRecord(object)) return true
    return Object.keys(object).every((key) => run.memberHolds(node, key, key))
  }
}

/** Items by position, and a schema for the items after them. */
const itemsOf = (first: readonly SchemaNode[], rest: SchemaNode | null): Assertion => {
  return (list, run, evaluated) => {
    if (!Array.isArray(list)) return true
    for (let i = 0; i < list.length; i++) {
      const node = first[i] ?? rest
      if (node === null) break
      if (!run.memberHolds(node, list[i], i)) return false
    }
    evaluated?.itemsBefore(rest === null ? first.length : list.length)
    return true
  }
}

const listItems = (site: Site): Assertion => {
  const { prefixItems, items } = site.schema
  if (Array.isArray(items))
    throw site.error('items', 'must be a schema; lists are `prefixItems`, or those of draft-07 as `$schema`')
  if (prefixItems !== undefined && (!Array.isArray(prefixItems) || prefixItems.length === 0))
    throw site.error('prefixItems', 'must be a list of schemas that is not empty')
  const first = ((prefixItems ?? []) as unknown[]).map((schema, place) => site.member(schema, `prefixItems/${place}`))
  return itemsOf(first, items === undefined ? null : site.member(items, 'items'))
}

const listItems7 = (site: Site): Assertion => {
  const { items, additionalItems } = site.schema
  if (!Array.isArray(items)) return itemsOf([], site.member(items, 'items'))
  const first = items.map((schema, place) => site.member(schema, `items/${place}`))
  return itemsOf(first, additionalItems === undefined ? null : site.member(additionalItems, 'additionalItems'))
}

const contains: Keyword = (value, site) => {
  const node = site.member(value, 'contains')
  const { minContains, maxContains } = site.schema
  const counts = !site.isDraft7
  const least = counts && minContains !== undefined ? countOf(minContains, 'minContains', site) : 1
  const most =
    counts && maxContains !== undefined ? countOf(maxContains, 'maxContains', site) : Number.POSITIVE_INFINITY
  return (list, run, evaluated) => {
    if (!Array.isArray(list)) return true
    let found = 0
    const before = run.assumptions
    for (let i = 0; i < list.length; i++) {
      if (!run.tries(node, list[i], null)) continue
      found++
      if (counts) evaluated?.item(i)
    }
    const isFew = found <= most || run.assumed(before)
    return (found >= least && isFew) || run.fail('must contain what `contains` says')
  }
}

const unevaluatedProperties: Keyword = (value, site) => {
  const node = site.member(value, 'unevaluatedProperties')
  return (object, run, evaluated) => {
    if (!isRecord(object)) return true
    const keys = Object.keys(object)
    run.spend(2 * keys.length)
    for (const key of keys) {
      if (evaluated!.hasName(key)) continue
      if (value === false) return run.fail(`must not have the member ${shownName(key)}`)
      if (!run.memberHolds(node, object[key], key)) return false
    }
    evaluated!.allNames()
    return true
  }
}

const unevaluatedItems: Keyword = (value, site) => {
  const node = site.member(value, 'unevaluatedItems')
  return (list, run, evaluated) => {
    if (!Array.isArray(list)) return true
    run.spend(list.length >> 1)
    for (let i = 0; i < list.length; i++) if (!evaluated!.hasItem(i) && !run.memberHolds(node, list[i], i)) return false
    evaluated!.itemsBefore(list.length)
    return true
  }
}

const reference: Keyword = (value, site) => {
  if (typeof value !== 'string') throw site.error('$ref', 'must be a string')
  const node = site.referred(value, '$ref')
  return (actual, run, evaluated) => run.holds(node, actual, evaluated)
}

const dynamicReference: Keyword = (value, site) => {
  if (typeof value !== 'string') throw site.error('$dynamicRef', 'must be a string')
  return site.referredDynamically(value)
}

/** Keywords that are compiled together, by the first of them that a schema has. */
export interface KeywordGroup {
  readonly names: readonly string[]
  readonly compile: Keyword
}

const alone = (name: string, compile: Keyword): KeywordGroup => ({ names: [name], compile })
const together = (names: readonly string[], compile: (site: Site) => Assertion): KeywordGroup => ({
  names,
  compile: (_, site) => compile(site),
})

export const REFERENCE = alone('$ref', reference)

const OF_BOTH = [
  alone('allOf', allOf),
  alone('anyOf', anyOf),
  alone('oneOf', oneOf),
  alone('not', not),
  alone('if', conditional),
  together(['properties', 'patternProperties', 'additionalProperties'], membersOf),
  alone('propertyNames', propertyNames),
  alone('contains', contains),
]

/** In the order of compiling and checking. */
export const applicators = ({ isDraft7 }: Pick<Site, 'isDraft7'>): readonly KeywordGroup[] =>
  isDraft7
    ? [REFERENCE, ...OF_BOTH, together(['items'], listItems7), alone('dependencies', dependencies)]
    : [
        REFERENCE,
        alone('$dynamicRef', dynamicReference),
        ...OF_BOTH,
        together(['prefixItems', 'items'], listItems),
        alone('dependentSchemas', dependentSchemas),
      ]

/** These keywords read what all others have evaluated. */
export const LAST: readonly KeywordGroup[] = [
  alone('unevaluatedProperties', unevaluatedProperties),
  alone('unevaluatedItems', unevaluatedItems),
]
