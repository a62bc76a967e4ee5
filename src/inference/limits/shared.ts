// Rate limits shared by all instances through Redis. When Redis is slow or gone, this process decides by what it has let in itself; back to Redis by itself.
import type { Redis } from '../../lib/redis.ts'
import { LocalLimitStore, nothing } from './local.ts'
import type { Ask, Held, Limits, LimitsStatus, Verdict } from './port.ts'
import { RedisLimitStore } from './redis.ts'

/** Slots are renewed well before their lease of 30 s ends. */
const RENEW_MS = 10_000
const RENEWED_AT_ONCE = 500
/** What was let in counts no longer than this. */
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
  /** Redis answers, but not to this: values of others under our keys, no memory, a replica. */
  #refused = false

  constructor(private readonly deps: SharedLimitsDeps) {
    this.#store = new RedisLimitStore(deps.redis, null, deps.leaseMs)
    this.#local = new LocalLimitStore(deps.nowMs)
    this.#renewal = setInterval(() => this.#renew(), deps.renewMs ?? RENEW_MS)
    this.#renewal.unref()
  }

  async take(ask: Ask): Promise<Held> {
    const hold = new Hold(ask, this.#store, this.#local, this.#holds)
    try {
      const verdict = await this.#store.take(ask, (late) => hold.arrived(late))
      this.#refused = false
      if (!verdict.admitted) return { verdict, settle: nothing }
      hold.arrived(verdict)
      if (this.deps.nowMs() >= this.#aloneUntilMs) return hold.begin(verdict, this.#local.book(ask))
      // What was let in while Redis was away stands in its counts nowhere: for a minute this process goes by its own as well.
      const own = this.#local.take(ask)
      if (own.admitted) return hold.begin(verdict, own.buckets)
      hold.settle(0)
      return { verdict: own, settle: nothing }
    } catch {
      // Away, or refused: `status` says so, and the next call tries again.
      this.#refused = this.deps.redis.problem === null
      this.#decidedAlone += 1
      this.#aloneUntilMs = this.deps.nowMs() + WINDOW_MS
      const verdict = this.#local.take(ask)
      if (verdict.admitted) return hold.begin(verdict, verdict.buckets)
      hold.settle(0) // Redis may have let it in after all
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
    const asks: Ask[] = []
    for (const { ask } of this.#holds) if (hasSlots(ask)) asks.push(ask)
    for (let start = 0; start < asks.length; start += RENEWED_AT_ONCE) {
      this.#store.renew(asks.slice(start, start + RENEWED_AT_ONCE)).catch(nothing) // away: tried again at the next renewal
    }
  }
}

/** What one request holds: here, and in Redis as far as is known. */
class Hold implements Held {
  verdict!: Verdict
  #local: readonly number[] | null = null
  #remote: readonly number[] | null = null
  /** Tokens, once it is settled. */
  #used: number | null = null

  constructor(
    readonly ask: Ask,
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

  /** What Redis said, in time or too late: perhaps after all is over here. */
  arrived(verdict: Verdict): void {
    if (!verdict.admitted) return
    this.#remote = verdict.buckets
    if (this.#used !== null) this.#giveBack(this.#used)
  }

  settle(tokensUsed: number): void {
    if (this.#used !== null) return
    this.#used = tokensUsed
    this.all.delete(this)
    this.local.settle(this.ask, this.#local, tokensUsed)
    if (this.#remote !== null || hasSlots(this.ask)) this.#giveBack(tokensUsed)
  }

  /** Once or, when Redis answered too late, twice: only the one that knows the buckets touches tokens, and freeing a slot again changes nothing. */
  #giveBack(tokensUsed: number): void {
    // Away: the lease of a slot ends by itself, and so does the minute of the tokens.
    this.store.settle(this.ask, this.#remote, tokensUsed).catch(nothing)
  }
}

const hasSlots = ({ rules }: Ask): boolean => rules.some(({ maxParallel }) => maxParallel !== null)
