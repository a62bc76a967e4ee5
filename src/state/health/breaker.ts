// The circuit breaker of one candidate (a model of one provider): a state machine without a clock. Every `nowMs` is
// monotonic and handed in.
import type { PolicyRow } from '../../domain/steering/policy.ts'
import { RollingPair } from '../../lib/collections/rolling-pair.ts'

export interface BreakerSettings {
  /** Failures in a row that open it. */
  readonly failureThreshold: number
  /** Or this share of the last 60 s, 0 to 100, of at least so many calls. */
  readonly failureRatePct: number
  readonly minimumRequests: number
  /** How long it stays open before a trial. */
  readonly cooldownMs: number
}

/** docs/behaviour.md: "Health". */
export const BREAKER_DEFAULTS: BreakerSettings = {
  failureThreshold: 5,
  failureRatePct: 50,
  minimumRequests: 20,
  cooldownMs: 30_000,
}

/** A policy's settings, with defaults for those that it leaves out. */
export const breakerSettings = (given: PolicyRow['breaker'] | undefined): BreakerSettings =>
  given === undefined
    ? BREAKER_DEFAULTS
    : {
        failureThreshold: given.failure_threshold ?? BREAKER_DEFAULTS.failureThreshold,
        failureRatePct: given.failure_rate_pct ?? BREAKER_DEFAULTS.failureRatePct,
        minimumRequests: given.minimum_requests ?? BREAKER_DEFAULTS.minimumRequests,
        cooldownMs: given.cooldown_ms ?? BREAKER_DEFAULTS.cooldownMs,
      }

export type BreakerState = 'closed' | 'open' | 'half_open'
/**
 * Why it moved: `rate` and `consecutive` open it, a `trial` opens or closes it, `cooldown` permits a trial, `cleared`
 * is the request of an operator.
 */
export type BreakerReason = 'consecutive' | 'rate' | 'trial' | 'cooldown' | 'cleared'

export interface BreakerMove {
  readonly to: BreakerState
  readonly reason: BreakerReason
  /** Failures and requests of the 60 s before it moved. */
  readonly failures: number
  readonly requests: number
  /** How long it stays open; null: it is not. */
  readonly cooldownMs: number | null
}

/**
 * The role of a call: `call` counts, `trial` is the only one under way, `forced` was let through an open breaker and
 * moves nothing.
 */
export type Passage = 'call' | 'trial' | 'forced'

const WINDOW_BUCKETS = 12
const BUCKET_MS = 5_000

export class Breaker {
  /** First: calls that count. Second: those of them that failed. Of the last 60 s. */
  readonly window = new RollingPair(WINDOW_BUCKETS, BUCKET_MS)
  #state: BreakerState = 'closed'
  /** Grows with each move: a call that began before a move has no effect on the state after it. */
  #generation = 0
  #consecutive = 0
  #openUntilMs = 0
  #trialOut = false
  /** Another instance has it open: until then one failure here is enough. */
  #warnedUntilMs = Number.NEGATIVE_INFINITY

  get state(): BreakerState {
    return this.#state
  }

  get generation(): number {
    return this.#generation
  }

  /** When time alone will move it; Infinity: it will not. */
  get dueMs(): number {
    return this.#state === 'open' ? this.#openUntilMs : Number.POSITIVE_INFINITY
  }

  /** Permits a trial once the cool-down is over. Call it before the state is used. */
  elapse(nowMs: number): BreakerMove | null {
    return nowMs < this.dueMs ? null : this.#move('half_open', 'cooldown', nowMs, null)
  }

  /** The role of a call that begins now; null: it must not be made. A `trial` takes the only slot. */
  pass(): Passage | null {
    if (this.#state === 'closed') return 'call'
    if (this.#state === 'open' || this.#trialOut) return null
    this.#trialOut = true
    return 'trial'
  }

  succeeded(passage: Passage, generation: number, nowMs: number): BreakerMove | null {
    this.window.add(nowMs, 1, 0)
    if (generation !== this.#generation || passage === 'forced') return null
    this.#consecutive = 0
    return passage === 'trial' ? this.#move('closed', 'trial', nowMs, null) : null
  }

  failed(passage: Passage, generation: number, settings: BreakerSettings, nowMs: number): BreakerMove | null {
    this.window.add(nowMs, 1, 1)
    if (generation !== this.#generation || passage === 'forced') return null
    if (passage === 'trial') return this.#move('open', 'trial', nowMs, settings.cooldownMs)
    this.#consecutive += 1
    if (this.#consecutive >= (nowMs < this.#warnedUntilMs ? 1 : settings.failureThreshold)) {
      return this.#move('open', 'consecutive', nowMs, settings.cooldownMs)
    }
    const requests = this.window.first(nowMs)
    const tooMany = this.window.second(nowMs) * 100 >= settings.failureRatePct * requests
    return tooMany && requests >= settings.minimumRequests
      ? this.#move('open', 'rate', nowMs, settings.cooldownMs)
      : null
  }

  /**
   * The provider responded, though not with a result (it refused the request itself): no failure, and sufficient for a
   * trial.
   */
  answered(passage: Passage, generation: number, nowMs: number): BreakerMove | null {
    return passage === 'trial' && generation === this.#generation ? this.#move('closed', 'trial', nowMs, null) : null
  }

  /** The call proves nothing about the provider's health (the client left, a throttle): another trial may be made. */
  abandoned(passage: Passage, generation: number): void {
    if (passage === 'trial' && generation === this.#generation) this.#trialOut = false
  }

  /** Another instance has it open, by its latest announcement. */
  warn(untilMs: number): void {
    this.#warnedUntilMs = untilMs
  }

  /** Drops all failures of the candidate. Null: it was closed already. */
  clear(nowMs: number): BreakerMove | null {
    this.#warnedUntilMs = Number.NEGATIVE_INFINITY
    this.#consecutive = 0
    if (this.#state !== 'closed') return this.#move('closed', 'cleared', nowMs, null)
    this.window.clear()
    return null
  }

  #move(to: BreakerState, reason: BreakerReason, nowMs: number, cooldownMs: number | null): BreakerMove {
    const move = { to, reason, failures: this.window.second(nowMs), requests: this.window.first(nowMs), cooldownMs }
    this.#state = to
    this.#generation += 1
    this.#trialOut = false
    this.#consecutive = 0
    if (cooldownMs !== null) this.#openUntilMs = nowMs + cooldownMs
    if (to === 'closed') this.window.clear()
    return move
  }
}
