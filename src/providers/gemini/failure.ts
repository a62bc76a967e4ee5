// The meaning of Gemini's errors: Google's one error shape, on statuses, inside streams and for prompts that it
// refuses.
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import type { Reading } from '../port.ts'
import { inBandFailure, statusFailure } from '../shared/failure.ts'
import { arrayOf, type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'
import { retryAfterS } from '../shared/retry-after.ts'

/** Google's canonical codes, for errors that name no status. */
const STATUS: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  INTERNAL: 500,
  UNKNOWN: 500,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
}

/** A stream's error may be wrapped in a list. */
const errorIn = (body: unknown): Json => objectOf(objectOf(Array.isArray(body) ? body[0] : body).error)

const BAD_KEY = /api key (?:not valid|not found|expired|was reported)|unregistered callers/i
/** Gemini reports an empty prepaid account and a reached cap of the project as 429. */
const NO_MONEY = /prepay(?:ment|id) credits? (?:are|is) depleted|spend(?:ing)? cap/i
const NO_ENTITLEMENT = /location is not supported|enable billing|billing account/i

/** The status by meaning: a bad key is a 400 or 403 there, and so is an unsupported country or account. */
const statusMeant = (status: number, error: Json): number => {
  if (status !== 400 && status !== 403) return status
  const message = (textOf(error.message) ?? '').slice(0, 4_096)
  const reasons = arrayOf(error.details).map((detail) => objectOf(detail).reason)
  if (reasons.includes('API_KEY_INVALID') || BAD_KEY.test(message)) return 401
  return status === 400 && error.status === 'FAILED_PRECONDITION' && NO_ENTITLEMENT.test(message) ? 403 : status
}

/** `RetryInfo` of the body as the header that it corresponds to. */
const withRetryInfo = (headers: Headers, error: Json): Headers => {
  const retryDelay = arrayOf(error.details)
    .map((detail) => textOf(objectOf(detail).retryDelay))
    .find((delay) => delay !== null && /^\d{1,9}(?:\.\d{1,9})?s$/.test(delay))
  if (retryDelay === undefined || retryDelay === null || headers.has('retry-after')) return headers
  const more = new Headers(headers)
  more.set('retry-after', retryDelay.slice(0, -1))
  return more
}

const failureFrom = (
  status: number,
  body: string,
  parsed: unknown,
  headers: Headers,
  reading?: Reading,
): GatewayError => {
  const error = errorIn(parsed)
  const withRetryAfter = withRetryInfo(headers, error)
  const failure = statusFailure(status, body, withRetryAfter, reading, statusMeant(status, error))
  // "You exceeded your current quota" is also the text of its limits per minute: only a 402, or a sentence about
  // money, is final.
  if (status !== 429 || failure.code !== 'quota_exceeded' || NO_MONEY.test(failure.message)) return failure
  return new GatewayError('rate_limited', failure.message, {
    upstreamStatus: status,
    retryAfterS: retryAfterS(withRetryAfter, reading?.createdS),
  })
}

export const geminiFailure = (status: number, body: string, headers: Headers, reading?: Reading): GatewayError =>
  failureFrom(status, body, parseJson(body), headers, reading)

/** An `error` inside a success: read as if its code were the status. */
export const geminiInBand = (body: unknown, reading?: Reading): GatewayError => {
  const { code, status } = errorIn(body)
  const named = typeof status === 'string' && Object.hasOwn(STATUS, status) ? STATUS[status] : undefined
  const meant = typeof code === 'number' && Number.isInteger(code) && code >= 400 && code <= 599 ? code : named
  return meant === undefined
    ? inBandFailure(body, reading)
    : failureFrom(meant, JSON.stringify(body), body, new Headers(), reading)
}

/** Google answers a prompt that it blocks with success and no candidate. Null when it blocked nothing. */
export const blockedPrompt = (body: Json): GatewayError | null => {
  if (!isObject(body.promptFeedback)) return null
  const { blockReason } = body.promptFeedback
  if (typeof blockReason !== 'string' || arrayOf(body.candidates).length > 0) return null
  const reason = /^[A-Z_]{1,40}$/.test(blockReason) ? blockReason : 'OTHER'
  return new GatewayError('content_filtered', `The provider blocked the prompt: ${reason}.`)
}
