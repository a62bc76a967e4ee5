// Failures of a call to a provider, as errors for the client.

import { DialFailure } from '../../lib/http-client/http-client.ts'
import { MalformedRequest } from '../../lib/http-server/http-server.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError, malformed, stopping } from '../../wire/errors.ts'
import type { Exchange } from './exchange.ts'

/** Failures before any byte of the request reached the provider. */
export const NEVER_SENT: readonly string[] = [
  ...['blocked', 'dns', 'connect', 'tls', 'timeout_connect', 'invalid_url', 'invalid_header'],
]

/** The error for the client of what was thrown while a provider was called. */
export const failureOf = (thrown: unknown, exchange: Exchange, entry: CatalogueEntry): GatewayError => {
  if (thrown instanceof DialFailure && NEVER_SENT.includes(thrown.kind)) exchange.mayBill = false
  if (exchange.ended === 'client') return new GatewayError('request_canceled', 'the client left')
  if (exchange.ended === 'total') return timedOut('the request took longer than its total limit')
  if (exchange.ended === 'shutdown') return stopping()
  if (exchange.waitEnded === 'first_token') return timedOut(`${entry.provider} did not answer in time`)
  if (exchange.waitEnded === 'idle') return timedOut(`${entry.provider} stopped sending`)
  if (thrown instanceof GatewayError) return thrown
  if (thrown instanceof DialFailure) return dialFailure(thrown, entry)
  // When a connection breaks while its body is read, the error is one of the runtime's.
  return new GatewayError('upstream_error', `the connection to ${entry.provider} broke`, { cause: thrown })
}

/** Any thrown value as an error that may be shown. */
export const asGatewayError = (thrown: unknown): GatewayError =>
  thrown instanceof GatewayError
    ? thrown
    : thrown instanceof MalformedRequest
      ? malformed(thrown)
      : new GatewayError('internal_error', 'the gateway failed unexpectedly', { cause: thrown })

const timedOut = (message: string): GatewayError => new GatewayError('timeout', message)

const dialFailure = (failure: DialFailure, { provider }: CatalogueEntry): GatewayError => {
  const more = { cause: failure }
  if (failure.kind === 'timeout_connect')
    return new GatewayError('timeout', `${provider} could not be reached in time`, more)
  if (failure.kind === 'timeout_headers') return new GatewayError('timeout', `${provider} did not answer in time`, more)
  if (failure.kind === 'too_large')
    return new GatewayError('upstream_error', `the answer of ${provider} is too large`, more)
  if (failure.kind === 'reset' || failure.kind === 'canceled') {
    return new GatewayError('upstream_error', `the connection to ${provider} broke`, more)
  }
  if (failure.kind === 'invalid_header')
    return new GatewayError('upstream_error', `nothing can be sent to ${provider}: ${failure.message}`, more)
  const why = failure.message.includes('egress.allow_private')
    ? 'blocked: its address is private, which egress.allow_private permits'
    : failure.kind
  return new GatewayError('upstream_error', `${provider} could not be reached (${why})`, more)
}
