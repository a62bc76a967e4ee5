// `/admin/v1/requests`: the request log, and one request with its routing decision.
import type { RequestFilter, RequestQueries } from '../../../projections/requests/query.ts'
import type { ControlReader } from '../../domain/control.ts'
import { Rejection } from '../../domain/rejection.ts'
import { Outcome } from '../../domain/request.ts'
import { type Static, t } from '../../lib/schema.ts'
import { GatewayError } from '../../wire/errors.ts'
import { isSuperuser, type Principal, tenantMeant } from '../auth.ts'
import { Paging, pageOf } from './list.ts'
import { reading } from './read-store.ts'
import { type AdminRoute, route } from './route.ts'
import { Window, windowOf } from './window.ts'

export interface RequestRouteDeps {
  readonly requests: RequestQueries
  /** Names of providers and models, as they are called now. */
  readonly live: { readonly control: ControlReader }
  nowMs(): number
}

const SCOPES = ['usage:read'] as const

const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))
const Query = t.Object({
  ...Paging,
  ...Window,
  tenant_id: Text,
  outcome: t.Optional(Outcome),
  provider: Text,
  model: Text,
  error_code: Text,
  search: Text,
  status_min: t.Optional(t.String()),
})

/** Whose rows are meant: those of the tenant that is named, else the caller's own, else (with `*`) everybody's. Another tenant is 404. */
export const tenantFilter = (principal: Principal, tenantId: string | undefined): string | null =>
  tenantId === undefined && isSuperuser(principal) ? null : tenantMeant(principal, tenantId)

const statusMinOf = (text: string | undefined): number | null => {
  if (text === undefined) return null
  if (/^[1-5]\d\d$/.test(text)) return Number(text)
  throw new GatewayError('invalid_request', '"status_min" must be an HTTP status, 100 to 599', { param: 'status_min' })
}

const filterOf = (query: Static<typeof Query>, principal: Principal, nowMs: number): RequestFilter => ({
  tenantId: tenantFilter(principal, query.tenant_id),
  ...windowOf(query, nowMs),
  outcome: query.outcome ?? null,
  provider: query.provider ?? null,
  model: query.model ?? null,
  errorCode: query.error_code ?? null,
  statusMin: statusMinOf(query.status_min),
  search: query.search ?? null,
  ...pageOf(query),
})

const listRequests = ({ requests, nowMs }: RequestRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/requests',
    scopes: SCOPES,
    summary: 'The request log, newest first',
    rows: 'requests',
    query: Query,
    async handle({ query, principal }) {
      const filter = filterOf(query, principal, nowMs())
      const { requests: rows, total } = await reading(requests.list(filter))
      return { body: { requests: rows, total, limit: filter.limit, offset: filter.offset } }
    },
  })

const getRequest = ({ requests, live }: RequestRouteDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/requests/:id',
    scopes: SCOPES,
    summary: 'One request, by id or by label, with its routing decision',
    query: t.Object({ tenant_id: Text }),
    async handle({ params, query, principal }) {
      const id = params.id!
      const row = await reading(requests.one(id, tenantFilter(principal, query.tenant_id)))
      if (row === null) throw new Rejection('not_found', `no request has the id or label "${id.slice(0, 128)}"`)
      const candidates = row.routing.candidates.map((candidate) => ({
        provider: live.control.table('providers').get(candidate.provider_id)?.name ?? null,
        model: live.control.table('models').get(candidate.model_id)?.name ?? null,
        ...candidate,
      }))
      return { body: { ...row, routing: { ...row.routing, candidates } } }
    },
  })

/** Rows for `AdminDeps.furtherRoutes`. */
export const requestRoutes = (deps: RequestRouteDeps): readonly AdminRoute[] => [listRequests(deps), getRequest(deps)]
