// Rate limits shared by all instances through Redis. While Redis is slow or away, this process decides by what it
// admitted itself, and returns to Redis when that answers.
import type { Redis } from '../../lib/redis.ts'
import { LocalLimitStore, nothing } from './local.ts'
import type { Held, LimitRequest, Limits, LimitsStatus, Verdict } from './port.ts'
import { RedisLimitStore } from './redis.ts'

/** Slots are renewed well before their lease of 30 s ends. */
const RENEW_MS = 10_000
const RENEWED_AT_ONCE = 500
/** An admitted request counts no longer than this. */
const WINDOW_MS = 61_000
const ALONE = 'rate limits are counted by each process for itself'

export interface SharedLimits extends Limits {
  close(): void
}

export interface SharedLimitsDeps {
  readonly redis: Redis
  /** Monotonic milliseconds, for the counts of this process. */
  nowMs(): number
  readonly renewMs?: number
  readonly leaseMs?: number
}

export const sharedLimits = (deps: SharedLimitsDeps): SharedLimits => new Shared(deps)

class Shared implements SharedLimits {
  readonly #store: RedisLimitStore
  readonly #local: LocalLimitStore
  readonly #holds = new Set<Hold>()
  readonly #renewal: ReturnType<typeof setInterval>
  #decidedAlone = 0
  #aloneUntilMs = Number.NEGATIVE_INFINITY
  /** Redis answers other commands and refuses this one: foreign values under these keys, no memory, a replica. */
  #refused = false

  constructor(private readonly deps: SharedLimitsDeps) {
    this.#store = new RedisLimitStore(deps.redis, null, deps.leaseMs)
    this.#local = new LocalLimitStore(deps.nowMs)
    this.#renewal = setInterval(() => this.#renew(), deps.renewMs ?? RENEW_MS)
    this.#renewal.unref()
  }

  async take(request: LimitRequest): Promise<Held> {
    const hold = new Hold(request, this.#store, this.#local, this.#holds)
    try {
      const verdict = await this.#store.take(request, (late) => hold.arrived(late))
      this.#refused = false
      if (!verdict.admitted) return { verdict, settle: nothing }
      hold.arrived(verdict)
      if (this.deps.nowMs() >= this.#aloneUntilMs) return hold.begin(verdict, this.#local.book(request))
      // Requests admitted while Redis was away are not in its counts: for a minute the own counts limit too.
      const own = this.#local.take(request)
      if (own.admitted) return hold.begin(verdict, own.buckets)
      hold.settle(0)
      return { verdict: own, settle: nothing }
    } catch {
      // Redis is away or refused the call: `status` reports it, and the next call tries again.
      this.#refused = this.deps.redis.problem === null
      this.#decidedAlone += 1
      this.#aloneUntilMs = this.deps.nowMs() + WINDOW_MS
      const verdict = this.#local.take(request)
      if (verdict.admitted) return hold.begin(verdict, verdict.buckets)
      hold.settle(0) // Redis may still have admitted it
      return { verdict, settle: nothing }
    }
  }

  status(): LimitsStatus {
    const why = this.deps.redis.problem ?? (this.#refused ? 'Redis refuses to count' : null)
    return {
      degraded: why === null ? null : `${why}: ${ALONE}`,
      decidedAlone: this.#decidedAlone,
      held: this.#holds.size,
    }
  }

  close(): void {
    clearInterval(this.#renewal)
  }

  #renew(): void {
    const requests: LimitRequest[] = []
    for (const { request } of this.#holds) if (hasSlots(request)) requests.push(request)
    for (let start = 0; start < requests.length; start += RENEWED_AT_ONCE) {
      this.#store.renew(requests.slice(start, start + RENEWED_AT_ONCE)).catch(nothing) // away: the next renewal retries
    }
  }
}

/** What one request holds: in this process, and in Redis as far as is known. */
class Hold implements Held {
  verdict!: Verdict
  #local: readonly number[] | null = null
  #remote: readonly number[] | null = null
  /** Tokens, once it is settled. */
  #used: number | null = null

  constructor(
    readonly request: LimitRequest,
    private readonly store: RedisLimitStore,
    private readonly local: LocalLimitStore,
    private readonly all: Set<Hold>,
  ) {}

  begin(verdict: Verdict, local: readonly number[] | null): Held {
    this.verdict = verdict
    this.#local = local
    this.all.add(this)
    return this
  }

  /** The verdict of Redis, in time or late: possibly after the request has ended. */
  arrived(verdict: Verdict): void {
    if (!verdict.admitted) return
    this.#remote = verdict.buckets
    if (this.#used !== null) this.#giveBack(this.#used)
  }

  settle(tokensUsed: number): void {
    if (this.#used !== null) return
    this.#used = tokensUsed
    this.all.delete(this)
    this.local.settle(this.request, this.#local, tokensUsed)
    if (this.#remote !== null || hasSlots(this.request)) this.#giveBack(tokensUsed)
  }

  /**
   * Called once; twice when Redis answered late. Only the call with the buckets changes tokens, and freeing a slot
   * twice changes nothing.
   */
  #giveBack(tokensUsed: number): void {
    // Redis is away: the slot expires with its lease, and the tokens with their minute.
    this.store.settle(this.request, this.#remote, tokensUsed).catch(nothing)
  }
}

const hasSlots = ({ rules }: LimitRequest): boolean => rules.some(({ maxParallel }) => maxParallel !== null)
