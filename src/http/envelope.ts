// The one place where a failure, of whatever kind, becomes the error envelope (docs/behaviour.md: "Errors").
import { Rejection } from '../domain/kernel/rejection.ts'
import { type Answer, headLines, MalformedRequest } from '../lib/http-server/http-server.ts'
import { CommitFailure } from '../state/port.ts'
import { errorBody, GatewayError, malformed, stopping } from '../wire/errors.ts'
import { type GatewayFacts, gatewayJson } from '../wire/gateway-block.ts'

/** What the envelope holds about the request besides the failure. All but the ids may be absent. */
export type ErrorContext = {
  readonly requestId: string
  readonly traceId: string
  /** Further members of the block, as `gatewayJson` takes them. */
  readonly more?: string
} & Partial<GatewayFacts>

const REJECTIONS = {
  invalid: { code: 'invalid_request' },
  conflict: { code: 'invalid_request', status: 409, type: 'conflict_error' },
  not_found: { code: 'not_found' },
  forbidden: { code: 'permission_error' },
} as const

const COMMIT_FAILURES: Record<CommitFailure['kind'], (message: string) => GatewayError> = {
  unknown: () =>
    new GatewayError(
      'timeout',
      'the log did not acknowledge the change in time: its outcome is unknown, and a repeat with the same ' +
        'Idempotency-Key is safe',
    ),
  unavailable: () =>
    new GatewayError(
      'timeout',
      'the log cannot be reached: nothing was changed, and a repeat with the same Idempotency-Key is safe',
    ),
  refused: (message) => new GatewayError('upstream_error', `this instance does not accept changes now: ${message}`),
  stopping,
  too_large: (message) => new GatewayError('invalid_request', message, { status: 413 }),
}

/**
 * Anything thrown, as the error that the client may see. An error that is not marked as safe to show becomes a bare
 * 500.
 */
export const gatewayErrorOf = (error: unknown): GatewayError => {
  if (error instanceof GatewayError) return error
  if (error instanceof Rejection) {
    const { code, ...more } = REJECTIONS[error.reason]
    return new GatewayError(code, error.message, { ...more, param: error.param, cause: error })
  }
  if (error instanceof MalformedRequest) return malformed(error)
  if (error instanceof CommitFailure) return COMMIT_FAILURES[error.kind](error.message)
  return (
    frameworkError(error) ?? new GatewayError('internal_error', 'the gateway failed unexpectedly', { cause: error })
  )
}

/** Elysia's own errors carry one of these as `code`. */
const frameworkError = (error: unknown): GatewayError | null => {
  if (error === null || typeof error !== 'object' || !('code' in error)) return null
  if (error.code === 'NOT_FOUND') return new GatewayError('not_found', 'there is nothing at this path')
  if (error.code === 'PARSE') return new GatewayError('invalid_request', 'the body is not valid JSON')
  if (error.code === 'VALIDATION') return validationError(error)
  if (error.code === 'INVALID_COOKIE_SIGNATURE')
    return new GatewayError('authentication_error', 'the cookie is not valid')
  if (error.code === 'INVALID_FILE_TYPE')
    return new GatewayError('invalid_request', 'the type of the file is not accepted', { status: 415 })
  return null
}

/** The message of a validation error holds the caller's whole body: only the path and the rule are shown. */
const validationError = (error: object): GatewayError => {
  if ('type' in error && error.type === 'response')
    return new GatewayError('internal_error', 'the gateway failed unexpectedly', { cause: error })
  const first = ('valueError' in error ? error.valueError : undefined) as
    | { path?: string; message?: string }
    | undefined
  const param = first?.path?.split('/').filter(Boolean).join('.') || null
  const rule = first?.message ?? 'the request does not have the expected form'
  return new GatewayError('invalid_request', param === null ? rule : `${param}: ${rule}`, { param })
}

const PLAIN_TEXT = /^[\x20-\x7e]*$/

/** A name as a header value: other characters than plain ASCII are percent-encoded. */
export const headerText = (name: string): string =>
  PLAIN_TEXT.test(name) ? name : encodeURIComponent(name.toWellFormed())

/** Browsers take a body for what its type names, never for what it looks like. */
export const NOT_SNIFFED = { 'x-content-type-options': 'nosniff' } as const

/** The headers of every response. */
export const identityHeaders = (context: { requestId: string; traceId: string }): Record<string, string> => ({
  'x-request-id': context.requestId,
  'x-trace-id': context.traceId,
  ...NOT_SNIFFED,
})

/** The envelope's headers: identity, `X-Gateway-*`, `Retry-After`, and those that the error carries. */
export const errorHeaders = (error: GatewayError, context: ErrorContext): Record<string, string> => {
  const retryable = String(error.retryable)
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    ...identityHeaders(context),
    'x-gateway-retryable': retryable,
    'x-should-retry': retryable,
    ...error.headers,
  }
  if (context.provider) headers['x-gateway-provider'] = headerText(context.provider)
  if (error.upstreamStatus !== undefined) headers['x-gateway-upstream-status'] = String(error.upstreamStatus)
  if (error.retryAfterS !== undefined) headers['retry-after'] = String(Math.max(0, Math.ceil(error.retryAfterS)))
  return headers
}

/** The `gateway` block of a failure: unknown members are null. */
export const errorGatewayJson = (context: ErrorContext): string =>
  gatewayJson(
    {
      requestId: context.requestId,
      provider: context.provider ?? null,
      requestedModel: context.requestedModel ?? null,
      routedModel: context.routedModel ?? null,
      fallbackUsed: context.fallbackUsed ?? false,
      cacheHit: context.cacheHit ?? false,
      latencyMs: context.latencyMs ?? 0,
      costNanoUsd: context.costNanoUsd ?? null,
      debug: context.debug ?? null,
    },
    context.more,
  )

const envelopeJson = (shown: GatewayError, context: ErrorContext): string =>
  `{"error":${JSON.stringify(errorBody(shown))},"gateway":${errorGatewayJson(context)}}`

/** The response to any failure. Never shows a stack, an unexpected error's message, a secret or a body. */
export const errorResponse = (error: unknown, context: ErrorContext): Response => {
  const shown = gatewayErrorOf(error)
  return new Response(envelopeJson(shown, context), { status: shown.status, headers: errorHeaders(shown, context) })
}

/** The same for the server's hot route. `more`: header lines besides the envelope's. */
export const errorAnswer = (error: unknown, context: ErrorContext, more = ''): Answer => {
  const shown = gatewayErrorOf(error)
  const { connection, ...headers } = errorHeaders(shown, context)
  const body = envelopeJson(shown, context)
  return { status: shown.status, head: headLines(headers) + more, body, closes: connection === 'close' }
}
