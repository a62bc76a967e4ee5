// A chat completion, station by station. This file is the contents page: read it first, then the stations in the order in which they stand here.

import { authenticate, requireScope } from '../entry/authenticate.ts'
import { bodyTooSlow, parseJsonBody, readJson } from '../entry/body.ts'
import { inStep } from '../lib/event-loop/stages.ts'
import type { Inbound, LiveBody } from '../lib/http-server/http-server.ts'
import { failpoint } from '../lib/process/failpoints.ts'
import type { TextPieces } from '../lib/text/text-pieces.ts'
import type { Answer } from '../providers/port.ts'
import { openLimitRules } from '../state/indexes/limit-rules.ts'
import type { KeyEntry } from '../state/port.ts'
import { GatewayError, stopping } from '../wire/errors.ts'
import { ClientStream } from './answer/client-stream.ts'
import { answerJson, conformance } from './answer/shape.ts'
import { attempt, finishAttempt } from './attempt/attempt.ts'
import { choicesOf, cutOr } from './intent/choices.ts'
import { wantsDebug } from './intent/headers.ts'
import { type Intent, modelNameOf, readIntent } from './intent/intent.ts'
import { takeLimits } from './limits/station.ts'
import { reserveFirst } from './money/budget.ts'
import { bytesOf, type Measured, measure } from './money/charge.ts'
import type { Plan } from './plan/plan.ts'
import { planner } from './plan/route.ts'
import { admitted, appendAdmission, factsText, notAdmitted } from './records/admit.ts'
import { Settlement, settle } from './records/settle.ts'
import { ActiveRequests } from './request/active.ts'
import type { InferenceDeps } from './request/deps.ts'
import { type Ending, SUCCESS } from './request/ending.ts'
import type { Exchange } from './request/exchange.ts'
import { asGatewayError } from './request/failure.ts'

/** Makes of what came of a request what goes back to the client: `http/`'s. Called by the one async function of a request, instead of another around it. */
export interface Replies<Out> {
  /** The body of the answer, or its stream. */
  answered(exchange: Exchange, stream: boolean, body: TextPieces | LiveBody): Out
  /** Once its outcome is settled. */
  failed(exchange: Exchange, error: unknown): Out
}

export interface ChatCompletions {
  /** Answers a request. Never throws: what went wrong goes to `replies.failed`. */
  handle<Out>(request: Inbound, exchange: Exchange, replies: Replies<Out>): Promise<Out>
  readonly active: ActiveRequests
}

export const chatCompletions = (deps: InferenceDeps): ChatCompletions => {
  const active = new ActiveRequests(deps.inference.maxActive)
  const limitRules = openLimitRules(deps.live)
  const revision = tipOf(deps)
  const planned = planning(revision, deps)

  // Each `inStep` ends a stage (`lib/event-loop/stages.ts`): what stands between two of them is done for all requests of a turn, one after the other. A body that
  // comes in pieces is made text before, as it arrives: the memory that it is put together in is the next one's.
  const handle: ChatCompletions['handle'] = async (request, exchange, replies) => {
    try {
      await inStep
      let key = identified(request, exchange, deps)
      const identifiedAt = revision()
      active.enter(exchange)
      exchange.servedAt = deps.served.note(exchange.identity.id, exchange.identity.requestId, key.tenantId)
      exchange.watch(request)
      const read = readJson(request)
      const sent = read instanceof Promise ? await bodyInTime(read, exchange, deps.inference.bodyMs) : read
      await inStep
      const intent = asked(request, exchange, sent, deps)
      await inStep
      // A body may take its time: whose request it is and what the record's revision says of its key belong together.
      if (revision() !== identifiedAt) key = identified(request, exchange, deps)
      const plan = planned(request, exchange, key, intent)
      await inStep
      const rules = limitRules(key, plan.policy.limits)
      const limited = rules.length === 0 ? null : takeLimits(exchange, rules, intent, plan, deps)
      await (limited ?? inStep)
      exchange.budgets = deps.budgets.of(key.tenantId, key.id, plan.policy.scope?.slug ?? null, exchange.identity.atMs)
      const reserved = exchange.budgets === null ? null : reserveFirst(exchange, intent, plan, deps)
      await (reserved ?? inStep)
      try {
        admitted(exchange, await appendAdmission(exchange, intent, plan, deps))
      } catch (error) {
        throw notAdmitted(exchange, error)
      }
      failpoint('admitted')
      const served = await attempt(exchange, intent, plan, deps)
      if (served.stream) {
        await inStep
        const stream = new ClientStream(exchange, intent, served.held, served.source, deps, active)
        if (!served.source.done) return replies.answered(exchange, true, stream)
        return replies.answered(exchange, true, [...stream.whole(), await stream.tail()])
      }
      answered(exchange, served.answer)
      await inStep
      const measured = measure(exchange)
      const json = shown(exchange, intent, served.answer, measured)
      await inStep
      const settlement = new Settlement(exchange, SUCCESS, measured, deps)
      try {
        await settlement.record
      } catch (error) {
        throw settlement.refused(error) ?? error
      }
      settlement.written()
      active.leave(exchange)
      return replies.answered(exchange, false, json)
    } catch (thrown) {
      return replies.failed(exchange, await failed(request, exchange, thrown, deps, revision, active))
    }
  }

  return { handle, active }
}

/** Whose request it is. Throws for nobody's, and for a key that may not ask. */
const identified = (request: Inbound, exchange: Exchange, deps: InferenceDeps): KeyEntry => {
  const key = authenticate(request.headers, deps, exchange.identity.atMs)
  exchange.key = key
  requireScope(key, 'inference')
  return key
}

/** What is asked. Throws where that cannot be meant. */
const asked = (request: Inbound, exchange: Exchange, read: string | Uint8Array, deps: InferenceDeps): Intent => {
  const { raw, body } = parseJsonBody(read)
  exchange.requestedModel = modelNameOf(body)
  const intent = readIntent(raw, body, request.headers, deps.inference.gatewayExecution)
  exchange.intent = intent
  return intent
}

/** Who may answer it. What is made throws when nobody may. */
const planning = (revision: () => string, deps: InferenceDeps) => {
  const planOf = planner(deps)
  return (request: Inbound, exchange: Exchange, key: KeyEntry, intent: Intent): Plan => {
    const plan = planOf(intent, key, request.headers, exchange.identity.atMs)
    exchange.plan = plan
    exchange.deadlineMs = exchange.identity.startedMs + plan.policy.totalMs
    exchange.factsText = factsText(exchange, exchange.requestedModel, revision(), endUser(key, intent, deps))
    exchange.plannedMs = exchange.latencyMs()
    if (plan.refused !== null) throw plan.refused
    return plan
  }
}

/** Settles what failed; what the client is told of it. */
const failed = async (
  request: Inbound,
  exchange: Exchange,
  thrown: unknown,
  deps: InferenceDeps,
  revision: () => string,
  active: ActiveRequests,
): Promise<unknown> => {
  exchange.wantsDebug = wantsDebug(request.headers)
  const error = request.signal.aborted
    ? new GatewayError('request_canceled', 'the client left')
    : asGatewayError(thrown)
  if (exchange.key !== null) exchange.factsText ??= factsText(exchange, exchange.requestedModel, revision(), null)
  try {
    await settle(exchange, endingOf(exchange, error), measure(exchange), deps)
    return error
  } catch (unsettled) {
    return unsettled
  } finally {
    active.leave(exchange)
  }
}

const endUser = (key: KeyEntry, { user }: Intent, deps: Pick<InferenceDeps, 'userDigest'>): string | null =>
  user === null ? null : deps.userDigest(key.tenantId, user)

/** The whole answer has come. */
const answered = (exchange: Exchange, answer: Answer): void => {
  exchange.usage = answer.usage
  exchange.finishReason = answer.finishReason
  exchange.answerBytes = bytesOf(answer)
  finishAttempt(exchange, 'success', null)
}

/** As the client gets it, once it is settled. Throws NonConforming. */
const shown = (exchange: Exchange, intent: Intent, answer: Answer, measured: Measured): TextPieces => {
  const choices = intent.choices === 1 && intent.ownWords === null ? [answer] : choicesOf(answer.json)
  const checked = conformance(intent, choices)
  return answerJson(exchange, intent, answer, cutOr(answer.finishReason, choices), checked, measured)
}

/** Reads the body. A client that sends it too slowly, or leaves meanwhile, does not hold the request for ever. */
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

/** Refused by the gateway before any provider was asked: `denied`. Everything else that failed is an `error`, unless the client left. */
const endingOf = (exchange: Exchange, error: GatewayError): Ending => {
  if (error.code === 'request_canceled') return { outcome: 'canceled', status: error.status, error }
  const denied = exchange.admission === null && error.status < 500
  return { outcome: denied ? 'denied' : 'error', status: error.status, error }
}

/** The newest folded decision, asked for once after each change instead of once for each request. */
const tipOf = ({ live }: Pick<InferenceDeps, 'live'>): (() => string) => {
  let tip: string | null = null
  live.subscribe(() => {
    tip = null
  })
  return () => {
    tip ??= live.status().tip
    return tip
  }
}
