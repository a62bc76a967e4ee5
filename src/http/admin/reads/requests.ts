// `/admin/v1/requests`: the request log, and one request with its routing decision.
import type { RequestQueries } from '../../../../projections/requests/query.ts'
import {
  awaitRow,
  type ReadRow,
  type RequestRow,
  type RowSearchDeps,
} from '../../../inference/surface/request-search.ts'
import { t } from '../../../lib/schema/schema.ts'
import { REQUEST_COLUMNS, RequestDetailAnswer, RequestsAnswer } from '../answers/reads.ts'
import { type FilterDeps, filterOf, pageView, RequestQuery, tenantFilter } from '../answers/request-filter.ts'
import { exported } from '../export.ts'
import { reading } from '../read-store.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'

export interface RequestRouteDeps extends FilterDeps {
  readonly requests: RequestQueries
}

export interface OneRequestDeps extends RowSearchDeps {
  nowMs(): number
}

type OneCall = AdminCall<unknown, { readonly tenant_id?: string }, 'id'>

/**
 * The row that the path names, by id or by label, among the tenants that the caller sees; also one that was answered a
 * moment ago. Throws 404, and 502 when the row is not stored yet or the read store is unavailable.
 */
export const oneRequest = <Row extends RequestRow>(
  { params, query, principal, request }: Pick<OneCall, 'params' | 'query' | 'principal' | 'request'>,
  read: ReadRow<Row>,
  deps: OneRequestDeps,
): Promise<Row> => {
  const tenantId = tenantFilter(principal, query.tenant_id)
  const wanted = { idOrLabel: params.id, tenantId, atMs: deps.nowMs(), signal: request.signal, param: null }
  return awaitRow(wanted, (idOrLabel, ofTenant) => reading(read(idOrLabel, ofTenant)), deps)
}

const SCOPES = ['usage:read'] as const
const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))

const listRequests = (deps: RequestRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/requests',
    scopes: SCOPES,
    summary: 'The request log, newest first',
    rows: 'requests',
    whole: true,
    query: RequestQuery,
    answer: RequestsAnswer,
    async handle({ query, principal }) {
      const filter = filterOf(query, principal, deps)
      const pieces = exported(query, filter, REQUEST_COLUMNS, (wanted) => deps.requests.pages(wanted))
      if (pieces !== null) return { body: null, pieces }
      const { requests: rows, total, searchedFromMs } = await reading(deps.requests.list(filter))
      return { body: { requests: rows, total, ...pageView(filter, searchedFromMs) } }
    },
  })

const getRequest = (deps: RequestRouteDeps & OneRequestDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/requests/:id',
    scopes: SCOPES,
    summary: 'One request, by id or by label, with its routing decision',
    query: t.Object({ tenant_id: Text }),
    answer: RequestDetailAnswer,
    async handle(call) {
      const { requests, live } = deps
      const row = await oneRequest(call, requests.one, deps)
      const candidates = row.routing.candidates.map((candidate) => ({
        provider: live.control.table('providers').get(candidate.provider_id)?.name ?? null,
        model: live.control.table('models').get(candidate.model_id)?.name ?? null,
        ...candidate,
      }))
      return { body: { ...row, routing: { ...row.routing, candidates } } }
    },
  })

/** Rows for `AdminDeps.furtherRoutes`. */
export const requestRoutes = (deps: RequestRouteDeps & OneRequestDeps): readonly AdminRoute[] => [
  listRequests(deps),
  getRequest(deps),
]
