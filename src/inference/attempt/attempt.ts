// Station 6: one provider after another, until one answers. Nothing reaches the client before that, so failing over is invisible.

import { requireStanding } from '../../entry/authenticate.ts'
import { inStep } from '../../lib/event-loop/stages.ts'
import { type DialResponse, readerOf } from '../../lib/http-client/http-client.ts'
import type { Answer, ProviderKind, Reading, StreamPart } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { Intent } from '../intent/intent.ts'
import { reserveNext } from '../money/budget.ts'
import { chargeAttempt } from '../money/charge.ts'
import { stillAllowed } from '../plan/overruled.ts'
import type { Plan } from '../plan/plan.ts'
import { admitAttempt } from '../records/admit.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange, Identity } from '../request/exchange.ts'
import { failureOf } from '../request/failure.ts'
import { accepted, ProviderCall, prepare, refused, send } from './call.ts'
import { backoffMs, goOn, listDropped, nextCandidate, type Route, wake, worthRepeating } from './failover.ts'
import { beginCall, endCall } from './health.ts'
import { UpstreamStream } from './upstream-stream.ts'

/** A longer answer is an error of the provider. */
const ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
/** Parts of a stream that are held while nothing for the client has come. */
const HELD_PARTS = 1_024

/** What a provider answered: whole, or a stream whose first content has come. */
export type Served =
  | { readonly stream: false; readonly answer: Answer }
  | { readonly stream: true; readonly held: StreamPart[]; readonly source: UpstreamStream }

export type AttemptDeps = Pick<
  InferenceDeps,
  'spool' | 'dial' | 'kinds' | 'health' | 'steering' | 'budgets' | 'nowMs'
> & {
  readonly keys: Pick<InferenceDeps['keys'], 'stands'>
  readonly served: Pick<InferenceDeps['served'], 'calling'>
}

/** Calls the candidates of the plan. Throws the last failure as a GatewayError when none answered. */
export const attempt = async (exchange: Exchange, intent: Intent, plan: Plan, deps: AttemptDeps): Promise<Served> => {
  const route: Route = {
    queue: exchange.passedOver === 0 ? plan.ordered : plan.ordered.slice(exchange.passedOver),
    sequence: plan.ordered,
    dropped: null,
    longContext: plan.forLongContext,
  }
  let retries = 0
  let failed: GatewayError | null = null
  for (let made = 1; ; ) {
    const entry = route.queue[0]!
    if (route.dropped !== null) listDropped(route, entry, exchange)
    const unreserved =
      exchange.budgets === null || exchange.reservedFor === entry
        ? null
        : await reserveNext(exchange, intent, entry, deps)
    const kind = deps.kinds.get(entry.kind) ?? null
    const reading = new AttemptReading(exchange.identity, intent, entry)
    const call = new ProviderCall(exchange, intent, entry, plan, kind, reading, route.queue.length, made)
    const unfit = unreserved === null ? prepare(call, deps) : null
    const passedOver = unreserved ?? unfit ?? beginCall(exchange, intent, plan, entry, route.queue.length === 1, deps)
    if (passedOver !== null) {
      // Whoever was to repeat and may not be called now makes way only where the failure lets another take over.
      const repeats = failed !== null && entry === exchange.entry
      if (repeats && !(plan.policy.fallbackOn.has(failed!.code) && deps.health.mayFallBack())) throw failed
      // Of several the one that came nearest is told.
      if (unfit === null) failed ??= passedOver
      retries = 0
      if (!goOn(route, exchange) && (failed !== null || !wake(route, plan))) throw failed ?? passedOver
      continue
    }
    // What was passed over counts as well: only the very first candidate stands in the admission.
    const n = exchange.attempts.length + 1
    await (n > exchange.listedAtAdmission + 1 ? admitAttempt(exchange, intent, entry, n, deps) : inStep)
    begin(exchange, entry, kind, deps)
    try {
      let response = await send(call, deps)
      if (!accepted(response, call, deps)) response = await refused(response, call, deps)
      if (intent.stream) {
        const source = streamOf(intent, response, kind!, reading)
        const held: StreamPart[] = []
        while (!hasBegun(exchange, source, held)) await source.more()
        return { stream: true, held, source }
      }
      const body = response.wholeText?.(ANSWER_LIMIT_BYTES) ?? (await response.text(ANSWER_LIMIT_BYTES))
      return whole(exchange, kind!, body, reading)
    } catch (thrown) {
      const error = failedAttempt(exchange, entry, thrown)
      if (exchange.ended !== null || made++ >= plan.maxAttempts) throw error
      failed = error
      const again =
        error.fallback &&
        retries < plan.policy.retryAttempts &&
        worthRepeating(error, route.queue.length > 1) &&
        deps.health.mayRepeat(entry)
      if (again) await exchange.pause(backoffMs(error, retries++, plan))
      else if (nextCandidate(route, error, plan, exchange) && deps.health.mayFallBack()) retries = 0
      else throw error
      if (exchange.ended !== null) throw failureOf(error, exchange, entry)
      if (exchange.key !== null) requireStanding(exchange.key, deps.keys, exchange.identity.atMs + exchange.latencyMs())
      route.dropped ??= new Map()
      route.queue = stillAllowed(route.queue, exchange, plan, deps.steering, route.dropped)
      // Whoever is to repeat and may not be called any more makes way only where the failure lets another take over.
      const [next] = route.queue
      if (next === undefined) listDropped(route, null, exchange)
      if (next === undefined || (again && next !== entry && !plan.policy.fallbackOn.has(error.code))) throw error
    }
  }
}

const begin = (
  exchange: Exchange,
  entry: CatalogueEntry,
  kind: ProviderKind | null,
  { served }: Pick<AttemptDeps, 'served'>,
) => {
  chargeAttempt(exchange)
  exchange.entry = entry
  exchange.kind = kind
  exchange.reservedFor = null
  exchange.trace?.calling(entry)
  served.calling(exchange.servedAt, exchange.identity.id, entry.providerId, entry.modelId)
  exchange.attemptStartedMs = performance.now()
  exchange.mayBill = false
  exchange.usage = null
  exchange.answerBytes = 0
}

/** Ends the attempt under way by what was thrown; answers with what that means. */
const failedAttempt = (exchange: Exchange, entry: CatalogueEntry, thrown: unknown): GatewayError => {
  // The dialer may notice before the sweep does; nobody is asked in time that there is no more.
  if (performance.now() >= exchange.deadlineMs) exchange.end('total')
  const error = failureOf(thrown, exchange, entry)
  // Refused inside an answer that had begun as a success.
  if (error.upstreamStatus !== undefined && exchange.answerBytes === 0) exchange.mayBill = false
  finishAttempt(exchange, error.code === 'request_canceled' ? 'canceled' : 'error', error)
  exchange.releaseUpstream()
  return error
}

/** Writes down how the attempt under way went, once: letting go of its provider may end it by itself. */
export const finishAttempt = (
  exchange: Exchange,
  outcome: 'success' | 'error' | 'canceled' | 'interrupted',
  error: GatewayError | null,
): void => {
  const { entry, attempts } = exchange
  if (exchange.finished !== null) return
  endCall(exchange, error)
  exchange.finished = {
    n: attempts.length + 1,
    provider: entry!.provider,
    model: entry!.name,
    outcome,
    error_code: error?.code ?? null,
    upstream_status: error?.upstreamStatus ?? null,
    latency_ms: Math.max(0, Math.round(performance.now() - exchange.attemptStartedMs)),
    ttft_ms: error === null ? exchange.firstTokenMs : null,
  }
  attempts.push(exchange.finished)
}

/** What an answer is read with. Its id is made when one lacks its own. */
class AttemptReading implements Reading {
  readonly createdS: number
  readonly model: string
  readonly secret: string | null
  readonly baseUrl: string
  readonly hidesUsage: boolean

  constructor(
    private readonly identity: Identity,
    intent: Intent,
    entry: CatalogueEntry,
  ) {
    this.createdS = Math.floor(identity.atMs / 1_000)
    this.model = entry.upstreamModel
    this.secret = entry.secret
    this.baseUrl = entry.baseUrl
    this.hidesUsage = intent.stream && !intent.includeUsage
  }

  get id(): string {
    return `chatcmpl-${this.identity.id.slice(4)}`
  }
}

const streamOf = ({ structured }: Intent, response: DialResponse, kind: ProviderKind, reading: Reading) => {
  // Asking for the body would make a stream around it.
  const reader = response.reader?.() ?? readerOf(response.body)
  return new UpstreamStream(reader, kind.stream(reading), kind.framing, structured === null)
}

const whole = (exchange: Exchange, kind: ProviderKind, body: string, reading: Reading): Served => {
  try {
    const answer = kind.response(body, reading)
    exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
    return { stream: false, answer }
  } catch (thrown) {
    exchange.usage = kind.usageIn?.(body) ?? null
    throw thrown
  }
}

const isContent = ({ content }: StreamPart): boolean => content
/** Without content there must at least be a reason why. */
const isAnswer = ({ content, finishReason }: StreamPart): boolean => content || finishReason !== null

/** Reads what has come into what is held: true once that is something that a client could show, or the stream is complete. */
const hasBegun = (exchange: Exchange, source: UpstreamStream, held: StreamPart[]): boolean => {
  try {
    for (;;) {
      const parts = source.ready()
      if (parts === null && !source.done) return false
      if (parts === null) break
      for (const part of parts) held.push(part)
      if (parts.some(isContent)) break
      if (held.length > HELD_PARTS)
        throw new GatewayError('upstream_error', 'the provider sends a stream without content')
    }
    if (!held.some(isAnswer)) throw new GatewayError('upstream_error', 'the provider sent an empty stream')
    // What has come may still be read after the call was canceled: nobody would read the stream, nor end it.
    if (exchange.ended === 'client') throw new GatewayError('request_canceled', 'the client left')
  } catch (thrown) {
    noteUsed(exchange, held)
    noteUsed(exchange, source.unread)
    throw thrown
  }
  exchange.waitDeadlineMs = Number.POSITIVE_INFINITY
  exchange.firstTokenMs = exchange.latencyMs()
  exchange.call!.answered()
  source.shown = true
  return true
}

/** What a stream that nobody gets has used: it may be billed all the same. */
const noteUsed = (exchange: Exchange, parts: readonly StreamPart[]): void => {
  for (const { usage, bytes } of parts) {
    exchange.answerBytes += bytes
    if (usage !== null) exchange.usage = usage
  }
}
