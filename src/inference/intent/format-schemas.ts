// The schemas of `response_format`, compiled once for all requests with the same schema.
import { WeighedCache } from '../../lib/collections/weighed-cache.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { type CompiledSchema, compileSchema, draftOf, SchemaError } from '../../lib/json-schema/json-schema.ts'
import { GatewayError } from '../../wire/errors.ts'

const MAX_SCHEMA_CHARS = 256 * 1024
/** Bounds of the cache. */
const MAX_CACHED = 256
const MAX_CACHED_BYTES = 32 * 1024 * 1024
/** A compiled schema without its patterns takes some twenty times its text. */
const BYTES_PER_CHAR = 24

/**
 * One for the process and not in `deps`: a compiled schema depends on its text alone, so sharing it changes no result,
 * and `readIntent` stays a function of the request.
 */
const cache = new WeighedCache<CompiledSchema>(MAX_CACHED_BYTES, MAX_CACHED)

/** Drops all compiled schemas, when memory is short; returns the bytes that they took, about. */
export const emptySchemaCache = (): number => cache.clear()

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/**
 * The compiled schema; throws 400 naming `param` for one that cannot be used. `isStrict`: the client asks for strict
 * answers, so that formats are checked.
 */
export const formatSchema = (
  declared: Readonly<Record<string, unknown>>,
  isStrict: boolean,
  param: string,
): CompiledSchema => {
  const text = JSON.stringify(declared)
  if (text.length > MAX_SCHEMA_CHARS) throw bad(`the schema is larger than ${MAX_SCHEMA_CHARS} characters`, param)
  const key = `${isStrict ? 's' : ''}${sha256Hex(text)}`
  const cached = cache.get(key)
  if (cached !== undefined) return cached
  const schema = compiledFor(declared, isStrict, param)
  cache.add(key, schema, text.length * BYTES_PER_CHAR + schema.patternBytes)
  return schema
}

const compiledFor = (declared: Readonly<Record<string, unknown>>, isStrict: boolean, param: string): CompiledSchema => {
  const draft = draftOf(declared.$schema)
  if (draft === null) throw bad('`$schema` of the schema must be that of JSON Schema 2020-12 or draft-07', param)
  try {
    return compileSchema(declared, draft, { assertsFormats: isStrict })
  } catch (error) {
    if (error instanceof SchemaError) throw bad(`the schema cannot be used: ${error.message.slice(0, 300)}`, param)
    throw error
  }
}
