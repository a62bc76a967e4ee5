// Checks a value against a TypeBox schema: the first error as text, with the name of the field at fault.
import { nearest } from '../text/nearest.ts'
import { type TSchema, type TypeCheck, TypeCompiler } from './schema.ts'

interface SchemaError {
  readonly path: string
  readonly message: string
  readonly value: unknown
  readonly schema: TSchema
  readonly errors?: readonly Iterable<SchemaError>[]
}

const compiled = new WeakMap<TSchema, TypeCheck<TSchema>>()

const checkOf = (schema: TSchema): TypeCheck<TSchema> => {
  let check = compiled.get(schema)
  if (check === undefined) {
    check = TypeCompiler.Compile(schema)
    compiled.set(schema, check)
  }
  return check
}

/** Field names come from clients and may be as long as a body. */
const MOST_PATH_CHARS = 256

/** `/strategy_params/weights/cost` -> `strategy_params.weights.cost` */
const dotted = (path: string): string => {
  const parts = path.split('/').slice(1)
  const text = parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')).join('.')
  return text.length <= MOST_PATH_CHARS ? text : `${text.slice(0, MOST_PATH_CHARS)}...`
}

const literalsOf = (schema: TSchema): string[] | null => {
  const members = schema.anyOf as TSchema[] | undefined
  if (members === undefined || !members.every((member) => member.const !== undefined)) return null
  return members.map((member) => String(member.const))
}

/** The most specific error: of a nullable field, the one of its type besides null. */
const deepest = (error: SchemaError): SchemaError => {
  if (literalsOf(error.schema) !== null || error.errors === undefined) return error
  for (const branch of error.errors) {
    const inner = [...branch].find(({ schema }) => schema.type !== 'null' && schema.const === undefined)
    if (inner !== undefined) return deepest(inner)
  }
  return error
}

const article = (type: unknown): string => `${/^[aeiou]/.test(String(type)) ? 'an' : 'a'} ${String(type)}`

const ruleOf = ({ schema, value, message }: SchemaError): string => {
  const literals = literalsOf(schema)
  if (literals !== null) return `must be one of ${literals.join(', ')}`
  if (schema.type === 'string' && typeof value === 'string') {
    if (value.length < (schema.minLength ?? 0))
      return value === '' ? 'must not be empty' : `must have at least ${schema.minLength} characters`
    if (value.length > (schema.maxLength ?? Infinity)) return `must have at most ${schema.maxLength} characters`
    return schema.description === undefined ? `must match ${schema.pattern}` : `must be ${schema.description}`
  }
  if ((schema.type === 'integer' || schema.type === 'number') && typeof value === 'number') {
    if (value < (schema.minimum ?? -Infinity)) return `must be at least ${schema.minimum}`
    if (value > (schema.maximum ?? Infinity)) return `must be at most ${schema.maximum}`
  }
  if (schema.type === 'array' && Array.isArray(value)) {
    if (value.length > (schema.maxItems ?? Infinity)) return `must have at most ${schema.maxItems} entries`
    if (value.length < (schema.minItems ?? 0))
      return `must have at least ${schema.minItems} ${schema.minItems === 1 ? 'entry' : 'entries'}`
  }
  return schema.type === undefined ? message : `must be ${article(schema.type)}`
}

export interface FieldError {
  /** Dotted path of the field; '' for the whole. */
  readonly param: string
  readonly message: string
}

/** The field names that a closed object has at this path, for the hint after an unknown field. */
const namesAt = (schema: TSchema, path: readonly string[]): string[] => {
  let at: TSchema | undefined = schema
  for (const part of path) {
    const members: TSchema[] = at?.anyOf ?? (at === undefined ? [] : [at])
    const object: TSchema | undefined = members.find(
      (member) => member.properties !== undefined || member.items !== undefined,
    )
    at = object?.properties?.[part] ?? object?.items
  }
  const target = (at?.anyOf as TSchema[] | undefined)?.find((member) => member.properties !== undefined) ?? at
  return Object.keys(target?.properties ?? {})
}

/** The first error of a value, or null when it matches the schema. Never quotes the value: it may be a secret. */
export const firstError = (schema: TSchema, value: unknown): FieldError | null => {
  const check = checkOf(schema)
  if (check.Check(value)) return null
  const errors = [...check.Errors(value)] as unknown as SchemaError[]
  const found = errors.map(deepest)
  // An unknown field comes first: it explains the missing field whose name was mistyped.
  const error = found.find(({ message }) => message === 'Unexpected property') ?? found[0]!
  const param = dotted(error.path)
  if (error.message === 'Unexpected property') {
    const path = param.split('.')
    const hint = nearest(path.at(-1)!, namesAt(schema, path.slice(0, -1)))
    return { param, message: `unknown field "${param}"${hint === null ? '' : `; did you mean "${hint}"?`}` }
  }
  if (error.value === undefined) return { param, message: `"${param}" is required` }
  return { param, message: param === '' ? `it ${ruleOf(error)}` : `"${param}" ${ruleOf(error)}` }
}
