// Requests that a crash left open: admitted, never settled. A start settles them as `orphaned`, at the reserved worst
// case of every attempt that was recorded.
import { type BudgetPart, partOf } from '../../domain/budgets/recorded-parts.ts'
import { RequestAdmitted, RequestAttempted, RequestExtended, type RequestSettled } from '../../domain/events/request.ts'
import { type AttemptSummary, arrivalOf, factsOf, settledRecord } from '../../domain/events/request-reading.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import { TypeCompiler } from '../../lib/schema/schema.ts'
import { type Appended, type LocalSpool, type OpenAdmission, SpoolClosed } from '../../log/spool/spool.ts'

/** The spool checks its disk once a second. */
const AGAIN_MS = 1_000

const admittedSchema = TypeCompiler.Compile(RequestAdmitted)
const attemptedSchema = TypeCompiler.Compile(RequestAttempted)
const extendedSchema = TypeCompiler.Compile(RequestExtended)

export interface OrphanReport {
  readonly settled: number
  /** Admissions that could not be read; they stay open in the spool and are tried again at the next start. */
  readonly unreadable: number
}

/**
 * Settles everything that earlier processes left open in a spool, in that spool and under the subject of the admission,
 * so that the settlement follows it in the same partition. Resolves when all of it is as durable as the spool makes it,
 * or is written and waits for the log. While the disk is full or refuses to sync it waits, as long as this process goes
 * on (`signal`). With `log.durability: log` the own spool's sender must run already.
 */
export const settleOrphans = async (spool: LocalSpool, signal?: AbortSignal): Promise<OrphanReport> => {
  const writer = `${spool.instance}.${spool.epoch}`
  const settlements = spool.openAtStart.map((open) => ({ open, settled: orphanOf(open, writer) }))
  const readable = settlements.filter(({ settled }) => settled !== null)
  await Promise.all(
    readable.map(({ open, settled }) => settleInSpool(spool, open.subject, JSON.stringify(settled), signal)),
  )
  return { settled: readable.length, unreadable: settlements.length - readable.length }
}

/** A full disk takes it once there is room: what a dead process held of budgets is released only after it. */
const settleInSpool = async (
  spool: LocalSpool,
  subject: string,
  data: string,
  signal?: AbortSignal,
): Promise<Appended> => {
  for (;;) {
    try {
      return await spool
        .append('requests', 'request.settled', subject, data)
        .catch((error: unknown) => standsInSpool(error, signal))
    } catch (error) {
      const isFull = error instanceof SpoolClosed && error.written === null
      if (!isFull || signal === undefined) throw error
      await sleep(AGAIN_MS, signal)
      if (signal.aborted) throw error
    }
  }
}

/**
 * With `log.durability: log` the log may be unreachable, or a sync was refused (`host`): the request is settled in the
 * spool all the same, and will be shipped to the log.
 */
const standsInSpool = async (error: unknown, signal?: AbortSignal): Promise<Appended> => {
  if (!(error instanceof SpoolClosed) || error.written === null) throw error
  if (error.durable === null) return error.written
  if (signal?.aborted) throw error
  const stopped = new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }))
  await Promise.race([error.durable, stopped])
  if (signal?.aborted) throw error
  return error.written
}

/**
 * The settlement of an admission that no process will settle otherwise; `writer` writes it (`<instance>.<epoch>`). Null
 * when the admission is not readable. Pure.
 */
export const orphanOf = (open: OpenAdmission, writer: string): RequestSettled | null => {
  const admitted: unknown = JSON.parse(open.data)
  if (!admittedSchema.Check(admitted)) return null
  const atMs = arrivalOf(admitted)
  if (atMs === null) return null
  const later = open.attempts.map((text): unknown => JSON.parse(text))
  const further = later.filter((each) => attemptedSchema.Check(each))
  const first = { ...admitted, n: 1, model: admitted.model ?? admitted.requested_model ?? '' }
  // A further attempt carries everything that an extension carries, and more.
  const records = [first, ...later.filter((each) => extendedSchema.Check(each))]
  const last = further.at(-1) ?? first
  const cost = worstCase(records)
  const attempts = [first, ...further].slice(0, MOST_ATTEMPTS)
  const settlement = {
    ...factsOf(admitted, atMs, tenantOf(open.subject)),
    admission: open.recordId,
    outcome: 'orphaned' as const,
    status: 500,
    error_code: 'internal_error',
    provider: last.provider,
    provider_id: last.provider_id,
    routed_model: last.model,
    model_id: last.model_id,
    fallback_used: further.length > 0,
    attempts: attempts.map(orphanedAttempt),
    cost_nano_usd: cost,
    cost_basis: cost === null ? ('unpriced' as const) : ('estimated' as const),
    // It was not measured, and the time until the restart would not describe the provider.
    latency_ms: 0,
    budget: reservedIn(records, open.recordId),
  }
  return settledRecord({ ...UNKNOWN, ...settlement }, writer)
}

/** What a process that died took with it. */
const UNKNOWN = {
  cache_hit: false,
  finish_reason: null,
  prompt_tokens: null,
  completion_tokens: null,
  cached_prompt_tokens: null,
  cache_write_tokens: null,
  reasoning_tokens: null,
  raw_usage: null,
  price_version: null,
  ttft_ms: null,
  plan: null,
  shaping: [],
  planned_ms: null,
  admitted_ms: null,
}

const MOST_ATTEMPTS = 64

/** The subject is the tenant and the instance; without a tenant, the gateway called by itself. */
const tenantOf = (subject: string): string | null => {
  const tenantId = subject.slice(0, subject.indexOf('/'))
  return tenantId === '' ? null : tenantId
}

/** Each record carries what the whole request may cost: the last one holds. */
const reservedIn = (records: readonly Pick<RequestAdmitted, 'budget'>[], recordId: string): BudgetPart[] => {
  const holder = recordId.slice(0, recordId.lastIndexOf('.'))
  const { budget = [] } = records.findLast((each) => each.budget !== undefined) ?? {}
  return budget.map((part) => partOf(part, holder))
}

const orphanedAttempt = ({ n, provider, model }: { n: number; provider: string; model: string }): AttemptSummary => ({
  n,
  provider,
  model,
  outcome: 'orphaned',
  error_code: 'internal_error',
  upstream_status: null,
  latency_ms: null,
  ttft_ms: null,
})

/** What all attempts reserved together, by the last record of each; null as soon as one of them has no price. */
const worstCase = (records: readonly { n: number; reserved_nano_usd?: number }[]): number | null => {
  const reserved = new Map(records.map((each) => [each.n, each.reserved_nano_usd]))
  let sum = 0
  for (const nanoUsd of reserved.values()) {
    if (nanoUsd === undefined) return null
    sum += nanoUsd
  }
  return sum
}
