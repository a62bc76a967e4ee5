// Keeps one read model: its build, a follower for each partition (new ones are found while it runs), and the switch to
// a build that has caught up.

import { sleep } from '../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../src/lib/process/diagnostics.ts'
import { wallMs } from '../src/lib/time/wall-clock.ts'
import { type EventLog, LogReplaced } from '../src/log/port.ts'
import { type AnyProjection, activate, buildToKeep, prepareCatalogue, removeAbandonedBuilds } from './builds.ts'
import { isMissingTable, type Sql, settled } from './database.ts'
import { followPartition, newProgress, type Progress, reasonOf } from './follow.ts'
import type { GatherLimits } from './gather.ts'
import type { Build } from './projection.ts'

export interface KeepOptions {
  readonly projection: AnyProjection
  readonly sql: Sql
  readonly log: EventLog
  readonly signal: AbortSignal
  readonly diagnostics: Diagnostics
  readonly limits: GatherLimits
  readonly takeoverMs: number
  /** How often partitions and ends of the log are queried. */
  readonly pollMs: number
  readonly view: ModelView
  /**
   * Given: a build is loaded before it is followed, where the projection can load, in batches of so much of all
   * partitions together.
   */
  readonly load?: LoadLimits
}

export type LoadLimits = Pick<GatherLimits, 'maxRecords' | 'maxBytes'>

/** What a projection needs to load a build. */
export interface LoadOptions extends KeepOptions {
  readonly build: Build
  readonly load: LoadLimits
}

/** The state of a read model, for reports. */
export interface ModelView {
  build: Build | null
  detail: string
  readonly partitions: Map<number, Progress>
  /** Ends of the partitions at the last poll, and since when each is not reached. */
  readonly ends: Map<number, { end: number; sinceMs: number }>
}

export const newView = (): ModelView => ({ build: null, detail: 'starting', partitions: new Map(), ends: new Map() })

const OUTDATED_PAUSE_MS = 5_000
/** Longer than it takes to put years of closed days into a build. */
const BEGUN_WITHIN_MS = 600_000
const MAX_BACKOFF_MS = 500
const REPLACED_PAUSE_MS = 50

/** Runs until the signal is aborted. Throws LogReplaced when the log is not the one that was folded. */
export const keepModel = async (options: KeepOptions): Promise<void> => {
  const { projection, sql, signal, diagnostics, view } = options
  let emptied = false
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      // The tables were dropped, or the database was made anew, while this ran: all of it is made again from the log.
      if (emptied) await settled(sql, prepareCatalogue(sql))
      emptied = false
      await settled(sql, removeAbandonedBuilds(sql, projection))
      const build = await settled(sql, buildToKeep(sql, projection))
      view.build = build
      if (build === null) {
        view.detail = `a newer version of ${projection.name} is active: this worker is outdated`
        await sleep(OUTDATED_PAUSE_MS, signal)
        continue
      }
      failures = 0
      view.detail = ''
      const outcome = await followBuild(
        options,
        build,
        build.state === 'building' ? () => switchTo(options, build) : null,
      )
      if (outcome === 'replaced') await sleep(REPLACED_PAUSE_MS, signal) // in case the new one is damaged too
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof LogReplaced) throw error
      emptied = isMissingTable(error)
      view.detail = reasonOf(error)
      diagnostics.warn('read_model_waits', { model: projection.name, reason: view.detail })
      await sleep(Math.min(MAX_BACKOFF_MS, 100 * 2 ** Math.min(failures, 10)), signal)
    }
  }
}

/** Puts a build that has caught up in the place of the one before. Throws when another process has removed it. */
export const switchTo = async ({ projection, sql, log, diagnostics }: KeepOptions, build: Build): Promise<void> => {
  const endOf = (partition: number) => log.end(projection.topic, partition)
  if (!(await activate({ sql, projection, build, endOf }))) {
    throw new Error(`another process has removed build ${build.build} of ${build.model}`)
  }
  diagnostics.info('read_model_switched', { model: build.model, version: build.version, build: build.build })
}

/**
 * No reader waits for the newest row of a build that is not in use: its batches wait until they are full, or at the
 * end.
 */
const limitsOf = ({ limits, view }: KeepOptions, { state }: Build, partition: number): GatherLimits =>
  state === 'active' ? limits : { ...limits, knownEnd: () => view.ends.get(partition)?.end ?? 0 }

type Outcome = 'stopped' | 'replaced' | 'caught_up'

/**
 * Follows every partition. Once each has reached the end that it had at the poll before, does `whenCaughtUp`, while
 * following on, and ends.
 */
export const followBuild = async (
  options: KeepOptions,
  build: Build,
  whenCaughtUp: (() => Promise<void>) | null,
): Promise<Outcome> => {
  const { projection, sql, log, signal, view } = options
  await settled(sql, projection.begin?.(sql, log, build, signal) ?? Promise.resolve(), BEGUN_WITHIN_MS)
  const stopping = new AbortController()
  const stop = () => stopping.abort()
  signal.addEventListener('abort', stop)
  for (const known of [view.partitions, view.ends]) known.clear()
  if (options.load !== undefined) await projection.load?.({ ...options, build, load: options.load })
  view.ends.clear() // it has caught up when followers have: they go on while it is switched to
  const running = new Map<number, Promise<void>>()
  let replaced = false
  let failure: unknown = null
  const ended = (outcome: 'stopped' | 'replaced' | 'reached') => {
    if (outcome !== 'replaced') return
    replaced = true
    stop()
  }
  const failed = (error: unknown) => {
    failure ??= error
    stop()
  }
  try {
    while (!signal.aborted && !stopping.signal.aborted) {
      const caughtUp = await poll(options)
      if (whenCaughtUp !== null && caughtUp) {
        await whenCaughtUp()
        return 'caught_up'
      }
      for (const partition of view.ends.keys()) {
        if (running.has(partition)) continue
        const progress = view.partitions.get(partition) ?? newProgress()
        view.partitions.set(partition, progress)
        const own = { partition, progress, signal: stopping.signal, limits: limitsOf(options, build, partition) }
        running.set(partition, followPartition({ ...options, build, ...own }).then(ended, failed))
      }
      await sleep(options.pollMs, stopping.signal)
    }
  } finally {
    stopping.abort()
    signal.removeEventListener('abort', stop)
    await Promise.all(running.values())
  }
  if (failure !== null) throw failure
  if (replaced) options.diagnostics.info('build_replaced', { model: projection.name, build: build.build })
  return replaced && !signal.aborted ? 'replaced' : 'stopped'

  async function poll({ diagnostics }: KeepOptions): Promise<boolean> {
    let caughtUp = true
    try {
      for (const partition of await log.partitions(projection.topic)) {
        const end = await log.end(projection.topic, partition)
        const known = view.ends.get(partition)
        const reached = known !== undefined && (view.partitions.get(partition)?.next ?? -1) >= known.end
        if (!reached) caughtUp = false
        if (known === undefined || reached) view.ends.set(partition, { end, sinceMs: wallMs() })
      }
    } catch (error) {
      diagnostics.debug('log_not_asked', { topic: projection.topic, error })
      return false // the log is not reachable: readers wait for it too
    }
    return caughtUp
  }
}
