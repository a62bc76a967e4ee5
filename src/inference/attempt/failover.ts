// Which candidate is called after a failure: the same one again, the next one, or one for long prompts.
import { requireStanding } from '../../entry/authenticate.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { ErrorCode, GatewayError } from '../../wire/errors.ts'
import { stillAllowed } from '../plan/overruled.ts'
import type { Plan } from '../plan/plan.ts'
import { drawing } from '../plan/strategies.ts'
import type { InferenceDeps } from '../request/deps.ts'
import { failureOf } from '../request/failure.ts'
import type { Admitted } from '../request/progress.ts'

/** A provider that requires a longer wait is not called again for this request. */
const LONGEST_RETRY_AFTER_S = 1

type FailoverDeps = Pick<InferenceDeps, 'health' | 'steering'> & {
  readonly keys: Pick<InferenceDeps['keys'], 'isValid'>
}

/** Why a candidate is not called. */
export class PassedOver {
  constructor(
    readonly error: GatewayError,
    /**
     * The candidate can serve the request. False: its kind cannot express it; the client gets that error only if there
     * is no other failure.
     */
    readonly isFit: boolean,
  ) {}
}

/** The candidates of one request and what its calls have come to. */
export class Failover {
  /** Which call of the request is under way, from 1. */
  callNumber = 1
  /** The candidate under way, then those after it. */
  #queue: readonly CatalogueEntry[]
  /** All candidates that the queue was made of. */
  #sequence: readonly CatalogueEntry[]
  /** Candidates that an operator has switched off since the plan was made and that are not listed yet. Null: none. */
  #dropped: Map<CatalogueEntry, ErrorCode> | null = null
  /** Replaces the queue, once, when the prompt turns out too long. */
  #longContext: readonly CatalogueEntry[]
  /** Repeats of the candidate under way. */
  #retries = 0
  /** The failure that the client gets if no further candidate answers. */
  #failure: GatewayError | null = null

  constructor(
    private readonly exchange: Admitted,
    private readonly deps: FailoverDeps,
  ) {
    const { plan, passedOver } = exchange
    this.#queue = passedOver === 0 ? plan.ordered : plan.ordered.slice(passedOver)
    this.#sequence = plan.ordered
    this.#longContext = plan.forLongContext
  }

  /** How many candidates are left, the one under way among them. */
  get candidatesLeft(): number {
    return this.#queue.length
  }

  /** The candidate to be called now. Dropped candidates before it are listed as skipped. */
  next(): CatalogueEntry {
    const entry = this.#queue[0]!
    if (this.#dropped !== null) this.#listDropped(entry)
    return entry
  }

  /** Goes on behind a candidate that is not called. Throws the failure for the client when no candidate is left. */
  passOver(entry: CatalogueEntry, { error, isFit }: PassedOver): void {
    const failure = this.#failure
    const isRepeat = failure !== null && entry === this.exchange.entry
    // A candidate that was to be repeated and may not be called now: failover needs the failure to allow it.
    if (isRepeat && !(this.#allowsFailover(failure) && this.deps.health.mayFallBack())) throw failure
    if (isFit) this.#failure ??= error
    this.#retries = 0
    if (!this.#advance() && (this.#failure !== null || !this.#tryUnhealthy())) throw this.#failure ?? error
  }

  /** Waits for a repeat of the candidate, or goes on to another one. Throws the failure where neither is allowed. */
  async afterFailure(entry: CatalogueEntry, failure: GatewayError): Promise<void> {
    const { exchange, deps } = this
    if (exchange.ended !== null || this.callNumber++ >= exchange.plan.maxAttempts) throw failure
    this.#failure = failure
    const isRepeat = this.#mayRepeat(entry, failure)
    if (isRepeat) await exchange.sleep(backoffMs(failure, this.#retries++, exchange.plan))
    else if (this.#moveOn(failure) && deps.health.mayFallBack()) this.#retries = 0
    else throw failure
    if (exchange.ended !== null) throw failureOf(failure, exchange, entry)
    this.#applyRevocations(isRepeat ? entry : null, failure)
  }

  #allowsFailover({ code }: GatewayError): boolean {
    return this.exchange.plan.policy.fallbackOn.has(code)
  }

  #mayRepeat(entry: CatalogueEntry, failure: GatewayError): boolean {
    return (
      failure.fallback &&
      this.#retries < this.exchange.plan.policy.retryAttempts &&
      worthRepeating(failure, this.#queue.length > 1) &&
      this.deps.health.mayRepeat(entry)
    )
  }

  /** Goes on to the next candidate when the failure allows it. */
  #moveOn(failure: GatewayError): boolean {
    if (failure.code === 'context_length_exceeded' && this.#longContext.length > 0) {
      const [failed] = this.#queue
      this.#queue = this.#longContext.filter((entry) => entry !== failed)
      this.#sequence = this.#longContext
      this.#dropped = null
      this.#longContext = []
      return true
    }
    return this.#allowsFailover(failure) && this.#advance()
  }

  /** Goes on to the candidate behind the one under way. False: there is none. */
  #advance(): boolean {
    if (this.#queue.length === 1) {
      this.#listDropped(null)
      return false
    }
    this.#queue = this.#queue.slice(1)
    return true
  }

  /**
   * Where none of the allowed candidates can serve the request, goes on to those that their health excluded: the last
   * candidate is always tried. False: there are none.
   */
  #tryUnhealthy(): boolean {
    const { ordered, order, candidates, reasons } = this.exchange.plan
    if (this.#sequence !== ordered) return false
    const unhealthy = order.filter((place) => reasons[place] === 'breaker_open' || reasons[place] === 'rate_limited')
    if (unhealthy.length === 0) return false
    this.#sequence = unhealthy.map((place) => candidates[place]!)
    this.#queue = this.#sequence
    return true
  }

  /**
   * Between two calls: the key may have been revoked, and candidates switched off by an operator. `repeated`: the
   * candidate that is to be called again; it makes way only where the failure allows a failover.
   */
  #applyRevocations(repeated: CatalogueEntry | null, failure: GatewayError): void {
    const { exchange, deps } = this
    const { key, plan, identity } = exchange
    if (key === null) return // a call of the gateway itself: no key, and no overrides of a tenant
    requireStanding(key, deps.keys, identity.atMs + exchange.latencyMs())
    this.#dropped ??= new Map()
    this.#queue = stillAllowed(this.#queue, exchange, key, deps.steering, this.#dropped)
    const [next] = this.#queue
    if (next === undefined) {
      this.#listDropped(null)
      throw failure
    }
    if (repeated !== null && next !== repeated && !plan.policy.fallbackOn.has(failure.code)) throw failure
  }

  /** Lists dropped candidates as skipped: those in front of this one in the sequence; null: all. */
  #listDropped(before: CatalogueEntry | null): void {
    const dropped = this.#dropped
    if (dropped === null) return
    for (const entry of this.#sequence) {
      if (entry === before) return
      const code = dropped.get(entry)
      if (code === undefined) continue
      dropped.delete(entry)
      this.exchange.skip(entry, code)
    }
  }
}

/**
 * A timeout is not repeated (it would double the wait), and a throttled or exhausted provider only when there is no
 * other one.
 */
const worthRepeating = (error: GatewayError, hasOther: boolean): boolean => {
  if (!error.retryable || error.code === 'timeout' || (error.retryAfterS ?? 0) > LONGEST_RETRY_AFTER_S) return false
  return error.code !== 'rate_limited' || !hasOther
}

/**
 * Milliseconds until the same candidate is called again: what the provider requires, else doubling, of which half is
 * drawn from the seed of the plan. Requests that failed together do not come back together, and a replay waits as long.
 */
const backoffMs = (error: GatewayError, retries: number, { policy, input }: Plan): number => {
  if (error.retryAfterS !== undefined) return error.retryAfterS * 1_000
  const ms = Math.min(policy.backoffMaxMs, policy.backoffInitialMs * 2 ** retries)
  return (ms / 2) * (1 + drawing(input.seed + retries)())
}

/**
 * Milliseconds that one call may take until it answers (a stream: until its first token), of those that are left. Half
 * of them while another candidate could still be called: a provider that hangs must not use up the time of the others.
 */
export const shareMs = (
  leftMs: number,
  { candidatesLeft, callNumber }: Pick<Failover, 'candidatesLeft' | 'callNumber'>,
  { policy, maxAttempts }: Plan,
): number => {
  const hasOther = candidatesLeft > 1 && callNumber < maxAttempts && policy.fallbackOn.has('timeout')
  return Math.max(1, hasOther ? leftMs / 2 : leftMs)
}
