// The projection worker: every read model, what is published from them, and reports of their progress.

import { sleep } from '../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../src/lib/process/diagnostics.ts'
import { codeOf } from '../src/lib/process/error-code.ts'
import { wallMs } from '../src/lib/time/wall-clock.ts'
import type { EventLog } from '../src/log/port.ts'
import { auditProjection } from './audit/project.ts'
import { publishAudit } from './audit/publish.ts'
import { type AnyProjection, prepareCatalogue } from './builds.ts'
import { openDatabase, type Sql, settled } from './database.ts'
import { feedbackProjection } from './feedback/project.ts'
import { framesModel } from './frames/project.ts'
import { endFrozen } from './frozen.ts'
import type { GatherLimits } from './gather.ts'
import { keepModel, type ModelView, newView } from './keep.ts'
import { probesModel } from './probes/project.ts'
import { databaseProblem } from './problems.ts'
import { KEPT_DAYS, requestsModel } from './requests/project.ts'
import { durableOffsets, type ModelStatus, statusOf, writeStatus } from './status.ts'
import { closeDays } from './usage/close.ts'
import { followLogClock } from './worker-clock.ts'

export interface WorkerOptions {
  readonly log: EventLog
  readonly databaseUrl: string
  /** Key of the decisions' MAC (`deriveKey(master, 'control-mac')` or what the chain uses). */
  readonly macKey: Uint8Array
  /** Days that single requests are kept; 90 when not given. */
  readonly requestDays?: number
  /** Name of this process in reports. */
  readonly worker: string
  readonly signal: AbortSignal
  readonly diagnostics: Diagnostics
  /**
   * Called at an interval: every build has durably applied the partition below this offset, so the embedded log may
   * trim it.
   */
  readonly onProjected?: (topic: string, partition: number, nextOffset: number) => void | Promise<void>
  /** Called with every report. */
  readonly onStatus?: (status: readonly ModelStatus[]) => void
  readonly tuning?: Partial<WorkerTuning>
}

export interface WorkerTuning {
  readonly limits: GatherLimits
  readonly takeoverMs: number
  readonly pollMs: number
  readonly reportMs: number
  /** How often the worker looks for days to close. */
  readonly closeMs: number
  /** A worker that stands still in a transaction for so long loses it to the others. */
  readonly frozenMs: number
}

export const TUNING: WorkerTuning = {
  limits: { maxRecords: 2_000, maxBytes: 4 * 1_024 * 1_024, waitMs: 50 },
  takeoverMs: 5_000,
  pollMs: 1_000,
  reportMs: 2_000,
  closeMs: 60_000,
  frozenMs: 10_000,
}

/**
 * Every read model that this build of Gatelog has. `requestDays`: how long single requests, the frames by which they
 * were planned, and probes are kept.
 */
export const readModels = (macKey: Uint8Array, requestDays = KEPT_DAYS): readonly AnyProjection[] => [
  requestsModel(requestDays) as unknown as AnyProjection,
  feedbackProjection as unknown as AnyProjection,
  auditProjection({ macKey }) as unknown as AnyProjection,
  framesModel(requestDays) as unknown as AnyProjection,
  probesModel(requestDays) as unknown as AnyProjection,
]

/**
 * Runs until the signal is aborted: waits for Postgres and for the log as long as it takes. Throws only LogReplaced,
 * when the log is not the one that the read models were made from. Several workers may run at once: one of them owns
 * each partition, the others stand by.
 */
export const runWorker = async (options: WorkerOptions): Promise<void> => {
  const { log, databaseUrl, macKey, requestDays, signal, diagnostics } = options
  const tuning = { ...TUNING, ...options.tuning }
  const sql = openDatabase({
    url: databaseUrl,
    name: 'gatelog-worker',
    maxConnections: 8,
    statementTimeoutMs: null,
  })
  // Reports have a connection of their own: when all others wait for a worker that stands still, the report is what
  // ends that.
  const reports = openDatabase({
    url: databaseUrl,
    name: 'gatelog-reports',
    maxConnections: 1,
    statementTimeoutMs: null,
  })
  const stopping = new AbortController()
  const stop = () => stopping.abort()
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  const views = new Map<string, ModelView>()
  try {
    await untilPrepared(sql, stopping.signal, diagnostics)
    const shared = { ...options, ...tuning, sql, signal: stopping.signal }
    const models = readModels(macKey, requestDays).map((projection) => {
      const view = newView()
      views.set(projection.name, view)
      return keepModel({ ...shared, projection, view })
    })
    const publishing = { sql, log, signal: stopping.signal, diagnostics }
    const beside = [
      publishAudit(publishing),
      closeDays({ ...publishing, pollMs: tuning.closeMs }),
      report(shared, reports, views),
      followLogClock(publishing),
    ]
    // The first that fails ends all; the others end in order before it is reported.
    const outcomes = await Promise.allSettled([...models, ...beside].map((task) => task.finally(stop)))
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  } finally {
    stop()
    signal.removeEventListener('abort', stop)
    await Promise.all([sql, reports].map((each) => each.end({ timeout: 1 })))
  }
}

/** About a minute of attempts. */
const STARTING_ATTEMPTS = 140

const untilPrepared = async (sql: Sql, signal: AbortSignal, diagnostics: Diagnostics): Promise<void> => {
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      return await settled(sql, prepareCatalogue(sql))
    } catch (error) {
      if (attempt % 20 === 19 && attempt > 20) {
        // The embedded server makes its socket when it starts; the first start makes the cluster before.
        const isStarting = codeOf(error) === 'ENOENT' && attempt < STARTING_ATTEMPTS
        diagnostics[isStarting ? 'debug' : 'warn']('postgres_waited_for', { reason: databaseProblem(error) })
      }
      await sleep(attempt < 20 ? 50 : 500, signal)
    }
  }
}

/**
 * Writes the status rows and, with that commit flushed, reports what may be trimmed. A Postgres that is not reachable
 * only delays it.
 */
const report = async (
  options: WorkerOptions & WorkerTuning,
  sql: Sql,
  views: ReadonlyMap<string, ModelView>,
): Promise<void> => {
  const { worker, signal, diagnostics, onProjected, onStatus, reportMs, frozenMs } = options
  const reported = new Map<string, number>()
  while (!signal.aborted) {
    const status = [...views].map(([model, view]) => statusOf(model, worker, view, wallMs()))
    onStatus?.(status)
    try {
      const frozen = await settled(sql, endFrozen(sql, frozenMs))
      if (frozen > 0) diagnostics.warn('frozen_sessions_ended', { sessions: frozen })
      const durable = await settled(sql, durableOffsets(sql))
      await settled(sql, writeStatus(sql, status))
      for (const { topic, partition, next } of durable) {
        const where = `${topic}/${partition}`
        if (reported.get(where) === next) continue
        await onProjected?.(topic, partition, next)
        reported.set(where, next)
      }
    } catch (error) {
      diagnostics.debug('status_not_written', { reason: databaseProblem(error) })
    }
    await sleep(reportMs, signal)
  }
}
