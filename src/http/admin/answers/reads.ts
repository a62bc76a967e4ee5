// Response schemas of the reads of requests and usage. Open: a later version may add fields. The document names each by
// its title.
import type { AuditEventView } from '../../../../projections/audit/query.ts'
import type { RequestView } from '../../../../projections/requests/query.ts'
import type { UsageFigures } from '../../../../projections/usage/query.ts'
import { CostBasis, Outcome } from '../../../domain/events/request.ts'
import { AttemptSummary } from '../../../domain/events/request-reading.ts'
import { Nullable } from '../../../domain/kernel/fields.ts'
import { usdOf } from '../../../lib/money.ts'
import { type TSchema, t } from '../../../lib/schema/schema.ts'
import { shownTime } from '../window.ts'
import { Moment, ProviderStates } from './health.ts'

const count = (description?: string) => t.Integer(description === undefined ? {} : { description })
const text = (description: string) => Nullable(t.String({ description }))
const ms = (description: string) => Nullable(t.Integer({ minimum: 0, description }))
const Usd = t.Number({ description: 'USD' })

const REQUEST: Readonly<Record<keyof RequestView, TSchema>> = {
  id: t.String({ description: 'ours and unique' }),
  request_id: t.String({ description: 'the label of the client, else the id' }),
  at: Moment,
  tenant_id: text('null: what the gateway called for by itself'),
  key_id: text('id of the key'),
  requested_model: text('as the client named it'),
  routed_model: text('name in the registry; null: none was called'),
  provider: text('who answered, or was tried last'),
  outcome: Outcome,
  status: t.Integer({ description: 'HTTP status that the client got' }),
  error_code: text('a code of the error table'),
  attempts: t.Integer({ minimum: 0, description: 'length of the list of attempts, candidates passed over included' }),
  fallback_used: t.Boolean(),
  stream: t.Boolean(),
  cache_hit: t.Boolean(),
  prompt_tokens: Nullable(t.Integer({ minimum: 0 })),
  completion_tokens: Nullable(t.Integer({ minimum: 0 })),
  cost_usd: Nullable(Usd),
  cost_basis: CostBasis,
  latency_ms: t.Integer({ minimum: 0 }),
  ttft_ms: ms('to the first token'),
  policy_id: text('the policy that applied'),
  endpoint: text('slug of the endpoint scope'),
  user: text('keyed digest of the end user, by tenant'),
  purpose: text('why the gateway called by itself: `test`, `detection`; null: a request of a client'),
}
/** One request of a list. */
export const RequestRow = t.Object(REQUEST, { title: 'RequestRow' })

export const REQUEST_COLUMNS = Object.keys(REQUEST)

const Money = Nullable(Usd)
const Tokens = Nullable(t.Integer({ minimum: 0 }))
const { cost_nano_usd: _, ...ofAttempt } = AttemptSummary.properties
const Attempt = t.Object({ ...ofAttempt, cost_usd: t.Optional(Money) })
/** One request with its routing decision. */
export const RequestDetailAnswer = t.Object(
  {
    ...REQUEST,
    trace_id: t.String(),
    task: t.String(),
    finish_reason: text('why the answer ended'),
    cached_prompt_tokens: Tokens,
    cache_write_tokens: Tokens,
    reasoning_tokens: Tokens,
    raw_usage: t.Unknown({
      description: 'the usage object of the provider without its zeros; null: it says no more than the tokens',
    }),
    price_version: text('which prices were applied: the first 16 digits of the revision of the model’s row'),
    routing: t.Object({
      revision: text(
        'the decision on which the plan was made, its first 16 digits while it is not computed; null: not planned',
      ),
      frame: t.Integer({ minimum: 0 }),
      seed: t.Integer({ minimum: 0 }),
      strategy: text('how the candidates were ordered; null: not computed'),
      policy_id: text('the policy that applied'),
      chosen: Nullable(
        t.Object({ provider: t.String(), provider_id: t.String(), model: t.String(), model_id: t.String() }),
      ),
      computed: t.Boolean({ description: 'the plan was made again from configuration, frame and seed' }),
      not_computed: text('why not'),
      matches: Nullable(t.Boolean({ description: 'it is the plan that was made; null: not computed' })),
      rejected: t.Record(t.String(), t.Integer({ minimum: 1 }), {
        description: 'how many candidates were rejected, by reason, as recorded',
      }),
      candidates: t.Array(
        t.Object({
          provider: t.String(),
          provider_id: t.String(),
          model: t.String(),
          model_id: t.String(),
          eligible: t.Boolean(),
          rejected_reason: text('why it was not called'),
        }),
        { description: 'in the order of the registry, computed again' },
      ),
      attempts: t.Array(Attempt),
      prompt_tokens_estimate: Tokens,
      reserved_usd: Money,
    }),
  },
  { title: 'Request' },
)

const AUDIT: Readonly<Record<keyof AuditEventView, TSchema>> = {
  id: t.String({ description: '`<decision id>.<index of the event in it>`' }),
  decision_id: t.String({ description: 'the `revision` of the rows that it changed' }),
  at: Moment,
  actor: t.Object({ type: t.String(), id: t.String() }),
  action: t.String({ description: '`create`, `update`, `delete`, `rotate`, `test`, ...' }),
  resource: t.String({ description: '`provider`, `credential`, `model`, `tenant`, `api_key`, `policy`, ...' }),
  subject_id: t.String({ description: 'id of what it is about' }),
  tenant_id: text('null: of no tenant'),
  event: t.String({ description: 'type of the event in the chain' }),
  before: t.Unknown({ description: 'the row, secrets masked; null: there was none' }),
  after: t.Unknown({ description: 'likewise' }),
  removed: t.Record(t.String(), t.Integer({ minimum: 0 }), { description: 'rows that fell with it, by table' }),
  reverts: text('id of the decision that this one takes back'),
}
/** One administrative event. */
export const AuditRow = t.Object(AUDIT, { title: 'AuditEvent' })
export const AUDIT_COLUMNS = Object.keys(AUDIT)

const page = { total: t.Integer({ minimum: 0 }), limit: t.Integer({ minimum: 1 }), offset: t.Integer({ minimum: 0 }) }

/** For lists whose window may be too wide to search at once. */
const searched = {
  searched_from: text(
    'null: the whole window was searched. Else it was searched back to here, newest first, and `total` is what ' +
      'was found: ask on with this as `to`',
  ),
}

export const RequestsAnswer = t.Object({ requests: t.Array(RequestRow), ...page, ...searched }, { title: 'Requests' })

export const ErrorsAnswer = t.Object(
  {
    errors: t.Array(RequestRow),
    by_code: t.Record(t.String(), t.Integer({ minimum: 1 }), {
      description: 'how many, by error code (`unknown`: none was recorded), the most frequent first',
    }),
    ...page,
    ...searched,
  },
  { title: 'Errors' },
)

const FIGURES: Readonly<Record<Exclude<keyof UsageFigures, 'cost_nano_usd'> | 'cost_usd', TSchema>> = {
  requests: count(),
  errors: count('failed, interrupted, denied and orphaned; what a client left (`canceled`) is none'),
  prompt_tokens: count(),
  completion_tokens: count(),
  cost_usd: Usd,
  cache_hits: count(),
  fallbacks: count('answered by another than the first candidate'),
  p50_ms: ms('latency, from histograms: exact below 12 ms, at most 9 % off above; null without requests'),
  p95_ms: ms('likewise'),
  p99_ms: ms('likewise'),
  ttft_p50_ms: ms('time to the first token, likewise'),
  ttft_p95_ms: ms('likewise'),
  failed: count('outcome `error`'),
  interrupted: count('failed after the first byte'),
  denied: count('refused by the gateway'),
  orphaned: count('closed after a crash'),
  canceled: count('the client left'),
  unpriced: count('went to a provider, at a cost that is not known'),
  attempts: count('calls of providers'),
  failed_attempts: count('those that failed'),
  cached_prompt_tokens: count('of the prompt tokens'),
  reasoning_tokens: count('of the completion tokens'),
}

export const FIGURE_COLUMNS = Object.keys(FIGURES)

/** Sums as responses show them, in the order of the schema. */
export const figuresView = ({ cost_nano_usd, ...figures }: UsageFigures): Record<string, number | null> => {
  const shown: Record<string, number | null> = { ...figures, cost_usd: usdOf(cost_nano_usd) }
  return Object.fromEntries(FIGURE_COLUMNS.map((name) => [name, shown[name]!]))
}

const { p99_ms: __, ttft_p95_ms: ___, ...POINT } = FIGURES
/** An interval of a series. */
export const pointView = (atMs: number, figures: UsageFigures): Record<string, string | number | null> => {
  const shown = figuresView(figures)
  return {
    ts: shownTime(atMs),
    ...Object.fromEntries(Object.keys(POINT).map((name) => [name, shown[name]!])),
  }
}

const Provider = text('null: none was called')
const Model = text('null: none was called')
export const UsagePointRow = t.Object({ ts: Moment, ...POINT }, { title: 'UsagePoint' })
const ByProvider = t.Array(t.Object({ provider: Provider, ...FIGURES }), { description: 'the dearest first' })
const ByModel = t.Array(t.Object({ model: Model, ...FIGURES }), {
  description: 'by name, whoever serves it; the dearest first',
})
export const Interval = t.Union((['1m', '5m', '1h', '1d', '1w'] as const).map((name) => t.Literal(name)))

/**
 * The window of the sums: the requested one, `to` exclusive. It is wider where only coarser sums are stored, or where
 * the end of a window has too many requests to count them one by one.
 */
const bounds = { from: Moment, to: Moment }
const WINDOW =
  'The window is the one asked for, to the millisecond. It is wider, and `from` and `to` say so, by whole ' +
  'hours or days where requests are no longer kept, and by a minute where the part of a minute at one of its ' +
  'ends has more than 5,000 requests.'

export const GROUPINGS = [
  'provider',
  'model',
  'provider_model',
  'tenant',
  'key',
  'endpoint',
  'policy',
  'code',
  'purpose',
] as const
export const Grouping = t.Union(
  GROUPINGS.map((name) => t.Literal(name)),
  {
    description:
      'What `groups` are of; `provider_model` by default. Of keys, endpoint scopes, policies, error codes and ' +
      'purposes the begin and the end of a window widen to an hour (`groups_from`, `groups_to`) where its part ' +
      'of that hour has more than 5,000 requests. A request that has no scope, no policy, no error code or no ' +
      'purpose is in no group of those, and one that was refused (`denied`) in none of endpoint scopes and ' +
      'policies: what it names need not exist. `totals` counts them all.',
  },
)
/** A group has the name of the field that it is grouped by. */
const Group = t.Object(
  {
    ...Object.fromEntries(
      GROUPINGS.filter((name) => name !== 'provider_model').map((name) => [name, t.Optional(text('of the group'))]),
    ),
    ...FIGURES,
  },
  { title: 'UsageGroup' },
)

/** The prices of a response. */
const Cost = t.Union([t.Literal('booked'), t.Literal('corrected')])
export const UsageSummaryAnswer = t.Object(
  {
    ...bounds,
    cost: Cost,
    totals: t.Object(FIGURES),
    by_provider: ByProvider,
    by_model: ByModel,
    group_by: Grouping,
    groups_from: Moment,
    groups_to: Moment,
    groups: t.Array(Group),
  },
  { title: 'UsageSummary', description: WINDOW },
)
export const UsageSeriesAnswer = t.Object(
  { interval: Interval, ...bounds, cost: Cost, series: t.Array(UsagePointRow) },
  { title: 'UsageSeries', description: WINDOW },
)

export const OverviewAnswer = t.Object(
  {
    window: t.Object({ ...bounds, interval: Interval }),
    cost: Cost,
    summary: t.Object({ ...bounds, ...FIGURES }),
    previous: t.Object({ ...bounds, ...FIGURES }, { description: 'the window of equal width before' }),
    series: t.Array(UsagePointRow),
    by_provider: ByProvider,
    by_model: ByModel,
    providers: ProviderStates,
  },
  { title: 'Overview' },
)
