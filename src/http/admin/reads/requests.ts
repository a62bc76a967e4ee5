// `/admin/v1/requests`: the request log, and one request with its routing decision.
import type { RequestDetail, RequestQueries } from '../../../../projections/requests/query.ts'
import { shownAttempt } from '../../../domain/events/request-reading.ts'
import { promptTokensEstimate } from '../../../inference/money/estimate.ts'
import { intentOf } from '../../../inference/plan/replay.ts'
import {
  awaitRow,
  type ReadRow,
  type RequestRow,
  type RowSearchDeps,
} from '../../../inference/surface/request-search.ts'
import { usdOf } from '../../../lib/money.ts'
import { t } from '../../../lib/schema/schema.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { REQUEST_COLUMNS, RequestDetailAnswer, RequestsAnswer } from '../answers/reads.ts'
import { type FilterDeps, filterOf, pageView, RequestQuery, tenantFilter } from '../answers/request-filter.ts'
import { exported } from '../export.ts'
import { reading } from '../read-store.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { type Computed, type PlanAgainDeps, planAsItWas } from './planned-again.ts'

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

const getRequest = (deps: RequestRouteDeps & OneRequestDeps & PlanAgainDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/requests/:id',
    scopes: SCOPES,
    summary: 'One request, by id or by label, with its routing decision',
    query: t.Object({ tenant_id: Text }),
    answer: RequestDetailAnswer,
    async handle(call) {
      const request = await oneRequest(call, deps.requests.one, deps)
      return { body: shown(request, await computedOrWhy(request, deps)) }
    },
  })

/** The request itself is shown also while the history cannot be read. */
const computedOrWhy = async (request: RequestDetail, deps: PlanAgainDeps): Promise<Computed> => {
  try {
    return await planAsItWas(request, deps)
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'timeout') throw error
    return { answer: null, revision: request.plan?.revision ?? null, why: error.message }
  }
}

const shown = (request: RequestDetail, { answer, revision, why }: Computed) => {
  const { at_ms: _, attempt_list, chosen, plan, wasAdmitted: __, first, process: ___, shaping: ____, ...row } = request
  const reserved = first?.reserved_nano_usd ?? null
  return {
    ...row,
    routing: {
      revision,
      frame: plan?.frame ?? 0,
      seed: plan?.seed ?? 0,
      strategy: answer?.plan?.strategy ?? null,
      policy_id: row.policy_id,
      chosen,
      computed: answer !== null,
      not_computed: why,
      matches: answer === null ? null : answer.differences.length === 0,
      rejected: plan?.rejected ?? {},
      candidates: (answer?.plan?.candidates ?? []).map(
        ({ provider, provider_id, model, model_id, eligible, rejected_reason }) => ({
          ...{ provider, provider_id, model, model_id, eligible, rejected_reason },
        }),
      ),
      attempts: attempt_list.map(shownAttempt),
      prompt_tokens_estimate: plan === null ? null : promptTokensEstimate(intentOf({ ...row, plan })),
      reserved_usd: reserved === null ? null : usdOf(reserved),
    },
  }
}

/** Rows for `AdminDeps.furtherRoutes`. */
export const requestRoutes = (deps: RequestRouteDeps & OneRequestDeps & PlanAgainDeps): readonly AdminRoute[] => [
  listRequests(deps),
  getRequest(deps),
]
