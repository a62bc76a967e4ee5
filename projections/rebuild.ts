// Makes read models anew from the log, beside those in use. Readers see the old tables until the new ones have caught
// up, then the new ones.

import { sleep } from '../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../src/lib/process/diagnostics.ts'
import type { EventLog } from '../src/log/port.ts'
import { type AnyProjection, beginRebuild, holdRebuild, prepareCatalogue } from './builds.ts'
import { openDatabase, type Sql, untilAnswer, within } from './database.ts'
import type { GatherLimits } from './gather.ts'
import { followBuild, type LoadLimits, type ModelView, newView, switchTo } from './keep.ts'
import { databaseProblem } from './problems.ts'

export interface RebuildOptions {
  readonly projections: readonly AnyProjection[]
  readonly log: EventLog
  readonly databaseUrl: string
  readonly signal: AbortSignal
  readonly diagnostics: Diagnostics
  readonly print: (line: string) => void
  /** How much is loaded at once. */
  readonly load?: LoadLimits
  /** How long Postgres may be unreachable at the beginning; 30 s when not given. */
  readonly postgresWithinMs?: number
}

/** Sums that many outcomes share are written once for each batch: larger batches mean fewer writes. */
const LOAD: LoadLimits = { maxRecords: 40_000, maxBytes: 64 * 1_024 * 1_024 }
/** For models that are followed and not loaded, larger batches than the worker's. Of all partitions together. */
const LIMITS: GatherLimits = { maxRecords: 10_000, maxBytes: 32 * 1_024 * 1_024, waitMs: 1_000 }
/** Smallest limits of one partition, however many partitions share `LIMITS`. */
const LEAST: GatherLimits = { maxRecords: 1_000, maxBytes: 1_024 * 1_024, waitMs: 1_000 }

/** What the batch of one partition may hold, so that all together hold no more than one alone would. */
const limitsFor = (partitions: number): GatherLimits => ({
  maxRecords: Math.max(LEAST.maxRecords, Math.floor(LIMITS.maxRecords / partitions)),
  maxBytes: Math.max(LEAST.maxBytes, Math.floor(LIMITS.maxBytes / partitions)),
  waitMs: LIMITS.waitMs,
})
const POLL_MS = 100
const PRINT_MS = 2_000
const CATALOGUE_WITHIN_MS = 60_000

/**
 * Rebuilds them: those that are loaded one after the other, and beside these those that are followed, also one after
 * the other: while Postgres has a batch of the one, the log is read for the other. Returns when all are in use. Throws
 * when Postgres or the log cannot be used, or another rebuild is under way; the rest is given up then.
 */
export const rebuild = async (options: RebuildOptions): Promise<void> => {
  const { projections, databaseUrl, signal } = options
  const sql = openDatabase({ url: databaseUrl, name: 'gatelog-rebuild', maxConnections: 8, statementTimeoutMs: null })
  try {
    await untilReachable(sql, options)
    const failed = new AbortController()
    const shared = { ...options, signal: AbortSignal.any([signal, failed.signal]) }
    const inRow = async (row: readonly AnyProjection[]) => {
      for (const projection of row) await rebuildOne(shared, sql, projection)
    }
    const rows = [projections.filter(({ load }) => load), projections.filter(({ load }) => !load)]
    const ended = await Promise.allSettled(rows.map((row) => inRow(row).catch((cause) => giveUp(cause, failed))))
    for (const end of ended) if (end.status === 'rejected' && end.reason === failed.signal.reason) throw end.reason
    signal.throwIfAborted()
  } finally {
    await sql.end({ timeout: 1 })
  }
}

/** The first failure is the one that is reported; what ends because of it is no failure of its own. */
const giveUp = (cause: unknown, failed: AbortController): never => {
  if (!failed.signal.aborted) failed.abort(cause)
  throw failed.signal.reason
}

const untilReachable = async (sql: Sql, { signal, postgresWithinMs }: RebuildOptions): Promise<void> => {
  // Checked first, with a limit: a statement waits for ever for a connection that cannot be made.
  const error = await untilAnswer(sql, signal, postgresWithinMs)
  signal.throwIfAborted()
  if (error !== null) throw new Error(`Postgres cannot be used: ${databaseProblem(error)}`, { cause: error })
  const deadline = performance.now() + CATALOGUE_WITHIN_MS
  for (;;) {
    signal.throwIfAborted()
    try {
      return await within(prepareCatalogue(sql), CATALOGUE_WITHIN_MS)
    } catch (cause) {
      if (performance.now() > deadline) throw new Error(`Postgres cannot be used: ${databaseProblem(cause)}`, { cause })
      await sleep(100, signal)
    }
  }
}

const rebuildOne = async (options: RebuildOptions, sql: Sql, projection: AnyProjection): Promise<void> => {
  const { log, signal, diagnostics, print, load = LOAD } = options
  const held = await holdRebuild(sql, projection.name)
  if (held === null) throw new Error(`another process is rebuilding ${projection.name}: wait for it`)
  const view = newView()
  const startedAt = performance.now()
  const timer = setInterval(() => print(progressLine(projection.name, view, startedAt)), PRINT_MS)
  try {
    const build = await beginRebuild(sql, projection)
    const limits = limitsFor((await log.partitions(projection.topic)).length)
    const keep = {
      projection,
      sql,
      log,
      signal,
      diagnostics,
      limits,
      takeoverMs: 5_000,
      pollMs: POLL_MS,
      view,
      load,
    }
    const outcome = await followBuild(keep, build, () => switchTo(keep, build))
    signal.throwIfAborted()
    if (outcome !== 'caught_up') throw new Error(`another process has replaced the build of ${projection.name}`)
    print(`${progressLine(projection.name, view, startedAt)}: done, in use as ${build.schemaName}`)
  } finally {
    clearInterval(timer)
    await held.release()
  }
}

/** `requests: 120000 of 400000 records, 21000/s` */
const progressLine = (model: string, view: ModelView, startedAt: number): string => {
  const progress = [...view.partitions.values()]
  const applied = progress.reduce((sum, each) => sum + each.applied, 0)
  const left = [...view.ends].reduce((sum, [partition, { end }]) => {
    return sum + Math.max(0, end - (view.partitions.get(partition)?.next ?? 0))
  }, 0)
  const seconds = (performance.now() - startedAt) / 1_000
  const waiting = progress.find(({ state }) => state === 'waiting')
  const why = waiting === undefined ? '' : `, waiting (${waiting.detail})`
  return `${model}: ${applied} of ${applied + left} records, ${Math.round(applied / seconds)}/s${why}`
}
