// What `POST /v1/feedback` asks of the request log.
import { type Sql, within } from '../../projections/database.ts'
import { type RequestQueries, requestQueries } from '../../projections/requests/query.ts'
import { readStatus } from '../../projections/status.ts'
import type { RequestLookup } from '../inference/request-search.ts'

export interface RequestLookupDeps {
  readonly sql: Sql
  readonly hasOthers: boolean
  /** The read model's when not given. */
  readonly requests?: Pick<RequestQueries, 'one'>
  readonly status?: typeof readStatus
}

/** Workers report every 2 s: what a report is older counts as being behind. */
const REPORT_MS = 2_500
const WITHIN_MS = 2_000

export const requestLookup = (deps: RequestLookupDeps): RequestLookup => {
  const { sql, hasOthers, requests = requestQueries(sql), status = readStatus } = deps
  /** By id of whomever, else the tenant's own by label. */
  const rowOf = async (idOrLabel: string, tenantId: string) => {
    const own = await requests.one(idOrLabel, tenantId)
    if (own !== null) return own
    const row = await requests.one(idOrLabel, null)
    return row?.id === idOrLabel ? row : null
  }
  return {
    hasOthers,
    async find(idOrLabel, tenantId) {
      const row = await rowOf(idOrLabel, tenantId)
      if (row === null) return null
      // Asked twice, and a row may come between: only what it says tells whose it is.
      if (row.tenant_id !== tenantId) return 'foreign'
      const { chosen } = row.routing
      return {
        id: row.id,
        requestId: row.request_id,
        providerId: chosen?.provider_id ?? null,
        modelId: chosen?.model_id ?? null,
      }
    },
    async behindMs() {
      const reports = await within(status(sql), WITHIN_MS)
      const report = reports.find(({ model }) => model === 'requests')
      // Any other does not follow the log, or not into the table that is read.
      if (report === undefined || (report.state !== 'live' && report.state !== 'follower')) return null
      return report.lag_ms + Math.max(0, report.age_ms - REPORT_MS)
    },
  }
}
