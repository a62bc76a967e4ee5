// Finds one request of the request log by id or by label, also one that was answered a moment ago. Used by its view and
// by its explanation.
import {
  awaitRow,
  type ReadRow,
  type RequestRow,
  type RowSearchDeps,
} from '../../../inference/surface/request-search.ts'
import { reading } from '../read-store.ts'
import type { AdminCall } from '../route.ts'
import { tenantFilter } from './request-filter.ts'

export interface OneRequestDeps extends RowSearchDeps {
  nowMs(): number
}

type Call = AdminCall<unknown, { readonly tenant_id?: string }>

/**
 * The row that the path names, among the tenants that the caller sees. Throws 404, and 502 when the row is not stored
 * yet or the read store is unavailable.
 */
export const oneRequest = <Row extends RequestRow>(
  { params, query, principal, request }: Pick<Call, 'params' | 'query' | 'principal' | 'request'>,
  read: ReadRow<Row>,
  deps: OneRequestDeps,
): Promise<Row> => {
  const tenantId = tenantFilter(principal, query.tenant_id)
  const asked = { idOrLabel: params.id!, tenantId, atMs: deps.nowMs(), signal: request.signal, param: null }
  return awaitRow(asked, (idOrLabel, ofTenant) => reading(read(idOrLabel, ofTenant)), deps)
}
