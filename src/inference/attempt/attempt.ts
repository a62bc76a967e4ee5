// Station 6: calls one candidate after another, until one answers. Nothing reaches the client before that, so the
// client never notices a failover.
import { inStep } from '../../lib/event-loop/stages.ts'
import { type DialResponse, readerOf } from '../../lib/http-client/http-client.ts'
import type { Answer, ProviderKind, StreamPart } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { requireBounded } from '../../wire/upstream-json.ts'
import { reserveNext } from '../money/budget.ts'
import { chargeAttempt } from '../money/charge.ts'
import { admitAttempt } from '../records/admit.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import { failureOf } from '../request/failure.ts'
import type { Admitted, Called } from '../request/progress.ts'
import { accepted, type ProviderCall, prepare, refused, send } from './call.ts'
import { Failover, PassedOver, shareMs } from './failover.ts'
import { beginCall, endCall } from './health.ts'
import { UpstreamStream } from './upstream-stream.ts'

/** A longer answer is an error of the provider. */
const ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
/** Parts of a stream that are buffered while none has content for the client. */
const BUFFERED_PARTS = 1_024

/** The whole answer of a provider. */
export interface WholeAnswer {
  readonly stream: false
  readonly exchange: Called
  readonly answer: Answer
}

/** A stream whose first content has come: the parts up to that, and the source of the next ones. */
export interface StreamedAnswer {
  readonly stream: true
  readonly exchange: Called
  readonly parts: StreamPart[]
  readonly source: UpstreamStream
}

export type ProviderAnswer = WholeAnswer | StreamedAnswer

export type AttemptDeps = Pick<
  InferenceDeps,
  'spool' | 'dial' | 'kinds' | 'health' | 'steering' | 'budgets' | 'nowMs'
> & {
  readonly keys: Pick<InferenceDeps['keys'], 'isValid'>
  readonly recentRequests: Pick<InferenceDeps['recentRequests'], 'calling'>
}

/** Calls the candidates of the plan in order. Throws the last failure as a GatewayError when none answers. */
export const attempt = async (exchange: Admitted, deps: AttemptDeps): Promise<ProviderAnswer> => {
  const failover = new Failover(exchange, deps)
  const { budgets, intent } = exchange
  for (;;) {
    const entry = failover.next()
    const isReserved = budgets === null || exchange.reservedFor === entry
    const refusal = isReserved ? null : await reserveNext(exchange, budgets, entry, deps)
    const call = refusal === null ? ready(exchange, entry, failover, deps) : new PassedOver(refusal, true)
    if (call instanceof PassedOver) {
      failover.passOver(entry, call)
      continue
    }
    // The admission names its first attempt; every other one has a record of its own.
    const isFirst = exchange.attempts.length === exchange.listedAtAdmission
    await (isFirst ? inStep : admitAttempt(exchange, entry, deps))
    const current = begin(call, deps)
    try {
      let response = await send(call, deps)
      if (!accepted(response, current, call, deps)) response = await refused(response, current, call, deps)
      if (!intent.stream) {
        const body = response.wholeText?.(ANSWER_LIMIT_BYTES) ?? (await response.text(ANSWER_LIMIT_BYTES))
        return wholeAnswer(current, call, body)
      }
      const answer = openStream(current, call, response)
      while (!hasBegun(answer)) {
        renewWait(current, call)
        await answer.source.more()
      }
      return answer
    } catch (thrown) {
      await failover.afterFailure(entry, failedAttempt(current, thrown))
    }
  }
}

/** A call that may be sent, begun in the book of health; or why this candidate is passed over. */
const ready = (
  exchange: Admitted,
  entry: CatalogueEntry,
  failover: Failover,
  deps: AttemptDeps,
): ProviderCall | PassedOver => {
  const call = prepare(exchange, entry, failover, deps)
  if (call instanceof GatewayError) return new PassedOver(call, false)
  const refusal = beginCall(call, deps)
  return refusal === null ? call : new PassedOver(refusal, true)
}

const begin = (
  { exchange, entry, kind }: ProviderCall,
  { recentRequests }: Pick<AttemptDeps, 'recentRequests'>,
): Called => {
  chargeAttempt(exchange)
  const current = called(exchange, entry, kind)
  exchange.trace?.calling(entry)
  recentRequests.calling(exchange.recentIndex, exchange.identity.id, entry.providerId, entry.modelId)
  return current
}

/** Sets the candidate and clears what the attempt before left. The call itself has begun in the book of health. */
const called = (exchange: Admitted, entry: CatalogueEntry, kind: ProviderKind): Called => {
  exchange.entry = entry
  exchange.kind = kind
  exchange.reservedFor = null
  exchange.attemptStartedMs = performance.now()
  exchange.mayBill = false
  exchange.usage = null
  exchange.answerBytes = 0
  return exchange as Called
}

/** Ends the attempt under way. Returns what was thrown as a failure of that attempt. */
const failedAttempt = (exchange: Called, thrown: unknown): GatewayError => {
  // The dialer may report the end of the time before the sweep of the active requests does.
  if (performance.now() >= exchange.deadlineMs) exchange.end('total')
  const error = failureOf(thrown, exchange, exchange.entry)
  // An in-band refusal before any content of the answer is not billed.
  if (error.upstreamStatus !== undefined && exchange.answerBytes === 0) exchange.mayBill = false
  finishAttempt(exchange, error.code === 'request_canceled' ? 'canceled' : 'error', error)
  exchange.releaseUpstream()
  return error
}

/** Lists how the attempt under way went, once: releasing its upstream may end it too. */
export const finishAttempt = (
  exchange: Called,
  outcome: 'success' | 'error' | 'canceled' | 'interrupted',
  error: GatewayError | null,
): void => {
  const { entry, attempts } = exchange
  if (exchange.finished !== null) return
  endCall(exchange, error)
  exchange.finished = {
    n: attempts.length + 1,
    provider: entry.provider,
    model: entry.name,
    outcome,
    error_code: error?.code ?? null,
    upstream_status: error?.upstreamStatus ?? null,
    latency_ms: Math.max(0, Math.round(performance.now() - exchange.attemptStartedMs)),
    ttft_ms: error === null ? exchange.firstTokenMs : null,
  }
  attempts.push(exchange.finished)
}

const openStream = (exchange: Called, { kind, reading }: ProviderCall, response: DialResponse): StreamedAnswer => {
  // `body` would wrap the reader in a stream.
  const reader = response.reader?.() ?? readerOf(response.body)
  const isTextUnused = exchange.intent.structured === null
  const source = new UpstreamStream(reader, kind.stream(reading), kind.framing, isTextUnused)
  return { stream: true, exchange, parts: [], source }
}

const wholeAnswer = (exchange: Called, { kind, reading }: ProviderCall, body: string): WholeAnswer => {
  requireBounded(body)
  try {
    const answer = kind.response(body, reading)
    exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
    return { stream: false, exchange, answer }
  } catch (thrown) {
    exchange.usage = kind.usageIn?.(body) ?? null
    throw thrown
  }
}

/**
 * Whatever a provider sends before its first content (the head, a role, a comment) begins the wait for that anew: it is
 * at work. Its share of the time that is left bounds that wait, the provider's own timeout the attempt, and the total
 * the request.
 */
const renewWait = (exchange: Called, call: ProviderCall): void => {
  if (exchange.waitEnded !== null) return
  const { entry, plan, attemptStartedMs, deadlineMs } = exchange
  const nowMs = performance.now()
  const ownEndMs = entry.timeoutMs === null ? Number.POSITIVE_INFINITY : attemptStartedMs + entry.timeoutMs
  const waitMs = Math.min(plan.policy.firstTokenMs, shareMs(deadlineMs - nowMs, call, plan))
  exchange.waitDeadlineMs = Math.min(nowMs + waitMs, ownEndMs)
}

const isContent = ({ content }: StreamPart): boolean => content
/** An answer without content has at least a finish reason. */
const isAnswer = ({ content, finishReason }: StreamPart): boolean => content || finishReason !== null

/** Buffers the parts that have come. True once they hold content for the client, or the stream is complete. */
const hasBegun = ({ exchange, source, parts: buffered }: StreamedAnswer): boolean => {
  try {
    for (;;) {
      const parts = source.ready()
      if (parts === null && !source.done) return false
      if (parts === null) break
      for (const part of parts) buffered.push(part)
      if (parts.some(isContent)) break
      if (buffered.length > BUFFERED_PARTS)
        throw new GatewayError('upstream_error', 'the provider sends a stream without content')
    }
    if (!buffered.some(isAnswer)) throw new GatewayError('upstream_error', 'the provider sent an empty stream')
    // Bytes that came before the call was canceled are still read here; the stream would have no reader to end it.
    if (exchange.ended === 'client') throw new GatewayError('request_canceled', 'the client left')
  } catch (thrown) {
    noteUsage(exchange, buffered)
    noteUsage(exchange, source.unread)
    throw thrown
  }
  exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
  exchange.firstTokenMs = exchange.latencyMs()
  exchange.call.answered()
  source.shown = true
  return true
}

/** Usage of parts that the client does not get: the provider may bill them. */
const noteUsage = (exchange: Exchange, parts: readonly StreamPart[]): void => {
  for (const { usage, bytes } of parts) {
    exchange.answerBytes += bytes
    if (usage !== null) exchange.usage = usage
  }
}
