// The request log -> rows as the API shows them.
import type { PlanRecord } from '../../src/domain/events/request.ts'
import type { AttemptSummary } from '../../src/domain/events/request-reading.ts'
import type { Sql } from '../database.ts'
import { readActive, readSnapshot } from '../reader.ts'
import { type FailureList, listFailures, listRequests, type RequestList } from './list.ts'
import { requestPages } from './pages.ts'
import { listColumns } from './rows.ts'
import { readPlace, readSince } from './tail.ts'
import { detailOf, type StoredDetail } from './view.ts'

export interface RequestFilter {
  /** Null: every tenant. */
  readonly tenantId: string | null
  /** Arrival, Unix milliseconds, `toMs` exclusive. */
  readonly fromMs: number
  readonly toMs: number
  readonly outcome: string | null
  /** Name or id. */
  readonly provider: string | null
  /** Requested or routed name, or id. */
  readonly model: string | null
  readonly errorCode: string | null
  readonly statusMin: number | null
  /** Id. */
  readonly key: string | null
  /** Ids of policies, one of them. */
  readonly policies: readonly string[] | null
  /** Slug. */
  readonly endpoint: string | null
  /** Digests of end users as they are stored, one of them. */
  readonly users: readonly string[] | null
  /** Part of an id, a label, a model, a provider, an error code, a key or an end user; case does not matter. */
  readonly search: string | null
  readonly limit: number
  readonly offset: number
}

/** One request of the log, newest first in lists. */
export interface RequestView {
  readonly id: string
  readonly request_id: string
  readonly at: string
  readonly tenant_id: string | null
  readonly key_id: string | null
  readonly requested_model: string | null
  readonly routed_model: string | null
  readonly provider: string | null
  readonly outcome: string
  readonly status: number
  readonly error_code: string | null
  /** Length of the list of attempts, candidates that were passed over included. */
  readonly attempts: number
  readonly fallback_used: boolean
  readonly stream: boolean
  readonly cache_hit: boolean
  readonly prompt_tokens: number | null
  readonly completion_tokens: number | null
  readonly cost_usd: number | null
  readonly cost_basis: string
  readonly latency_ms: number
  readonly ttft_ms: number | null
  readonly policy_id: string | null
  readonly endpoint: string | null
  readonly user: string | null
  /** Why the gateway called the provider by itself: `test`, `detection`. Null: a client's request. */
  readonly purpose: string | null
}

/** Who answered, or was called last. */
export interface ChosenView {
  readonly provider: string
  readonly provider_id: string
  readonly model: string
  readonly model_id: string
}

/** One request with what its records hold about its plan and its outcome. */
export interface RequestDetail extends RequestView {
  readonly at_ms: number
  readonly trace_id: string
  readonly task: string
  readonly finish_reason: string | null
  readonly cached_prompt_tokens: number | null
  readonly cache_write_tokens: number | null
  readonly reasoning_tokens: number | null
  readonly raw_usage: unknown
  readonly price_version: string | null
  readonly shaping: readonly string[]
  readonly attempt_list: readonly AttemptSummary[]
  readonly chosen: ChosenView | null
  /** The inputs of its plan; null: it was refused before one, or its admission has not been read. */
  readonly plan: PlanRecord | null
  /** It was admitted; its admission may not have been read yet. */
  readonly wasAdmitted: boolean
  /** Of the admission; null: never admitted, or not read yet. */
  readonly first: { readonly model_id: string; readonly reserved_nano_usd: number | null } | null
  /** The process that planned it, `<instance>.<epoch>`. */
  readonly process: string
}

/** Partition of the log -> its first offset that is not applied yet. */
export type LogPlace = ReadonlyMap<number, number>

/** A row as it was settled. */
export interface TailRow {
  readonly request: RequestView
  /** Partition of the record in the log; `offset` is its offset there. */
  readonly partition: number
  readonly offset: number
}

export interface RequestQueries {
  /** Rows and their number, of one moment. Throws ReadStoreUnavailable within 2 s. */
  list(filter: RequestFilter): Promise<RequestList>
  /**
   * The same rows page by page, `limit` of them in all; what comes meanwhile is not among them twice. A page may throw
   * as `list` does.
   */
  pages(filter: RequestFilter): AsyncGenerator<readonly RequestView[], void>
  /** How far the log is applied. */
  place(): Promise<LogPlace>
  /**
   * Rows that match and were applied since, in the order of the log, at most some hundreds; `reached` is where to go
   * on.
   */
  since(
    place: LogPlace,
    filter: RequestFilter,
  ): Promise<{
    readonly rows: readonly TailRow[]
    readonly reached: LogPlace
    /** There are more rows already. */
    readonly isBehind: boolean
  }>
  /** Lists failed requests like `list`, with their number by error code. */
  failures(filter: RequestFilter): Promise<FailureList>
  /** The request by id, else the tenant's latest with this label (`tenantId` null: of all tenants). Null: none. */
  one(idOrLabel: string, tenantId: string | null): Promise<RequestDetail | null>
  /**
   * Whether a request with this id, that came at that time (Unix milliseconds), has a row or was admitted and has none
   * yet.
   */
  isKnown(id: string, atMs: number): Promise<boolean>
}

export const requestQueries = (sql: Sql): RequestQueries => ({
  list: (filter) =>
    readSnapshot(sql, 'requests', (transaction, schemaName) => listRequests(transaction, schemaName, filter)),
  failures: (filter) =>
    readSnapshot(sql, 'requests', (transaction, schemaName) => listFailures(transaction, schemaName, filter)),
  pages: (filter) => requestPages(sql, filter),
  place: () => readActive(sql, 'requests', () => readPlace(sql)),
  since: (place, filter) => readActive(sql, 'requests', (schemaName) => readSince(sql, schemaName, place, filter)),
  async one(idOrLabel, tenantId) {
    const row = await storedOne(sql, idOrLabel, tenantId)
    return row === null ? null : detailOf(row)
  },
  isKnown: (id, atMs) =>
    readActive(sql, 'requests', async (schemaName) => {
      const [found] = await sql<{ known: boolean }[]>`
        select exists (select from ${sql(`${schemaName}.request`)} where id = ${id})
          or exists (select from ${sql(`${schemaName}.pending`)} where at_ms = ${atMs} and id = ${id}) as known`
      return found?.known ?? false
    }),
})

const storedOne = (sql: Sql, idOrLabel: string, tenantId: string | null): Promise<StoredDetail | null> =>
  readActive(sql, 'requests', async (schemaName) => {
    const tenant = tenantId === null ? sql`` : sql`and r.tenant_id = ${tenantId}`
    const request = sql(`${schemaName}.request`)
    const [row] = await sql<StoredDetail[]>`
      select ${listColumns(sql)}, provider_id, model_id, admitted, settled
      from (
        select r.*, true as by_id from ${request} r where r.id = ${idOrLabel} ${tenant}
        union all
        select r.*, false from ${request} r where r.request_id = ${idOrLabel} and r.request_id <> r.id ${tenant}
        order by by_id desc, at_ms desc, id desc limit 1
      ) r left join lateral (
        select admitted, settled from ${sql(`${schemaName}.detail`)} d where d.at_ms = r.at_ms and d.id = r.id
      ) d on true`
    return row ?? null
  })
