// JSON Schema -> the subset that Anthropic's structured outputs take. The gateway checks the answer against the whole schema itself.
import { isObject } from '../wire/json.ts'
import type { Json } from './read-json.ts'

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

/** A copy without limits, `oneOf` as `anyOf`, and `additionalProperties: false` on every object. */
export const schemaSubset = (schema: unknown, depth = 0): unknown => {
  if (!isObject(schema) || depth > MOST_DEPTH) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (LIMITS.has(key)) continue
    if (MAPS.has(key) && isObject(value)) out[key] = mapValues(value, depth)
    else if (LISTS.has(key) && Array.isArray(value))
      out[key === 'oneOf' ? 'anyOf' : key] = value.map((one) => schemaSubset(one, depth + 1))
    else out[key] = SINGLE.has(key) ? schemaSubset(value, depth + 1) : value
  }
  if (schema.type === 'object' || isObject(schema.properties)) out.additionalProperties = false
  return out
}

const mapValues = (schemas: Json, depth: number): Json =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, schemaSubset(schema, depth + 1)]))
