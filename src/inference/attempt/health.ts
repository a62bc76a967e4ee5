// What a request reports to the book of health about the calls that it makes, and what the book decides on them.
import type { Refusal } from '../../state/health/book.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { estimateTokens } from '../money/estimate.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import type { ProviderCall } from './call.ts'

/**
 * Begins the call; returns why the candidate is passed over, or null. The last candidate is called even if its breaker
 * is open, unless the client accepts only the primary.
 */
export const beginCall = (
  { exchange, entry, candidatesLeft }: ProviderCall,
  deps: Pick<InferenceDeps, 'health'>,
): GatewayError | null => {
  const { intent, plan } = exchange
  const isFurther = exchange.call !== null
  const force = candidatesLeft === 1 && (!intent.headers.noFallback || plan.order.length === 1)
  const begun = deps.health.begin(entry, plan.policy.breaker, force, isFurther)
  if (typeof begun === 'string') return passOver(exchange, entry, REFUSALS[begun](entry))
  exchange.call = begun
  return null
}

/** Lists a candidate that is not called, with the reason. */
export const passOver = (exchange: Exchange, entry: CatalogueEntry, error: GatewayError): GatewayError => {
  exchange.entry ??= entry
  exchange.skip(entry, error.code)
  return error
}

const unavailable = (message: string): GatewayError => new GatewayError('provider_unavailable', message)

const REFUSALS: Record<Refusal, (entry: CatalogueEntry) => GatewayError> = {
  breaker_open: ({ provider, name }) =>
    unavailable(`${provider} is not called for "${name}" now, since it failed too often; try again soon`),
  cooling_down: ({ provider, name }) =>
    unavailable(`${provider} is not called for "${name}" now, since it limits the rate of requests; try again soon`),
  full: ({ provider }) =>
    new GatewayError('rate_limited', `${provider} has as many requests at once as it may have; try again soon`, {
      retryAfterS: 1,
    }),
}

/** Ends the call under way by how the attempt went. Does nothing when it has ended already. */
export const endCall = (exchange: Exchange, error: GatewayError | null): void => {
  const { call, usage, answerBytes } = exchange
  if (call === null) return
  if (error === null) call.end('success', usage?.completionTokens ?? estimateTokens(answerBytes))
  else if (showsNothing(exchange, error)) call.end('abandoned')
  else if (error.code === 'rate_limited') {
    call.end('throttled', null, error.retryAfterS === undefined ? null : error.retryAfterS * 1_000)
  } else call.end(error.fallback ? 'failure' : 'answered')
}

/**
 * The end shows nothing of the provider: the client disconnected, the gateway stops or failed itself, or the time of
 * the request ended during a stream.
 */
const showsNothing = ({ ended, firstTokenMs }: Exchange, { code }: GatewayError): boolean =>
  ended === 'client' ||
  ended === 'shutdown' ||
  (ended === 'total' && firstTokenMs !== null) ||
  code === 'internal_error' ||
  code === 'request_canceled'
