// A value that fits an ordinary JSON Schema: the sandbox's answer. Deterministic; `allOf`, patterns and conditions are
// not supported.
import { isObject } from '../../wire/json.ts'
import { arrayOf, type Json, objectOf } from '../shared/read-json.ts'

const MOST_DEPTH = 16

const typeOf = (schema: Json): unknown => {
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== 'null') : schema.type
  if (type !== undefined) return type
  if (isObject(schema.properties)) return 'object'
  return schema.items === undefined ? undefined : 'array'
}

const text = ({ minLength, format }: Json): string => {
  if (format === 'date-time') return '2026-01-01T00:00:00Z'
  if (format === 'date') return '2026-01-01'
  if (format === 'email') return 'someone@example.com'
  if (format === 'uri') return 'https://example.com/'
  return 'sample'.padEnd(typeof minLength === 'number' ? Math.min(minLength, 1_000) : 0, 'x')
}

const number = ({ minimum, exclusiveMinimum, maximum }: Json): number => {
  if (typeof minimum === 'number') return minimum
  if (typeof exclusiveMinimum === 'number') return exclusiveMinimum + 1
  return typeof maximum === 'number' ? Math.min(1, maximum) : 1
}

/** Undefined when the schema allows no sample. `root` holds the targets of local `$ref`s. */
export const sampleOf = (schema: unknown, root: unknown = schema, depth = 0): unknown => {
  if (!isObject(schema) || depth > MOST_DEPTH) return undefined
  if (typeof schema.$ref === 'string' && schema.$ref.startsWith('#/')) {
    const target = schema.$ref
      .slice(2)
      .split('/')
      .reduce<unknown>((at, name) => objectOf(at)[name], root)
    return sampleOf(target, root, depth + 1)
  }
  if (schema.const !== undefined) return schema.const
  const choice = arrayOf(schema.enum)[0]
  if (choice !== undefined) return choice
  const branch = arrayOf(schema.anyOf)[0] ?? arrayOf(schema.oneOf)[0]
  if (branch !== undefined) return sampleOf(branch, root, depth + 1)
  switch (typeOf(schema)) {
    case 'object':
      return Object.fromEntries(
        Object.entries(objectOf(schema.properties)).map(([name, member]) => [
          name,
          sampleOf(member, root, depth + 1) ?? null,
        ]),
      )
    case 'array':
      return [sampleOf(schema.items, root, depth + 1) ?? null]
    case 'string':
      return text(schema)
    case 'integer':
      return Math.ceil(number(schema))
    case 'number':
      return number(schema)
    case 'boolean':
      return true
    default:
      return null
  }
}
