// The plan of a recorded request, made again by the history thread: from its records, the configuration and the frame
// by which it was planned, or as it would have been.
import type { FrameQueries } from '../../../../projections/frames/query.ts'
import type { RequestDetail } from '../../../../projections/requests/query.ts'
import type { ControlReader } from '../../../domain/control.ts'
import type { FrameTaken } from '../../../domain/events/health.ts'
import type { PolicyRow } from '../../../domain/steering/policy.ts'
import type { PlannedRequest } from '../../../inference/plan/plan-again.ts'
import type { History, Moment } from '../../../state/history/history-port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { momentNotFound, queryHistory } from '../as-of.ts'
import type { PlanRead, PlanReply } from '../past-plan.ts'
import { reading } from '../read-store.ts'

export interface PlanAgainDeps {
  readonly frames: FrameQueries
  readonly history: History
  /** Current names, and policies to use instead. */
  readonly live: { readonly control: ControlReader }
  /** Whether requests can be sent to this provider now. */
  adapterReady(providerId: string): boolean
}

export interface WhatIf {
  readonly policyId: string | null
  /** Null: the configuration by which the request was planned. */
  readonly asOf: Moment | null
}

/** The plan that was made again, or why there is none. `revision`: of the configuration; null: none was read. */
export type Computed =
  | { readonly answer: PlanReply; readonly revision: string; readonly why: null }
  | { readonly answer: null; readonly revision: string | null; readonly why: string }

const notComputed = (request: RequestDetail, why: string): Computed => ({
  answer: null,
  revision: request.plan?.revision ?? null,
  why,
})

/** The plan as it was made. Throws 504 while the history cannot be read. */
export const planAsItWas = async (request: RequestDetail, deps: PlanAgainDeps): Promise<Computed> => {
  const inputs = await inputsOf(request, deps)
  if (typeof inputs === 'string') return notComputed(request, inputs)
  return queried(request, { id: inputs.record.plan.revision }, { ...inputs, whatIf: null }, deps)
}

/** The plan as it would have been. Throws 404 for an unknown policy or moment, and 504 as `planAsItWas`. */
export const planIf = async (request: RequestDetail, whatIf: WhatIf, deps: PlanAgainDeps): Promise<Computed> => {
  const { policyId, asOf } = whatIf
  const policy = standInOf(whatIf, request, deps)
  const inputs = await inputsOf(request, deps)
  if (typeof inputs === 'string') return notComputed(request, inputs)
  const then: Moment = { id: inputs.record.plan.revision }
  const asItWas = await queried(request, then, { ...inputs, whatIf: null }, deps)
  const withoutAdapter = adapterless(asItWas.answer, inputs.record, deps)
  const read: PlanRead = { ...inputs, whatIf: { policy, isAsOf: asOf !== null, withoutAdapter } }
  const computed = await queried(request, asOf ?? then, read, deps)
  if (computed.answer === null && asOf !== null) throw momentNotFound(asOf)
  if (computed.answer?.policyUnknown) throw unknownPolicy(policyId ?? '', asOf)
  return computed
}

const queried = async (
  request: RequestDetail,
  moment: Moment,
  read: PlanRead,
  { history }: PlanAgainDeps,
): Promise<Computed> => {
  const found = await queryHistory(history, 'past', { moment, read })
  if (found === null) return notComputed(request, 'the decision by which it was planned is not in this log')
  const answer = found.reply as PlanReply
  if (answer.kind !== 'plan') throw new Error(`the history thread could not plan request ${request.id} again`)
  return { answer, revision: found.point.revision, why: null }
}

/** Providers without an adapter: of the candidates of then as it was then, of all others as it is now. */
const adapterless = (
  asItWas: PlanReply | null,
  { plan }: PlannedRequest,
  { live, adapterReady }: PlanAgainDeps,
): readonly string[] => {
  const without = new Set(plan.without_adapter)
  const had = new Set<string>()
  for (const { provider_id, rejected_reason } of asItWas?.plan?.candidates ?? [])
    if (rejected_reason !== 'disabled' && !without.has(provider_id)) had.add(provider_id)
  for (const [id] of live.control.table('providers').rows()) if (!had.has(id) && !adapterReady(id)) without.add(id)
  return [...without]
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
  request: RequestDetail,
  { live }: PlanAgainDeps,
): PolicyRow | string | null => {
  if (policyId === null || asOf !== null) return policyId
  const row = live.control.table('policies').get(policyId)
  if (row === undefined || (row.tenant_id !== null && row.tenant_id !== request.tenant_id))
    throw unknownPolicy(policyId, null)
  return row
}

/** What the plan is made of, or why that is not known. */
const inputsOf = async (
  request: RequestDetail,
  deps: PlanAgainDeps,
): Promise<Pick<PlanRead, 'record' | 'frames'> | string> => {
  const record = plannedOf(request)
  if (typeof record === 'string') return record
  const frames = await framesOf(request, record, deps)
  return typeof frames === 'string' ? frames : { record, frames }
}

const plannedOf = (request: RequestDetail): PlannedRequest | string => {
  const { plan, first, tenant_id } = request
  if (request.purpose !== null) return 'the gateway called this provider by itself: nothing was planned'
  if (request.wasAdmitted && first === null) return 'its admission has not been read from the log'
  if (plan === null || tenant_id === null) return 'it was refused before anything was planned'
  return {
    requested_model: request.requested_model,
    key_id: request.key_id,
    stream: request.stream,
    plan,
    at_ms: request.at_ms,
    tenant_id,
    endpoint: request.endpoint,
    policy_id: request.policy_id,
    first_model_id: first?.model_id ?? null,
  }
}

/** The records of the frame by which the request was planned, or why there are none. */
const framesOf = async (
  { process }: RequestDetail,
  { plan: { frame = 0 } }: PlannedRequest,
  { frames }: PlanAgainDeps,
): Promise<readonly FrameTaken[] | string> => {
  if (frame === 0) return []
  const [instance, epoch] = process.split('.')
  const records =
    instance === undefined || epoch === undefined ? null : await reading(frames.at(instance, epoch, frame))
  return records ?? `frame ${frame} is not kept, or has not been read from the log yet`
}
