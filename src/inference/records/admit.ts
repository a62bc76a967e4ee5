// Station 5: the admission, written before the upstream is called, so that no crash can hide a call that may be billed.
import { type RecordedPart, recordedPart } from '../../domain/budgets/recorded-parts.ts'
import type { RequestAdmitted, RequestAttempted, RequestExtended } from '../../domain/events/request.ts'
import { timeIn } from '../../domain/events/request-reading.ts'
import { type Appended, REFUSABLE, SpoolClosed } from '../../log/spool/spool.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { reservedNanoUsd } from '../money/estimate.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import type { Admitted, Planned } from '../request/progress.ts'
import { memberText, type SharedFacts, subjectOf, writerOf } from './facts.ts'
import { planRecord } from './plan-record.ts'

const RETRY_AFTER_S = 1
/** Room on a disk is made by people or by what expires. */
const DISK_RETRY_AFTER_S = 5

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
  exchange.listedAtAdmission = exchange.attempts.length
  const data = [exchange.factsText, memberText(admissionOf(exchange, deps))]
  return deps.spool.append('requests', 'request.admitted', subjectOf(exchange, deps), data, REFUSABLE)
}

type AdmissionMembers = Omit<RequestAdmitted, keyof SharedFacts>

/** The members of an admission but the facts; figures come last, as in `outcome-record.ts`. */
const admissionOf = (exchange: Planned, deps: Pick<InferenceDeps, 'spool'>): AdmissionMembers => {
  const { intent, plan, identity } = exchange
  const entry = plan.ordered[exchange.passedOver]!
  const { provider, providerId: provider_id, name, modelId: model_id } = entry
  const names: Omit<AdmissionMembers, 'plan' | 'reserved_nano_usd'> = { provider, provider_id, model_id }
  // The id of a client's request is made at its arrival.
  if (timeIn(identity.id) !== identity.atMs) names.at_ms = identity.atMs
  if (name !== exchange.requestedModel) names.model = name
  const parts = recordedParts(exchange, deps)
  if (parts !== undefined) names.budget = parts
  const record: AdmissionMembers = { ...names, plan: planRecord(plan, exchange.revision) }
  const reserved = reservedNanoUsd(intent, entry)
  if (reserved !== null) record.reserved_nano_usd = reserved
  return record
}

const recordedParts = ({ budgets }: Exchange, { spool }: Pick<InferenceDeps, 'spool'>): RecordedPart[] | undefined => {
  const parts = budgets?.parts()
  return parts === undefined || parts.length === 0
    ? undefined
    : parts.map((part) => recordedPart(part, writerOf(spool)))
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
  }
  const reserved = reservedNanoUsd(exchange.intent, entry)
  if (reserved !== null) data.reserved_nano_usd = reserved
  const budget = recordedParts(exchange, deps)
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
  }
  if (reservedNanoUsd !== null) data.reserved_nano_usd = reservedNanoUsd
  const budget = recordedParts(exchange, deps)
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
