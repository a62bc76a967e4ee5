// A call to one model that the gateway makes for itself, to test a provider or to detect what its models support. From
// the admission on it passes the same stations as every request (recorded before it is made, charged by its settlement
// on every way out). No other candidate replaces the model, and no breaker changes.
import type { StreamPart, Usage } from '../providers/port.ts'
import { openHealth } from '../state/health/book.ts'
import { STILL } from '../state/health/frame.ts'
import { NO_OVERRIDES, UNSTEERED } from '../state/indexes/steering.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { GatewayError } from '../wire/errors.ts'
import { type AttemptDeps, attempt, finishAttempt, type StreamedAnswer, type WholeAnswer } from './attempt/attempt.ts'
import { type Intent, readIntent } from './intent/intent.ts'
import { reserveFirst, reserveMore } from './money/budget.ts'
import { bytesOf, type Measured, measure } from './money/charge.ts'
import { outputBound, promptTokensEstimate } from './money/estimate.ts'
import { priceOf } from './money/price.ts'
import type { Plan } from './plan/plan.ts'
import { BUILT_IN } from './plan/policies.ts'
import { planned } from './plan/route.ts'
import { admit } from './records/admit.ts'
import { settle } from './records/settle.ts'
import { ActiveRequests } from './request/active.ts'
import type { InferenceDeps } from './request/deps.ts'
import type { Ending } from './request/ending.ts'
import { type EndReason, Exchange, type Identity, type Purpose } from './request/exchange.ts'
import { asGatewayError, failureOf } from './request/failure.ts'
import type { Admitted } from './request/progress.ts'

export interface GatewayCallDeps extends Pick<InferenceDeps, 'spool' | 'dial' | 'kinds' | 'catalogue' | 'budgets'> {
  readonly live: Pick<InferenceDeps['live'], 'status'>
  newIdentity(): Identity
  nowMs(): number
}

export interface GatewayCallRequest {
  readonly entry: CatalogueEntry
  /** A chat completion, without its `model`. */
  readonly body: Readonly<Record<string, unknown>>
  readonly purpose: Purpose
  /** The owner of the budgets that are charged. */
  readonly payer: Payer
  readonly timeoutMs: number
  /** Ends the call. Its reason is an `EndReason`; any other counts as `client`. */
  readonly signal: AbortSignal
}

/** A tenant and one of its keys; for an operator of the console an id that no key has. */
export interface Payer {
  readonly tenantId: string
  readonly keyId: string
}

/** The answer of the model. */
export interface GatewayCallAnswer {
  readonly text: string
  readonly toolNames: readonly string[]
  readonly finishReason: string | null
  /** The answer came as a stream; false where the provider answered a streamed call at once. */
  readonly streamed: boolean
  /** Parts of a stream with content; 0 for a whole answer. */
  readonly contentParts: number
}

/** How the call ended, once it is settled. */
export interface GatewayCallOutcome {
  readonly requestId: string
  /** Null: it answered. */
  readonly error: GatewayError | null
  readonly answer: GatewayCallAnswer | null
  readonly measured: Measured
  readonly latencyMs: number
  /** Fields that were dropped, renamed or clamped. */
  readonly shaping: readonly string[]
}

/**
 * Makes the call. Never throws for a failure of the provider. Throws GatewayError when a budget does not allow the
 * call, and when the call or its outcome could not be recorded.
 */
export type MakeGatewayCall = (request: GatewayCallRequest) => Promise<GatewayCallOutcome>

/**
 * The outcome of a call; or the error when it was not made or not recorded, so that it does not fail other calls made
 * at once.
 */
export const outcomeOrRefusal = async (
  makeCall: MakeGatewayCall,
  request: GatewayCallRequest,
): Promise<GatewayCallOutcome | GatewayError> => {
  try {
    return await makeCall(request)
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

/** Calls of one process at once. */
const MOST_AT_ONCE = 64
const UNTRACKED = { calling: () => undefined }
/** Only one candidate is called, so a revoked key changes nothing. */
const ANY_KEY = { isValid: () => true }

export const gatewayCalls = (deps: GatewayCallDeps): MakeGatewayCall => {
  const active = new ActiveRequests(MOST_AT_ONCE)
  // A book of its own: a test by an operator must not close a provider to requests of clients.
  const health = openHealth({
    catalogue: deps.catalogue,
    nowMs: deps.nowMs,
    monotonicMs: () => performance.now(),
    emit: () => undefined,
  })
  const calling = {
    ...deps,
    health,
    steering: UNSTEERED,
    keys: ANY_KEY,
    recentRequests: UNTRACKED,
    observe: () => undefined,
  }

  return async ({ entry, body, purpose, payer, timeoutMs, signal }) => {
    const exchange = new Exchange(deps.newIdentity())
    exchange.purpose = purpose
    active.enter(exchange)
    const leave = () => exchange.end(endOf(signal.reason))
    signal.addEventListener('abort', leave)
    if (signal.aborted) leave()
    try {
      const chat = { model: entry.name, ...body }
      const intent = readIntent(JSON.stringify(chat), chat, new Headers())
      const plan = planFor(intent, entry, timeoutMs, deps)
      exchange.requestedModel = entry.name
      const routed = planned(exchange, intent, plan, deps.live.status().tip, null)
      const budgets = deps.budgets.of(payer.tenantId, payer.keyId, null, exchange.identity.atMs)
      exchange.budgets = budgets
      if (budgets !== null) await reserveFirst(routed, budgets, deps)
      return await callModel(await admit(routed, deps), calling)
    } catch (thrown) {
      // An admission in the log is settled, and reservations are freed.
      if (exchange.admission !== null && !exchange.settled)
        await settle(exchange, endingOf(asGatewayError(thrown)), measure(exchange), calling).catch(asGatewayError)
      if (exchange.admission === null) {
        exchange.budgets?.settle()
        exchange.budgets?.outcomeWas('never_admitted')
      }
      throw thrown
    } finally {
      signal.removeEventListener('abort', leave)
      active.leave(exchange)
    }
  }
}

const endOf = (reason: unknown): EndReason => (reason === 'shutdown' || reason === 'total' ? reason : 'client')

type CallDeps = AttemptDeps & Parameters<typeof settle>[3]

/** The call itself and its settlement. */
const callModel = async (exchange: Admitted, deps: CallDeps): Promise<GatewayCallOutcome> => {
  let answer: GatewayCallAnswer | null = null
  let error: GatewayError | null = null
  let measured: Measured
  try {
    const given = await attempt(exchange, deps)
    answer = given.stream ? await readStream(given, deps) : readWhole(given)
    exchange.finishReason = answer.finishReason
    finishAttempt(given.exchange, 'success', null)
    measured = measure(exchange)
    await settle(exchange, { outcome: 'success', status: 200, error: null }, measured, deps)
  } catch (thrown) {
    if (exchange.settled) throw thrown // its outcome could not be written
    const failure = asGatewayError(thrown)
    error = failure
    answer = null
    measured = measure(exchange)
    await settle(exchange, endingOf(failure), measured, deps)
  }
  const { identity, shaping } = exchange
  return { requestId: identity.id, error, answer, measured, latencyMs: exchange.latencyMs(), shaping }
}

const endingOf = (error: GatewayError): Ending => ({
  outcome: error.code === 'request_canceled' ? 'canceled' : 'error',
  status: error.status,
  error,
})

const readWhole = ({ exchange, answer }: WholeAnswer): GatewayCallAnswer => {
  exchange.usage = answer.usage
  exchange.answerBytes = bytesOf(answer)
  const { content, toolNames, finishReason } = answer
  return { text: content ?? '', toolNames, finishReason, streamed: false, contentParts: 0 }
}

/** Reads a stream to its end. Throws the failure that cuts it. */
const readStream = async (
  { exchange, parts: first, source }: StreamedAnswer,
  deps: CallDeps,
): Promise<GatewayCallAnswer> => {
  let text = ''
  let contentParts = 0
  let finishReason: string | null = null
  let usage: Usage | null = null
  const toolNames: string[] = []
  try {
    for (let parts: StreamPart[] | null = first; parts !== null; parts = await source.next()) {
      for (const part of parts) {
        text += part.text
        exchange.answerBytes += part.bytes
        if (part.content) contentParts += 1
        finishReason = part.finishReason ?? finishReason
        usage = part.usage ?? usage
        toolNames.push(...part.toolNames)
      }
      exchange.usage = usage
      const cut = await reserveMore(exchange, source, deps)
      if (cut !== null) throw cut
    }
  } catch (thrown) {
    const error = failureOf(thrown, exchange, exchange.entry)
    finishAttempt(exchange, error.code === 'request_canceled' ? 'canceled' : 'interrupted', error)
    throw error
  } finally {
    source.cancel()
  }
  const { cameWhole } = source
  return { text, toolNames, finishReason, streamed: !cameWhole, contentParts }
}

/** A plan with this candidate alone, called once, whatever its health and policies. */
const planFor = (intent: Intent, entry: CatalogueEntry, timeoutMs: number, { catalogue }: GatewayCallDeps): Plan => {
  const policy = { ...BUILT_IN, firstTokenMs: timeoutMs, totalMs: timeoutMs, retryAttempts: 0, maxAttempts: 1 }
  const projected = priceOf(entry, promptTokensEstimate(intent), outputBound(intent, entry))
  return {
    input: {
      intent,
      policy,
      catalogue,
      keyId: '',
      isScopeAlias: false,
      overrides: NO_OVERRIDES,
      frame: STILL,
      seed: 0,
      turn: 0,
      sticky: 0,
    },
    policy,
    strategy: 'priority',
    candidates: [entry],
    reasons: [null],
    projectedNanoUsd: [projected],
    scores: null,
    order: [0],
    ordered: [entry],
    forLongContext: [],
    primary: entry,
    maxAttempts: 1,
    refused: null,
  }
}
