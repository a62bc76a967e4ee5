// Station 5: the admission. Written before the upstream is called, so that no crash can hide a call that may be billed.
import type { RequestAttempted, RequestExtended } from '../../domain/events/request.ts'
import { type Appended, REFUSABLE, SpoolClosed } from '../../log/spool/port.ts'
import { STILL } from '../../state/health/frame.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { Intent } from '../intent/intent.ts'
import { promptTokensEstimate, reservedNanoUsd } from '../money/estimate.ts'
import type { Plan } from '../plan/plan.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import { admittedJson } from './admission-text.ts'
import { type CommonFacts, type FactsText, requestFactsText } from './record-text.ts'

const RETRY_AFTER_S = 1
/** What stands in the records of a request without a plan. */
const NO_PLAN = { seed: 0, frame: STILL }

/** What both records of a request say about it: built once. */
export const factsText = (
  exchange: Exchange,
  requestedModel: string | null,
  revision: string,
  user: string | null,
): FactsText => {
  const { identity, key, intent, plan } = exchange
  exchange.revision = revision
  const common: CommonFacts = {
    tenant_id: key?.tenantId ?? null,
    key_id: key?.id ?? null,
    requested_model: requestedModel,
    endpoint: plan?.policy.scope?.slug ?? null,
    policy_id: plan?.policy.id ?? null,
    strategy: plan?.strategy ?? null,
    stream: intent?.stream ?? false,
    task: intent?.task ?? 'chat',
    revision,
  }
  if (exchange.purpose !== null) common.purpose = exchange.purpose
  const { id, requestId: request_id, traceId: trace_id, atMs: at_ms } = identity
  const { seed, frame } = plan?.input ?? NO_PLAN
  return requestFactsText({ id, request_id, trace_id, at_ms, seed, frame: frame.number, user }, common)
}

/** Appends `request.admitted`; throws 429 while the spool is closed, and 500 when the record could not be written. */
export const admit = async (
  exchange: Exchange,
  intent: Intent,
  plan: Plan,
  deps: Pick<InferenceDeps, 'spool'>,
): Promise<void> => {
  const appended = appendAdmission(exchange, intent, plan, deps)
  try {
    admitted(exchange, await appended)
  } catch (error) {
    throw notAdmitted(exchange, error)
  }
}

/** What `admit` does, for the one async function of a request: the record on its way; then `admitted`, or what `notAdmitted` says of why not. */
export const appendAdmission = (
  exchange: Exchange,
  intent: Intent,
  plan: Plan,
  deps: Pick<InferenceDeps, 'spool'>,
): Promise<Appended> => {
  const entry = plan.ordered[exchange.passedOver]!
  const reserved = reservedNanoUsd(intent, entry)
  const admission = { plan, entry, promptTokens: promptTokensEstimate(intent), reservedNanoUsd: reserved }
  const data = admittedJson(exchange.factsText!, admission, exchange.budgets?.parts())
  exchange.listedAtAdmission = exchange.attempts.length
  return deps.spool.append('requests', 'request.admitted', subjectOf(exchange, deps), data, REFUSABLE)
}

export const admitted = (exchange: Exchange, admission: Appended): void => {
  exchange.admission = admission
  exchange.admittedMs = exchange.latencyMs()
}

export const notAdmitted = (exchange: Exchange, error: unknown): GatewayError => {
  if (!(error instanceof SpoolClosed))
    return new GatewayError('internal_error', 'the request could not be recorded', { cause: error })
  exchange.admission = error.written // it is admitted to the log, though not by us: its outcome is to follow it
  return new GatewayError('rate_limited', `no request is admitted now: ${error.message}`, {
    retryAfterS: RETRY_AFTER_S,
  })
}

/** Appends `request.attempted` for a further attempt, before it is made. */
export const admitAttempt = async (
  exchange: Exchange,
  intent: Intent,
  entry: CatalogueEntry,
  n: number,
  deps: Pick<InferenceDeps, 'spool'>,
): Promise<void> => {
  const data: RequestAttempted = {
    id: exchange.identity.id,
    n,
    provider: entry.provider,
    provider_id: entry.providerId,
    model: entry.name,
    model_id: entry.modelId,
    reserved_nano_usd: reservedNanoUsd(intent, entry),
  }
  const budget = exchange.budgets?.parts()
  if (budget !== undefined) data.budget = budget
  try {
    await deps.spool.append(
      'requests',
      'request.attempted',
      subjectOf(exchange, deps),
      JSON.stringify(data),
      exchange.admission!,
    )
  } catch (error) {
    throw new GatewayError('internal_error', 'the further attempt could not be recorded', { cause: error })
  }
  exchange.budgets?.recorded()
}

/** Appends `request.extended` before the stream goes on: should the process die, what was reserved last is charged, and not what was reserved first. Answers why it could not. */
export const admitMore = async (
  exchange: Exchange,
  reservedNanoUsd: number | null,
  deps: Pick<InferenceDeps, 'spool'>,
): Promise<GatewayError | null> => {
  const data: RequestExtended = {
    id: exchange.identity.id,
    n: exchange.attempts.length + 1,
    reserved_nano_usd: reservedNanoUsd,
  }
  const budget = exchange.budgets?.parts()
  if (budget !== undefined) data.budget = budget
  try {
    await deps.spool.append(
      'requests',
      'request.extended',
      subjectOf(exchange, deps),
      JSON.stringify(data),
      exchange.admission!,
    )
    return null
  } catch (error) {
    return new GatewayError('internal_error', 'what else the stream may cost could not be recorded', { cause: error })
  }
}

/** The partition key: tenant and instance, so that the records of one request stay in order. */
export const subjectOf = ({ key }: Exchange, { spool }: Pick<InferenceDeps, 'spool'>): string =>
  `${key?.tenantId ?? ''}/${spool.instance}`
