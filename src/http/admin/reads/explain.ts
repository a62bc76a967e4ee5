// `/admin/v1/requests/{requestID}/explain`: why a request was routed as it was, planned again from its records. The
// history thread plans; this module queries it.
import type { FrameQueries } from '../../../../projections/frames/query.ts'
import type { RecordedRequest, RequestQueries } from '../../../../projections/requests/query.ts'
import type { ControlReader } from '../../../domain/control.ts'
import type { FrameTaken } from '../../../domain/events/health.ts'
import { type Decision, shownAttempt } from '../../../domain/events/request.ts'
import type { PolicyRow } from '../../../domain/steering/policy.ts'
import type { PlannedRequest } from '../../../inference/plan/plan-again.ts'
import { usdOf } from '../../../lib/money.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { History, Moment } from '../../../state/history/history-port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { ExplainAnswer } from '../answers/explain.ts'
import { momentNotFound, parseMoment, queryHistory } from '../as-of.ts'
import type { PlanRead, PlanReply } from '../past-plan.ts'
import { reading } from '../read-store.ts'
import { type AdminRoute, route } from '../route.ts'
import { type OneRequestDeps, oneRequest } from './requests.ts'

export interface ExplainDeps extends OneRequestDeps {
  readonly requests: Pick<RequestQueries, 'recorded'>
  readonly frames: FrameQueries
  readonly history: History
  /** Current names, and policies to use instead. */
  readonly live: { readonly control: ControlReader }
  /** Whether requests can be sent to this provider now. */
  adapterReady(providerId: string): boolean
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

interface WhatIf {
  readonly policyId: string | null
  /** Null: the configuration by which the request was planned. */
  readonly asOf: Moment | null
}

/** The plan that was made again, or why there is none. */
type Computed =
  | { readonly answer: PlanReply; readonly revision: string; readonly why: null }
  | { readonly answer: null; readonly revision: string; readonly why: string }

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
      const request = await oneRequest(call, deps.requests.recorded, deps)
      const whatIf = asOf === null && query.policy_id === undefined ? null : { policyId: query.policy_id ?? null, asOf }
      return { body: shown(request, await computed(request, whatIf, deps), whatIf, deps) }
    },
  }),
]

const computed = async (request: RecordedRequest, whatIf: WhatIf | null, deps: ExplainDeps): Promise<Computed> => {
  const { revision } = request.settled
  const standIn = whatIf === null ? null : standInOf(whatIf, request, deps)
  const record = plannedOf(request)
  if (typeof record === 'string') return { answer: null, revision, why: record }
  const frames = await framesOf(request, deps)
  if (typeof frames === 'string') return { answer: null, revision, why: frames }
  const moment = whatIf?.asOf ?? { id: revision }
  const read: PlanRead = { record, frames, whatIf: whatIf === null ? null : whatIfRead(whatIf, standIn, deps) }
  const found = await queryHistory(deps.history, 'past', { moment, read })
  if (found === null) {
    if (whatIf?.asOf != null) throw momentNotFound(whatIf.asOf)
    return { answer: null, revision, why: 'the decision by which it was planned is not in this log' }
  }
  const answer = found.reply as PlanReply
  if (answer.kind !== 'plan') throw new Error(`the history thread could not plan request ${request.id} again`)
  if (answer.policyUnknown) throw unknownPolicy(whatIf?.policyId ?? '', whatIf?.asOf ?? null)
  return { answer, revision: found.point.revision, why: null }
}

const unknownPolicy = (id: string, asOf: Moment | null): GatewayError => {
  const when = asOf === null ? '' : ' at that time'
  return new GatewayError('not_found', `no policy for this request has the id "${id.slice(0, 128)}"${when}`, {
    param: 'policy_id',
  })
}

/** The policy to use instead: its current row, or its id where the past is to supply it. Throws 404. */
const standInOf = (
  { policyId, asOf }: WhatIf,
  request: RecordedRequest,
  deps: ExplainDeps,
): PolicyRow | string | null => {
  if (policyId === null || asOf !== null) return policyId
  const row = deps.live.control.table('policies').get(policyId)
  if (row === undefined || (row.tenant_id !== null && row.tenant_id !== request.tenant_id))
    throw unknownPolicy(policyId, null)
  return row
}

const whatIfRead = (
  { asOf }: WhatIf,
  policy: PolicyRow | string | null,
  { live, adapterReady }: ExplainDeps,
): PlanRead['whatIf'] => {
  const withoutAdapter: string[] = []
  for (const [id] of live.control.table('providers').rows()) if (!adapterReady(id)) withoutAdapter.push(id)
  return { policy, isAsOf: asOf !== null, withoutAdapter }
}

/** The inputs of the request's plan, or why there are none. */
const plannedOf = (request: RecordedRequest): PlannedRequest | string => {
  const { admitted, settled, tenant_id } = request
  if (request.purpose !== null) return 'the gateway called this provider by itself: nothing was planned'
  const { decision, candidates } = admitted ?? settled
  if (settled.admission !== null && admitted === null) return 'its admission has not been read from the log'
  if (decision === undefined || candidates === undefined || tenant_id === null)
    return 'it was refused before anything was planned'
  return {
    requested_model: request.requested_model,
    key_id: request.key_id,
    stream: request.stream,
    seed: settled.seed,
    candidates,
    decision,
    at_ms: request.at_ms,
    tenant_id,
    endpoint: request.endpoint,
    policy_id: request.policy_id,
    strategy: settled.strategy,
    first_model_id: admitted?.model_id ?? null,
  }
}

/** The records of the frame by which the request was planned, or why there are none. */
const framesOf = async (
  { settled }: RecordedRequest,
  { frames }: ExplainDeps,
): Promise<readonly FrameTaken[] | string> => {
  const { frame, admission } = settled
  if (frame === 0) return []
  const process = admission === null ? settled.process : admission.slice(0, admission.lastIndexOf('.'))
  const [instance, epoch] = process?.split('.') ?? []
  const records =
    instance === undefined || epoch === undefined ? null : await reading(frames.at(instance, epoch, frame))
  return records ?? `frame ${frame} is not kept, or has not been read from the log yet`
}

/** The recorded decision in the form of a plan. */
const recordedPlan = (request: RecordedRequest, { live }: ExplainDeps) => {
  const { admitted, settled, chosen } = request
  const decision: Partial<Decision> = admitted?.decision ?? settled.decision ?? {}
  const noted = admitted?.candidates ?? settled.candidates ?? []
  const candidates = noted.map(([providerId, modelId, reason], i) => {
    const projected = decision.projected?.[i] ?? null
    return {
      provider: live.control.table('providers').get(providerId)?.name ?? null,
      provider_id: providerId,
      model: live.control.table('models').get(modelId)?.name ?? null,
      model_id: modelId,
      eligible: reason === '',
      rejected_reason: reason === '' ? null : reason,
      score: decision.scores?.[i] ?? null,
      components: null,
      projected_cost_usd: projected === null ? null : usdOf(projected),
    }
  })
  const wasPlanned = decision.source !== undefined
  return {
    policy: {
      id: request.policy_id,
      name: request.policy_id === null ? null : (live.control.table('policies').get(request.policy_id)?.name ?? null),
      source: decision.source ?? null,
      verdict: wasPlanned ? (admitted === null ? ('refused' as const) : ('allowed' as const)) : null,
    },
    required_capabilities: decision.needs ?? [],
    strategy: settled.strategy,
    overrides_applied: decision.overrides ?? [],
    endpoint: request.endpoint,
    candidates,
    order: decision.order ?? candidates.flatMap(({ rejected_reason }, i) => (isOrdered(rejected_reason) ? [i] : [])),
    chosen,
    refused: admitted !== null || request.error_code === null ? null : { code: request.error_code, message: null },
  }
}

/** Candidates are rejected for their health only after they are ordered. */
const isOrdered = (reason: string | null): boolean =>
  reason === null || reason === 'breaker_open' || reason === 'rate_limited'

const shown = (
  request: RecordedRequest,
  { answer, revision, why }: Computed,
  whatIf: WhatIf | null,
  deps: ExplainDeps,
) => {
  const { settled, admitted } = request
  const attempts = settled.attempts.map(shownAttempt)
  const then = recordedPlan(request, deps)
  const reserved = admitted?.reserved_nano_usd ?? null
  const real = {
    shaping: settled.shaping ?? [],
    cache: { mode: null, outcome: request.cache_hit ? 'hit' : null, reason: null },
    budget: { reserved_usd: reserved === null ? null : usdOf(reserved), remaining_usd: null },
    attempts,
  }
  const head = {
    id: request.id,
    request_id: request.request_id,
    at: request.at,
    computed: answer !== null,
    not_computed: why,
    revision,
    frame: settled.frame,
    seed: settled.seed,
    task: settled.task,
  }
  if (whatIf === null) {
    if (answer === null) return { ...head, ...then, route_reason: null, ...real }
    const { differences } = answer
    const { plan } = answer
    const again = plan === null ? then : { ...plan, chosen: request.chosen, refused: plan.refused ?? then.refused }
    const route_reason = plan?.route_reason ?? null
    return { ...head, matches: differences.length === 0, differences, ...again, route_reason, ...real }
  }
  const { error_code, outcome } = request
  const recorded = { revision: settled.revision, ...then, outcome, error_code, attempts }
  return { ...head, ...imagined(answer), recorded }
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
