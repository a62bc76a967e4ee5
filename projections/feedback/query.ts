// Feedback -> rows as the API shows them, and the means that routing ranks by.
import type { Sql } from '../database.ts'
import { readActive, readSnapshot } from '../reader.ts'

export interface FeedbackFilter {
  /** Null: every tenant. */
  readonly tenantId: string | null
  /** Unix milliseconds, `toMs` exclusive. */
  readonly fromMs: number
  readonly toMs: number
  /** Id or label. */
  readonly requestId: string | null
  readonly providerId: string | null
  readonly modelId: string | null
  readonly metric: string | null
  readonly limit: number
  readonly offset: number
}

export interface StoredFeedback {
  readonly id: string
  readonly at_ms: number
  readonly tenant_id: string
  readonly key_id: string
  /** Our own id of the request. */
  readonly request: string
  readonly request_id: string
  readonly provider_id: string | null
  readonly model_id: string | null
  readonly score: number
  readonly comment: string | null
  readonly metric: string
  readonly tags: Readonly<Record<string, string>>
}

export interface ModelFeedback {
  readonly model_id: string
  readonly sum: number
  readonly count: number
}

export interface FeedbackQueries {
  /**
   * Newest first, and their number, of one moment: all that match, up to a million. Throws ReadStoreUnavailable within
   * 2 s.
   */
  list(filter: FeedbackFilter): Promise<{ readonly feedback: readonly StoredFeedback[]; readonly total: number }>
  /** Sums of each model since then, and the time of the newest feedback of all. */
  means(sinceMs: number): Promise<{ readonly models: readonly ModelFeedback[]; readonly untilMs: number }>
}

const COUNT_LIMIT = 1_000_000
const MODELS_LIMIT = 10_000

export const feedbackQueries = (sql: Sql): FeedbackQueries => ({
  list: (filter) =>
    readSnapshot(sql, 'feedback', async (transaction, schemaName) => {
      const table = transaction(`${schemaName}.feedback`)
      const { tenantId, requestId, providerId, modelId, metric, fromMs, toMs, limit, offset } = filter
      const where = transaction`at_ms >= ${fromMs} and at_ms < ${toMs}
        ${tenantId === null ? transaction`` : transaction`and tenant_id = ${tenantId}`}
        ${requestId === null ? transaction`` : transaction`and (request = ${requestId} or request_id = ${requestId})`}
        ${providerId === null ? transaction`` : transaction`and provider_id = ${providerId}`}
        ${modelId === null ? transaction`` : transaction`and model_id = ${modelId}`}
        ${metric === null ? transaction`` : transaction`and metric = ${metric}`}`
      const [feedback, [counted]] = await Promise.all([
        transaction<StoredFeedback[]>`
          select id, at_ms, tenant_id, key_id, request, request_id, provider_id, model_id, score, comment, metric, tags
          from ${table} where ${where} order by at_ms desc, id desc limit ${limit} offset ${offset}`,
        transaction<{ total: number }[]>`
          select count(*) as total from (select 1 from ${table} where ${where} limit ${COUNT_LIMIT}) matching`,
      ])
      return { feedback, total: counted!.total }
    }),
  means: (sinceMs) =>
    readActive(sql, 'feedback', async (schemaName) => {
      const table = sql(`${schemaName}.feedback`)
      const [models, [newest]] = await Promise.all([
        sql<ModelFeedback[]>`
          select model_id, sum(score) as sum, count(*) as count from ${table}
          where at_ms >= ${sinceMs} and model_id is not null group by model_id
          order by count(*) desc limit ${MODELS_LIMIT}`,
        sql<{ untilMs: number | null }[]>`select max(at_ms) as "untilMs" from ${table}`,
      ])
      return { models, untilMs: newest?.untilMs ?? 0 }
    }),
})
