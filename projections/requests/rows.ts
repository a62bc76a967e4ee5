// Rows of the request log: the conditions that select them, and how the API shows them.
import { usdOf } from '../../src/lib/money.ts'
import type { Queryable } from '../database.ts'
import type { RequestFilter, RequestView } from './query.ts'

/** Failures have indexes of their own. */
const FAILED = 400

/**
 * The conditions on a row; the window is a bound of its own. What follows from a parameter is written out as well where
 * a partial index needs it in the text.
 */
export const conditions = (sql: Queryable, filter: RequestFilter) => {
  const { tenantId, fromMs, toMs, outcome, provider, model, errorCode, statusMin, search } = filter
  const { key, policies, endpoint, users } = filter
  const pattern = search === null ? '' : `%${search.replace(/[\\%_]/g, '\\$&')}%`
  const ofModel =
    model === null
      ? sql``
      : sql`and (lower(requested_model) = lower(${model})
          or lower(routed_model) = lower(${model}) or model_id = ${model})`
  const searched = sql`id, request_id, requested_model, routed_model, provider, error_code, key_id, end_user`
  const matching = search === null ? sql`` : sql`and concat_ws(' ', ${searched}) ilike ${pattern}`
  return sql`at_ms >= ${fromMs} and at_ms < ${toMs}
    ${tenantId === null ? sql`` : sql`and tenant_id = ${tenantId}`}
    ${outcome === null ? sql`` : sql`and outcome = ${outcome}`}
    ${outcome === null || outcome === 'success' ? sql`` : sql`and outcome <> 'success'`}
    ${provider === null ? sql`` : sql`and (lower(provider) = lower(${provider}) or provider_id = ${provider})`}
    ${ofModel}
    ${errorCode === null ? sql`` : sql`and error_code = ${errorCode}`}
    ${statusMin === null ? sql`` : sql`and status >= ${statusMin}`}
    ${statusMin === null || statusMin < FAILED ? sql`` : sql`and status >= 400`}
    ${key === null ? sql`` : sql`and key_id = ${key}`}
    ${policies === null ? sql`` : sql`and policy_id = any(${policies as string[]})`}
    ${endpoint === null ? sql`` : sql`and endpoint = ${endpoint}`}
    ${users === null ? sql`` : sql`and end_user = any(${users as string[]})`}
    ${matching}`
}

/** The columns of a list. */
export const listColumns = (sql: Queryable) => sql`
  id, request_id, at_ms, tenant_id, key_id, requested_model, routed_model, provider, outcome, status, error_code,
  attempts, fallback_used, stream, cache_hit, prompt_tokens, completion_tokens, cost_nano_usd,
  cost_basis, latency_ms, ttft_ms, policy_id, endpoint, end_user, purpose`

export type StoredRequest = Omit<RequestView, 'at' | 'cost_usd' | 'user'> & {
  readonly at_ms: number
  readonly cost_nano_usd: number | null
  readonly end_user: string | null
}

export const usdOrNull = (nanoUsd: number | null): number | null => (nanoUsd === null ? null : usdOf(nanoUsd))

export const viewOf = (row: StoredRequest): RequestView => ({
  id: row.id,
  request_id: row.request_id,
  at: new Date(row.at_ms).toISOString(),
  tenant_id: row.tenant_id,
  key_id: row.key_id,
  requested_model: row.requested_model,
  routed_model: row.routed_model,
  provider: row.provider,
  outcome: row.outcome,
  status: row.status,
  error_code: row.error_code,
  attempts: row.attempts,
  fallback_used: row.fallback_used,
  stream: row.stream,
  cache_hit: row.cache_hit,
  prompt_tokens: row.prompt_tokens,
  completion_tokens: row.completion_tokens,
  cost_usd: usdOrNull(row.cost_nano_usd),
  cost_basis: row.cost_basis,
  latency_ms: row.latency_ms,
  ttft_ms: row.ttft_ms,
  policy_id: row.policy_id,
  endpoint: row.endpoint,
  user: row.end_user,
  purpose: row.purpose,
})
