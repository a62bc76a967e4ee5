// Admits chat completions while there is room, before anything else happens to a request.

import type { LoadGate } from '../lib/event-loop/load-gate.ts'
import { type Answer, headLines, type Inbound } from '../lib/http-server/http-server.ts'
import { errorBody, GatewayError } from '../wire/errors.ts'
import { errorGatewayJson, errorHeaders } from './envelope.ts'
import type { ChatHandler } from './inference.ts'
import { newIdentity } from './request-context.ts'

/** Refused clients get different waits, or all would retry at once. */
const WAITS_S = [1, 2, 3]
/** Placeholder of the request id. Ids do not have this character. */
const PLACEHOLDER = '?'

/**
 * A response that is built but for the ids. A refusal must be cheap, or refused requests take the time of admitted
 * ones.
 */
interface Refusal {
  readonly status: number
  /** The body before and after the request's id. */
  readonly before: string
  readonly after: string
  /** Header lines. */
  readonly head: string
}

const refusalAfter = (retryAfterS: number): Refusal => {
  const error = new GatewayError('rate_limited', 'the gateway has more to do than it can; try again', { retryAfterS })
  const context = { requestId: PLACEHOLDER, traceId: PLACEHOLDER }
  const gateway = errorGatewayJson(context)
  const at = gateway.indexOf(PLACEHOLDER)
  return {
    status: error.status,
    before: `{"error":${JSON.stringify(errorBody(error))},"gateway":${gateway.slice(0, at)}`,
    after: `${gateway.slice(at + PLACEHOLDER.length)}}`,
    head: headLines(without(errorHeaders(error, context))),
  }
}

/** The headers of a refusal without the ids. */
const without = ({ 'x-request-id': _, 'x-trace-id': __, ...headers }: Record<string, string>) => headers

const REFUSALS = WAITS_S.map(refusalAfter)

const refuse = ({ status, before, after, head }: Refusal, request: Inbound): Answer => {
  const { requestId, traceId } = newIdentity(request.headers)
  const lines = `${head}x-request-id: ${requestId}\r\nx-trace-id: ${traceId}\r\n`
  return { status, head: lines, body: before + requestId + after, closes: false }
}

/**
 * Passes requests to `complete` while the gate has room. A refusal comes before anything is read, and leaves no
 * outcome: the caller is not authenticated yet.
 */
export const admitWhileRoom =
  (complete: ChatHandler, gate: LoadGate): ChatHandler =>
  (request) => {
    if (gate.room <= 0 && !gate.more()) {
      return refuse(REFUSALS[gate.refused++ % REFUSALS.length]!, request)
    }
    gate.room--
    return complete(request)
  }
