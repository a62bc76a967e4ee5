// Rows of the request log as they are stored, read back.
import { attemptsOf, type Settlement } from '../../src/domain/events/request-reading.ts'
import type { Queryable, Transaction } from '../database.ts'
import type { UsageFacts } from '../usage/share.ts'
import type { SettledDetail } from './fold.ts'

/** Names a request in its partition. */
export interface RequestKey {
  readonly id: string
  readonly atMs: number
}

/** A relation of keys, to be joined with. */
export const keysOf = (sql: Queryable, keys: readonly RequestKey[]) => sql`
  json_to_recordset(${JSON.stringify(keys.map(({ id, atMs }) => ({ id, at_ms: atMs })))}::text::json)
    as key (at_ms bigint, id text)`

type StoredFacts = Omit<UsageFacts, 'attempts' | 'cached_prompt_tokens' | 'reasoning_tokens'> & {
  readonly id: string
  readonly settled: string
}

/** The columns of `request r join detail d` that usage is made of. */
export const factColumns = (sql: Queryable) => sql`
  r.id, r.at_ms, r.tenant_id, r.key_id, r.provider, r.routed_model, r.endpoint, r.policy_id, r.error_code,
  r.outcome, r.cache_hit,
  r.fallback_used, r.prompt_tokens, r.completion_tokens, r.cost_nano_usd, r.latency_ms, r.ttft_ms, r.purpose, d.settled`

/** What usage has counted of a stored request. */
export const factsOf = ({ settled, ...row }: StoredFacts): UsageFacts => {
  const { attempts, cached_tokens = null, reasoning_tokens = null } = JSON.parse(settled) as SettledDetail
  return {
    ...row,
    outcome: row.outcome as Settlement['outcome'],
    attempts: attemptsOf(attempts, row.provider, row.routed_model),
    cached_prompt_tokens: cached_tokens,
    reasoning_tokens,
  }
}

export interface StoredOutcome extends RequestKey {
  readonly logAtMs: number
  readonly partition: number
  readonly offset: number
  readonly admitted: string | null
  readonly facts: UsageFacts
}

/** Those of the requests that are stored. */
export const storedOutcomes = async (
  sql: Transaction,
  schemaName: string,
  keys: readonly RequestKey[],
): Promise<readonly StoredOutcome[]> => {
  if (keys.length === 0) return []
  const rows = await sql<
    (StoredFacts & { log_at_ms: number; log_partition: number; log_offset: number; admitted: string | null })[]
  >`
    select ${factColumns(sql)}, d.admitted, r.log_at_ms, r.log_partition, r.log_offset
    from ${keysOf(sql, keys)} join ${sql(`${schemaName}.request`)} r using (at_ms, id)
    join ${sql(`${schemaName}.detail`)} d using (at_ms, id)`
  return rows.map(({ log_at_ms, log_partition, log_offset, admitted, ...row }) => ({
    id: row.id,
    atMs: row.at_ms,
    logAtMs: log_at_ms,
    partition: log_partition,
    offset: log_offset,
    admitted,
    facts: factsOf(row),
  }))
}
