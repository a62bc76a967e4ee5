// JSON Schema -> the subset that Anthropic's structured outputs accept. The gateway checks the answer against the
// whole schema itself.
import { isLongNumber } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import type { Json } from './read-json.ts'
import type { Note } from './vendor-fields.ts'

// Limits that are refused there.
// biome-ignore format: by group
const LIMITS = new Set([
  'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf',
  'minLength', 'maxLength', 'pattern',
  'minItems', 'maxItems', 'uniqueItems', 'contains', 'minContains', 'maxContains',
  'minProperties', 'maxProperties', 'patternProperties', 'propertyNames',
])

const MAPS = new Set(['properties', '$defs', 'definitions'])
const LISTS = new Set(['anyOf', 'allOf', 'oneOf', 'prefixItems'])
const SINGLE = new Set(['items', 'not', 'if', 'then', 'else'])
// A client's body is at most 64 levels deep; this only guards other callers.
const MOST_DEPTH = 128

/**
 * A copy without limits, with `oneOf` as `anyOf`, and `additionalProperties: false` on every object; changes are
 * noted.
 */
export const schemaSubset = (schema: unknown, note: Note): unknown => {
  const notes = new Set<string>()
  const subset = subsetOf(schema, notes, 0)
  for (const text of notes) note(text)
  return subset
}

const subsetOf = (schema: unknown, notes: Set<string>, depth: number): unknown => {
  if (!isObject(schema) || isLongNumber(schema) || depth > MOST_DEPTH) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (LIMITS.has(key)) notes.add(`dropped ${key} of the JSON schema: the gateway checks the answer`)
    else if (MAPS.has(key) && isObject(value)) out[key] = mapValues(value, notes, depth)
    else if (LISTS.has(key) && Array.isArray(value)) {
      if (key === 'oneOf') notes.add('renamed oneOf of the JSON schema to anyOf')
      out[key === 'oneOf' ? 'anyOf' : key] = value.map((one) => subsetOf(one, notes, depth + 1))
    } else out[key] = SINGLE.has(key) ? subsetOf(value, notes, depth + 1) : value
  }
  if ((schema.type === 'object' || isObject(schema.properties)) && out.additionalProperties !== false) {
    out.additionalProperties = false
    notes.add('set additionalProperties of the JSON schema to false')
  }
  return out
}

const mapValues = (schemas: Json, notes: Set<string>, depth: number): Json =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, subsetOf(schema, notes, depth + 1)]))
