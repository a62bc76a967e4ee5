// Station 5: the admission, written before the upstream is called, so that no crash can hide a call that may be billed.
import type { RequestAttempted, RequestExtended } from '../../domain/events/request.ts'
import { type Appended, REFUSABLE, SpoolClosed } from '../../log/spool/spool.ts'
import { STILL } from '../../state/health/frame.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { promptTokensEstimate, reservedNanoUsd } from '../money/estimate.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import type { Admitted, Planned } from '../request/progress.ts'
import { admittedJson } from './admission-text.ts'
import { type CommonFacts, type FactsText, requestFactsText } from './record-text.ts'

const RETRY_AFTER_S = 1
/** Room on a disk is made by people or by what expires. */
const DISK_RETRY_AFTER_S = 5
/** In the records of a request without a plan. */
const NO_PLAN = { seed: 0, frame: STILL }

/**
 * The members that both records of a request share, made once. Notes the revision. `user`: keyed digest of the end
 * user.
 */
export const factsText = (exchange: Exchange, revision: string, user: string | null): FactsText => {
  const { identity, key, intent, plan } = exchange
  exchange.revision = revision
  const common: CommonFacts = {
    tenant_id: key?.tenantId ?? null,
    key_id: key?.id ?? null,
    requested_model: exchange.requestedModel,
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

/**
 * Appends `request.admitted`. Throws 429 or 503 while admission is closed, and 500 when the record could not be
 * written.
 */
export const admit = async (exchange: Planned, deps: Pick<InferenceDeps, 'spool'>): Promise<Admitted> => {
  const appended = appendAdmission(exchange, deps)
  try {
    return admitted(exchange, await appended)
  } catch (error) {
    throw notAdmitted(exchange, error)
  }
}

/** The first step of `admit`, for a caller that awaits it itself: then `admitted`, or `notAdmitted` with the error. */
export const appendAdmission = (exchange: Planned, deps: Pick<InferenceDeps, 'spool'>): Promise<Appended> => {
  const { intent, plan } = exchange
  const entry = plan.ordered[exchange.passedOver]!
  const reserved = reservedNanoUsd(intent, entry)
  const admission = { plan, entry, promptTokens: promptTokensEstimate(intent), reservedNanoUsd: reserved }
  const data = admittedJson(exchange.factsText, admission, exchange.budgets?.parts())
  exchange.listedAtAdmission = exchange.attempts.length
  return deps.spool.append('requests', 'request.admitted', subjectOf(exchange, deps), data, REFUSABLE)
}

export const admitted = (exchange: Planned, admission: Appended): Admitted => {
  exchange.admission = admission
  exchange.admittedMs = exchange.latencyMs()
  return exchange as Admitted
}

export const notAdmitted = (exchange: Exchange, error: unknown): GatewayError => {
  if (!(error instanceof SpoolClosed))
    return new GatewayError('internal_error', 'the request could not be recorded', { cause: error })
  // A record that was written, though not acknowledged in time, is in the log: its outcome has to follow it.
  exchange.admission = error.written
  return spoolClosed('no request is admitted now', error)
}

/** 503 without a usable disk, 429 while too much waits for the log. */
export const spoolClosed = (what: string, { message, lacks }: SpoolClosed): GatewayError =>
  lacks === 'disk'
    ? new GatewayError('provider_unavailable', `${what}: ${message}`, { status: 503, retryAfterS: DISK_RETRY_AFTER_S })
    : new GatewayError('rate_limited', `${what}: ${message}`, { retryAfterS: RETRY_AFTER_S })

/** Appends `request.attempted` for a further attempt, before it is made. */
export const admitAttempt = async (
  exchange: Admitted,
  entry: CatalogueEntry,
  deps: Pick<InferenceDeps, 'spool'>,
): Promise<void> => {
  const data: RequestAttempted = {
    id: exchange.identity.id,
    // Passed-over candidates are numbered too.
    n: exchange.attempts.length + 1,
    provider: entry.provider,
    provider_id: entry.providerId,
    model: entry.name,
    model_id: entry.modelId,
    reserved_nano_usd: reservedNanoUsd(exchange.intent, entry),
  }
  const budget = exchange.budgets?.parts()
  if (budget !== undefined) data.budget = budget
  try {
    await appendTo(exchange, 'request.attempted', data, deps)
  } catch (error) {
    throw new GatewayError('internal_error', 'the further attempt could not be recorded', { cause: error })
  }
  exchange.budgets?.recorded()
}

/**
 * Appends `request.extended` before the stream goes on: if the process dies, recovery charges the last reservation and
 * not the first. Returns the error when the record could not be written.
 */
export const admitMore = async (
  exchange: Admitted,
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
    await appendTo(exchange, 'request.extended', data, deps)
    return null
  } catch (error) {
    return new GatewayError('internal_error', 'what else the stream may cost could not be recorded', { cause: error })
  }
}

const appendTo = (
  exchange: Admitted,
  type: 'request.attempted' | 'request.extended',
  data: RequestAttempted | RequestExtended,
  { spool }: Pick<InferenceDeps, 'spool'>,
): Promise<Appended> =>
  spool.append('requests', type, subjectOf(exchange, { spool }), JSON.stringify(data), exchange.admission)

/** The partition key: tenant and instance, so that the records of one request stay in order. */
export const subjectOf = ({ key }: Exchange, { spool }: Pick<InferenceDeps, 'spool'>): string =>
  `${key?.tenantId ?? ''}/${spool.instance}`
