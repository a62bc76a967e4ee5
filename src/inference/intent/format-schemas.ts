// The schemas of `response_format`, compiled once for all requests with the same schema.
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { type CompiledSchema, compileSchema, draftOf, SchemaError } from '../../lib/json-schema/json-schema.ts'
import { GatewayError } from '../../wire/errors.ts'

const MAX_SCHEMA_CHARS = 256 * 1024
/** Bounds of the cache. A compiled schema takes some twenty times its text. */
const MAX_CACHED = 256
const MAX_CACHED_CHARS = 2 * 1024 * 1024

interface CachedSchema {
  readonly chars: number
  readonly schema: CompiledSchema
}

/** Compiled schemas by the digest of their text, least recently used first. */
class SchemaCache {
  readonly #byDigest = new Map<string, CachedSchema>()
  #chars = 0

  get(digest: string): CompiledSchema | null {
    const cached = this.#byDigest.get(digest)
    if (cached === undefined) return null
    this.#byDigest.delete(digest)
    this.#byDigest.set(digest, cached)
    return cached.schema
  }

  add(digest: string, chars: number, schema: CompiledSchema): void {
    this.#byDigest.set(digest, { chars, schema })
    this.#chars += chars
    for (const [oldest, evicted] of this.#byDigest) {
      if (this.#byDigest.size <= MAX_CACHED && this.#chars <= MAX_CACHED_CHARS) break
      this.#byDigest.delete(oldest)
      this.#chars -= evicted.chars
    }
  }
}

/**
 * One for the process and not in `deps`: a compiled schema depends on its text alone, so sharing it changes no result,
 * and `readIntent` stays a function of the request.
 */
const cache = new SchemaCache()

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/** The compiled schema; throws 400 naming `param` for one that cannot be used. */
export const formatSchema = (declared: Readonly<Record<string, unknown>>, param: string): CompiledSchema => {
  const text = JSON.stringify(declared)
  if (text.length > MAX_SCHEMA_CHARS) throw bad(`the schema is larger than ${MAX_SCHEMA_CHARS} characters`, param)
  const digest = sha256Hex(text)
  const cached = cache.get(digest)
  if (cached !== null) return cached
  const schema = compiledFor(declared, param)
  cache.add(digest, text.length, schema)
  return schema
}

const compiledFor = (declared: Readonly<Record<string, unknown>>, param: string): CompiledSchema => {
  const draft = draftOf(declared.$schema)
  if (draft === null) throw bad('`$schema` of the schema must be that of JSON Schema 2020-12 or draft-07', param)
  try {
    return compileSchema(declared, draft)
  } catch (error) {
    if (error instanceof SchemaError) throw bad(`the schema cannot be used: ${error.message.slice(0, 300)}`, param)
    throw error
  }
}
