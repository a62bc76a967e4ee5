// Structured answers: what `response_format` requires, whether an answer meets it, and the `structured` member of the
// block.
import { parseInner } from '../../lib/json/exact-json.ts'
import type { CompiledSchema } from '../../lib/json-schema/json-schema.ts'
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import { formatSchema } from './format-schemas.ts'

export interface StructuredRequest {
  /**
   * `json_object` and `json_schema` are checked; `text` and types of the provider are passed on and reported as
   * unchecked.
   */
  readonly type: string
  /** `response_format.json_schema.name`. */
  readonly schemaName: string | null
  /** Null: every JSON text is valid, or none is required. */
  readonly schema: CompiledSchema | null
}

export interface StructuredResult {
  readonly valid: boolean
  readonly error: string | null
  /** JSON text that replaces the content, found inside a code fence. Null: the content stays. */
  readonly repaired: string | null
}

const MAX_TYPE_CHARS = 64
/** A longer answer is not checked, since that would block the thread: it counts as a violation. */
export const MAX_ANSWER_CHARS = 2 * 1024 * 1024

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/**
 * What the body's `response_format` requires; null for none. Unknown types are left to the provider. Throws 400 naming
 * the field.
 */
export const structuredRequestOf = (format: unknown): StructuredRequest | null => {
  if (format === undefined || format === null) return null
  if (!isObject(format)) throw bad('`response_format` must be an object', 'response_format')
  if (typeof format.type !== 'string') throw bad('`response_format.type` must be a string', 'response_format.type')
  if (format.type.length > MAX_TYPE_CHARS) {
    throw bad(`\`response_format.type\` is longer than ${MAX_TYPE_CHARS} characters`, 'response_format.type')
  }
  if (format.type !== 'json_schema') return { type: format.type, schemaName: null, schema: null }
  const declared = format.json_schema
  const at = 'response_format.json_schema'
  if (!isObject(declared)) throw bad(`\`${at}\` must be an object`, at)
  if (typeof declared.name !== 'string' || declared.name === '') throw bad(`\`${at}.name\` is required`, `${at}.name`)
  if (!isObject(declared.schema)) {
    if (declared.schema === undefined) return { type: 'json_schema', schemaName: declared.name, schema: null }
    throw bad(`\`${at}.schema\` must be a JSON Schema object`, `${at}.schema`)
  }
  const schema = formatSchema(declared.schema, declared.strict === true, `${at}.schema`)
  return { type: 'json_schema', schemaName: declared.name, schema }
}

/** Whether an answer can violate it. */
export const demandsJson = ({ type }: StructuredRequest): boolean => type === 'json_object' || type === 'json_schema'

/** Checks the text of an answer. The only JSON object inside a fence is extracted and counts as repaired. */
export const checkStructured = (request: StructuredRequest, content: string): StructuredResult => {
  if (content.length >= MAX_ANSWER_CHARS) return violation('the answer is too long to be checked')
  const direct = parsed(content)
  if (direct !== undefined) return verdict(request, direct, null)
  const inner = fencedObject(content)
  return inner === null ? violation('the answer is not JSON') : verdict(request, parsed(inner), inner)
}

const violation = (error: string): StructuredResult => ({ valid: false, error, repaired: null })

const verdict = (request: StructuredRequest, value: unknown, repaired: string | null): StructuredResult => {
  if (request.type === 'json_object' && !isObject(value)) return violation('the answer is not a JSON object')
  const problem = request.schema?.firstError(value) ?? null
  return problem === null ? { valid: true, error: null, repaired } : violation(problem)
}

const parsed = (text: string): unknown => {
  try {
    return parseInner(text)
  } catch {
    return undefined
  }
}

/** The line that opens a code fence, with or without the name of a language. */
const OPENING = /^[ \t]*```[\w+-]*[ \t]*\r?\n/gm
const CLOSING_LINE = /^[ \t]*```/gm
/** Bound of fences that are read. More than one object is ambiguous anyway. */
const MOST_FENCES = 64

/** The only JSON object inside a fence; null when there is none, or more than one. */
export const fencedObject = (text: string): string | null => {
  let found: string | null = null
  let from = 0
  for (let fences = 0; fences < MOST_FENCES; fences++) {
    OPENING.lastIndex = from
    const opening = OPENING.exec(text)
    if (opening === null) return found
    const start = opening.index + opening[0].length
    const end = fenceEnd(text, start)
    if (end < 0) return found
    const inner = text.slice(start, end).trim()
    if (inner.startsWith('{') && isObject(parsed(inner))) {
      if (found !== null) return null
      found = inner
    }
    from = text.indexOf('```', end) + 3
  }
  return null
}

/** The end of a fence: a line of its own, which no JSON string can hold; else the next marks. */
const fenceEnd = (text: string, start: number): number => {
  CLOSING_LINE.lastIndex = start
  const line = CLOSING_LINE.exec(text)
  const marks = text.indexOf('```', start)
  if (line === null || line.index === marks) return marks
  // On one line with the end of the object: only if the text before it is JSON.
  return marks >= 0 && isObject(parsed(text.slice(start, marks))) ? marks : line.index
}

/** `gateway.structured` as a member of the block. Without a verdict, since nothing was checked, `valid` is null. */
export const structuredJson = (
  request: StructuredRequest,
  verdict: { readonly valid: boolean; readonly error: string | null; readonly repaired: boolean } | null,
): string =>
  `,"structured":${JSON.stringify({
    requested: request.type,
    valid: verdict?.valid ?? null,
    schema: request.schemaName,
    error: verdict?.error ?? null,
    repaired: verdict?.repaired ?? false,
    unchecked: request.schema?.unchecked ?? [],
  })}`
