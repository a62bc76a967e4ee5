// The schemas that requests bring along, compiled once for all requests that bring the same.
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { type CompiledSchema, compileSchema, draftOf, SchemaFlaw } from '../../lib/json-schema/json-schema.ts'
import { GatewayError } from '../../wire/errors.ts'

const MAX_SCHEMA_CHARS = 256 * 1024
/** What is remembered, together. A compiled schema takes some twenty times its text. */
const MAX_CACHED = 256
const MAX_CACHED_CHARS = 2 * 1024 * 1024

interface Kept {
  readonly chars: number
  readonly schema: CompiledSchema
}

/** By digest, least recently used first. */
const kept = new Map<string, Kept>()
let keptChars = 0

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/** The compiled schema; throws 400 naming `param` for one that cannot be used. */
export const formatSchema = (declared: Readonly<Record<string, unknown>>, param: string): CompiledSchema => {
  const text = JSON.stringify(declared)
  if (text.length > MAX_SCHEMA_CHARS) throw bad(`the schema is larger than ${MAX_SCHEMA_CHARS} characters`, param)
  const digest = sha256Hex(text)
  const known = kept.get(digest)
  if (known !== undefined) {
    kept.delete(digest)
    kept.set(digest, known)
    return known.schema
  }
  const schema = compiledFor(declared, param)
  kept.set(digest, { chars: text.length, schema })
  keptChars += text.length
  for (const [oldest, { chars }] of kept) {
    if (kept.size <= MAX_CACHED && keptChars <= MAX_CACHED_CHARS) break
    kept.delete(oldest)
    keptChars -= chars
  }
  return schema
}

const compiledFor = (declared: Readonly<Record<string, unknown>>, param: string): CompiledSchema => {
  const draft = draftOf(declared.$schema)
  if (draft === null) throw bad('`$schema` of the schema must be that of JSON Schema 2020-12 or draft-07', param)
  try {
    return compileSchema(declared, draft)
  } catch (error) {
    if (error instanceof SchemaFlaw) throw bad(`the schema cannot be used: ${error.message.slice(0, 300)}`, param)
    throw error
  }
}
