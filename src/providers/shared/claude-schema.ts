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

/** In notes: which schema it is about, and what becomes of its limits. */
const OF_ANSWER = ' of the JSON schema'
const CHECKED = ': the gateway checks the answer'

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

/** Claude takes so many strict tools in one request. */
const MOST_STRICT = 20

/**
 * Tools whose `strict` the model takes: their schema, which is member `schemaName`, in the subset. The others without
 * `strict`.
 */
export const strictTools = (
  tools: readonly Json[],
  schemaName: string,
  taken: boolean,
  note: Note,
): readonly Json[] => {
  const dropStrict = (from: readonly Json[], why: string, where: (tool: Json) => boolean): readonly Json[] => {
    if (!from.some(where)) return from
    note(`dropped tools[].function.strict: ${why}`)
    return from.map((tool) => {
      if (!where(tool)) return tool
      const { strict: _, ...rest } = tool
      return rest
    })
  }
  const isStrict = (tool: Json): boolean => tool.strict === true
  if (!taken) return dropStrict(tools, 'the model does not take it', isStrict)
  const isMap = (tool: Json): boolean => isStrict(tool) && holdsMap(tool[schemaName], 0)
  const closed = dropStrict(tools, 'an object of its schema takes members of any name', isMap)
  if (closed.filter(isStrict).length > MOST_STRICT)
    return dropStrict(closed, `at most ${MOST_STRICT} tools may have it`, isStrict)
  const notes = new Set<string>()
  const subset = closed.map((tool) =>
    tool.strict === true ? { ...tool, [schemaName]: subsetOf(tool[schemaName], notes, 0) } : tool,
  )
  for (const text of notes) note(text.replace(OF_ANSWER, ' of a strict tool').replace(CHECKED, ''))
  return subset
}

/** An object in it takes members that it does not name. In the subset it would take none. */
const holdsMap = (schema: unknown, depth: number): boolean => {
  if (!isObject(schema) || isLongNumber(schema) || depth > MOST_DEPTH) return false
  const { additionalProperties: more, patternProperties } = schema
  if (more === true || isObject(more) || isObject(patternProperties)) return true
  const inside = Object.entries(schema).flatMap(([key, value]): unknown[] => {
    if (MAPS.has(key) && isObject(value)) return Object.values(value)
    if (LISTS.has(key) && Array.isArray(value)) return value
    return SINGLE.has(key) ? [value] : []
  })
  return inside.some((one) => holdsMap(one, depth + 1))
}

const subsetOf = (schema: unknown, notes: Set<string>, depth: number): unknown => {
  if (!isObject(schema) || isLongNumber(schema) || depth > MOST_DEPTH) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (LIMITS.has(key)) notes.add(`dropped ${key}${OF_ANSWER}${CHECKED}`)
    else if (MAPS.has(key) && isObject(value)) out[key] = mapValues(value, notes, depth)
    else if (LISTS.has(key) && Array.isArray(value)) {
      if (key === 'oneOf') notes.add(`renamed oneOf${OF_ANSWER} to anyOf`)
      out[key === 'oneOf' ? 'anyOf' : key] = value.map((one) => subsetOf(one, notes, depth + 1))
    } else out[key] = SINGLE.has(key) ? subsetOf(value, notes, depth + 1) : value
  }
  if ((schema.type === 'object' || isObject(schema.properties)) && out.additionalProperties !== false) {
    out.additionalProperties = false
    notes.add(`set additionalProperties${OF_ANSWER} to false`)
  }
  return out
}

const mapValues = (schemas: Json, notes: Set<string>, depth: number): Json =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, subsetOf(schema, notes, depth + 1)]))
