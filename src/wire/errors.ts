// The one error table (docs/behaviour.md: "Errors") and the error that carries its entries. What a code means to a
// client is defined here only.

import type { MalformedRequest } from '../lib/http-server/http-server.ts'

/** Each code: HTTP status, whether a client may retry, whether another provider may be tried. */
export const ERRORS = {
  invalid_request: { status: 400, type: 'invalid_request_error', retryable: false, fallback: false },
  context_length_exceeded: { status: 400, type: 'invalid_request_error', retryable: false, fallback: false },
  authentication_error: { status: 401, type: 'authentication_error', retryable: false, fallback: false },
  permission_error: { status: 403, type: 'permission_error', retryable: false, fallback: false },
  not_found: { status: 404, type: 'not_found_error', retryable: false, fallback: false },
  content_filtered: { status: 400, type: 'content_filter_error', retryable: false, fallback: false },
  rate_limited: { status: 429, type: 'rate_limit_error', retryable: true, fallback: true },
  quota_exceeded: { status: 402, type: 'quota_error', retryable: false, fallback: true },
  timeout: { status: 504, type: 'timeout_error', retryable: true, fallback: true },
  upstream_error: { status: 502, type: 'upstream_error', retryable: true, fallback: true },
  provider_unavailable: { status: 502, type: 'upstream_error', retryable: true, fallback: true },
  request_canceled: { status: 499, type: 'canceled_error', retryable: false, fallback: false },
  internal_error: { status: 500, type: 'api_error', retryable: false, fallback: false },
  not_implemented: { status: 501, type: 'not_implemented_error', retryable: false, fallback: false },
} as const

export type ErrorCode = keyof typeof ERRORS

export interface ErrorDetails {
  /** The invalid field or header, if there is one. */
  param?: string | null
  /** Overrides the table's status: 405, 409, 413, 415, and 502 for a primary that failed without fallback. */
  status?: number
  /** Overrides the table's type: `conflict_error` for 409. */
  type?: string
  /** Status of the upstream's response that was translated. */
  upstreamStatus?: number
  /** Seconds, from the upstream or from the gateway's own limiter. */
  retryAfterS?: number
  /** Overrides the table. */
  retryable?: boolean
  /** Machine-readable addition to the envelope. Never holds a secret or a prompt. */
  details?: Record<string, unknown> | null
  /** Extra response headers (`Allow` of a 405). */
  headers?: Record<string, string>
  cause?: unknown
}

/** Every failure that a client may see. Thrown anywhere, turned into the envelope in one place (`http/envelope.ts`). */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: ErrorCode
  readonly param: string | null
  readonly status: number
  readonly type: string
  readonly retryable: boolean
  readonly fallback: boolean
  readonly upstreamStatus: number | undefined
  readonly retryAfterS: number | undefined
  readonly details: Record<string, unknown> | null
  readonly headers: Record<string, string>

  constructor(code: ErrorCode, message: string, more: ErrorDetails = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause })
    const row = ERRORS[code]
    this.code = code
    this.param = more.param ?? null
    this.status = more.status ?? row.status
    this.type = more.type ?? row.type
    this.retryable = more.retryable ?? row.retryable
    this.fallback = row.fallback
    this.upstreamStatus = more.upstreamStatus
    this.retryAfterS = more.retryAfterS
    this.details = more.details ?? null
    this.headers = more.headers ?? {}
  }
}

/**
 * Refusal of a process that stops: another instance, or this one in a moment, serves the request. Closes the
 * connection, so that the repeat opens another.
 */
export const stopping = (): GatewayError =>
  new GatewayError('provider_unavailable', 'this instance is stopping; try again', {
    status: 503,
    retryAfterS: 1,
    headers: { connection: 'close' },
  })

/** The bytes are not a request. Closes the connection: where the next request would begin is not known. */
export const malformed = ({ message, status, param }: MalformedRequest): GatewayError =>
  new GatewayError(status === 501 ? 'not_implemented' : 'invalid_request', message, {
    status,
    param,
    headers: { connection: 'close' },
  })

/** The `error` member of the envelope. */
export const errorBody = (error: GatewayError) => ({
  message: error.message,
  type: error.type,
  param: error.param,
  code: error.code,
  details: error.details,
})
