// Refuses unknown keywords in schemas that are stored, where a typing mistake would silently allow everything.

import { nearest } from '../text/nearest.ts'
import type { Draft } from './json-schema.ts'
import { isRecord, SchemaError } from './site.ts'

/** What a keyword holds: no schema, one, a list of schemas, schemas by name. */
type Holds = 'none' | 'one' | 'list' | 'named' | 'one or list'

const OF_BOTH: readonly (readonly [Holds, string])[] = [
  ['none', '$schema $id $ref $comment $anchor title description default examples readOnly writeOnly deprecated'],
  ['none', 'type enum const format pattern contentEncoding contentMediaType multipleOf required uniqueItems'],
  ['none', 'minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems'],
  ['none', 'minProperties maxProperties'],
  ['one', 'not if then else additionalProperties propertyNames contains'],
  ['list', 'allOf anyOf oneOf'],
  ['named', 'properties patternProperties $defs definitions'],
]
const NEWER: typeof OF_BOTH = [
  ['none', '$vocabulary $dynamicRef $dynamicAnchor minContains maxContains dependentRequired'],
  ['one', 'items contentSchema unevaluatedItems unevaluatedProperties'],
  ['list', 'prefixItems'],
  ['named', 'dependentSchemas'],
]
const OLDER: typeof OF_BOTH = [
  ['one or list', 'items'],
  ['one', 'additionalItems'],
  ['named', 'dependencies'],
]

const table = (rows: typeof OF_BOTH): ReadonlyMap<string, Holds> =>
  new Map(rows.flatMap(([holds, names]) => names.split(' ').map((name) => [name, holds] as const)))
const KEYWORDS: Readonly<Record<Draft, ReadonlyMap<string, Holds>>> = {
  '2020-12': table([...OF_BOTH, ...NEWER]),
  'draft-07': table([...OF_BOTH, ...OLDER]),
}

const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

/**
 * Throws SchemaError with the pointer of the first keyword that the draft does not have. An invalid schema is left to
 * the compiler.
 */
export const requireKnownKeywords = (schema: unknown, draft: Draft): void => {
  const keywords = KEYWORDS[draft]
  const open: { schema: unknown; at: string }[] = [{ schema, at: '#' }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { schema: here, at } = next
    if (!isRecord(here)) continue
    const found: { schema: unknown; at: string }[] = []
    for (const [name, value] of Object.entries(here)) {
      const below = `${at}/${escaped(name)}`
      const holds = keywords.get(name)
      if (holds === undefined) throw unknownKeyword(name, below, [...keywords.keys()])
      if (holds === 'none') continue
      if (holds === 'named' && isRecord(value))
        for (const [key, member] of Object.entries(value))
          found.push({ schema: member, at: `${below}/${escaped(key)}` })
      else if (holds !== 'one' && holds !== 'named' && Array.isArray(value))
        for (const [i, member] of value.entries()) found.push({ schema: member, at: `${below}/${i}` })
      else found.push({ schema: value, at: below })
    }
    open.push(...found.reverse())
  }
}

const unknownKeyword = (name: string, pointer: string, known: readonly string[]): SchemaError => {
  const hint = nearest(name, known)
  const what = `${pointer.slice(0, 300)} is not a keyword of JSON Schema`
  return new SchemaError(hint === null ? what : `${what}; did you mean "${hint}"?`, pointer)
}
