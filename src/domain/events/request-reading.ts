// The records of a request as readers use them: every member is there, and what the writer left out has its meaning
// (null, false, 0, none). Pure.
import { usdOf } from '../../lib/money.ts'
import { type Static, t } from '../../lib/schema/schema.ts'
import type { BudgetCharge } from '../budgets/recorded-parts.ts'
import { chargeOf, recordedCharge } from '../budgets/recorded-parts.ts'
import { Nullable } from '../kernel/fields.ts'
import {
  AttemptOutcome,
  type AttemptRecord,
  CostBasis,
  type PlanRecord,
  type RequestAdmitted,
  type RequestSettled,
} from './request.ts'

const countOrNull = (description: string) => Nullable(t.Integer({ minimum: 0 }), description)

/** One attempt of a request. */
export const AttemptSummary = t.Object({
  n: t.Integer({ minimum: 1, description: '1 for the first attempt.' }),
  provider: t.String({ description: 'Name of the provider.' }),
  model: t.String({ description: 'Name of the model in the registry.' }),
  outcome: AttemptOutcome,
  error_code: Nullable(t.String(), 'Why it failed.'),
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
  price_version: t.Optional(
    Nullable(t.String(), 'Revision of the model row whose prices were used: its first 16 digits.'),
  ),
})
export type AttemptSummary = Static<typeof AttemptSummary>

/** An attempt as the API shows it: money in USD. */
export const shownAttempt = ({ cost_nano_usd: cost, ...attempt }: AttemptSummary) =>
  cost === undefined ? attempt : { ...attempt, cost_usd: cost === null ? null : usdOf(cost) }

/** Facts of a request. */
export interface RequestFacts {
  readonly id: string
  readonly request_id: string
  readonly trace_id: string
  readonly at_ms: number
  readonly tenant_id: string | null
  readonly key_id: string | null
  readonly requested_model: string | null
  readonly endpoint: string | null
  readonly policy_id: string | null
  readonly stream: boolean
  readonly user: string | null
  readonly task: string
  readonly purpose: string | null
}

/** An outcome. The names are those of `request.settled`. */
export interface Settlement extends RequestFacts {
  /** The id of the admission's record; null: refused before admission. */
  readonly admission: string | null
  readonly outcome: RequestSettled['outcome']
  readonly status: number
  readonly error_code: string | null
  readonly provider: string | null
  readonly provider_id: string | null
  readonly routed_model: string | null
  readonly model_id: string | null
  readonly fallback_used: boolean
  readonly cache_hit: boolean
  readonly attempts: readonly AttemptSummary[]
  readonly finish_reason: string | null
  readonly prompt_tokens: number | null
  readonly completion_tokens: number | null
  /** `cached_tokens` of the record. */
  readonly cached_prompt_tokens: number | null
  readonly cache_write_tokens: number | null
  readonly reasoning_tokens: number | null
  readonly raw_usage: unknown
  readonly cost_nano_usd: number | null
  readonly cost_basis: CostBasis
  readonly price_version: string | null
  readonly latency_ms: number
  readonly ttft_ms: number | null
  /** Null: the admission has it, or nothing was planned. */
  readonly plan: PlanRecord | null
  readonly shaping: readonly string[]
  /** Milliseconds since arrival; null: not planned, not admitted. */
  readonly planned_ms: number | null
  readonly admitted_ms: number | null
  readonly budget: readonly BudgetCharge[]
}

/** The digits of the UUID in an id. */
export const digitsOf = (id: string): string => id.slice(id.indexOf('_') + 1).replaceAll('-', '')

const OK = 200
const DECISION_DIGITS = 16

/** How records name a decision: enough of its id to find it among all others. */
export const decisionName = (id: string): string => id.slice(0, DECISION_DIGITS)

const TIME_DIGITS = 12
const UUID_DIGITS = 32

/** Unix milliseconds in an id that begins with its time (`<prefix>_<UUIDv7>`); null: it is none. */
export const timeIn = (id: string): number | null => {
  const digits = digitsOf(id)
  return digits.length === UUID_DIGITS && /^[0-9a-f]+$/.test(digits)
    ? Number.parseInt(digits.slice(0, TIME_DIGITS), 16)
    : null
}

/** When a request arrived; null: its admission does not say. */
export const arrivalOf = ({ id, at_ms }: Pick<RequestAdmitted, 'id' | 'at_ms'>): number | null => at_ms ?? timeIn(id)

/**
 * Whether data that is no valid record is one of the first version, which named every candidate of a plan and every
 * member that says nothing. No build reads that version any more.
 */
export const isOfFirstVersion = (data: Readonly<Record<string, unknown>>): boolean =>
  Array.isArray(data.candidates) || data.cache_hit === false

/** What both records of a request have. */
type CommonRecord = Pick<
  RequestSettled,
  | 'id'
  | 'request_id'
  | 'trace_id'
  | 'key_id'
  | 'requested_model'
  | 'endpoint'
  | 'policy_id'
  | 'stream'
  | 'user'
  | 'task'
  | 'purpose'
>

export const factsOf = (record: CommonRecord, atMs: number, tenantId: string | null): RequestFacts => ({
  id: record.id,
  request_id: record.request_id ?? record.id,
  trace_id: record.trace_id ?? digitsOf(record.id),
  at_ms: atMs,
  tenant_id: tenantId,
  key_id: record.key_id ?? null,
  requested_model: record.requested_model ?? null,
  endpoint: record.endpoint ?? null,
  policy_id: record.policy_id ?? null,
  stream: record.stream ?? false,
  user: record.user ?? null,
  task: record.task ?? 'chat',
  purpose: record.purpose ?? null,
})

/** `writer`: instance and epoch of the record, `<instance>.<epoch>`. */
export const settlementOf = (record: RequestSettled, writer: string): Settlement => {
  const { admission, provider = null, routed_model = null, timings } = record
  return {
    ...factsOf(record, record.at_ms, record.tenant_id ?? null),
    admission: admissionIdOf(admission, writer),
    outcome: record.outcome,
    status: record.status ?? OK,
    error_code: record.error_code ?? null,
    provider,
    provider_id: record.provider_id ?? null,
    routed_model,
    model_id: record.model_id ?? null,
    fallback_used: record.fallback_used ?? false,
    cache_hit: record.cache_hit ?? false,
    attempts: attemptsOf(record.attempts, provider, routed_model),
    finish_reason: record.finish_reason ?? null,
    prompt_tokens: record.prompt_tokens ?? null,
    completion_tokens: record.completion_tokens ?? null,
    cached_prompt_tokens: record.cached_tokens ?? null,
    cache_write_tokens: record.cache_write_tokens ?? null,
    reasoning_tokens: record.reasoning_tokens ?? null,
    raw_usage: record.raw_usage ?? null,
    cost_nano_usd: record.cost_nano_usd ?? null,
    cost_basis: record.cost_basis,
    price_version: record.price_version ?? null,
    latency_ms: record.latency_ms,
    ttft_ms: record.ttft_ms ?? null,
    plan: record.plan ?? null,
    shaping: record.shaping ?? [],
    planned_ms: timings?.planned_ms ?? (admission === undefined && record.plan === undefined ? null : 0),
    admitted_ms: timings?.admitted_ms ?? (admission === undefined ? null : 0),
    budget: (record.budget ?? []).map((charge) => chargeOf(charge, writer)),
  }
}

export const admissionIdOf = (admission: RequestSettled['admission'], writer: string): string | null =>
  admission === undefined ? null : typeof admission === 'string' ? admission : `${writer}.${admission}`

/** The attempts of an outcome, whose last provider and model are given. */
export const attemptsOf = (
  records: readonly AttemptRecord[] | undefined,
  provider: string | null,
  model: string | null,
): AttemptSummary[] => (records ?? []).map((record, place) => attemptOf(record, place, provider, model))

const attemptOf = (
  record: AttemptRecord,
  place: number,
  provider: string | null,
  model: string | null,
): AttemptSummary => {
  const attempt: AttemptSummary = {
    n: record.n ?? place + 1,
    provider: record.provider ?? provider ?? '',
    model: record.model ?? model ?? '',
    outcome: record.outcome ?? 'success',
    error_code: record.error_code ?? null,
    upstream_status: record.upstream_status ?? null,
    latency_ms: record.latency_ms ?? null,
    ttft_ms: record.ttft_ms ?? null,
  }
  if (record.cost_basis === undefined) return attempt
  attempt.prompt_tokens = record.prompt_tokens ?? null
  attempt.completion_tokens = record.completion_tokens ?? null
  attempt.cost_nano_usd = record.cost_nano_usd ?? null
  attempt.cost_basis = record.cost_basis
  attempt.price_version = record.price_version ?? null
  return attempt
}

/** The inverse of `settlementOf`: the record of an outcome that is written whole, such as that of an orphan. */
export const settledRecord = (settlement: Settlement, writer: string): RequestSettled => {
  const { cached_prompt_tokens, planned_ms, admitted_ms, attempts, budget, admission, ...rest } = settlement
  const { id, request_id, trace_id, task, provider, routed_model } = rest
  const timings = {
    ...(planned_ms === null || planned_ms === 0 ? {} : { planned_ms }),
    ...(admitted_ms === null || admitted_ms === 0 ? {} : { admitted_ms }),
  }
  const record = {
    ...rest,
    price_version: rest.price_version === null ? null : decisionName(rest.price_version),
    request_id: request_id === id ? null : request_id,
    trace_id: trace_id === digitsOf(id) ? null : trace_id,
    task: task === 'chat' ? null : task,
    cached_tokens: cached_prompt_tokens,
    admission: admission === null ? null : admissionName(admission, writer),
    attempts: attempts.map((attempt, place) => attemptRecord(attempt, place, provider, routed_model)),
    status: rest.status === OK ? null : rest.status,
    timings: Object.keys(timings).length === 0 ? null : timings,
    budget: budget.map((charge) => recordedCharge(charge, writer)),
  }
  const said = Object.entries(record).filter(([name, value]) => isSaid(name, value))
  return Object.fromEntries(said) as unknown as RequestSettled
}

const isSaid = (name: string, value: unknown): boolean => {
  if (value === null || value === undefined || value === false) return false
  if (value === 0) return !MEANS_NONE.has(name)
  return !Array.isArray(value) || value.length > 0
}
/** Of these a zero is as good as nothing. */
const MEANS_NONE = new Set(['cached_tokens', 'cache_write_tokens', 'reasoning_tokens'])

const admissionName = (id: string, writer: string): number | string =>
  id.startsWith(`${writer}.`) ? Number(id.slice(writer.length + 1)) : id

export const attemptRecord = (
  attempt: AttemptSummary,
  place: number,
  provider: string | null,
  model: string | null,
): AttemptRecord => {
  const record: AttemptRecord = {}
  if (attempt.n !== place + 1) record.n = attempt.n
  if (attempt.provider !== provider) record.provider = attempt.provider
  if (attempt.model !== model) record.model = attempt.model
  if (attempt.outcome !== 'success') record.outcome = attempt.outcome
  if (attempt.error_code !== null) record.error_code = attempt.error_code
  if (attempt.upstream_status !== null) record.upstream_status = attempt.upstream_status
  if (attempt.latency_ms !== null) record.latency_ms = attempt.latency_ms
  if (attempt.ttft_ms !== null) record.ttft_ms = attempt.ttft_ms
  if (attempt.cost_basis === undefined) return record
  record.cost_basis = attempt.cost_basis
  if (attempt.prompt_tokens != null) record.prompt_tokens = attempt.prompt_tokens
  if (attempt.completion_tokens != null) record.completion_tokens = attempt.completion_tokens
  if (attempt.cost_nano_usd != null) record.cost_nano_usd = attempt.cost_nano_usd
  if (attempt.price_version != null) record.price_version = decisionName(attempt.price_version)
  return record
}
