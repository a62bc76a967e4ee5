// The dependencies of the data plane. Everything with an effect is here; the stations themselves hold no state.
import type { Outcome, RequestSettled } from '../../domain/events/request.ts'
import type { AttemptSummary } from '../../domain/events/request-reading.ts'
import type { CredentialSettings } from '../../entry/authenticate.ts'
import type { Dial } from '../../lib/http-client/http-client.ts'
import type { Spool } from '../../log/spool/spool.ts'
import type { ProviderKind } from '../../providers/port.ts'
import type { Budgets } from '../../state/budgets/budgets.ts'
import type { HealthBook } from '../../state/health/book.ts'
import type { FeedbackMeans } from '../../state/health/feedback-means.ts'
import type { Frames } from '../../state/health/frame.ts'
import type { LastUses } from '../../state/indexes/last-uses.ts'
import type { RecentRequests } from '../../state/indexes/recent-requests.ts'
import type { Steering } from '../../state/indexes/steering.ts'
import type { Catalogue, CatalogueEntry, KeyIndex, LiveState } from '../../state/port.ts'
import type { ErrorCode, GatewayError } from '../../wire/errors.ts'
import type { Limits } from '../limits/port.ts'
import type { RequestLookup } from '../surface/request-search.ts'
import type { Traces } from './trace.ts'

export interface InferenceSettings extends CredentialSettings {
  /** Requests in flight at once; beyond it 429. */
  readonly maxActive: number
  /** The gateway may run safe tools by itself. */
  readonly gatewayExecution: boolean
  /** How long a client may take to send its body. */
  readonly bodyMs: number
  /** How long a connection may stay idle after a response. Whole seconds, at most 255. */
  readonly idleS: number
}

export const INFERENCE_DEFAULTS: InferenceSettings = {
  authHeader: 'authorization',
  minKeyLength: 20,
  maxStalenessMs: null,
  maxActive: 10_000,
  gatewayExecution: false,
  bodyMs: 20_000,
  idleS: 75,
}

/** One request as the metrics see it: labels from closed sets, numbers. */
export interface Observed {
  readonly outcome: Outcome
  readonly code: ErrorCode | 'none'
  /** The status that the client got, or would have got if connected. */
  readonly status: number
  readonly error: GatewayError | null
  /** The candidate that answered, or was called last; null when none was called. */
  readonly entry: Pick<CatalogueEntry, 'provider' | 'name'> | null
  readonly fallbackUsed: boolean
  readonly attempts: readonly AttemptSummary[]
  readonly stream: boolean
  readonly latencyMs: number
  readonly ttftMs: number | null
  readonly promptTokens: number
  readonly completionTokens: number
  readonly costNanoUsd: number
  readonly costBasis: RequestSettled['cost_basis']
  /** False when the outcome could not be written. */
  readonly recorded: boolean
}

export interface InferenceDeps {
  readonly live: LiveState
  readonly keys: KeyIndex
  readonly lastUses: Pick<LastUses, 'used'>
  readonly catalogue: Catalogue
  /** Endpoint scopes and the overrides in force. */
  readonly steering: Steering
  /** Health, speed and load of the providers. */
  readonly frames: Frames
  /** The book of health: begins and judges calls to providers. */
  readonly health: Pick<HealthBook, 'begin' | 'mayRepeat' | 'mayFallBack' | 'candidates' | 'usageSupport'>
  /** Recent requests of this process, and the means of their feedback. */
  readonly recentRequests: RecentRequests
  readonly feedback: FeedbackMeans
  /** The request log of all instances, for feedback on what this one has not served. */
  readonly requestLookup: RequestLookup
  readonly kinds: ReadonlyMap<string, ProviderKind>
  /** What tenants may spend. */
  readonly budgets: Pick<Budgets, 'of' | 'standing'>
  nowMs(): number
  /** Counts the rate limits of keys, tenants and policies. */
  readonly limits: Limits
  readonly spool: Spool
  readonly dial: Dial
  /** A number in [0, 1): seeds of plans. */
  readonly random: () => number
  /** Keyed digest of an end user's identifier within a tenant. */
  readonly userDigest: (tenantId: string, user: string) => string
  /** Called once for each request that ends. Must be cheap and must not throw. */
  readonly observe: (observed: Observed) => void
  readonly inference: InferenceSettings
  /** Null or absent: traces are off. */
  readonly traces?: Traces | null
}
