// Records of the requests topic -> what the tables of the request log take, ready to be copied. Pure: the same record
// gives the same rows.

import { REQUEST_EVENTS, type RequestAdmitted, type RequestSettled } from '../../src/domain/events/request.ts'
import { arrivalOf, isOfFirstVersion, type Settlement, settlementOf } from '../../src/domain/events/request-reading.ts'
import type { EventRecord } from '../../src/domain/kernel/decision.ts'
import { upcast } from '../../src/domain/kernel/upcasters.ts'
import { type TSchema, type TypeCheck, TypeCompiler } from '../../src/lib/schema/schema.ts'
import { envelopeOf } from '../../src/log/envelope.ts'
import { EarlierRecords, type LogRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { copyLine } from '../copy.ts'
import type { Folded } from '../projection.ts'

/** Where a row came from: orders two settlements of one admission, whatever partitions they stand in. */
export interface Place {
  readonly logAtMs: number
  readonly partition: number
  readonly offset: number
}

interface Row {
  readonly id: string
  readonly atMs: number
  readonly place: Place
}

export interface AdmittedRow extends Row {
  readonly kind: 'admitted'
  /** JSON text for `detail.admitted`. */
  readonly admitted: string
}

export interface SettledRow extends Row {
  readonly kind: 'settled'
  /** It names an admission, which stands before it in the log. */
  readonly wasAdmitted: boolean
  /** The row of `request` in the format of COPY. */
  readonly line: string
  /** JSON text for `detail.settled`. */
  readonly settled: string
  readonly data: Settlement
}

export type RequestRow = AdmittedRow | SettledRow

/** In the order of `SettledRow.line`. */
export const REQUEST_COLUMNS =
  `id request_id at_ms tenant_id key_id requested_model routed_model model_id provider provider_id outcome status
  error_code attempts fallback_used stream cache_hit prompt_tokens completion_tokens cost_nano_usd cost_basis
  latency_ms ttft_ms policy_id endpoint end_user purpose log_at_ms log_partition log_offset`.split(/\s+/)

/** Years 2020 to 2100: beyond is a damaged record, and every day in use costs a table. */
const FIRST_MS = Date.UTC(2020, 0, 1)
export const LAST_MS = Date.UTC(2100, 0, 1)

const checks = new Map<string, TypeCheck<TSchema>>(
  Object.entries(REQUEST_EVENTS).map(([type, event]) => [type, TypeCompiler.Compile(event)]),
)

const NOTHING = { origin: null, rows: [] } as const

/** How the request log folds one record. */
export const foldRequestRecord = (
  record: Pick<LogRecord, 'offset' | 'value' | 'parts'>,
  logAtMs: number,
  partition: number,
): Folded<RequestRow> => {
  if (record.parts === undefined && record.value === null) return { ...NOTHING, problem: 'a tombstone' }
  const envelope = envelopeOf(record)
  if (envelope === null) return { ...NOTHING, problem: 'not an envelope' }
  const { instance, epoch, sequence } = envelope
  const { type, data } = upcast({ type: envelope.type, data: envelope.data as EventRecord['data'] })
  const origin = { instance, epoch, sequence }
  const check = checks.get(type)
  if (check === undefined) return { origin, rows: [], problem: null } // of another read model, or of a newer build
  if (!check.Check(data) && isOfFirstVersion(data))
    throw new EarlierRecords(
      `${TOPICS.requests.name}/${partition} holds records of an earlier build (offset ${record.offset}), which this ` +
        'one cannot read: make the topic anew',
    )
  if (!check.Check(data))
    return { origin, rows: [], problem: `not a valid ${type}: ${check.Errors(data).First()?.path ?? ''}` }
  // The settlement lists every attempt.
  if (type === 'request.attempted' || type === 'request.extended') return { origin, rows: [], problem: null }
  const event = data as unknown as RequestAdmitted | RequestSettled
  const atMs = arrivalOf(event)
  if (atMs === null || atMs < FIRST_MS || atMs >= LAST_MS)
    return { origin, rows: [], problem: `at_ms ${atMs} is no time` }
  const place = { logAtMs, partition, offset: record.offset }
  const row =
    type === 'request.admitted'
      ? admittedRow(event as RequestAdmitted, atMs, place)
      : settledRow(event as RequestSettled, place, `${instance}.${epoch}`)
  return { origin, rows: [row], problem: null }
}

const admittedRow = (event: RequestAdmitted, atMs: number, place: Place): AdmittedRow => ({
  kind: 'admitted',
  id: event.id,
  atMs,
  place,
  admitted: JSON.stringify(admittedDetail(event)),
})

/** Members of an admission that its settlement does not repeat. */
const admittedDetail = ({ plan, model_id, reserved_nano_usd }: RequestAdmitted) => ({
  plan,
  model_id,
  reserved_nano_usd,
})
export type AdmittedDetail = ReturnType<typeof admittedDetail>

/** `writer`: instance and epoch of the record, `<instance>.<epoch>`. */
const settledRow = (event: RequestSettled, place: Place, writer: string): SettledRow => {
  const data = settlementOf(event, writer)
  const { id, request_id, at_ms, tenant_id, key_id, requested_model, routed_model, model_id, provider, provider_id } =
    data
  const { outcome, status, error_code, fallback_used, stream, cache_hit, prompt_tokens, completion_tokens } = data
  const { cost_nano_usd, cost_basis, latency_ms, ttft_ms, policy_id, endpoint, user, purpose } = data
  // biome-ignore format: as REQUEST_COLUMNS has them
  const line = copyLine([
    id, request_id, at_ms, tenant_id, key_id, requested_model, routed_model, model_id, provider, provider_id,
    outcome, status, error_code, data.attempts.length, fallback_used, stream, cache_hit,
    prompt_tokens, completion_tokens, cost_nano_usd, cost_basis, latency_ms, ttft_ms, policy_id, endpoint,
    user, purpose, place.logAtMs, place.partition, place.offset,
  ])
  const settled = JSON.stringify(settledDetail(event, writer))
  return { kind: 'settled', id, atMs: at_ms, place, wasAdmitted: data.admission !== null, line, settled, data }
}

/** What the row of `request` does not hold, as it was recorded. */
const settledDetail = (event: RequestSettled, writer: string) => {
  const { trace_id, task, admission, attempts, finish_reason, cached_tokens, cache_write_tokens } = event
  const { reasoning_tokens, raw_usage, price_version, plan, shaping, timings } = event
  // The process by whose frame the plan was made.
  const process = typeof admission === 'string' ? admission.slice(0, admission.lastIndexOf('.')) : writer
  // biome-ignore format: a list of names
  return {
    trace_id, task, attempts, finish_reason, cached_tokens, cache_write_tokens, reasoning_tokens, raw_usage,
    price_version, plan, shaping, timings, process, admitted: admission === undefined ? undefined : true,
  }
}
export type SettledDetail = ReturnType<typeof settledDetail>
