// Request records as gateways write them, a worker that is ended by itself, and what tables hold.
import { openDatabase, type Sql } from '../../projections/database.ts'
import type { RequestFilter } from '../../projections/requests/query.ts'
import { runWorker, type WorkerOptions } from '../../projections/worker.ts'
import type { PlanRecord, RequestAdmitted, RequestSettled } from '../../src/domain/events/request.ts'
import { type AttemptSummary, type Settlement, settledRecord } from '../../src/domain/events/request-reading.ts'
import { writeEnvelope } from '../../src/log/envelope.ts'
import { type MemoryLog, memoryLog } from '../../src/log/memory.ts'
import type { NewRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { eventually } from '../services/eventually.ts'
import { silent } from '../services/postgres.ts'

export const REQUESTS = TOPICS.requests.name
export const MAC_KEY = new Uint8Array(32).fill(9)
/** 2026-11-20T12:00:00Z */
export const NOON_MS = Date.UTC(2026, 10, 20, 12)

export const plan: PlanRecord = {
  revision: 'a'.repeat(16),
  seed: 7,
  digest: 1,
  rejected: { breaker_open: 1 },
  text_bytes: 40,
  messages: 1,
  prompt_bytes: 48,
}

export const admitted = (id: string, more: Partial<RequestAdmitted> = {}): RequestAdmitted => ({
  id,
  at_ms: NOON_MS,
  key_id: 'key_1',
  requested_model: 'sandbox-echo',
  plan,
  provider: 'sandbox',
  provider_id: 'prov_1',
  model_id: 'mod_1',
  reserved_nano_usd: 2_000,
  ...more,
})

export const attempt: AttemptSummary = {
  n: 1,
  provider: 'sandbox',
  model: 'sandbox-echo',
  outcome: 'success',
  error_code: null,
  upstream_status: 200,
  latency_ms: 4,
  ttft_ms: null,
}

/** An outcome in the form of its readers. */
export const settlement = (id: string, more: Partial<Settlement> = {}): Settlement => ({
  id,
  request_id: id,
  trace_id: 'trace',
  at_ms: NOON_MS,
  tenant_id: 'ten_1',
  key_id: 'key_1',
  requested_model: 'sandbox-echo',
  endpoint: null,
  policy_id: null,
  stream: false,
  user: null,
  task: 'chat',
  purpose: null,
  admission: `ins_1.e1.${id}`,
  outcome: 'success',
  status: 200,
  error_code: null,
  provider: 'sandbox',
  provider_id: 'prov_1',
  routed_model: 'sandbox-echo',
  model_id: 'mod_1',
  fallback_used: false,
  cache_hit: false,
  attempts: [attempt],
  finish_reason: 'stop',
  prompt_tokens: 10,
  completion_tokens: 5,
  cached_prompt_tokens: null,
  cache_write_tokens: null,
  reasoning_tokens: null,
  raw_usage: { prompt_tokens: 10, completion_tokens: 5 },
  cost_nano_usd: 1_500,
  cost_basis: 'measured',
  price_version: 'b'.repeat(16),
  latency_ms: 12,
  ttft_ms: null,
  plan: null,
  shaping: [],
  planned_ms: 1,
  admitted_ms: 2,
  budget: [],
  ...more,
})

/** The record of an outcome. */
export const settled = (id: string, more: Partial<Settlement> = {}): RequestSettled =>
  settledRecord(settlement(id, more), 'another writer')

/** A filter for all requests of a window. */
export const ALL_REQUESTS: Omit<RequestFilter, 'fromMs' | 'toMs'> = {
  tenantId: null,
  outcome: null,
  provider: null,
  model: null,
  errorCode: null,
  statusMin: null,
  search: null,
  key: null,
  policies: null,
  endpoint: null,
  users: null,
  limit: 1_000_000,
  offset: 0,
}

/** Writes envelopes of one process start: the sequence goes up by one with each. */
export const sender = (instance = 'ins_1', epoch = 'e1') => {
  let sequence = 0
  return {
    record: (type: string, data: unknown, atSequence = sequence++): NewRecord => ({
      key: 'ten_1',
      value: Buffer.from(
        writeEnvelope({ instance, epoch, sequence: atSequence }, type, 'ten_1', NOON_MS, JSON.stringify(data)),
      ),
    }),
    /** Admission and settlement of a request. */
    both(id: string, more: Partial<Settlement> = {}): NewRecord[] {
      return [this.record('request.admitted', admitted(id)), this.record('request.settled', settled(id, more))]
    },
  }
}

/** A log whose clock goes on by a millisecond with each append. */
export const testLog = (requestPartitions = 1): MemoryLog => {
  let now = NOON_MS
  return memoryLog({
    nowMs: () => now++,
    partitionCount: (topic) => (topic === REQUESTS ? requestPartitions : 1),
  })
}

export const openSql = (url: string): Sql =>
  openDatabase({ url, name: 'gatelog-test', maxConnections: 2, statementTimeoutMs: null })

export interface RunningWorker {
  /** Settles when the worker ends; rejects with what ended it. */
  readonly ended: Promise<void>
  stop(): Promise<void>
}

export const startWorker = (
  options: Pick<WorkerOptions, 'log' | 'databaseUrl'> & Partial<WorkerOptions>,
): RunningWorker => {
  const stopping = new AbortController()
  const ended = runWorker({
    macKey: MAC_KEY,
    worker: 'test',
    diagnostics: silent,
    ...options,
    signal: stopping.signal,
    tuning: {
      pollMs: 20,
      reportMs: 50,
      takeoverMs: 200,
      limits: { maxRecords: 500, maxBytes: 1_048_576, waitMs: 2 },
      ...options.tuning,
    },
  })
  ended.catch(() => {}) // tests look at it when they care
  return {
    ended,
    async stop() {
      stopping.abort()
      await ended
    },
  }
}

/** Waits until the active build of a read model has applied a partition up to an offset; answers its schema. */
export const applied = (sql: Sql, model: string, next: number, partition = 0): Promise<string> =>
  eventually(`${model} up to ${next} of partition ${partition}`, async () => {
    const rows = await sql<{ schema_name: string }[]>`
      select schema_name from gatelog.build b join gatelog.position p using (model, build)
      where b.model = ${model} and b.state = 'active' and p.partition = ${partition} and p.next_offset >= ${next}`.catch(
      () => [], // the tables are not there yet
    )
    return rows[0]?.schema_name ?? null
  })

/** SHA-256 of every row of a table, in key order: equal tables have equal digests. */
export const tableDigest = async (sql: Sql, schemaName: string, table: string, key: string): Promise<string> => {
  const [row] = await sql.unsafe<{ digest: string }[]>(
    `select encode(sha256(coalesce(string_agg(t::text, chr(10) order by ${key}), ` +
      `'')::bytea), 'hex') as digest from "${schemaName}".${table} t`,
  )
  return row!.digest
}
