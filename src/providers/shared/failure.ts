// Maps an upstream's failure to the gateway's one error table: the body's signature first, then the status.
import { type ErrorCode, GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import type { Reading } from '../port.ts'
import { ABOUT_MONEY, aboutPromptLength, aboutRate, SIGNATURES, type Signature } from './failure-signatures.ts'
import { arrayOf, type Json, objectOf, parseInnerJson, parseJson, textOf } from './read-json.ts'
import { retryAfterS } from './retry-after.ts'
import { scrub } from './scrub.ts'

/** The machine-readable fields (lower case) and the message of an error body, wherever its wire puts them. */
interface ErrorText {
  readonly fields: readonly string[]
  readonly message: string
  readonly param: string | null
  /** `error.code` when it is a status. */
  readonly status: number | null
}

/** Codes that a body may turn a status into. An unlisted status keeps its code. */
const ANY = SIGNATURES.map(({ code }) => code)
const OPEN_TO: Readonly<Record<number, readonly ErrorCode[]>> = {
  401: [],
  402: [],
  403: ['content_filtered', 'quota_exceeded', 'authentication_error'],
  404: [],
  408: [],
  424: [],
  429: ['quota_exceeded'],
  499: [],
}

const byStatus = (status: number): ErrorCode => {
  if (status === 401) return 'authentication_error'
  if (status === 402) return 'quota_exceeded'
  if (status === 403) return 'permission_error'
  if (status === 404) return 'not_found'
  if (status === 408) return 'timeout'
  if (status === 429 || status === 498) return 'rate_limited'
  if (status === 424 || status === 499 || status < 400 || status >= 500) return 'upstream_error'
  return 'invalid_request'
}

const errorObject = (body: unknown): Json | null => {
  const top = Array.isArray(body) ? body[0] : body
  if (!isObject(top)) return null
  if (isObject(top.error)) return top.error
  // `{error: "text", error_type}`, `{object: "error", message, type, code}`, `{detail: ...}`
  return typeof top.error === 'string' ? { ...top, message: top.error, code: top.code ?? top.error } : top
}

/** The first detail of a FastAPI server: `{detail: [{loc, msg}]}`, at the top or as the message. */
const complaintOf = (error: Json): Json =>
  objectOf(arrayOf(error.detail)[0] ?? arrayOf(objectOf(error.message).detail)[0])

const sentenceOf = (error: Json): string =>
  textOf(error.message) ?? textOf(error.detail) ?? textOf(complaintOf(error).msg) ?? ''

/** `["body", "messages", 0, "content"]` -> `messages[0].content`. */
const paramOf = (error: Json): string | null => {
  if (typeof error.param === 'string') return error.param
  let param = ''
  for (const step of arrayOf(complaintOf(error).loc).slice(0, 16)) {
    if (typeof step === 'number') param += `[${step}]`
    else if (typeof step === 'string' && step !== 'body') param += param === '' ? step : `.${step}`
  }
  return param === '' ? null : param
}

/** A text that is no JSON is quoted only when it is one short plain sentence. */
const isSentence = (text: string): boolean => text.length <= 300 && !text.includes('<')

/** OpenRouter's `metadata`: the failure of the vendor behind it, and why its moderation refused. */
const relayedIn = (error: Json): { readonly error: Json; readonly moderated: boolean } => {
  const { raw, reasons } = objectOf(error.metadata)
  const plain = typeof raw === 'string' && isSentence(raw) ? { message: raw } : null
  const vendor = typeof raw === 'string' ? (parseInnerJson(raw) ?? plain) : raw
  return { error: errorObject(vendor) ?? {}, moderated: Array.isArray(reasons) && reasons.length > 0 }
}

const errorTextIn = (body: unknown, extra: string | null): ErrorText => {
  const error = errorObject(body) ?? {}
  const inner = objectOf(error.innererror)
  const relayed = relayedIn(error)
  const moderated = relayed.moderated ? 'content_filter' : null
  const all = [error.code, error.type, error.status, error.error_type, error.__type, inner.code, extra, moderated]
  all.push(error.reason, relayed.error.code, relayed.error.type)
  const fields = all.flatMap((field) =>
    typeof field === 'string' || typeof field === 'number' ? [`${field}`.toLowerCase()] : [],
  )
  const status = Number(error.code)
  return {
    fields,
    message: sentenceOf(relayed.error) || sentenceOf(error),
    param: paramOf(error),
    status: Number.isInteger(status) && status >= 400 && status <= 599 ? status : null,
  }
}

const codeOf = (status: number, errorText: ErrorText): ErrorCode => {
  const plain = byStatus(status)
  if (status < 400 || status >= 500) return plain
  const open = OPEN_TO[status] ?? ANY
  const message = errorText.message.slice(0, 4096).toLowerCase()
  for (const signature of SIGNATURES) {
    if (!open.includes(signature.code)) continue
    if (signs(signature, errorText.fields, message)) return signature.code
  }
  if (status === 403 && ABOUT_MONEY.test(message)) return 'quota_exceeded'
  if (status === 413 && aboutRate(message)) return 'rate_limited'
  if (status === 413 && aboutPromptLength(message)) return 'context_length_exceeded'
  return plain
}

const signs = ({ fields, message, except }: Signature, given: readonly string[], text: string): boolean =>
  fields.some((field) => given.includes(field)) || (message.test(text) && except?.test(text) !== true)

const PLAIN: Partial<Record<ErrorCode, string>> = {
  authentication_error: 'The provider refused the credentials that the gateway holds for it.',
  rate_limited: 'The provider limits the rate of requests.',
  quota_exceeded: "The provider's quota or credit is used up.",
  not_found: 'The provider does not know what was asked for.',
  upstream_error: 'The provider failed.',
}

/** Of unknown things at a provider, the client named the model only; a missing route belongs to no field. */
const blamedOn = (code: ErrorCode, { fields, message }: ErrorText): string | null => {
  if (code !== 'not_found') return null
  return fields.some((field) => MODEL_UNKNOWN.includes(field)) || /\b(?:models?|deployment)\b/i.test(message)
    ? 'model'
    : null
}
const MODEL_UNKNOWN: readonly string[] = ['model_not_found', 'deploymentnotfound']

const failureOf = (
  code: ErrorCode,
  errorText: ErrorText,
  status: number | undefined,
  retryS: number | undefined,
  reading?: Reading,
): GatewayError => {
  // Messages about credentials tend to quote them, so they are never relayed.
  const quoted = code === 'authentication_error' ? '' : scrub(errorText.message, reading)
  const message = quoted !== '' ? quoted : (PLAIN[code] ?? `The provider answered with status ${status ?? 'unknown'}.`)
  const param = errorText.param === null ? blamedOn(code, errorText) : scrub(errorText.param, reading).slice(0, 200)
  return new GatewayError(code, message, {
    param,
    upstreamStatus: status,
    retryAfterS: code === 'rate_limited' ? retryS : undefined,
  })
}

/** A failure by its status, or as if it were `readAs`. */
export const statusFailure = (
  status: number,
  body: string,
  headers: Headers,
  reading?: Reading,
  readAs = status,
): GatewayError => {
  const parsed = parseJson(body)
  const plain = parsed === undefined && isSentence(body) ? { message: body } : {}
  const errorText = errorTextIn(parsed ?? plain, headers.get('x-amzn-errortype'))
  return failureOf(codeOf(readAs, errorText), errorText, status, retryAfterS(headers, reading?.createdS), reading)
}

/**
 * A failure inside a success: the `error` of a 200 body or of a stream. `statusOf` translates an error type of the
 * wire into its status.
 */
export const inBandFailure = (
  body: unknown,
  reading?: Reading,
  statusOf: (field: string) => number | undefined = () => undefined,
): GatewayError => {
  const errorText = errorTextIn(body, null)
  const status = errorText.status ?? errorText.fields.map(statusOf).find((known) => known !== undefined)
  if (status !== undefined) return failureOf(codeOf(status, errorText), errorText, status, undefined, reading)
  const guessed = codeOf(400, errorText) // by its signature alone
  return failureOf(guessed === 'invalid_request' ? 'upstream_error' : guessed, errorText, undefined, undefined, reading)
}

/**
 * Null, false, an empty text, and an object with only such values are no failure: some servers send one with every
 * answer.
 */
const isFailure = (error: unknown): boolean =>
  typeof error === 'object' && error !== null ? Object.values(error).some(Boolean) : Boolean(error)

/**
 * A success with an error is a failure, whatever else it holds: an answer that broke off is incomplete, and SDKs throw
 * on such a chunk.
 */
export const reportsFailure = (body: Json): boolean => body.object === 'error' || isFailure(body.error)

/** The upstream reported success, but sent no answer. */
export const malformed = (what: string): GatewayError =>
  new GatewayError('upstream_error', `The provider's answer could not be used: ${what}.`)
