// One request and what is known of it as it passes the stations. Made by `http/`, filled station by station, settled
// once.

import { type AttemptSummary, shownAttempt } from '../../domain/events/request-reading.ts'
import type { IndexSetMember } from '../../lib/collections/index-set.ts'
import { Cancellation, type CancelSignal } from '../../lib/event-loop/cancellation.ts'
import type { Inbound } from '../../lib/http-server/http-server.ts'
import type { Appended } from '../../log/spool/spool.ts'
import type { ProviderKind, Usage } from '../../providers/port.ts'
import type { RequestBudgets } from '../../state/budgets/budgets.ts'
import type { HealthCall } from '../../state/health/call.ts'
import type { CatalogueEntry, KeyEntry } from '../../state/port.ts'
import type { ErrorCode } from '../../wire/errors.ts'
import type { GatewayFacts } from '../../wire/gateway-block.ts'
import type { Intent } from '../intent/intent.ts'
import type { Held } from '../limits/port.ts'
import type { Charge } from '../money/charge.ts'
import { explainedJson, routeReason } from '../plan/explain.ts'
import type { Plan } from '../plan/plan.ts'
import type { RequestTrace } from './trace.ts'

/** The identity of a request: made at arrival, the same in every answer, record and header. */
export interface Identity {
  /** The gateway's own id, unique: `req_<UUIDv7>`. */
  readonly id: string
  /** The client's label (`X-Request-ID`, sanitised) when sent, else `id`. Echoed, and never used as a key. */
  readonly requestId: string
  /** 32 hex digits: of a valid `traceparent`, else made from `id`. */
  readonly traceId: string
  /** Arrival: Unix milliseconds and, for durations, the monotonic clock. */
  readonly atMs: number
  readonly startedMs: number
}

/** Why the gateway ends a request. */
export type EndReason = 'client' | 'total' | 'shutdown'
/** Why the gateway ends one upstream call; another may follow. */
export type WaitReason = 'first_token' | 'idle'

/** Why the gateway calls a provider for itself. */
export type Purpose = 'test' | 'detection'

/**
 * An outcome holds at most 64 attempts, of which a policy allows 16 calls: the rest is for candidates that are passed
 * over.
 */
const LISTED_SKIPS = 48

const NO_SHAPING: readonly string[] = []

export class Exchange implements IndexSetMember {
  /** Index among the requests in flight. */
  place = -1
  key: KeyEntry | null = null
  /** Why the gateway itself makes the request; null for a client's request. */
  purpose: Purpose | null = null
  intent: Intent | null = null
  /**
   * Known before the intent is read, for refusals: the model name of the body, and whether the debug block is
   * requested.
   */
  requestedModel: string | null = null
  wantsDebug = false
  plan: Plan | null = null
  /** What it holds of rate limits; null: none. The settlement gives it back. */
  held: Held | null = null
  /** What it holds of budgets; null: it falls under none. The settlement charges them and frees the rest. */
  budgets: RequestBudgets | null = null
  /** The candidate whose attempt is reserved and has not begun. */
  reservedFor: CatalogueEntry | null = null
  /** Number of candidates before the first one that its budgets allow. */
  passedOver = 0
  /** Number of attempts listed at the admission, which names the one after them. */
  listedAtAdmission = 0
  /** `x-ratelimit-*` of the tightest limits, as lines of a head; '' where there are none. */
  limitLines = ''
  /** The control decision that the plan is made on; null before the plan. */
  revision: string | null = null
  /** Milliseconds since arrival at which it was planned, and admitted. Null: not yet. */
  plannedMs: number | null = null
  admittedMs: number | null = null
  /** Set once `request.admitted` is durable. */
  admission: Appended | null = null
  /** The beginning of admission and settlement, the members that they share. */
  factsText: string | null = null
  settled = false

  readonly attempts: AttemptSummary[] = []
  #skips = 0
  /** The candidate that was called last: it served or failed the request. */
  entry: CatalogueEntry | null = null
  /** Kind of the provider that was called last. */
  kind: ProviderKind | null = null
  attemptStartedMs = 0
  /** The call under way, or the last one: occupies a place of its provider until it is ended. */
  call: HealthCall | null = null
  /** Its index among the recent requests. */
  recentIndex = 0
  firstTokenMs: number | null = null
  shaping: readonly string[] = NO_SHAPING

  usage: Usage | null = null
  /** UTF-8 bytes of answer text that came, for estimates when the provider reports no usage. */
  answerBytes = 0
  finishReason: string | null = null
  /** The attempt that ended last, until another begins; and the charge of those before it. */
  finished: AttemptSummary | null = null
  charged: Charge | null = null
  /** Cost of all attempts, for the `gateway` block. */
  costNanoUsd: number | null = null

  /** The client's connection; notified when the request is no longer in flight, before its last bytes are sent. */
  client: Pick<Inbound, 'resumeDeadlines'> | null = null

  /** Null while traces are off. */
  trace: RequestTrace | null = null

  /** The call under way may be billed: it was sent, and not refused by the provider. */
  mayBill = false

  /**
   * Monotonic milliseconds after which the request, or the wait for the upstream, is ended. Set by the stations,
   * enforced by `ActiveRequests`.
   */
  deadlineMs = Number.POSITIVE_INFINITY
  waitDeadlineMs = Number.POSITIVE_INFINITY
  waitReason: WaitReason = 'first_token'
  ended: EndReason | null = null
  waitEnded: WaitReason | null = null
  /** Called when the request is ended: a stream whose client does not read must still be settled. */
  onEnd: (() => void) | null = null
  #upstream: Cancellation | null = null
  #wake: (() => void) | null = null

  /** The client's request until its signal is watched. */
  #unwatched: Pick<Inbound, 'signal'> | null = null

  constructor(readonly identity: Identity) {}

  /**
   * Ends the request when its client disconnects. The signal of a `Request` is a DOM object, too expensive for the many
   * requests that end within milliseconds: the sweep creates it.
   */
  watch(request: Pick<Inbound, 'signal'>): void {
    this.#unwatched = request
  }

  /** Called by the sweep for requests still in flight: watches the client from now on. */
  watchClient(): void {
    const request = this.#unwatched
    if (request === null) return
    this.#unwatched = null
    const { signal } = request
    if (signal.aborted) this.end('client')
    else signal.onabort = () => this.end('client')
  }

  /**
   * A signal for one upstream call. Aborted from the start when the request has ended or its client has disconnected,
   * which the sweep may not have noticed yet.
   */
  newSignal(): CancelSignal {
    if (this.#unwatched?.signal.aborted) this.watchClient()
    this.#upstream = new Cancellation()
    this.waitEnded = null
    if (this.ended !== null) this.#upstream.abort()
    return this.#upstream
  }

  /** Ends the request and the upstream call under way. The first reason stands. */
  end(reason: EndReason): void {
    if (this.ended !== null) return
    this.ended = reason
    this.#upstream?.abort()
    this.#wake?.()
    this.onEnd?.()
  }

  /** Ends the upstream call under way because it took too long. */
  endWait(): void {
    this.waitEnded = this.waitReason
    this.waitDeadlineMs = Number.POSITIVE_INFINITY
    this.#upstream?.abort()
  }

  /** Releases the upstream when nothing more is needed from it. */
  releaseUpstream(): void {
    this.#upstream?.abort()
  }

  /** Waits; returns at once when the request is ended. */
  async sleep(ms: number): Promise<void> {
    if (this.ended !== null || ms <= 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#wake = resolve
    await promise
    clearTimeout(timer)
    this.#wake = null
  }

  /** Lists a candidate that is passed over among the attempts, while there is room. */
  skip({ provider, name }: CatalogueEntry, code: ErrorCode): void {
    const { attempts } = this
    if (this.#skips === LISTED_SKIPS) return
    this.#skips++
    attempts.push({
      n: attempts.length + 1,
      provider,
      model: name,
      outcome: 'skipped',
      error_code: code,
      upstream_status: null,
      latency_ms: null,
      ttft_ms: null,
    })
  }

  /** Whole milliseconds since arrival. */
  latencyMs(): number {
    return Math.max(0, Math.round(performance.now() - this.identity.startedMs))
  }

  /** The facts for the `gateway` block. */
  facts(): GatewayFacts {
    const { identity, intent, plan, entry } = this
    return {
      requestId: identity.requestId,
      provider: entry?.provider ?? null,
      requestedModel: intent?.model ?? this.requestedModel,
      routedModel: entry?.name ?? null,
      fallbackUsed: this.fallbackUsed(),
      cacheHit: false,
      latencyMs: this.latencyMs(),
      costNanoUsd: this.costNanoUsd,
      debug:
        intent?.debug || this.wantsDebug
          ? {
              policyId: plan?.policy.id ?? null,
              policyName: plan?.policy.name ?? null,
              strategy: plan?.strategy ?? null,
              attempts: this.attempts.map(shownAttempt),
              task: intent?.task ?? null,
              shaping: this.shaping,
              routeReason: plan === null ? null : routeReason(plan),
              traceId: identity.traceId,
              explainedJson: plan === null ? '' : explainedJson(plan, this.revision, entry),
            }
          : null,
    }
  }

  /** Whether a candidate other than the first was called last. */
  fallbackUsed(): boolean {
    const primary = this.plan?.primary
    return this.entry !== null && primary !== undefined && primary !== null && this.entry !== primary
  }
}
