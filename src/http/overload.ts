// Where chat completions are let in while there is room for them: the first thing that happens to one.

import type { LoadGate } from '../lib/event-loop/load-gate.ts'
import { type Answer, headLines, type Inbound } from '../lib/http-server/http-server.ts'
import { errorBody, GatewayError } from '../wire/errors.ts'
import { errorGatewayJson, errorHeaders } from './envelope.ts'
import type { ChatHandler } from './inference.ts'
import { newIdentity } from './request-context.ts'

/** They differ in when they ask for a repeat, or all who were refused would come again at once. */
const WAITS_S = [1, 2, 3]
/** Stands where an id will: ids have no such character. */
const NOBODY = '?'

/** An answer that is made but for who is refused: a refusal has to be cheap, or what is refused takes the time of what is served. */
interface Refusal {
  readonly status: number
  /** Of the body, around the request's id. */
  readonly before: string
  readonly after: string
  /** Header lines. */
  readonly head: string
}

const refusalAfter = (retryAfterS: number): Refusal => {
  const error = new GatewayError('rate_limited', 'the gateway has more to do than it can; try again', { retryAfterS })
  const context = { requestId: NOBODY, traceId: NOBODY }
  const gateway = errorGatewayJson(context)
  const at = gateway.indexOf(NOBODY)
  return {
    status: error.status,
    before: `{"error":${JSON.stringify(errorBody(error))},"gateway":${gateway.slice(0, at)}`,
    after: `${gateway.slice(at + NOBODY.length)}}`,
    head: headLines(without(errorHeaders(error, context))),
  }
}

/** The headers of a refusal but those that say who is refused. */
const without = ({ 'x-request-id': _, 'x-trace-id': __, ...headers }: Record<string, string>) => headers

const REFUSALS = WAITS_S.map(refusalAfter)

const refuse = ({ status, before, after, head }: Refusal, request: Inbound): Answer => {
  const { requestId, traceId } = newIdentity(request.headers)
  const lines = `${head}x-request-id: ${requestId}\r\nx-trace-id: ${traceId}\r\n`
  return { status, head: lines, body: before + requestId + after, closes: false }
}

/** Lets requests through to `complete` while the gate has room. A refusal comes before anything is read, and leaves no outcome: nobody knows whose it would be. */
export const whileThereIsRoom =
  (complete: ChatHandler, gate: LoadGate): ChatHandler =>
  (request) => {
    if (gate.room <= 0 && !gate.more()) {
      return refuse(REFUSALS[gate.refused++ % REFUSALS.length]!, request)
    }
    gate.room--
    return complete(request)
  }
