// The life of a request in `gateway.requests.v1`: admitted, attempted (each further provider), settled. Stored for ever
// once shipped.
//
// Records hold what cannot be made again, once. Members that say nothing (null, false, no entries, a zero that means
// none) are absent; `request-reading.ts` gives each record the form that readers use.
import { type Static, t } from '../../lib/schema/schema.ts'
import { MOST_ACCOUNTS } from '../budgets/budget-events.ts'
import { RecordedCharge, RecordedPart } from '../budgets/recorded-parts.ts'
import { described } from '../kernel/fields.ts'

/**
 * The schemas hold the descriptions: `docs/topics.md`, `docs/asyncapi.json` and `/schemas/` are generated from them.
 */
const text = (description: string) => t.String({ description })
const count = (description: string) => t.Integer({ minimum: 0, description })
const maybeText = (description: string) => t.Optional(text(description))
const maybeCount = (description: string) => t.Optional(count(description))
/** Absent: false. */
const maybeTrue = (description: string) => t.Optional(t.Literal(true, { description }))
const names = (maxItems: number, description: string) => t.Optional(t.Array(t.String(), { maxItems, description }))

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
const facts = {
  id: text('Ours and unique, `req_<UUIDv7>`: what readers join and drop repeats by.'),
  request_id: maybeText('What the client sees where it supplied one (`X-Request-ID`): not unique. Absent: the `id`.'),
  trace_id: maybeText('What the answer named in `X-Trace-ID`. Absent: the digits of the `id`.'),
  key_id: maybeText('The API key, by its id.'),
  requested_model: maybeText('The model as the client named it.'),
  endpoint: maybeText('Slug of the endpoint scope that applied.'),
  policy_id: maybeText('The policy that applied; absent for the built-in one, and without a plan.'),
  stream: maybeTrue('The client asked for a stream.'),
  user: maybeText('Keyed digest per tenant of the end-user identifier, never the identifier.'),
  task: maybeText('`tools`, `json`, `vision` or `batch`. Absent: `chat`.'),
  purpose: t.Optional(
    t.String({
      maxLength: 32,
      description:
        'What the gateway called a provider for by itself (`test`, `detection`): no tenant’s inference, though its ' +
        'cost is as real. Absent: a client’s request.',
    }),
  ),
}

/**
 * What a plan was made from beside the facts: with the control state at `revision` and the frame the same plan is made
 * again. Its own result is not recorded but for what tells whether the plan that is made again is the same.
 */
export const PlanRecord = t.Object(
  {
    revision: text('The control decision (tip) on which the plan was made: the first 16 digits of its id.'),
    frame: maybeCount(
      'Number of the frame of volatile inputs (`frame.taken` of this instance and epoch). Absent: there was none.',
    ),
    seed: count('Drives every random choice.'),
    digest: count(
      '32 bits over the candidates, the reason of each rejection, the order before health and the strategy: a plan ' +
        'that is made again and has the same digest is the plan that was made.',
    ),
    rejected: t.Optional(
      t.Record(t.String(), t.Integer({ minimum: 1 }), { description: 'How many candidates were rejected, by reason.' }),
    ),
    without_adapter: names(
      64,
      'Ids of providers among the candidates that had no adapter: that follows from the settings of the instance.',
    ),
    turn: maybeCount('How many requests for this model `round_robin` had ordered before. Absent: another strategy.'),
    sticky: maybeCount('What `sticky` went by: 32 bits of a keyed digest. Absent: another strategy.'),
    scope_alias: maybeTrue('The model was named by an alias of the endpoint scope.'),
    needs: names(32, 'Required capabilities.'),
    text_bytes: count('Bytes of text in the messages.'),
    messages: count('Number of messages.'),
    prompt_bytes: count('Bytes of everything that counts as prompt.'),
    media_parts: maybeCount('Image and audio parts, and files by their pieces of 8 KiB.'),
    max_tokens: maybeCount('The ceiling of the answer that the client set.'),
    choices: maybeCount('`n`, when more than one.'),
    own_words: t.Optional(
      t.Record(t.String(), t.Integer({ minimum: 0 }), {
        description:
          'What was said in the own words of some upstream that adds to an answer, by its name there; 0: as much ' +
          'as the model gives.',
      }),
    ),
    policy: maybeText('The policy that a routing header asked for.'),
    max_cost_usd: t.Optional(t.Number({ minimum: 0, description: 'The cap that a routing header asked for, USD.' })),
    latency_target_ms: maybeCount('The target that a routing header asked for.'),
    region: maybeText('The region that a routing header asked for.'),
    sensitivity: names(8, 'Sensitivity labels.'),
    batch: maybeTrue('`X-Gateway-Batch`.'),
    no_fallback: maybeTrue('`X-Gateway-No-Fallback`.'),
  },
  { description: 'What the plan was made from beside the facts and the control state.' },
)
export type PlanRecord = Static<typeof PlanRecord>

export const Timings = t.Object(
  {
    planned_ms: maybeCount('Since arrival, when the request was read and planned. Absent: 0.'),
    admitted_ms: maybeCount('Since arrival, when its admission was durable. Absent: 0.'),
  },
  { description: 'Milliseconds since arrival at which stations were passed. Absent: none, or within the first one.' },
)

/** The provider of an attempt, and the most that it may cost. */
const called = {
  provider: text('Name of the provider.'),
  provider_id: text('Its id.'),
  model: text('Name of the model in the registry.'),
  model_id: text('Its id.'),
  reserved_nano_usd: maybeCount('The ruled upper bound for this attempt, nano-USD. Absent: the model has no price.'),
}

const reserves = () =>
  t.Optional(
    t.Array(RecordedPart, {
      maxItems: MOST_ACCOUNTS,
      description:
        'What the request may come to with this attempt, of each account of a budget: an outcome that is never ' +
        'written charges this.',
    }),
  )

export const RequestAdmitted = t.Object({
  ...facts,
  at_ms: t.Optional(t.Integer({ description: 'Arrival, Unix milliseconds. Absent: the time in the `id`.' })),
  plan: PlanRecord,
  ...called,
  model: maybeText('Name of the model in the registry. Absent: the requested model.'),
  budget: reserves(),
})
export type RequestAdmitted = Static<typeof RequestAdmitted>

export const RequestAttempted = t.Object({
  id: text('The request.'),
  n: t.Integer({ minimum: 2, description: '2 for the second attempt: the first is the admission’s.' }),
  ...called,
  budget: reserves(),
})
export type RequestAttempted = Static<typeof RequestAttempted>

/**
 * A stream costs more than its attempt reserved, and more was granted: written before the stream continues. The last
 * one of an attempt holds.
 */
export const RequestExtended = t.Object({
  id: text('The request.'),
  n: t.Integer({ minimum: 1, description: 'The attempt that goes on.' }),
  reserved_nano_usd: maybeCount(
    'What is reserved for this attempt now, in place of what its own record says, nano-USD. Absent: the model has no ' +
      'price.',
  ),
  budget: reserves(),
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
export type CostBasis = Static<typeof CostBasis>

export const AttemptOutcome = t.Union(
  [
    t.Literal('success'),
    t.Literal('error'),
    t.Literal('canceled'),
    t.Literal('interrupted'),
    t.Literal('skipped'),
    t.Literal('orphaned'),
  ],
  { description: 'How it ended. Absent: `success`.' },
)

export const AttemptRecord = t.Object({
  n: t.Optional(t.Integer({ minimum: 1, description: 'Absent: its place in the list, from 1.' })),
  provider: maybeText('Name of the provider. Absent: that of the outcome.'),
  model: maybeText('Name of the model in the registry. Absent: that of the outcome.'),
  outcome: t.Optional(AttemptOutcome),
  error_code: maybeText('Why it failed.'),
  upstream_status: t.Optional(t.Integer({ description: 'HTTP status of the provider.' })),
  latency_ms: maybeCount('Time that it took. Absent: not measured.'),
  ttft_ms: maybeCount('Time to its first content.'),
  prompt_tokens: maybeCount('Its tokens, where it has a `cost_basis` of its own.'),
  completion_tokens: maybeCount('Likewise.'),
  cost_nano_usd: maybeCount('Its cost, likewise. Absent: not known.'),
  cost_basis: t.Optional(
    described(
      CostBasis,
      'Of an attempt that was billed or may have been. Absent: it was not, or it is the only billed one and ' +
        'succeeded, so that the figures of the outcome are its own.',
    ),
  ),
  price_version: maybeText('Revision of the model row whose prices were used: its first 16 digits.'),
})
export type AttemptRecord = Static<typeof AttemptRecord>

export const RequestSettled = t.Object({
  ...facts,
  at_ms: t.Integer({ description: 'Arrival, Unix milliseconds.' }),
  tenant_id: maybeText('The tenant of the key; absent for what the gateway called for by itself.'),
  admission: t.Optional(
    t.Union([t.Integer({ minimum: 0 }), t.String()], {
      description:
        'The admission: its sequence, of the same instance and epoch; else the id of its record, ' +
        '`<instance>.<epoch>.<sequence>` (it was settled after a crash). Absent: refused before admission. The first ' +
        'settlement of an admission in log order is the outcome.',
    }),
  ),
  outcome: Outcome,
  status: t.Optional(t.Integer({ description: 'HTTP status that the client got. Absent: 200.' })),
  error_code: maybeText('The code of the failure.'),
  provider: maybeText('Who answered, or was called last.'),
  provider_id: maybeText('Its id.'),
  routed_model: maybeText('The model that answered, or was called last: its name in the registry.'),
  model_id: maybeText('Its id.'),
  fallback_used: maybeTrue('Another than the first candidate answered.'),
  cache_hit: maybeTrue('Answered from the cache.'),
  attempts: t.Optional(t.Array(AttemptRecord, { maxItems: 64, description: 'Every attempt, in order.' })),
  finish_reason: maybeText('Why the answer ended, as the client saw it.'),
  prompt_tokens: maybeCount('Tokens of the prompt, of the last attempt.'),
  completion_tokens: maybeCount('Tokens of the answer, of the last attempt.'),
  cached_tokens: maybeCount('Of the prompt’s tokens, those that the provider read from its cache. Absent: none.'),
  cache_write_tokens: maybeCount('Of the prompt’s tokens, those that it wrote to its cache. Absent: none.'),
  reasoning_tokens: maybeCount('Of the answer’s tokens, those that were reasoning. Absent: none.'),
  raw_usage: t.Optional(
    t.Unknown({
      description:
        'The usage object of the upstream without its zeros, at most 4 KiB. Absent: it says no more than the tokens.',
    }),
  ),
  cost_nano_usd: maybeCount(
    'Cost in nano-USD (1 USD is 1,000,000,000), of all attempts together that were billed or may have been. ' +
      'Absent: not known.',
  ),
  cost_basis: CostBasis,
  price_version: maybeText(
    'Revision of the model row whose prices were used for the last attempt, or were in force when the provider ' +
      'said its own: its first 16 digits.',
  ),
  latency_ms: count('From arrival to the outcome.'),
  ttft_ms: maybeCount('From arrival to the first content.'),
  /** Else the admission has it. */
  plan: t.Optional(described(PlanRecord, 'Of a request that was planned and not admitted.')),
  shaping: names(64, 'What was dropped, renamed or clamped on the way to the provider.'),
  timings: t.Optional(Timings),
  budget: t.Optional(
    t.Array(RecordedCharge, { maxItems: MOST_ACCOUNTS, description: 'What it charges to each account of a budget.' }),
  ),
})
export type RequestSettled = Static<typeof RequestSettled>

export const REQUEST_EVENTS = {
  'request.admitted': RequestAdmitted,
  'request.attempted': RequestAttempted,
  'request.extended': RequestExtended,
  'request.settled': RequestSettled,
} as const
