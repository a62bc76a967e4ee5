// The body of a request as text, within the limits. Read here and not by the framework, so that every failure has the
// error envelope.
import type { Inbound } from '../lib/http-server/http-server.ts'
import { endOfString, type JsonBounds, jsonExcess } from '../lib/json/json-bounds.ts'
import { GatewayError } from '../wire/errors.ts'

export const BODY_LIMIT_BYTES = 10 * 1024 * 1024
export const JSON_DEPTH_LIMIT = 64
/** Members and items of a whole body: more of them, in 10 MiB, take a second to parse. */
export const JSON_VALUES_LIMIT = 200_000
/** Different names of members: the runtime keeps a table of all names, and a new one costs as much as 50 known ones. */
export const JSON_NAMES_LIMIT = 20_000
const JSON_BOUNDS: JsonBounds = { depth: JSON_DEPTH_LIMIT, values: JSON_VALUES_LIMIT, names: JSON_NAMES_LIMIT }
const EXCESSES: Readonly<Record<keyof JsonBounds, string>> = {
  depth: `is nested deeper than ${JSON_DEPTH_LIMIT} levels`,
  values: `holds more than ${JSON_VALUES_LIMIT} values`,
  names: `holds more than ${JSON_NAMES_LIMIT} different names of members`,
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

const refused = (message: string, status?: number, param: string | null = null): GatewayError =>
  new GatewayError('invalid_request', message, status === undefined ? { param } : { status, param })

const tooLarge = (limit: number): GatewayError => refused(`the body is larger than ${limit} bytes`, 413)

/** A JSON body: its exact text and its value. */
export interface JsonBody {
  readonly raw: string
  readonly body: Record<string, unknown>
}

/** Time limit of a body other than that of a chat completion. */
export const BODY_MS = 20_000

/** Reads a JSON body, an object. Throws 400, 408, 413 or 415; an empty body is 400 unless it may stand for `{}`. */
export const readJsonBody = async (
  request: Inbound,
  limitBytes = BODY_LIMIT_BYTES,
  mayBeEmpty = false,
  limitMs = BODY_MS,
): Promise<JsonBody> => {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(bodyTooSlow(limitMs)), limitMs)
  try {
    return parseJsonBody(await Promise.race([readJson(request, limitBytes), promise]), mayBeEmpty)
  } finally {
    clearTimeout(timer)
  }
}

/** 408, which closes the connection: the rest of the body is not read. */
export const bodyTooSlow = (limitMs: number): GatewayError =>
  new GatewayError('invalid_request', `the body did not arrive within ${limitMs / 1_000} s`, {
    status: 408,
    headers: { connection: 'close' },
  })

/**
 * Reads a body that is declared as JSON, as text or bytes; a promise only where part of it is still to come. Throws or
 * rejects with 413 and 415.
 */
export const readJson = (
  request: Inbound,
  limitBytes = BODY_LIMIT_BYTES,
): string | Uint8Array | Promise<string | Uint8Array> => {
  const { headers } = request
  const type = headers.get('content-type')
  if (type !== null && !isJson(type)) throw refused('the body must be `application/json`', 415, 'Content-Type')
  const encoding = headers.get('content-encoding')
  if (encoding !== null && !IDENTITY.test(encoding))
    throw refused('compressed bodies are not accepted', 415, 'Content-Encoding')
  return request.textNow?.(limitBytes) ?? readBytes(request, limitBytes)
}

/** Throws 400. */
export const parseJsonBody = (read: string | Uint8Array, mayBeEmpty = false): JsonBody => {
  if (read.length === 0) {
    if (mayBeEmpty) return { raw: '', body: {} }
    throw refused('the request has no body')
  }
  const raw = typeof read === 'string' ? read : decoded(read)
  const excess = jsonExcess(raw, JSON_BOUNDS)
  if (excess !== null) throw refused(`the body ${EXCESSES[excess.of]}`, undefined, memberAt(raw, excess.at))
  let body: unknown
  try {
    body = JSON.parse(raw)
  } catch {
    throw refused('the body is not valid JSON')
  }
  if (body === null || typeof body !== 'object' || Array.isArray(body)) throw refused('the body must be a JSON object')
  return { raw, body: body as Record<string, unknown> }
}

const decoded = (bytes: Uint8Array): string => {
  try {
    return decoder.decode(bytes)
  } catch {
    const text = new TextDecoder().decode(bytes)
    throw refused('the body is not valid UTF-8', undefined, memberAt(text, text.indexOf('\ufffd')))
  }
}

/** No coding; the names of codings have no case (RFC 9110, 8.4.1). */
const IDENTITY = /^\s*identity\s*$/i

const isJson = (type: string): boolean => {
  if (type === 'application/json') return true
  const semicolon = type.indexOf(';')
  const essence = (semicolon < 0 ? type : type.slice(0, semicolon)).trim().toLowerCase()
  if (essence !== 'application/json' && !(essence.startsWith('application/') && essence.endsWith('+json'))) return false
  const charset = /charset\s*=\s*"?([^\s";]+)/i.exec(type)?.[1]
  return charset === undefined || /^utf-?8$/i.test(charset)
}

const readBytes = (request: Inbound, limit: number): Uint8Array | Promise<string | Uint8Array> => {
  const now = request.bytesNow?.() ?? null
  if (now !== null) {
    if (now.length > limit) throw tooLarge(limit)
    return now
  }
  const announced = request.headers.get('content-length')
  if (announced === null) return readUnannounced(request, limit)
  if (Number(announced) > limit) throw tooLarge(limit)
  return request.textOrBytes?.() ?? request.bytes()
}

const readUnannounced = async (request: Inbound, limit: number): Promise<Uint8Array> => {
  if (request.body === null) return new Uint8Array(0)
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of request.body) {
    size += piece.length
    if (size > limit) throw tooLarge(limit)
    pieces.push(piece)
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
}

const QUOTE = 0x22
const LONGEST_MEMBER = 256

/** The member of the outermost object whose value contains the index. Null: none, or the text is not an object. */
export const memberAt = (text: string, index: number): string | null => {
  if (!/^\s*\{/.test(text)) return null
  let depth = 0
  let member: string | null = null
  for (let i = 0; i < index; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      const end = endOfString(text, i)
      if (depth === 1 && member === null && end < index) member = text.slice(i + 1, end)
      i = end
    } else if (code === 0x7b || code === 0x5b) depth++
    else if (code === 0x7d || code === 0x5d) depth--
    else if (code === 0x2c && depth === 1) member = null
  }
  return member !== null && member.length <= LONGEST_MEMBER && !member.includes('\\') ? member : null
}
