// A chat completion, station by station. This file is the contents page: read it first, then the stations in the order
// in which they stand here.

import { authenticate, requireScope } from '../entry/authenticate.ts'
import { bodyTooSlow, parseJsonBody, readJson } from '../entry/body.ts'
import { inStep } from '../lib/event-loop/stages.ts'
import type { Inbound, LiveBody } from '../lib/http-server/http-server.ts'
import { failpoint } from '../lib/process/failpoints.ts'
import type { TextPieces } from '../lib/text/text-pieces.ts'
import { openLimitRules } from '../state/indexes/limit-rules.ts'
import type { KeyEntry } from '../state/port.ts'
import { GatewayError, stopping } from '../wire/errors.ts'
import { ClientStream } from './answer/client-stream.ts'
import { answerJson, conformance } from './answer/shape.ts'
import { attempt, finishAttempt, type WholeAnswer } from './attempt/attempt.ts'
import { choicesOf, cutOr } from './intent/choices.ts'
import { wantsDebug } from './intent/headers.ts'
import { type Intent, modelNameOf, readIntent } from './intent/intent.ts'
import { takeLimits } from './limits/station.ts'
import { reserveFirst } from './money/budget.ts'
import { bytesOf, type Measured, measure } from './money/charge.ts'
import { planned, planner } from './plan/route.ts'
import { admitted, appendAdmission, notAdmitted } from './records/admit.ts'
import { factsText } from './records/facts.ts'
import { Settlement, settle } from './records/settle.ts'
import { ActiveRequests } from './request/active.ts'
import type { InferenceDeps } from './request/deps.ts'
import { type Ending, SUCCESS } from './request/ending.ts'
import type { Exchange } from './request/exchange.ts'
import { asGatewayError } from './request/failure.ts'
import type { Admitted, Called, Planned } from './request/progress.ts'

/**
 * Makes the response to the client; implemented by `http/`. Called by the one async function of a request, which saves
 * another one around it.
 */
export interface Replies<Out> {
  /** `body`: the answer, or its stream. */
  answered(exchange: Called, stream: boolean, body: TextPieces | LiveBody): Out
  /** Called once the outcome is settled. */
  failed(exchange: Exchange, error: unknown): Out
}

export interface ChatCompletions {
  /** Serves a request. Never throws: failures go to `replies.failed`. */
  handle<Out>(request: Inbound, exchange: Exchange, replies: Replies<Out>): Promise<Out>
  readonly active: ActiveRequests
}

export const chatCompletions = (deps: InferenceDeps): ChatCompletions => {
  const active = new ActiveRequests(deps.inference.maxActive)
  const limitRules = openLimitRules(deps.live)
  const revision = revisionOf(deps)
  const plan = planning(revision, deps)
  const service = { deps, active, revision }

  // Each `inStep` ends a stage (`lib/event-loop/stages.ts`): what stands between two of them is done for all requests
  // of an iteration, one after the other. A body in pieces is decoded before, on arrival: its buffer is shared.
  const handle: ChatCompletions['handle'] = async (request, exchange, replies) => {
    try {
      await inStep
      let key = identified(request, exchange, deps)
      const identifiedAt = revision()
      active.enter(exchange)
      exchange.recentIndex = deps.recentRequests.add(exchange.identity.id, exchange.identity.requestId, key.tenantId)
      exchange.watch(request)
      const read = readJson(request)
      const body = read instanceof Promise ? await bodyInTime(read, exchange, deps.inference.bodyMs) : read
      await inStep
      const intent = readRequest(request, exchange, body, deps)
      await inStep
      // A body may take its time, but the key and the recorded revision belong together.
      if (revision() !== identifiedAt) key = identified(request, exchange, deps)
      const routed = plan(request, exchange, key, intent)
      await inStep
      const { policy } = routed.plan
      const rules = limitRules(key, policy.limits)
      const limited = rules.length === 0 ? null : takeLimits(routed, rules, deps)
      await (limited ?? inStep)
      const budgets = deps.budgets.of(key.tenantId, key.id, policy.scope?.slug ?? null, exchange.identity.atMs)
      exchange.budgets = budgets
      const reserved = budgets === null ? null : reserveFirst(routed, budgets, deps)
      await (reserved ?? inStep)
      let admission: Admitted
      try {
        admission = admitted(routed, await appendAdmission(routed, deps))
      } catch (error) {
        throw notAdmitted(exchange, error)
      }
      failpoint('admitted')
      const answer = await attempt(admission, deps)
      if (answer.stream) {
        await inStep
        const stream = new ClientStream(answer, deps, active)
        if (!answer.source.done) return replies.answered(answer.exchange, true, stream)
        return replies.answered(answer.exchange, true, [...stream.whole(), await stream.end()])
      }
      noteAnswer(answer)
      await inStep
      const measured = measure(exchange)
      const json = clientJson(answer, measured)
      await inStep
      const settlement = new Settlement(exchange, SUCCESS, measured, deps)
      try {
        await settlement.record
      } catch (error) {
        throw settlement.refused(error) ?? error
      }
      settlement.written()
      active.leave(exchange)
      return replies.answered(answer.exchange, false, json)
    } catch (thrown) {
      return replies.failed(exchange, await settleFailure(request, exchange, thrown, service))
    }
  }

  return { handle, active }
}

/** What the requests of one process share. */
interface Service {
  readonly deps: InferenceDeps
  readonly active: ActiveRequests
  readonly revision: () => string
}

/** Settles a request that failed; returns the error for the client. */
const settleFailure = async (
  request: Inbound,
  exchange: Exchange,
  thrown: unknown,
  { deps, active, revision }: Service,
): Promise<unknown> => {
  exchange.wantsDebug = wantsDebug(request.headers)
  const error = request.signal.aborted
    ? new GatewayError('request_canceled', 'the client left')
    : asGatewayError(thrown)
  if (exchange.key !== null && exchange.factsText === null) {
    exchange.revision = revision()
    exchange.factsText = factsText(exchange, null)
  }
  try {
    await settle(exchange, endingOf(exchange, error), measure(exchange), deps)
    return error
  } catch (unsettled) {
    return unsettled
  } finally {
    active.leave(exchange)
  }
}

/** The key of the request. Throws 401 without a valid one, and 403 where its scopes do not cover inference. */
const identified = (request: Inbound, exchange: Exchange, deps: InferenceDeps): KeyEntry => {
  const key = authenticate(request.headers, deps, exchange.identity.atMs)
  exchange.key = key
  requireScope(key, 'inference')
  return key
}

/** Reads the request. Throws 400 naming the field or header that is not valid. */
const readRequest = (request: Inbound, exchange: Exchange, text: string | Uint8Array, deps: InferenceDeps): Intent => {
  const { raw, body } = parseJsonBody(text)
  exchange.requestedModel = modelNameOf(body)
  const intent = readIntent(raw, body, request.headers, deps.inference.gatewayExecution)
  exchange.intent = intent
  return intent
}

/** Chooses the candidates of a request. The function throws where there is none. */
const planning = (revision: () => string, deps: InferenceDeps) => {
  const planOf = planner(deps)
  return (request: Inbound, exchange: Exchange, key: KeyEntry, intent: Intent): Planned => {
    const plan = planOf(intent, key, request.headers, exchange.identity.atMs)
    const routed = planned(exchange, intent, plan, revision(), endUser(key, intent, deps))
    if (plan.refused !== null) throw plan.refused
    return routed
  }
}

const endUser = (key: KeyEntry, { user }: Intent, deps: Pick<InferenceDeps, 'userDigest'>): string | null =>
  user === null ? null : deps.userDigest(key.tenantId, user)

/** The whole answer has come. */
const noteAnswer = ({ exchange, answer }: WholeAnswer): void => {
  exchange.usage = answer.usage
  exchange.finishReason = answer.finishReason
  exchange.answerBytes = bytesOf(answer)
  finishAttempt(exchange, 'success', null)
}

/** The answer for the client, sent once it is settled. Throws NonConforming. */
const clientJson = ({ exchange, answer }: WholeAnswer, measured: Measured): TextPieces => {
  const { intent } = exchange
  const choices = intent.choices === 1 && intent.vendorFields === null ? [answer] : choicesOf(answer.json)
  const checked = conformance(intent, choices)
  return answerJson(exchange, answer, cutOr(answer.finishReason, choices), checked, measured)
}

/** The body, within its time limit: a client that sends it too slowly, or disconnects, does not hold the request. */
const bodyInTime = <Body>(body: Promise<Body>, exchange: Exchange, limitMs: number): Promise<Body> => {
  const { promise, resolve, reject } = Promise.withResolvers<Body>()
  exchange.deadlineMs = exchange.identity.startedMs + limitMs
  exchange.onEnd = () => {
    if (exchange.ended === 'shutdown') reject(stopping())
    else reject(bodyTooSlow(limitMs))
  }
  body.then(resolve, reject)
  return promise.finally(() => {
    exchange.onEnd = null
  })
}

/**
 * `denied`: the gateway refused the request before its admission. Every other failure is an `error`, unless the client
 * disconnected.
 */
const endingOf = (exchange: Exchange, error: GatewayError): Ending => {
  if (error.code === 'request_canceled') return { outcome: 'canceled', status: error.status, error }
  const denied = exchange.admission === null && error.status < 500
  return { outcome: denied ? 'denied' : 'error', status: error.status, error }
}

/** The revision of the newest folded decision, read once after each change instead of once for each request. */
const revisionOf = ({ live }: Pick<InferenceDeps, 'live'>): (() => string) => {
  let tip: string | null = null
  live.subscribe(() => {
    tip = null
  })
  return () => {
    tip ??= live.status().tip
    return tip
  }
}
