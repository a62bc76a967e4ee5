// The life of a request in `gateway.requests.v1`: admitted, attempted (each further provider), settled. Stored for ever
// once shipped.
import { usdOf } from '../../lib/money.ts'
import { type Static, t } from '../../lib/schema/schema.ts'
import { BudgetCharge, BudgetPart, MOST_ACCOUNTS } from '../budgets/budget-events.ts'
import { Nullable } from '../kernel/fields.ts'

/**
 * The schemas hold the descriptions: `docs/topics.md`, `docs/asyncapi.json` and `/schemas/` are generated from them.
 */
const text = (description: string) => t.String({ description })
const flag = (description: string) => t.Boolean({ description })
const count = (description: string) => t.Integer({ minimum: 0, description })
const textOrNull = (description: string) => Nullable(t.String(), description)
const countOrNull = (description: string) => Nullable(t.Integer({ minimum: 0 }), description)

/** How a request ended. */
export const Outcome = t.Union(
  [
    t.Literal('success'),
    t.Literal('error'),
    t.Literal('canceled'),
    t.Literal('interrupted'),
    t.Literal('denied'),
    t.Literal('cached'),
    t.Literal('orphaned'),
  ],
  {
    description:
      '`success`, `error` (upstream or gateway), `canceled` (the client left), `interrupted` (failed after the ' +
      'first byte), `denied` (refused by the gateway), ' +
      '`cached`, `orphaned` (closed after a crash).',
  },
)
export type Outcome = Static<typeof Outcome>

/** Facts of a request before any upstream is called. Holds no prompt and no answer. */
export const RequestFacts = t.Object({
  id: text('Ours and unique, `req_<UUIDv7>`: what readers join and drop repeats by.'),
  request_id: text('What the client sees and may have supplied (`X-Request-ID`): not unique.'),
  trace_id: text('What the answer named in `X-Trace-ID`.'),
  at_ms: t.Integer({ description: 'Arrival, Unix milliseconds.' }),
  tenant_id: textOrNull('The tenant of the key; null for what the gateway called for by itself.'),
  key_id: textOrNull('The API key, by its id.'),
  requested_model: textOrNull('The model as the client named it.'),
  endpoint: textOrNull('Slug of the endpoint scope that applied.'),
  policy_id: textOrNull('The policy that applied; null for the built-in one.'),
  strategy: textOrNull('How the candidates were ordered.'),
  stream: flag('Whether the client asked for a stream.'),
  user: textOrNull('Keyed digest per tenant of the end-user identifier, never the identifier.'),
  task: text('`chat`, `tools`, `json`, `vision` or `batch`.'),
  revision: text('The control decision (tip) on which the plan was made: `explain` computes the plan again from it.'),
  frame: count(
    'Number of the frame of volatile inputs (`frame.taken` of this instance and epoch); 0 while there is none.',
  ),
  seed: count('Drives every random choice of the plan.'),
  purpose: t.Optional(
    t.String({
      maxLength: 32,
      description:
        'What the gateway called a provider for by itself (`test`, `detection`): no tenant’s inference, though its ' +
        'cost is as real. Absent: a client’s request.',
    }),
  ),
})

/**
 * The inputs of a plan beside the facts and the control state, and its result. Lists are parallel to `candidates`.
 * Members with an empty value (null, false, 0, one choice) are left out. With the frame and the state at `revision` the
 * same plan is made from it again.
 */
export const Decision = t.Object(
  {
    source: text('Who spoke first: `header`, `key`, `tenant`, `global`, `built_in`.'),
    overrides: t.Optional(
      t.Array(t.String(), {
        maxItems: 32,
        description:
          'Ids of the overrides in force, at most 32 of them: all of them follow from `revision` and `at_ms`.',
      }),
    ),
    budgets: t.Optional(
      t.Array(t.String(), {
        maxItems: 32,
        description: 'Ids of the tenant’s budgets that capped a single request, likewise.',
      }),
    ),
    turn: t.Optional(count('How many requests for this model `round_robin` had ordered before.')),
    sticky: t.Optional(count('What `sticky` went by: 32 bits of a keyed digest.')),
    scope_alias: t.Optional(flag('The model was named by an alias of the endpoint scope.')),
    needs: t.Optional(t.Array(t.String(), { maxItems: 32, description: 'Required capabilities.' })),
    text_bytes: count('Bytes of text in the messages.'),
    messages: count('Number of messages.'),
    prompt_bytes: count('Bytes of everything that counts as prompt.'),
    media_parts: t.Optional(count('Image and audio parts, and files by their pieces of 8 KiB.')),
    max_tokens: t.Optional(count('The ceiling of the answer that the client set.')),
    choices: t.Optional(count('`n`, when more than one.')),
    own_words: t.Optional(
      t.Record(t.String(), t.Integer({ minimum: 0 }), {
        description:
          'What was said in the own words of some upstream that adds to an answer, by its name there; 0: as much ' +
          'as the model gives.',
      }),
    ),
    policy: t.Optional(text('The policy that a routing header asked for.')),
    max_cost_usd: t.Optional(t.Number({ minimum: 0, description: 'The cap that a routing header asked for, USD.' })),
    latency_target_ms: t.Optional(count('The target that a routing header asked for.')),
    region: t.Optional(text('The region that a routing header asked for.')),
    sensitivity: t.Optional(t.Array(t.String(), { maxItems: 8, description: 'Sensitivity labels.' })),
    batch: t.Optional(flag('`X-Gateway-Batch`.')),
    no_fallback: t.Optional(flag('`X-Gateway-No-Fallback`.')),
    projected: t.Array(Nullable(t.Integer({ minimum: 0 })), {
      maxItems: 64,
      description: 'Nano-USD that each candidate was projected to cost. Null: no price.',
    }),
    scores: t.Optional(
      t.Array(Nullable(t.Number({ minimum: 0, maximum: 1 })), {
        maxItems: 64,
        description: 'Blended ranks, where the strategy went by them.',
      }),
    ),
    order: t.Optional(
      t.Array(t.Integer({ minimum: 0 }), {
        maxItems: 64,
        description:
          'Places of the eligible candidates, the first one to be called first, before health was considered. Left ' +
          'out: as they stand.',
      }),
    ),
  },
  {
    description:
      'What the plan was made from beside the facts and the control state; lists are parallel to `candidates`.',
  },
)
export type Decision = Static<typeof Decision>

export const Timings = t.Object(
  {
    planned_ms: count('Since arrival, when the request was read and planned.'),
    admitted_ms: t.Optional(count('Since arrival, when its admission was durable.')),
  },
  { description: 'Milliseconds since arrival at which stations were passed.' },
)

/** Index into `candidates` of admitted: `[provider id, model id, reason code or '' when eligible]`. */
export const Candidate = t.Tuple([t.String(), t.String(), t.String()])

const candidates = () =>
  t.Array(Candidate, {
    maxItems: 64,
    description: 'What could have answered: `[provider id, model id, reason why not or empty when eligible]`.',
  })

/** The provider of an attempt, and the most that it may cost. */
const called = {
  provider: text('Name of the provider.'),
  provider_id: text('Its id.'),
  model: text('Name of the model in the registry.'),
  model_id: text('Its id.'),
  reserved_nano_usd: countOrNull('The ruled upper bound for this attempt, nano-USD. Null: the model has no price.'),
}

const reserves = () =>
  t.Array(BudgetPart, {
    maxItems: MOST_ACCOUNTS,
    description:
      'What the request may come to with this attempt, of each account of a budget: an outcome that is never ' +
      'written charges this.',
  })

export const RequestAdmitted = t.Composite([
  RequestFacts,
  t.Object({
    candidates: candidates(),
    ...called,
    prompt_tokens_estimate: count('Tokens of the prompt as the gateway estimates them.'),
    decision: t.Optional(Decision),
    budget: t.Optional(reserves()),
  }),
])
export type RequestAdmitted = Static<typeof RequestAdmitted>

export const RequestAttempted = t.Object({
  id: text('The request.'),
  n: t.Integer({ minimum: 2, description: '2 for the second attempt: the first is the admission’s.' }),
  ...called,
  budget: t.Optional(reserves()),
})
export type RequestAttempted = Static<typeof RequestAttempted>

/**
 * A stream costs more than its attempt reserved, and more was granted: written before the stream continues. The last
 * one of an attempt holds.
 */
export const RequestExtended = t.Object({
  id: text('The request.'),
  n: t.Integer({ minimum: 1, description: 'The attempt that goes on.' }),
  reserved_nano_usd: countOrNull(
    'What is reserved for this attempt now, in place of what its own record says, nano-USD. Null: the model has no ' +
      'price.',
  ),
  budget: t.Optional(reserves()),
})
export type RequestExtended = Static<typeof RequestExtended>

/**
 * `provider_reported`: the provider reported the charge. `measured`: the provider reported usage. `estimated`: by the
 * gateway (no usage, interrupted, orphaned). `unpriced`: tokens are known, the price is not. `none`: no provider was
 * called.
 */
export const CostBasis = t.Union(
  [
    t.Literal('provider_reported'),
    t.Literal('measured'),
    t.Literal('estimated'),
    t.Literal('unpriced'),
    t.Literal('none'),
  ],
  {
    description:
      'How well the cost is known, of its part that is known least. `provider_reported`: the provider said what it ' +
      'charges. `measured`: the provider reported usage. ' +
      '`estimated`: the gateway’s estimate. `unpriced`: tokens known, price not. `none`: nothing was called.',
  },
)

export const AttemptSummary = t.Object({
  n: t.Integer({ minimum: 1, description: '1 for the first attempt.' }),
  provider: text('Name of the provider.'),
  model: text('Name of the model in the registry.'),
  outcome: t.Union(
    [
      t.Literal('success'),
      t.Literal('error'),
      t.Literal('canceled'),
      t.Literal('interrupted'),
      t.Literal('skipped'),
      t.Literal('orphaned'),
    ],
    { description: 'How it ended.' },
  ),
  error_code: textOrNull('Why it failed.'),
  upstream_status: Nullable(t.Integer(), 'HTTP status of the provider.'),
  latency_ms: countOrNull('Time that it took.'),
  ttft_ms: countOrNull('Time to its first content.'),
  /**
   * Usage and cost of an attempt that was billed or may have been, at the prices of the row at `price_version`. Left
   * out: it was not billed, or it is the only billed one and succeeded, so that the outcome's own numbers are its
   * numbers.
   */
  prompt_tokens: t.Optional(countOrNull('Its tokens; left out when the outcome’s own are its.')),
  completion_tokens: t.Optional(countOrNull('Likewise.')),
  cost_nano_usd: t.Optional(countOrNull('Its cost, likewise.')),
  cost_basis: t.Optional(CostBasis),
  price_version: t.Optional(textOrNull('Revision of the model row whose prices were used.')),
})
export type AttemptSummary = Static<typeof AttemptSummary>

/** An attempt as the API shows it: money in USD. */
export const shownAttempt = ({ cost_nano_usd: cost, ...attempt }: AttemptSummary) =>
  cost === undefined ? attempt : { ...attempt, cost_usd: cost === null ? null : usdOf(cost) }

export const RequestSettled = t.Composite([
  RequestFacts,
  t.Object({
    admission: textOrNull(
      'Id of the admission’s record, `<instance>.<epoch>.<sequence>`; null when refused before admission. The ' +
        'first settlement of an admission in log order is the outcome.',
    ),
    outcome: Outcome,
    status: t.Integer({ description: 'HTTP status that the client got.' }),
    error_code: textOrNull('The code of the failure; null for a success.'),
    provider: textOrNull('Who answered, or was called last.'),
    provider_id: textOrNull('Its id.'),
    routed_model: textOrNull('The model that answered, or was called last: its name in the registry.'),
    model_id: textOrNull('Its id.'),
    fallback_used: flag('Another than the first candidate answered.'),
    cache_hit: flag('Answered from the cache.'),
    attempts: t.Array(AttemptSummary, { maxItems: 64, description: 'Every attempt, in order.' }),
    finish_reason: textOrNull('Why the answer ended, as the client saw it.'),
    prompt_tokens: countOrNull('Tokens of the prompt, of the last attempt.'),
    completion_tokens: countOrNull('Tokens of the answer, of the last attempt.'),
    cached_prompt_tokens: countOrNull('Of the prompt’s tokens, those that the provider had cached.'),
    reasoning_tokens: countOrNull('Of the answer’s tokens, those that were reasoning.'),
    raw_usage: t.Unknown({ description: 'The upstream’s usage object as it came, at most 4 KiB.' }),
    cost_nano_usd: countOrNull(
      'Cost in nano-USD (1 USD is 1,000,000,000), of all attempts together that were billed or may have been. ' +
        'Null: not known.',
    ),
    cost_basis: CostBasis,
    price_version: textOrNull(
      'Revision of the model row whose prices were used for the last attempt, or were in force when the provider ' +
        'said its own.',
    ),
    latency_ms: count('From arrival to the outcome.'),
    ttft_ms: countOrNull('From arrival to the first content.'),
    /** Of a request that was planned and never admitted; else the admission has them. */
    candidates: t.Optional(candidates()),
    decision: t.Optional(Decision),
    shaping: t.Optional(
      t.Array(t.String(), {
        maxItems: 64,
        description: 'What was dropped, renamed or clamped on the way to the provider.',
      }),
    ),
    timings: t.Optional(Timings),
    budget: t.Optional(
      t.Array(BudgetCharge, { maxItems: MOST_ACCOUNTS, description: 'What it charges to each account of a budget.' }),
    ),
  }),
])
export type RequestSettled = Static<typeof RequestSettled>

export const REQUEST_EVENTS = {
  'request.admitted': RequestAdmitted,
  'request.attempted': RequestAttempted,
  'request.extended': RequestExtended,
  'request.settled': RequestSettled,
} as const
