// The port of rate limits. All limits of a request are taken at once, or none.
import type { LimitRule } from '../../state/indexes/limit-rules.ts'

/** What one request takes. */
export interface LimitRequest {
  /** Unique: names its slots among those of all instances. */
  readonly id: string
  /** At least one. */
  readonly rules: readonly LimitRule[]
  /** Reserved until it is settled. */
  readonly tokens: number
}

/** The counts of one rule after the call; 0 where the rule has no such limit. */
export interface Counted {
  readonly requests: number
  readonly tokens: number
  /** Milliseconds until nothing counts any more, if nothing else is taken. */
  readonly resetMs: number
}

export type LimitName = 'rpm' | 'tpm' | 'max_parallel'

export type Verdict =
  | {
      readonly admitted: true
      /** The bucket of each rule that was taken from; the settlement hands it back. */
      readonly buckets: readonly number[]
      readonly counted: readonly Counted[]
    }
  | {
      readonly admitted: false
      /** Index of the rule with the longest wait. */
      readonly rule: number
      readonly limit: LimitName
      /**
       * Milliseconds until the request would fit if nothing else is taken; null: never, it takes more than the limit.
       */
      readonly retryAfterMs: number | null
      readonly counted: readonly Counted[]
    }

/** Where the counts are. Two adapters: this process, and Redis. */
export interface LimitStore {
  /** Takes one request, its tokens and a slot under every rule, or nothing. */
  take(request: LimitRequest): Verdict | Promise<Verdict>
  /**
   * Frees the slots and replaces the reserved tokens by those that were used: a surplus is given back to the bucket it
   * was taken from, a deficit is taken now whatever the limit. `buckets` null: only slots were taken. Called once for
   * each `request`.
   */
  settle(request: LimitRequest, buckets: readonly number[] | null, tokensUsed: number): void | Promise<void>
}

/** What a request holds of its limits. */
export interface Held {
  readonly verdict: Verdict
  /** Called with what was used; further calls do nothing. Never throws and does not wait. */
  settle(tokensUsed: number): void
}

/**
 * The limits of requests. Never throws and never takes long: where the shared counts are away, this process decides by
 * its own.
 */
export interface Limits {
  take(request: LimitRequest): Held | Promise<Held>
  status(): LimitsStatus
}

export interface LimitsStatus {
  /** Null: as configured. Else why this process counts by itself. */
  readonly degraded: string | null
  /** Decisions of this process alone while the counts are configured as shared. */
  readonly decidedAlone: number
  /** Requests under way that hold limits. */
  readonly held: number
}

/** A slot whose holder does not renew it for so long is free again. */
export const LEASE_MS = 30_000
