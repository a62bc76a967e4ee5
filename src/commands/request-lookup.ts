// What `POST /v1/feedback` asks of the request log.
import { type Sql, within } from '../../projections/database.ts'
import { requestQueries } from '../../projections/requests/query.ts'
import { readStatus } from '../../projections/status.ts'
import type { RequestLookup } from '../inference/feedback.ts'

/** A report that is older, or a lag that is longer, means that what was just served may be missing. */
const REPORT_MS = 10_000
const LAG_MS = 3_000
const WITHIN_MS = 2_000

export const requestLookup = (sql: Sql): RequestLookup => {
  const requests = requestQueries(sql)
  return {
    async find(idOrLabel, tenantId) {
      const row = await requests.one(idOrLabel, tenantId)
      if (row === null) return (await requests.one(idOrLabel, null))?.id === idOrLabel ? 'foreign' : null
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
