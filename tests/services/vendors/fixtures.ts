// The fixtures of a kind (tests/fixtures/providers/<kind>/) as the parts that its fake speaks with.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject, type Json } from './conversation.ts'

const ROOT = join(import.meta.dir, '../../fixtures/providers')
const read = (kind: string, name: string): string => readFileSync(join(ROOT, kind, name), 'utf8')
const list = (kind: string, name: string): readonly Json[] => {
  if (!existsSync(join(ROOT, kind, name))) return []
  const value: unknown = JSON.parse(read(kind, name))
  return (Array.isArray(value) ? value : [value]) as Json[]
}

/** Text of a whole answer: the first recorded one that ended well and counts both sides' tokens, else the first. */
export const recordedAnswer = (kind: string): string => {
  const all = list(kind, 'answer.json')
  const whole = all.find(({ answer, usage }) => {
    const counted =
      isObject(usage) && typeof usage.promptTokens === 'number' && typeof usage.completionTokens === 'number'
    return counted && isObject(answer) && answer.finishReason === 'stop' && answer.content !== null
  })
  const body = (whole ?? all[0])?.body
  if (typeof body !== 'string') throw new Error(`${kind} has no recorded answer`)
  return body
}

/** Text of a recorded stream, the first of these names that the kind has. */
export const recordedStream = (kind: string, names: readonly string[], extension: string): string => {
  const name = names.find((one) => existsSync(join(ROOT, kind, `${one}.${extension}`)))
  if (name === undefined)
    throw new Error(`${kind} has no stream named ${names.join(', ')} among ${readdirSync(join(ROOT, kind)).join(' ')}`)
  return read(kind, `${name}.${extension}`)
}

const BROKEN = ['error.sse', 'error.ndjson', 'model-error.eventstream', 'resources.sse']

/**
 * A stream that fails after its first content, and the code that the gateway must map it to; null: none is recorded.
 */
export const recordedBreak = (kind: string): { readonly bytes: Uint8Array; readonly code: string } | null => {
  const name = BROKEN.find((one) => existsSync(join(ROOT, kind, one)))
  if (name === undefined) return null
  const { error } = JSON.parse(read(kind, name.replace(/\.\w+$/, '.parts.json'))) as { error: { code: string } }
  return { bytes: readFileSync(join(ROOT, kind, name)), code: error.code }
}

export interface RecordedFailure {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Seconds that the gateway must send to its client as Retry-After; null: none. */
  readonly retryAfterS: number | null
}

const failuresOf = (kind: string, code: string): RecordedFailure[] =>
  list(kind, 'errors.json').flatMap(({ status, headers = {}, body, error }) => {
    const expected = isObject(error) ? error : {}
    // The server dates its answers itself.
    if (expected.code !== code || Object.hasOwn(headers as object, 'date')) return []
    const retryAfterS = typeof expected.retryAfterS === 'number' ? expected.retryAfterS : null
    return [{ status, headers, body, retryAfterS } as RecordedFailure]
  })

/**
 * The kind's failure that the gateway maps to `code`; OpenAI's where none is recorded. With a Retry-After where the
 * vendor sends one.
 */
export const recordedFailure = (kind: string, code: string): RecordedFailure => {
  const own = failuresOf(kind, code)
  const all = own.length > 0 ? own : failuresOf('openai', code)
  const found = all.find(({ retryAfterS }) => retryAfterS !== null && retryAfterS > 1) ?? all[0]
  if (found === undefined) throw new Error(`no failure is recorded that becomes ${code}`)
  // A second or less the gateway waits itself.
  if (code !== 'rate_limited' || (found.retryAfterS ?? 0) > 1) return found
  return { ...found, headers: { ...found.headers, 'retry-after': '7' }, retryAfterS: 7 }
}

export interface RecordedListing {
  /** Path and query of the listing, as the vendor's own address has them. */
  readonly pathAndQuery: string
  readonly body: string
  readonly names: readonly string[]
}

/** The recorded listing of models, and further listings that the gateway requests. */
export const recordedListings = (kind: string): readonly RecordedListing[] =>
  list(kind, 'listing.json')
    .slice(0, 1)
    .flatMap((listing) =>
      [listing, ...((listing.further ?? []) as Json[])].map(({ url, body, models }) => {
        const { pathname, search } = new URL(url as string)
        return {
          pathAndQuery: pathname + search,
          body: typeof body === 'string' ? body : JSON.stringify(body),
          names: (models as { name: string }[]).map(({ name }) => name),
        }
      }),
    )
