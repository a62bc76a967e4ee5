// Where chat completions are let in while there is room for them: the first thing that happens to one.
import type { LoadGate } from '../lib/load-gate.ts'
import { GatewayError } from '../wire/errors.ts'
import { errorResponse } from './envelope.ts'
import type { ChatHandler } from './inference.ts'
import { newIdentity } from './request-context.ts'

/** They differ in when they ask for a repeat, or all who were refused would come again at once. Made beforehand: a refusal has to be cheap. */
const OVERLOADED = [1, 2, 3].map(
  (retryAfterS) =>
    new GatewayError('rate_limited', 'the gateway has more to do than it can; try again', { retryAfterS }),
)

/** Lets requests through to `complete` while the gate has room. A refusal comes before anything is read, and leaves no outcome: nobody knows whose it would be. */
export const whileThereIsRoom =
  (complete: ChatHandler, gate: LoadGate, idleS: number): ChatHandler =>
  (request, peers) => {
    if (gate.room <= 0 && !gate.more()) {
      peers?.timeout?.(request, idleS)
      return errorResponse(OVERLOADED[gate.refused++ % OVERLOADED.length]!, newIdentity(request.headers))
    }
    gate.room--
    return complete(request, peers)
  }
