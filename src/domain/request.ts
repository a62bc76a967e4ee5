// The life of a request in `gateway.requests.v1`: admitted, attempted (each further provider), settled. Stored for ever once shipped.
import { type Static, t } from '../lib/schema.ts'

const Nullable = <Schema extends Parameters<typeof t.Union>[0][number]>(schema: Schema) => t.Union([schema, t.Null()])
const Count = t.Integer({ minimum: 0 })

/** `success`, `error` (upstream or gateway), `canceled` (client left), `interrupted` (failed after the first byte), `denied` (refused by the gateway), `cached`, `orphaned`. */
export const Outcome = t.Union([
  t.Literal('success'),
  t.Literal('error'),
  t.Literal('canceled'),
  t.Literal('interrupted'),
  t.Literal('denied'),
  t.Literal('cached'),
  t.Literal('orphaned'),
])
export type Outcome = Static<typeof Outcome>

/** What a request is, known before any upstream is called. Holds no prompt and no answer. */
export const RequestFacts = t.Object({
  /** Ours and unique: `req_<UUIDv7>`. What readers join and drop repeats by. */
  id: t.String(),
  /** What the client sees and may have supplied (`X-Request-ID`): not unique. */
  request_id: t.String(),
  trace_id: t.String(),
  /** Arrival, Unix milliseconds. */
  at_ms: t.Integer(),
  tenant_id: Nullable(t.String()),
  key_id: Nullable(t.String()),
  requested_model: Nullable(t.String()),
  endpoint: Nullable(t.String()),
  policy_id: Nullable(t.String()),
  strategy: Nullable(t.String()),
  stream: t.Boolean(),
  /** Keyed digest per tenant of the end-user identifier, never the identifier. */
  user: Nullable(t.String()),
  task: t.String(),
  /** The control decision (tip) on which the plan was made: `explain` computes the plan again from it. */
  revision: t.String(),
  /** Number of the frame of volatile inputs; 0 while there is none. */
  frame: Count,
  /** Drives every random choice of the plan. */
  seed: Count,
})

/** Index into `candidates` of admitted: `[provider id, model id, reason code or '' when eligible]`. */
export const Candidate = t.Tuple([t.String(), t.String(), t.String()])

export const RequestAdmitted = t.Composite([
  RequestFacts,
  t.Object({
    candidates: t.Array(Candidate, { maxItems: 64 }),
    /** The first attempt: it is made right after this record. */
    provider: t.String(),
    provider_id: t.String(),
    model: t.String(),
    model_id: t.String(),
    prompt_tokens_estimate: Count,
    /** The ruled upper bound for one attempt. Null: the model has no price. */
    reserved_nano_usd: Nullable(Count),
  }),
])
export type RequestAdmitted = Static<typeof RequestAdmitted>

export const RequestAttempted = t.Object({
  id: t.String(),
  /** 2 for the second attempt: the first is the admission's. */
  n: t.Integer({ minimum: 2 }),
  provider: t.String(),
  provider_id: t.String(),
  model: t.String(),
  model_id: t.String(),
  reserved_nano_usd: Nullable(Count),
})
export type RequestAttempted = Static<typeof RequestAttempted>

export const AttemptSummary = t.Object({
  n: t.Integer({ minimum: 1 }),
  provider: t.String(),
  model: t.String(),
  outcome: t.Union([
    t.Literal('success'),
    t.Literal('error'),
    t.Literal('canceled'),
    t.Literal('interrupted'),
    t.Literal('skipped'),
    t.Literal('orphaned'),
  ]),
  error_code: Nullable(t.String()),
  upstream_status: Nullable(t.Integer()),
  latency_ms: Nullable(Count),
  ttft_ms: Nullable(Count),
})
export type AttemptSummary = Static<typeof AttemptSummary>

/** `measured`: the provider reported usage. `estimated`: ours (no usage, interrupted, orphaned). `unpriced`: tokens known, price not. `none`: nothing was called. */
export const CostBasis = t.Union([
  t.Literal('measured'),
  t.Literal('estimated'),
  t.Literal('unpriced'),
  t.Literal('none'),
])

export const RequestSettled = t.Composite([
  RequestFacts,
  t.Object({
    /** `<instance>.<epoch>.<sequence>` of the admission; null when refused before admission. The first settlement of an admission in log order is the outcome. */
    admission: Nullable(t.String()),
    outcome: Outcome,
    status: t.Integer(),
    error_code: Nullable(t.String()),
    provider: Nullable(t.String()),
    provider_id: Nullable(t.String()),
    routed_model: Nullable(t.String()),
    model_id: Nullable(t.String()),
    fallback_used: t.Boolean(),
    cache_hit: t.Boolean(),
    attempts: t.Array(AttemptSummary, { maxItems: 64 }),
    finish_reason: Nullable(t.String()),
    prompt_tokens: Nullable(Count),
    completion_tokens: Nullable(Count),
    cached_prompt_tokens: Nullable(Count),
    reasoning_tokens: Nullable(Count),
    /** The upstream's usage object as it came, at most 4 KiB. */
    raw_usage: t.Unknown(),
    cost_nano_usd: Nullable(Count),
    cost_basis: CostBasis,
    /** Revision of the model row whose prices were used. */
    price_version: Nullable(t.String()),
    latency_ms: Count,
    ttft_ms: Nullable(Count),
  }),
])
export type RequestSettled = Static<typeof RequestSettled>

export const REQUEST_EVENTS = {
  'request.admitted': RequestAdmitted,
  'request.attempted': RequestAttempted,
  'request.settled': RequestSettled,
} as const
export type RequestEventType = keyof typeof REQUEST_EVENTS
