// The control state for the rest of the gateway: the live fold, the commit queue, the indexes of the hot path, data
// keys.
import type { ControlReader } from '../domain/control.ts'
import type { Actor, Cause, EventRecord } from '../domain/kernel/decision.ts'
import type { RowChange } from '../domain/kernel/tables.ts'

/** Why a write is not possible now: `http/envelope.ts` maps it to 504 (`unknown`, `unavailable`), 502, 503 or 413. */
export class CommitFailure extends Error {
  override readonly name = 'CommitFailure'
  constructor(
    /**
     * `unknown`: may or may not have happened. `unavailable`: certainly not. `refused`: this instance must not write
     * (unknown events, lost tail). `stopping`: it takes no more. `too_large`: beyond 64 KiB.
     */
    readonly kind: 'unknown' | 'unavailable' | 'refused' | 'stopping' | 'too_large',
    message: string,
  ) {
    super(message)
  }
}

export interface CommitRequest {
  readonly actor: Actor
  readonly cause?: Cause | null
  /**
   * Pure; may run several times, on newer and newer states. [] when there is nothing to change; throws Rejection to
   * refuse.
   */
  decide(state: ControlReader): readonly EventRecord[]
  /**
   * The row that the command is about. With it and a cause, a decision is written also when nothing has to change: a
   * repeat then returns this row.
   */
  about?(state: ControlReader): { readonly id?: string } | undefined
}

export interface CommitResult {
  /**
   * Id of the decision, or the tip when nothing had to change (with a cause, that of the decision that records it):
   * `X-Gateway-Revision`.
   */
  readonly revision: string
  /** False when nothing had to change. */
  readonly changed: boolean
  /** True when this repeats an earlier request with the same Idempotency-Key: `changes` are then those of the first. */
  readonly repeated: boolean
  readonly changes: readonly RowChange[]
  /** Rows removed, by table. */
  readonly removed: Readonly<Record<string, number>>
}

/**
 * Decides, appends, and returns once this process has folded its own record. Throws Rejection or CommitFailure, after
 * at most 5 s. A cause that was used with another body is a Rejection('conflict', ..., 'Idempotency-Key').
 */
export type Commit = (request: CommitRequest) => Promise<CommitResult>

export interface FoldedBatch {
  readonly changes: readonly RowChange[]
  /**
   * Ids of rows with an event that this build does not support: their present meaning is unknown, so the hot indexes
   * refuse them.
   */
  readonly refused: readonly string[]
}

/** Why the served state may not be the newest: a closed set, for metrics. */
export const DEGRADATIONS = ['suspected', 'unknown_events', 'stopped', 'starting', 'stale'] as const
export type Degradation = (typeof DEGRADATIONS)[number]

export interface LiveStatus {
  /** Next offset to fold, tip, running maximum of log time. */
  readonly offset: number
  readonly tip: string
  readonly logAtMs: number
  readonly chainId: string | null
  /** Digest of the present state; the first call takes long before the first end of the log was reached. */
  readonly digest: string
  /** `starting` until the end of the log at start has been folded. */
  readonly phase: 'starting' | 'live' | 'stopped'
  /**
   * False until there is a state to serve from: neither a snapshot nor the log has been folded. Everything that needs a
   * key waits (503).
   */
  readonly serves: boolean
  /**
   * Not null: `/ready` reports degraded, with this reason; writes are refused, or fail while the log cannot be reached.
   */
  readonly degraded: string | null
  /** Cause of `degraded` in one word; null exactly when `degraded` is. */
  readonly degradation: Degradation | null
  /** Milliseconds since this instance last confirmed the log's end and had folded it. */
  readonly staleMs: number
  readonly counts: {
    readonly counted: number
    readonly lost: number
    readonly unreadable: number
    readonly forged: number
    readonly malformed: number
  }
}

export interface LiveState {
  /**
   * The newest folded state. A reader object that stays the same; its contents change between iterations of the event
   * loop only.
   */
  readonly control: ControlReader
  status(): LiveStatus
  /** The rows with a later event that this build does not support (`FoldedBatch.refused`), all of them so far. */
  readonly refused: ReadonlySet<string>
  /** Resolves when this instance has folded that decision; false after the time given. */
  reached(revision: string, timeoutMs: number): Promise<boolean>
  /**
   * Called synchronously after each counted decision, with its changes in order; first with nothing. Returns how to
   * stop.
   */
  subscribe(listener: (batch: FoldedBatch) => void): () => void
  close(): Promise<void>
}

/** The fields of a key that authentication needs. One frozen object is reused for equal lookup results. */
export interface KeyEntry {
  readonly id: string
  readonly tenantId: string
  readonly scopes: readonly string[]
  /** Unix milliseconds, null for never. Compared at use. */
  readonly expiresAtMs: number | null
  readonly routingPolicyId: string | null
}

/** Key digest (64 hex) -> active key. */
export interface KeyIndex {
  lookup(digestHex: string): KeyEntry | null
  /** Whether a key of that digest is in the state, usable or not: its refusal is no lack of news. */
  knows(digestHex: string): boolean
  /** Whether a key from an earlier lookup is still valid: not revoked since, and not expired by then. */
  isValid(key: KeyEntry, atMs: number): boolean
}

/** The prices of a whole request when its prompt is longer. USD per million tokens. */
export interface PriceTier {
  readonly abovePromptTokens: number
  readonly inputCostPerMillion: number
  readonly outputCostPerMillion: number
  /** Null: cached tokens cost the same as others. */
  readonly cachedInputCostPerMillion: number | null
}

/**
 * A registry row joined with its provider, as the plan needs it. Rebuilt by the event that changes it, not per request.
 */
export interface CatalogueEntry {
  readonly modelId: string
  readonly providerId: string
  readonly name: string
  readonly provider: string
  readonly kind: string
  readonly baseUrl: string
  readonly upstreamModel: string
  readonly priority: number
  readonly capabilities: readonly string[]
  readonly contextWindow: number | null
  readonly maxOutputTokens: number | null
  /** USD per million tokens, null: unknown. */
  readonly inputCostPerMillion: number | null
  readonly outputCostPerMillion: number | null
  readonly cachedInputCostPerMillion: number | null
  /** In rising order; absent: one price for prompts of every length. */
  readonly priceTiers?: readonly PriceTier[]
  readonly region: string | null
  readonly timeoutMs: number | null
  /** Share of its provider in the traffic when candidates are drawn by weight. Default 1. */
  readonly weight: number
  /** Concurrent calls to its provider, of each process; null: no bound. */
  readonly maxConcurrency: number | null
  readonly usageOnStream: boolean
  readonly options: Readonly<Record<string, unknown>>
  /** Why it can never be chosen, or null: `disabled` (row or provider), `no_adapter` (kind unknown or no secret). */
  readonly unroutable: 'disabled' | 'no_adapter' | null
  /** Resolved at catalogue refresh: `api_key_env`, else the stored credential, else null. */
  readonly secret: string | null
  /** Revision of the model row: the price version. */
  readonly revision: string
  readonly createdAtMs: number
}

export interface Catalogue {
  /** Grows with each change: while it is the same, every lookup has the same result. */
  readonly version: number
  /**
   * Candidates for a name or alias (case-insensitive; exact names before aliases), lower `priority` first, then name of
   * provider. [] when unknown.
   */
  resolve(name: string): readonly CatalogueEntry[]
  /** Every entry, in that order. */
  all(): readonly CatalogueEntry[]
  /** Alias (as written) -> model name (as written), for `/v1/models`. */
  aliases(): ReadonlyMap<string, string>
  /** Enabled providers that have an adapter and are not killed: `/ready`. */
  usableProviders(killedIds: ReadonlySet<string>): number
}

/** Data keys of `gateway.keys.v1`. Plain keys never leave this object except to seal and open. */
export interface DataKeys {
  /**
   * Makes a data key, appends it wrapped by the master key, and seals the secret under it. AAD binds it to its subject.
   */
  seal(subject: string, secret: string): Promise<{ keyId: string; sealed: string }>
  /** Null when the key was erased. Throws when the master key that wrapped it is not available. */
  open(subject: string, keyId: string, sealed: string): string | null
  /**
   * Writes the tombstone: secrets that were sealed under the key can never be opened again. A write that fails now is
   * reported and tried again until it succeeds: the decision before it counts already, so its result must not fail.
   */
  erase(keyId: string): Promise<void>
  readonly ids: ReadonlySet<string>
  /**
   * Called after a key arrived (keys and decisions are two topics: the decision may be folded first) or was erased.
   * Returns how to stop.
   */
  subscribe(listener: (keyId: string, what: 'arrived' | 'erased') => void): () => void
}
