// Puts together what is derived: Postgres (the embedded one or a given one), the projection worker as a child, and
// their state for `/ready`.
import { openDatabase, pingError, type Sql } from '../../projections/database.ts'
import { databaseProblem } from '../../projections/problems.ts'
import { READ_WITHIN_MS } from '../../projections/reader.ts'
import { readStatus } from '../../projections/status.ts'
import type { Config } from '../config/schema.ts'
import type { CheckResult, ReadinessCheck } from '../http/operations.ts'
import { ownModule } from '../lib/own-files.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { type ChildProcess, superviseChild } from '../upkeep/postgres/child-process.ts'
import { openReadStore } from './read-store.ts'
import type { Environment } from './settings.ts'

/** Exit code of a worker that runs as a child and has refused the log: its parent does not start it again. */
export const LOG_REFUSED_CODE = 3

export interface Analytics {
  /** Queries of the admin API. Opened by use; each query reports what is wrong. */
  readonly sql: Sql
  readonly readiness: readonly ReadinessCheck[]
  /** Children that run now. */
  children(): number
  /** Starts the worker; Postgres is started before, as early as possible. */
  startWorker(): void
  close(): Promise<void>
}

export interface AnalyticsDeps {
  readonly config: Config
  readonly env: Environment
  readonly diagnostics: Diagnostics
  /** The first process of a data folder runs the worker; its siblings do not. */
  readonly primary: boolean
  /**
   * The worker found soon after the start that the log is not the one that the read models were made from, and has
   * reported it.
   */
  readonly onRefused: (error: unknown) => void
}

const PING_MS = 1_500
const CONNECTIONS = 4
/** A report of the worker that is older than this means that none runs. */
const REPORT_MS = 15_000
const LAG_MS = 60_000
/**
 * Inference goes first, and what the worker has not read yet waits in the log; but it must keep up: a third of a core
 * that both want.
 */
const WORKER_NICENESS = 5
/** A refusal of the worker within this time refuses the start; Postgres may need most of it. */
const START_MS = 60_000

/** The child has printed the error: a second line is not needed. */
export class ReportedByChild extends Error {
  override readonly name = 'ReportedByChild'
}

const OK: CheckResult = { text: 'ok', ready: true }

/** Returns at once; the start waits for nothing here. */
export const openAnalytics = ({ config, env, diagnostics, primary, onRefused }: AnalyticsDeps): Analytics => {
  const store = openReadStore(config, diagnostics)
  const { embedded } = store
  const sql = openDatabase({
    url: store.url,
    name: 'gatelog-admin',
    maxConnections: CONNECTIONS,
    // The caller has its error by then: a query that goes on holds up the others.
    statementTimeoutMs: READ_WITHIN_MS,
  })
  let worker: ChildProcess | null = null

  const database = async (): Promise<CheckResult> => {
    const status = embedded?.status()
    if (status !== undefined && !status.ready) return { text: `degraded: ${status.detail}`, ready: false }
    const error = await pingError(sql, PING_MS)
    return error === null ? OK : { text: `degraded: Postgres: ${databaseProblem(error)}`, ready: false }
  }
  return {
    sql,
    readiness: [
      { name: 'database', run: database },
      { name: 'worker', run: () => workerCheck(sql, worker) },
    ],
    children: () => (worker?.status().running ? 1 : 0) + (embedded === null ? 0 : 1),
    startWorker() {
      if (!primary || !config.worker.enabled) return
      const command = [process.execPath, ownModule('src/commands/cli'), 'worker', '--child']
      // It gets the URL of Postgres: a worker that comes up while its gateway dies must not start the embedded one
      // itself.
      const childEnv = { ...env, GATEWAY_DATABASE_URL: store.url }
      const startedAt = performance.now()
      worker = superviseChild({
        name: 'worker',
        command,
        env: childEnv,
        diagnostics,
        niceness: WORKER_NICENESS,
        refusedCode: LOG_REFUSED_CODE,
        // Later it is a degradation: running requests go on being served.
        onRefused: () =>
          performance.now() - startedAt < START_MS && onRefused(new ReportedByChild('the worker refused the log')),
      })
    },
    async close() {
      await worker?.stop()
      await sql.end({ timeout: 1 })
      await store.close()
    },
  }
}

/** A worker that is down or behind is a degradation: what it has not read yet waits in the log. */
const workerCheck = async (sql: Sql, worker: ChildProcess | null): Promise<CheckResult> => {
  const status = worker?.status()
  if (status !== undefined && !status.running) return { text: `degraded: the worker ${status.detail}`, ready: true }
  const reports = await readStatus(sql).catch(() => null)
  if (reports === null) return { text: 'degraded: it cannot be asked', ready: true }
  const silent = reports.length === 0 || reports.some(({ age_ms }) => age_ms > REPORT_MS)
  if (silent) return { text: 'degraded: no worker reports', ready: true }
  const behind = reports.find(({ lag_ms }) => lag_ms > LAG_MS)
  return behind === undefined
    ? OK
    : { text: `degraded: ${behind.model} is ${Math.round(behind.lag_ms / 1_000)} s behind`, ready: true }
}
