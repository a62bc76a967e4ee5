// Structured answers: what `response_format` demands, whether an answer meets it, and the `structured` block that says so.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { RE2JS } from 're2js'
import { sha256Hex } from '../lib/digest.ts'
import { GatewayError } from '../wire/errors.ts'
import { isObject } from '../wire/json.ts'

export interface StructuredRequest {
  /** `json_object` and `json_schema` are checked; `text` and what only the provider knows are passed on and reported unchecked. */
  readonly type: string
  /** `response_format.json_schema.name`. */
  readonly schemaName: string | null
  readonly validate: ValidateFunction | null
}

export interface StructuredResult {
  readonly valid: boolean
  readonly error: string | null
  /** The JSON text to put in place of the content: it was found inside a fence or prose. Null: the content stands as it is. */
  readonly repaired: string | null
}

const MAX_TYPE_CHARS = 64
const MAX_SCHEMA_CHARS = 256 * 1024
const MAX_CACHED = 256
/** A larger answer is not validated against a schema on the serving thread. */
const MAX_ANSWER_CHARS = 2 * 1024 * 1024

// Patterns come from strangers: RE2 has no exponential case. `toString` keeps ajv from taking all patterns for one.
const regExp = Object.assign(
  (pattern: string) => {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    return { test: (text: string) => compiled.matcher(text).find(), toString: () => `/${pattern}/u` }
  },
  { code: 'new RegExp' },
)
const newAjv = () => {
  const ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: true, logger: false, code: { regExp } })
  addFormats.default(ajv)
  return ajv
}
const ajv = newAjv()
/** Compiled schemas by digest, least recently used first. */
const compiled = new Map<string, { schema: object; validate: ValidateFunction }>()

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/** What the body's `response_format` demands; null for none. Unknown types are left to the provider. Throws 400 naming the field. */
export const structuredRequestOf = (format: unknown): StructuredRequest | null => {
  if (format === undefined || format === null) return null
  if (!isObject(format)) throw bad('`response_format` must be an object', 'response_format')
  if (typeof format.type !== 'string') throw bad('`response_format.type` must be a string', 'response_format.type')
  if (format.type.length > MAX_TYPE_CHARS) {
    throw bad(`\`response_format.type\` is longer than ${MAX_TYPE_CHARS} characters`, 'response_format.type')
  }
  if (format.type !== 'json_schema') return { type: format.type, schemaName: null, validate: null }
  const declared = format.json_schema
  const at = 'response_format.json_schema'
  if (!isObject(declared)) throw bad(`\`${at}\` must be an object`, at)
  if (typeof declared.name !== 'string' || declared.name === '') throw bad(`\`${at}.name\` is required`, `${at}.name`)
  if (!isObject(declared.schema)) {
    if (declared.schema === undefined) return { type: 'json_schema', schemaName: declared.name, validate: null }
    throw bad(`\`${at}.schema\` must be a JSON Schema object`, `${at}.schema`)
  }
  return { type: 'json_schema', schemaName: declared.name, validate: validatorOf(declared.schema, `${at}.schema`) }
}

const validatorOf = (declared: Record<string, unknown>, param: string): ValidateFunction => {
  const text = JSON.stringify(declared)
  if (text.length > MAX_SCHEMA_CHARS) throw bad(`the schema is larger than ${MAX_SCHEMA_CHARS} characters`, param)
  const digest = sha256Hex(text)
  const known = compiled.get(digest)
  if (known !== undefined) {
    compiled.delete(digest)
    compiled.set(digest, known)
    return known.validate
  }
  // One dialect serves all: the differences between the drafts do not matter to what providers accept. An `$id` would collide.
  const { $schema: _, $id: __, ...schema } = declared
  let validate: ValidateFunction
  try {
    validate = ajv.compile(schema)
  } catch (error) {
    ajv.removeSchema(schema)
    throw bad(`the schema cannot be used: ${(error as Error).message.slice(0, 300)}`, param)
  }
  compiled.set(digest, { schema, validate })
  if (compiled.size > MAX_CACHED) {
    const [oldest, { schema: forgotten }] = compiled.entries().next().value!
    compiled.delete(oldest)
    ajv.removeSchema(forgotten)
  }
  return validate
}

/** Whether an answer can break it. */
export const demandsJson = ({ type }: StructuredRequest): boolean => type === 'json_object' || type === 'json_schema'

/** Checks the text of an answer. A single JSON object inside a fence or prose is extracted and counts as repaired. */
export const checkStructured = (request: StructuredRequest, content: string): StructuredResult => {
  const direct = parsed(content)
  if (direct !== undefined) return verdict(request, direct, null, content.length)
  const inner = extractObject(content)
  if (inner === null) return { valid: false, error: 'the answer is not JSON', repaired: null }
  return verdict(request, parsed(inner), inner, inner.length)
}

const verdict = (
  request: StructuredRequest,
  value: unknown,
  repaired: string | null,
  size: number,
): StructuredResult => {
  if (request.type === 'json_object' && !isObject(value)) {
    return { valid: false, error: 'the answer is not a JSON object', repaired: null }
  }
  if (request.validate !== null && size > MAX_ANSWER_CHARS) {
    return { valid: false, error: 'the answer is too large to be checked against the schema', repaired: null }
  }
  if (request.validate === null || request.validate(value)) return { valid: true, error: null, repaired }
  const [first] = request.validate.errors ?? []
  const error =
    first === undefined ? 'does not match the schema' : `${first.instancePath || '/'} ${first.message ?? first.keyword}`
  return { valid: false, error: error.slice(0, 300), repaired: null }
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const FENCE = /```(?:json|JSON)?[ \t]*\r?\n([\s\S]*?)```/g
const MAX_EXTRACT_CHARS = 1024 * 1024

/** The one JSON object in a text: in the only fence, else the only balanced `{...}` that parses. Null when there is none or more than one. */
export const extractObject = (text: string): string | null => {
  if (text.length > MAX_EXTRACT_CHARS) return null
  const fenced = [...text.matchAll(FENCE)].map((match) => match[1]!.trim())
  const candidates = fenced.length > 0 ? fenced : balancedObjects(text)
  const objects = candidates.filter((candidate) => isObject(parsed(candidate)))
  return objects.length === 1 ? objects[0]! : null
}

/** Top-level `{...}` stretches, at most three: more than one is ambiguous anyway. One pass. */
const balancedObjects = (text: string): string[] => {
  const found: string[] = []
  let depth = 0
  let start = 0
  let quoted = false
  for (let i = 0; i < text.length && found.length < 3; i++) {
    const char = text[i]
    if (quoted) {
      if (char === '\\') i++
      else if (char === '"') quoted = false
    } else if (char === '"' && depth > 0) quoted = true
    else if (char === '{') {
      if (depth++ === 0) start = i
    } else if (char === '}' && depth > 0 && --depth === 0) found.push(text.slice(start, i + 1))
  }
  return found
}

/** `gateway.structured` as a member of the block. Without a result, since nothing was checked, `valid` is null. */
export const structuredJson = (request: StructuredRequest, result: StructuredResult | null): string =>
  `,"structured":${JSON.stringify({
    requested: request.type,
    valid: result?.valid ?? null,
    schema: request.schemaName,
    error: result?.error ?? null,
    repaired: result !== null && result.repaired !== null,
  })}`
