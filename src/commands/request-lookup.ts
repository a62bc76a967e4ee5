// What `POST /v1/feedback` asks of the request log.
import { type Sql, within } from '../../projections/database.ts'
import { type RequestQueries, requestQueries } from '../../projections/requests/query.ts'
import { readStatus } from '../../projections/status.ts'
import type { RequestLookup } from '../inference/feedback.ts'

/** A report that is older, or a lag that is longer, means that what was just served may be missing. */
const REPORT_MS = 10_000
const LAG_MS = 3_000
const WITHIN_MS = 2_000

/** `requests` takes the place of the read model's. */
export const requestLookup = (sql: Sql, requests: Pick<RequestQueries, 'one'> = requestQueries(sql)): RequestLookup => {
  /** By id of whomever, else the tenant's own by label. */
  const rowOf = async (idOrLabel: string, tenantId: string) => {
    const own = await requests.one(idOrLabel, tenantId)
    if (own !== null) return own
    const row = await requests.one(idOrLabel, null)
    return row?.id === idOrLabel ? row : null
  }
  return {
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
    async isCurrent() {
      const reports = await within(readStatus(sql), WITHIN_MS)
      const report = reports.find(({ model }) => model === 'requests')
      return report !== undefined && report.age_ms < REPORT_MS && report.lag_ms < LAG_MS
    },
  }
}
