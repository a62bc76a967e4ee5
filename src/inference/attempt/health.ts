// What a request tells the book of health about the providers that it calls, and what the book answers.
import type { Refusal } from '../../state/health/book.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { Intent } from '../intent/intent.ts'
import { estimateTokens } from '../money/estimate.ts'
import type { Plan } from '../plan/plan.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'

/** Begins a call to the candidate, or says why it is passed over. The last candidate is called though its breaker is open, unless the client asked for the primary or nothing. */
export const beginCall = (
  exchange: Exchange,
  intent: Intent,
  plan: Plan,
  entry: CatalogueEntry,
  isLast: boolean,
  deps: Pick<InferenceDeps, 'health'>,
): GatewayError | null => {
  const further = exchange.call !== null
  const force = isLast && (!intent.headers.noFallback || plan.order.length === 1)
  const begun = deps.health.begin(entry, plan.policy.breaker, force, further)
  if (typeof begun === 'string') return passOver(exchange, entry, REFUSALS[begun](entry))
  exchange.call = begun
  return null
}

/** Lists a candidate that is not called, and why. */
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

/** Ends the call under way by how the attempt went. Harmless when it has ended already. */
export const endCall = (exchange: Exchange, error: GatewayError | null): void => {
  const { call, usage, answerBytes } = exchange
  if (call === null) return
  if (error === null) call.end('success', usage?.completionTokens ?? estimateTokens(answerBytes))
  else if (saysNothing(exchange, error)) call.end('abandoned')
  else if (error.code === 'rate_limited') {
    call.end('throttled', null, error.retryAfterS === undefined ? null : error.retryAfterS * 1_000)
  } else call.end(error.fallback ? 'failure' : 'answered')
}

/** The client left, we stop, a fault of ours, or a stream that was under way when the request's own time was over. */
const saysNothing = ({ ended, firstTokenMs }: Exchange, { code }: GatewayError): boolean =>
  ended === 'client' ||
  ended === 'shutdown' ||
  (ended === 'total' && firstTokenMs !== null) ||
  code === 'internal_error' ||
  code === 'request_canceled'
