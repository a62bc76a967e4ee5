// The queries of the request log that find one request.
import { type Sql, within } from '../../projections/database.ts'
import { type RequestQueries, requestQueries } from '../../projections/requests/query.ts'
import { readStatus } from '../../projections/status.ts'
import { ownRow, type RequestLookup } from '../inference/surface/request-search.ts'

export interface RequestLookupDeps {
  readonly sql: Sql
  readonly hasOthers: boolean
  /** The read model's when not given. */
  readonly requests?: Pick<RequestQueries, 'one' | 'isKnown'>
  readonly status?: typeof readStatus
}

/** Workers report every 2 s: the age of a report beyond that counts as lag. */
const REPORT_MS = 2_500
const WITHIN_MS = 2_000

export const requestLookup = (deps: RequestLookupDeps): RequestLookup => {
  const { sql, hasOthers, requests = requestQueries(sql), status = readStatus } = deps
  return {
    hasOthers,
    async find(idOrLabel, tenantId) {
      const row = await ownRow(idOrLabel, tenantId, requests.one)
      if (row === null || row === 'foreign') return row
      const { chosen } = row
      return {
        id: row.id,
        requestId: row.request_id,
        providerId: chosen?.provider_id ?? null,
        modelId: chosen?.model_id ?? null,
      }
    },
    isKnown: (id, atMs) => requests.isKnown(id, atMs),
    async behindMs() {
      const reports = await within(status(sql), WITHIN_MS)
      const report = reports.find(({ model }) => model === 'requests')
      // Any other does not follow the log, or not into the table that is read.
      if (report === undefined || (report.state !== 'live' && report.state !== 'follower')) return null
      return report.lag_ms + Math.max(0, report.age_ms - REPORT_MS)
    },
  }
}
