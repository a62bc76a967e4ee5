// The audit log -> events as the API shows them.
import type { Queryable, Sql } from '../database.ts'
import { readActive, readSnapshot } from '../reader.ts'
import type { AuditRow } from './project.ts'

export interface AuditFilter {
  /** Null: every tenant, and what belongs to none. */
  readonly tenantId: string | null
  readonly resource: string | null
  readonly action: string | null
  /** Id of the subject. */
  readonly subjectId: string | null
  /** Id of the actor. */
  readonly actorId: string | null
  /** By the writer's clock, Unix milliseconds, `toMs` exclusive; null: no bound. */
  readonly fromMs: number | null
  readonly toMs: number | null
  readonly limit: number
  readonly offset: number
}

export interface AuditEventView {
  /** `<decision id>.<index of the event in it>`. */
  readonly id: string
  /** Id of the decision: the `revision` of the rows that it changed. */
  readonly decision_id: string
  readonly at: string
  readonly actor: { readonly type: string; readonly id: string }
  readonly action: string
  readonly resource: string
  readonly subject_id: string
  readonly tenant_id: string | null
  /** Type of the event in the chain. */
  readonly event: string
  /** The row, secrets masked; null when there was none. */
  readonly before: unknown
  readonly after: unknown
  /** Rows that were deleted with it, by table. */
  readonly removed: Readonly<Record<string, number>>
  /** Id of the decision that this one takes back, or null. */
  readonly reverts: string | null
}

export interface AuditQueries {
  /**
   * Newest first, in the order of the chain, and their number, of one moment. Throws ReadStoreUnavailable within 2 s.
   */
  list(filter: AuditFilter): Promise<{ readonly events: readonly AuditEventView[]; readonly total: number }>
  /**
   * The same rows page by page, `limit` of them in all; what comes meanwhile is not among them. A page may throw as
   * `list` does.
   */
  pages(filter: AuditFilter): AsyncGenerator<readonly AuditEventView[], void>
  /** Whether the audit log shows this decision. */
  shows(decisionId: string): Promise<boolean>
}

const PAGE_ROWS = 1_000
/** Rows are large: the reader of an export gets its first ones early. */
const FIRST_PAGE_ROWS = 100

type StoredEvent = Omit<AuditRow, 'log_at_ms'>

export const auditQueries = (sql: Sql): AuditQueries => ({
  list: (filter) =>
    readSnapshot(sql, 'audit', async (transaction, schemaName) => {
      const table = transaction(`${schemaName}.audit_event`)
      const where = conditions(transaction, filter)
      const [rows, [counted]] = await Promise.all([
        transaction<StoredEvent[]>`
          select * from ${table} where ${where}
          order by log_offset desc, event_index desc limit ${filter.limit} offset ${filter.offset}`,
        transaction<{ total: number }[]>`select count(*) as total from ${table} where ${where}`,
      ])
      return { events: rows.map(viewOf), total: counted!.total }
    }),
  async *pages(filter) {
    let last: StoredEvent | undefined
    for (let left = filter.limit; left > 0; ) {
      const most = Math.min(left, last === undefined ? FIRST_PAGE_ROWS : PAGE_ROWS)
      const rows = await readPage(sql, filter, most, last)
      if (rows.length > 0) yield rows.map(viewOf)
      if (rows.length < most) return
      last = rows.at(-1)
      left -= rows.length
    }
  },
  shows: (decisionId) =>
    readActive(sql, 'audit', async (schemaName) => {
      const rows =
        await sql`select 1 from ${sql(`${schemaName}.audit_event`)} where decision_id = ${decisionId} limit 1`
      return rows.length > 0
    }),
})

/** The rows after the last one of the page before. */
const readPage = (sql: Sql, filter: AuditFilter, limit: number, last: StoredEvent | undefined) =>
  readActive(sql, 'audit', async (schemaName) => {
    const after =
      last === undefined
        ? sql``
        : sql`and (log_offset, event_index) < (${last.log_offset}::bigint, ${last.event_index}::int)`
    return sql<StoredEvent[]>`
      select * from ${sql(`${schemaName}.audit_event`)} where ${conditions(sql, filter)} ${after}
      order by log_offset desc, event_index desc limit ${limit} offset ${last === undefined ? filter.offset : 0}`
  })

const conditions = (sql: Queryable, filter: AuditFilter) => {
  const { tenantId, resource, action, subjectId, actorId, fromMs, toMs } = filter
  return sql`true
    ${tenantId === null ? sql`` : sql`and tenant_id = ${tenantId}`}
    ${resource === null ? sql`` : sql`and resource = ${resource}`}
    ${action === null ? sql`` : sql`and action = ${action}`}
    ${subjectId === null ? sql`` : sql`and subject_id = ${subjectId}`}
    ${actorId === null ? sql`` : sql`and actor_id = ${actorId}`}
    ${fromMs === null ? sql`` : sql`and at_ms >= ${fromMs}`}
    ${toMs === null ? sql`` : sql`and at_ms < ${toMs}`}`
}

const viewOf = (row: StoredEvent): AuditEventView => ({
  id: `${row.decision_id}.${row.event_index}`,
  decision_id: row.decision_id,
  at: new Date(row.at_ms).toISOString(),
  actor: { type: row.actor_type, id: row.actor_id },
  action: row.action,
  resource: row.resource,
  subject_id: row.subject_id,
  tenant_id: row.tenant_id,
  event: row.event_type,
  before: row.before,
  after: row.after,
  removed: row.removed,
  reverts: row.reverts,
})
