// The life of a request in `gateway.requests.v1`: admitted, attempted (each further provider), settled. Stored for ever once shipped.
import { usdOf } from '../lib/money.ts'
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
  /** What the gateway called a provider for by itself (`test`, `detection`): no tenant's inference, though its cost is as real. Absent: a client's request. */
  purpose: t.Optional(t.String({ maxLength: 32 })),
})

/**
 * What a plan was made from beside the facts and the control state, and what it came to. Lists are parallel to `candidates`. Members that would say
 * nothing (null, false, 0, one choice) are left out. With the frame and the state at `revision` the same plan is made from it again.
 */
export const Decision = t.Object({
  /** Who spoke first: `header`, `key`, `tenant`, `global`, `built_in`. */
  source: t.String(),
  /** Ids of the overrides in force, at most 32 of them: all of them follow from `revision` and `at_ms`. */
  overrides: t.Optional(t.Array(t.String(), { maxItems: 32 })),
  /** Ids of the tenant's budgets that capped a single request, likewise. */
  budgets: t.Optional(t.Array(t.String(), { maxItems: 32 })),
  /** How many requests for this model `round_robin` had ordered before, and what `sticky` went by (32 bits of a keyed digest). */
  turn: t.Optional(Count),
  sticky: t.Optional(Count),
  /** The model was named by an alias of the endpoint scope. */
  scope_alias: t.Optional(t.Boolean()),
  /** Required capabilities. */
  needs: t.Optional(t.Array(t.String(), { maxItems: 32 })),
  text_bytes: Count,
  messages: Count,
  prompt_bytes: Count,
  media_parts: t.Optional(Count),
  max_tokens: t.Optional(Count),
  choices: t.Optional(Count),
  /** What routing headers asked for. */
  policy: t.Optional(t.String()),
  max_cost_usd: t.Optional(t.Number({ minimum: 0 })),
  latency_target_ms: t.Optional(Count),
  region: t.Optional(t.String()),
  sensitivity: t.Optional(t.Array(t.String(), { maxItems: 8 })),
  batch: t.Optional(t.Boolean()),
  no_fallback: t.Optional(t.Boolean()),
  /** Nano-USD that each candidate was projected to cost. Null: no price. */
  projected: t.Array(Nullable(Count), { maxItems: 64 }),
  /** Blended ranks, where the strategy went by them. */
  scores: t.Optional(t.Array(Nullable(t.Number({ minimum: 0, maximum: 1 })), { maxItems: 64 })),
  /** Places of the eligible candidates, the first one to be called first, before health was considered. Left out: as they stand. */
  order: t.Optional(t.Array(Count, { maxItems: 64 })),
})
export type Decision = Static<typeof Decision>

/** Milliseconds since arrival at which a request was read and planned, and at which its admission was durable. */
export const Timings = t.Object({ planned_ms: Count, admitted_ms: t.Optional(Count) })

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
    decision: t.Optional(Decision),
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

/** `provider_reported`: the provider said what it charges. `measured`: the provider reported usage. `estimated`: ours (no usage, interrupted, orphaned). `unpriced`: tokens known, price not. `none`: nothing was called. */
export const CostBasis = t.Union([
  t.Literal('provider_reported'),
  t.Literal('measured'),
  t.Literal('estimated'),
  t.Literal('unpriced'),
  t.Literal('none'),
])

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
  /**
   * What it used and cost, of an attempt that was billed or may have been, at the prices of the row at `price_version`. Left out: it was not billed, or it
   * is the only one that was and succeeded, so that the outcome's own numbers are its.
   */
  prompt_tokens: t.Optional(Nullable(Count)),
  completion_tokens: t.Optional(Nullable(Count)),
  cost_nano_usd: t.Optional(Nullable(Count)),
  cost_basis: t.Optional(CostBasis),
  price_version: t.Optional(Nullable(t.String())),
})
export type AttemptSummary = Static<typeof AttemptSummary>

/** An attempt as the API shows it: money in USD. */
export const shownAttempt = ({ cost_nano_usd: cost, ...attempt }: AttemptSummary) =>
  cost === undefined ? attempt : { ...attempt, cost_usd: cost === null ? null : usdOf(cost) }

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
    /** Of all attempts together that were billed or may have been; the tokens above are the last one's. */
    cost_nano_usd: Nullable(Count),
    /** Of the part that is known least. */
    cost_basis: CostBasis,
    /** Revision of the model row whose prices were used for the last attempt, or were in force when the provider said its own. */
    price_version: Nullable(t.String()),
    latency_ms: Count,
    ttft_ms: Nullable(Count),
    /** Of a request that was planned and never admitted; else the admission has them. */
    candidates: t.Optional(t.Array(Candidate, { maxItems: 64 })),
    decision: t.Optional(Decision),
    /** What was dropped, renamed or clamped on the way to the provider. */
    shaping: t.Optional(t.Array(t.String(), { maxItems: 64 })),
    timings: t.Optional(Timings),
  }),
])
export type RequestSettled = Static<typeof RequestSettled>

export const REQUEST_EVENTS = {
  'request.admitted': RequestAdmitted,
  'request.attempted': RequestAttempted,
  'request.settled': RequestSettled,
} as const
