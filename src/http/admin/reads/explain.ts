// `/admin/v1/requests/{requestID}/explain`: why a request was routed as it was, planned again from its records.
import type { RequestDetail, RequestQueries } from '../../../../projections/requests/query.ts'
import { shownAttempt } from '../../../domain/events/request-reading.ts'
import { usdOf } from '../../../lib/money.ts'
import { t } from '../../../lib/schema/schema.ts'
import { ExplainAnswer } from '../answers/explain.ts'
import { parseMoment } from '../as-of.ts'
import type { PlanReply } from '../past-plan.ts'
import { type AdminRoute, route } from '../route.ts'
import { type Computed, type PlanAgainDeps, planAsItWas, planIf } from './planned-again.ts'
import { type OneRequestDeps, oneRequest } from './requests.ts'

export interface ExplainDeps extends OneRequestDeps, PlanAgainDeps {
  readonly requests: Pick<RequestQueries, 'one'>
}

const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))
const Query = t.Object({
  tenant_id: Text,
  policy_id: t.Optional(
    t.String({
      minLength: 1,
      maxLength: 256,
      description:
        'What would have been, had this policy stood in place of the one that spoke first: as it is now, with ' +
        '`as_of` as it was then.',
    }),
  ),
  as_of: t.Optional(
    t.String({
      maxLength: 64,
      description:
        'What would have been under the configuration of that time: an RFC 3339 time, or the id of a decision ' +
        '(a revision).',
    }),
  ),
})

export const explainRoutes = (deps: ExplainDeps): readonly AdminRoute[] => [
  route({
    method: 'GET',
    path: '/requests/:id/explain',
    scopes: ['usage:read'],
    summary: 'Why a request went where it went, computed again; or where it would have gone',
    query: Query,
    answer: ExplainAnswer,
    async handle(call) {
      const { query } = call
      const asOf = query.as_of === undefined ? null : parseMoment(query.as_of)
      const request = await oneRequest(call, deps.requests.one, deps)
      if (asOf === null && query.policy_id === undefined)
        return { body: shownAsItWas(request, await planAsItWas(request, deps), deps) }
      const computed = await planIf(request, { policyId: query.policy_id ?? null, asOf }, deps)
      return { body: shownIf(request, computed, deps) }
    },
  }),
]

/** What was recorded, in the form of a plan: its candidates follow from the plan that is made again. */
const recordedPlan = (request: RequestDetail, { live }: PlanAgainDeps) => {
  const { plan, chosen, policy_id, endpoint, error_code, wasAdmitted } = request
  return {
    policy: {
      id: policy_id,
      name: policy_id === null ? null : (live.control.table('policies').get(policy_id)?.name ?? null),
      source: null,
      verdict: wasAdmitted ? ('allowed' as const) : plan === null ? null : ('refused' as const),
    },
    required_capabilities: plan?.needs ?? [],
    strategy: null,
    overrides_applied: [],
    endpoint,
    candidates: [],
    order: [],
    chosen,
    refused: wasAdmitted || error_code === null ? null : { code: error_code, message: null },
  }
}

const headOf = (request: RequestDetail, { answer, revision, why }: Computed) => ({
  id: request.id,
  request_id: request.request_id,
  at: request.at,
  computed: answer !== null,
  not_computed: why,
  revision,
  frame: request.plan?.frame ?? 0,
  seed: request.plan?.seed ?? 0,
  task: request.task,
  rejected: request.plan?.rejected ?? {},
})

const attemptsOf = ({ attempt_list }: RequestDetail) => attempt_list.map(shownAttempt)

const shownAsItWas = (request: RequestDetail, computed: Computed, deps: PlanAgainDeps) => {
  const { answer } = computed
  const then = recordedPlan(request, deps)
  const reserved = request.first?.reserved_nano_usd ?? null
  const real = {
    shaping: request.shaping,
    cache: { mode: null, outcome: request.cache_hit ? 'hit' : null, reason: null },
    budget: { reserved_usd: reserved === null ? null : usdOf(reserved), remaining_usd: null },
    attempts: attemptsOf(request),
  }
  const head = headOf(request, computed)
  if (answer === null) return { ...head, ...then, route_reason: null, ...real }
  const { differences, plan } = answer
  const again = plan === null ? then : { ...plan, chosen: request.chosen, refused: plan.refused ?? then.refused }
  const route_reason = plan?.route_reason ?? null
  return { ...head, matches: differences.length === 0, differences, ...again, route_reason, ...real }
}

const shownIf = (request: RequestDetail, computed: Computed, deps: PlanAgainDeps) => {
  const { error_code, outcome, plan } = request
  const recorded = {
    revision: plan?.revision ?? null,
    ...recordedPlan(request, deps),
    outcome,
    error_code,
    attempts: attemptsOf(request),
  }
  return { ...headOf(request, computed), ...imagined(computed.answer), recorded }
}

/** A hypothetical plan: no call was made, so there is no result. */
const imagined = (answer: PlanReply | null) => ({
  missing: answer?.missing ?? [],
  policy: { id: null, name: null, source: null, verdict: answer?.refused == null ? null : ('refused' as const) },
  required_capabilities: [],
  strategy: null,
  overrides_applied: [],
  endpoint: null,
  candidates: [],
  order: [],
  chosen: null,
  route_reason: null,
  ...answer?.plan,
  refused: answer?.refused ?? null,
  shaping: [],
  cache: { mode: null, outcome: null, reason: null },
  budget: { reserved_usd: null, remaining_usd: null },
  attempts: [],
})
