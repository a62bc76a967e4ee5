// One call to a candidate, from its begin to its end: it takes a slot of the provider's concurrency, and gives it back
// exactly once.
import type { BreakerMove, BreakerSettings, Passage } from './breaker.ts'
import type { CandidateHealth } from './candidate.ts'

// The share of a rate limit that a provider reports as left, from several families of headers.

const PAIRS: readonly (readonly [remaining: string, limit: string])[] = [
  ['x-ratelimit-remaining-requests', 'x-ratelimit-limit-requests'],
  ['x-ratelimit-remaining-tokens', 'x-ratelimit-limit-tokens'],
  ['anthropic-ratelimit-requests-remaining', 'anthropic-ratelimit-requests-limit'],
  ['anthropic-ratelimit-tokens-remaining', 'anthropic-ratelimit-tokens-limit'],
  ['anthropic-ratelimit-input-tokens-remaining', 'anthropic-ratelimit-input-tokens-limit'],
  ['anthropic-ratelimit-output-tokens-remaining', 'anthropic-ratelimit-output-tokens-limit'],
  ['x-ratelimit-remaining', 'x-ratelimit-limit'],
]

const numberOf = (text: string | null): number | null =>
  text !== null && text.length < 20 && /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : null

/**
 * The smallest share that is left of any of its limits, 0 to 1; null when the response has none. A remainder without
 * its limit counts only when it is 0.
 */
export const headroomOf = (headers: Headers): number | null => {
  let least: number | null = null
  for (const [remainingName, limitName] of PAIRS) {
    const remaining = numberOf(headers.get(remainingName))
    if (remaining === null) continue
    const limit = numberOf(headers.get(limitName))
    const share = remaining === 0 ? 0 : limit === null || limit === 0 ? null : Math.min(1, remaining / limit)
    if (share !== null && (least === null || share < least)) least = share
  }
  return least
}

/** The part of the book of health that calls use. */
export interface CallWatch {
  monotonicMs(): number
  nowMs(): number
  moved(candidate: CandidateHealth, move: BreakerMove | null): void
  /** A cooldown of some length has begun. */
  cooled(): void
}

/**
 * `failure`: of the provider, of the sorts that allow a fallback. `throttled`: a 429. `answered`: a response that is
 * neither (it refused this request). `abandoned`: proves nothing about the provider (the client left, the gateway
 * failed).
 */
export type CallEnding = 'success' | 'failure' | 'throttled' | 'answered' | 'abandoned'

/** Cool-down after a 429 without a retry time. */
export const COOLDOWN_MS = 5_000
/**
 * Upper bound of a cool-down: a provider that requests more is tried again after an hour, since a quota may have been
 * raised, and a date may be wrong. The client gets the time that the provider requested.
 */
const MOST_COOLDOWN_MS = 3_600_000
/** Shorter cool-downs are over before another frame is due anyway. */
const FRAME_MS = 1_000
/** Headers about rate limits are read this often of each candidate. */
const HEADROOM_MS = 250

export class HealthCall {
  #ended = false
  #ttftMs: number | null = null
  #generation: number

  constructor(
    private readonly watch: CallWatch,
    private readonly candidate: CandidateHealth,
    private readonly settings: BreakerSettings,
    private passage: Passage,
    private readonly startedMs: number,
  ) {
    this.#generation = candidate.breaker.generation
    candidate.inFlight += 1
    candidate.provider.inFlight += 1
  }

  /** The response has begun: reads its rate limit headers. They are built on access, so this is done seldom. */
  headers(response: { readonly headers: Headers }): void {
    const { candidate, startedMs } = this
    if (startedMs - candidate.headroomAtMs < HEADROOM_MS) return
    candidate.headroomAtMs = startedMs
    candidate.headroom = headroomOf(response.headers)
  }

  /** The first content has arrived: a trial that got so far has succeeded, however long the stream will be. */
  answered(): void {
    const nowMs = this.watch.monotonicMs()
    const { candidate, passage } = this
    this.#ttftMs = nowMs - this.startedMs
    candidate.tookFirstToken(this.#ttftMs)
    if (passage !== 'trial') return
    this.watch.moved(candidate, candidate.breaker.succeeded('trial', this.#generation, nowMs))
    this.passage = 'call'
    this.#generation = candidate.breaker.generation
  }

  /** Ends the call; only the first end counts. `retryAfterMs`: the time that a throttle requests. */
  end(ending: CallEnding, completionTokens: number | null = null, retryAfterMs: number | null = null): void {
    if (this.#ended) return
    this.#ended = true
    const { candidate, passage, watch } = this
    const { breaker, provider } = candidate
    const nowMs = watch.monotonicMs()
    candidate.inFlight -= 1
    provider.inFlight -= 1
    if (ending === 'success') {
      const tookMs = nowMs - this.startedMs
      candidate.took(tookMs, this.#ttftMs, completionTokens)
      provider.succeededAtMs = watch.nowMs()
      provider.latencyMs = tookMs
      watch.moved(candidate, breaker.succeeded(passage, this.#generation, nowMs))
    } else if (ending === 'failure') {
      watch.moved(candidate, breaker.failed(passage, this.#generation, this.settings, nowMs))
    } else if (ending === 'answered') watch.moved(candidate, breaker.answered(passage, this.#generation, nowMs))
    else {
      if (ending === 'throttled') {
        const coolMs = Math.min(MOST_COOLDOWN_MS, retryAfterMs ?? COOLDOWN_MS)
        if (coolMs >= FRAME_MS && nowMs >= candidate.coolUntilMs) watch.cooled()
        candidate.coolUntilMs = Math.max(candidate.coolUntilMs, nowMs + coolMs)
      }
      breaker.abandoned(passage, this.#generation)
    }
  }
}
